"""What the shell completes: networks, plans, units, boards and presets, without measuring and without OpenCL."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete
from commands import BOARD, invoke

from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.cli.app import app
from pipeall.cli.model_argument import NAMES as MODELS
from pipeall.pipeline.measuring import profiler

NAMES = list(BOARD.components)


@pytest.fixture(autouse=True)
def no_device_is_touched(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("completion asked for a device")

    monkeypatch.setattr(opencl, "devices", refuse)
    monkeypatch.setattr(profiler, "profile", refuse)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("net.onnx", "other.ONNX", "plan.json", "notes.txt", "photos/cat.jpg", ".hidden/x.onnx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


def completed(line: str) -> list[str]:
    """The words that a shell would offer for the last one of a line; "file" or "dir" where it is to look itself."""
    *words, begun = line.split(" ")
    items = ShellComplete(app, {}, "pipeall", "_PIPEALL_COMPLETE").get_completions(words, begun)
    return [item.value if item.type == "plain" else item.type for item in items]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "command", ["info", "run", "search", "simulate", "profile board", "bench", "cost train", "cost epoch"]
)
def test_a_model_is_of_the_zoo_or_an_onnx_file(command):
    assert completed(f"{command} ") == [*MODELS, "net.onnx", "other.ONNX", "photos/"]
    assert completed(f"{command} squ") == ["squeezenet"]
    assert completed(f"{command} ph") == ["dir"]  # the shell goes into the folder itself
    assert completed(f"{command} photos/") == []
    assert completed(f"{command} .h") == ["dir"] and completed(f"{command} .hidden/") == [".hidden/x.onnx"]


def test_commands_of_a_group_or_a_model():
    assert set(completed("cost ")) >= {"train", "epoch", "threads", *MODELS}
    assert completed("cost alex") == ["alexnet"] and "--layers" in completed("cost alexnet --")
    assert completed("cost train --optimizer a") == ["adam"]
    assert completed("se") == ["search"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["run net.onnx", "info net.onnx", "simulate net.onnx"])
def test_plans(command):
    assert completed(f"{command} --plan g") == ["gpu"]
    assert "plan.json" in completed(f"{command} --plan ") and completed(f"{command} --plan pl") == ["plan.json"]
    if len(NAMES) == 2:
        assert completed(f"{command} --plan G-") == ["G-B", "G-L", "G-B-L", "G-L-B"]
        assert completed(f"{command} --plan B+") == ["B+L+G"]


@pytest.mark.usefixtures("folder")
def test_orders_and_units_are_of_the_board_that_is_named():
    assert completed("simulate alexnet --board rk3399pro --plan b") == ["big"]
    assert completed("search alexnet --board a311d-armcl --units little,") == ["little,big", "little,gpu"]
    assert completed("profile alexnet --units g") == ["gpu"]
    assert completed("run alexnet --plan B-G") == ["B-G", *(["B-G-L"] if len(NAMES) == 2 else [])]
    assert completed("search alexnet --board nothing --units b") == []


@pytest.mark.usefixtures("folder")
def test_boards_presets_and_files():
    for command in ("search alexnet", "simulate alexnet", "profile alexnet", "bench", "nas"):
        assert completed(f"{command} --board ") == [
            "a311d",
            "a311d-armcl",
            "a311d-ncnn",
            "orion-o6",
            "rk3399",
            "rk3399-ncnn",
            "rk3399pro",
            "rk3566",
            "rk3566-ncnn",
            "rk3576",
            "rk3588",
            "rk3588-ncnn",
            "rpi4",
            "rpi4-ncnn",
            "rpi5",
            "rpi5-ncnn",
            "uno-q",
            "uno-q-ncnn",
            "plan.json",
            "photos/",
        ]
    assert completed("run alexnet --preprocess c") == ["caffe"]
    assert completed("run alexnet --rebalance ") == ["plan.json", "photos/"]
    assert completed("run alexnet --labels ") == completed("run alexnet ") == completed("bench --plot x") == ["file"]
    assert completed("train d") == ["digits"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell):
    result = invoke("completion", shell)
    assert result.exit_code == 0 and f"_PIPEALL_COMPLETE={shell}_complete" in result.stdout
    assert "pipeall" in result.stdout and "None" not in result.stdout


def test_the_program_answers_a_shell():
    variables = {"_PIPEALL_COMPLETE": "bash_complete", "COMP_WORDS": "pipeall info alex", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "pipeall"], capture_output=True, text=True, env=os.environ | variables, timeout=60
    )
    assert done.returncode == 0 and done.stdout == "plain,alexnet\n" and done.stderr == ""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_by_the_script(tmp_path):
    program = tmp_path / "pipeall"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipeall "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(pipeall completion bash)"; COMP_WORDS=(pipeall bench mob); COMP_CWORD=2; '
        '_pipeall_completion pipeall; echo "${COMPREPLY[@]}"'
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout == "mobilenet\n" and done.returncode == 0, done.stderr
