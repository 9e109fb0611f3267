"""Files that cannot be written: told at once where that can be known, else after the figures that took minutes."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from commands import invoke, quick_net, small_disk

pytestmark = pytest.mark.usefixtures("tiny")

QUICK = ("--units", "B", "--seconds", "0.01")
EPOCHS = ("train", "digits", "--hidden", "8", "--epochs", "2")
COMMANDS = {  # with FILE, and a key of the JSON that has figures
    "search -o": (("search", "tiny", *QUICK, "--verify", "1", "-o", "FILE"), "ranked"),
    "search --measure-all": (("search", "tiny", *QUICK, "--verify", "0", "--measure-all", "FILE"), "measure_all"),
    "profile -o": (("profile", "tiny", *QUICK, "-o", "FILE"), "units"),
    "profile --save-board": (("profile", "tiny", *QUICK, "--save-board", "FILE"), "units"),
    "train --save": ((*EPOCHS, "--save", "FILE"), "epochs"),
    "train --onnx": ((*EPOCHS, "--onnx", "FILE"), "epochs"),
    "train --plot": ((*EPOCHS, "--plot", "FILE"), "epochs"),
    "quantize -o": (("quantize", "tiny", "FRAMES", "-o", "FILE"), "error"),
    "quantize --report": (("quantize", "tiny", "FRAMES", "-o", "made.onnx", "--report", "FILE"), "error"),
    "bench --trace": (("bench", "tiny", "--components", "B", "--seconds", "0.05", "--trace", "FILE"), "runs"),
    "cost --csv": (("cost", "tiny", "--csv", "FILE"), "totals"),
    "cost --plot": (("cost", "tiny", "--plot", "FILE"), "totals"),
    "cost threads --plot": (("cost", "threads", "tiny", "--seconds", "0.01", "--plot", "FILE"), "networks"),
}


@pytest.fixture
def words(tmp_path, monkeypatch):
    """A command's words in a folder with frames."""
    monkeypatch.chdir(tmp_path)
    (x,) = quick_net().inputs
    np.save("frames.npy", np.random.default_rng(0).standard_normal((8, *x.shape[1:]), np.float32))
    return lambda command: [{"FILE": "made.out", "FRAMES": "frames.npy"}.get(word, word) for word in command]


@pytest.mark.filterwarnings("ignore:.*cannot be written")
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("form", ["text", "json"])
def test_figures_are_printed_where_a_file_cannot_be_written(words, name, form):
    command, key = COMMANDS[name]
    if "--onnx" in command:
        pytest.importorskip("onnx", reason="needs pipeall[onnx]")
    if "--plot" in command:
        pytest.importorskip("matplotlib", reason="needs pipeall[plot]")
    with small_disk():
        result = invoke(*words(command), *(["--json"] if form == "json" else []))
    assert result.exit_code == 2, result.output
    *warned, error = result.stderr.splitlines()
    assert error == "error: made.out: cannot be written: File too large"
    assert all(line.startswith("warning: made.") for line in warned) and len(warned) < 3
    assert json.loads(result.stdout)[key] if form == "json" else result.stdout


def test_a_journal_is_kept_where_the_network_cannot_be_written(words, tmp_path):
    """The next run goes on from them."""
    command = ("quantize", "tiny", "FRAMES", "-o", "made.onnx", "--report", "/dev/full")
    result = invoke(*words(command))
    assert result.exit_code == 2 and "/dev/full: cannot be written: No space left on device" in result.stderr
    noted = (tmp_path / "made.onnx.journal").read_bytes()
    result = invoke(*words(command[:-2]))
    assert result.exit_code == 0 and noted.count(b"\n") > 2 and not (tmp_path / "made.onnx.journal").exists()


def test_a_stdout_that_takes_nothing_costs_no_file(tmp_path):
    command = ["search", "squeezenet", "--board", "rk3588", "-o", "plan.json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pipeall", *command],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, env=os.environ | {"PIPEALL_OPENCL": "off"},
        )  # fmt: skip
    assert done.returncode == 2 and "stdout: No space left on device" in done.stderr
    assert json.loads((tmp_path / "plan.json").read_text())["format"] == "pipeall.plan/1"


WRITTEN = ["search tiny -o", "search tiny --measure-all", "profile tiny -o", "profile tiny --save-board",
           "train digits --save", "train digits --onnx", "train digits --plot", "quantize tiny frames.npy -o",
           "quantize tiny frames.npy --report", "cost tiny --csv", "bench tiny --plot"]  # fmt: skip


@pytest.mark.parametrize("command", WRITTEN)
def test_a_file_that_may_not_be_written_is_refused_before_the_work(words, command, monkeypatch):
    """The superuser may write anywhere: the system's answer is put in its place."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    result = invoke(*command.split(), "made.out")
    assert result.exit_code == 2 and not result.stdout
    assert "expected a file that may be written, got 'made.out'" in result.stderr


RESUMED = ["search tiny --measure-all", "search tiny --profile", "simulate tiny --profile", "profile tiny -o",
           "train digits --resume", "search tiny --precisions fp32 --profile"]  # fmt: skip


@pytest.mark.parametrize("command", RESUMED)
@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_what_is_gone_on_from_is_a_file(words, tmp_path, command, kind):
    os.mkfifo("pipe")
    path = {"a pipe": "pipe", "a device": "/dev/zero"}[kind]
    result = invoke(*command.split(), path)
    assert result.exit_code == 2 and not result.stdout
    assert f"{path}: expected a file, got {kind}" in result.stderr


@pytest.mark.parametrize("command", ["info", "cost", "profile", "search --board rk3588"])
def test_a_model_that_is_a_pipe_is_called_one(tmp_path, command):
    path = tmp_path / "net.onnx"
    os.mkfifo(path)
    first, *rest = command.split()
    result = invoke(first, path, *rest)
    assert result.exit_code == 2 and result.stderr == f"error: {path}: expected a file, got a pipe\n"
