"""The commands: what they print, as JSON and as text, and one line for every error. ``run`` has a file of its own."""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from commands import BOARD, document, invoke, picture
from PIL import Image

from pipeall import env
from pipeall._kernels.cpu.table import OPS
from pipeall.cli.bench import bench_command as bench_module

# ---- devices ----


def test_devices_lists_every_component_kernel_and_variable(monkeypatch):
    monkeypatch.setenv("PIPEALL_ISA", "ref")
    monkeypatch.setenv("PIPEALL_OPENCL", "off")
    found = document("devices")
    assert found["format"] == "pipeall.devices/1"
    assert [row["component"] for row in found["components"]] == list(BOARD.components)
    taken = [(row["op"], row["type"]) for row in found["components"][0]["kernels"] if row["why"].startswith("taken")]
    assert sorted(taken) == sorted(OPS)
    assert all(row["isa"] == "ref" for row in found["components"][0]["kernels"] if row["why"].startswith("taken"))
    assert "PIPEALL_OPENCL=off" in found["gpu_missing"]
    values = {row["name"]: row["value"] for row in found["variables"]}
    assert list(values) == [variable.name for variable in env.VARIABLES]
    assert values["PIPEALL_ISA"] == "ref" and values["PIPEALL_FAULT"] is None


def test_devices_as_text(monkeypatch):
    monkeypatch.setenv("PIPEALL_OPENCL", "off")
    text = invoke("devices").stdout
    assert "No gpu: OpenCL is switched off by PIPEALL_OPENCL=off" in text
    assert "Kernels" not in text and "PIPEALL_SYSFS" not in text and "PIPEALL_OPENCL=off: " in text
    more = invoke("devices", "--kernels").stdout
    assert "No gpu: OpenCL is switched off by PIPEALL_OPENCL=off" in more
    assert "taken: first that fits" in more and "Kernels of big" in more and "PIPEALL_SYSFS" in more


# ---- info ----


@pytest.mark.parametrize(
    ("model", "cuts", "configurations"),  # paper 001, Table 1
    [("alexnet", 7, 126), ("squeezenet", 18, 918), ("resnet50-slim", 17, 816)],
)
def test_info_counts_cuts_as_the_paper(model, cuts, configurations):
    found = document("info", model)
    assert len(found["cuts"]) == cuts and found["three_stage_configurations"] == configurations
    assert [group["group"] for group in found["groups"]] == list(range(1, cuts + 2))
    assert found["macs"] == sum(group["macs"] for group in found["groups"])


def test_info_shows_what_crosses():
    found = document("info", "alexnet")
    assert found["inputs"][0]["shape"] == [1, 3, 227, 227]
    assert found["parameters"] == 60_965_224  # of Caffe's AlexNet
    assert [cut["elements"] for cut in found["cuts"]] == [69984, 43264, 64896, 64896, 9216, 4096, 4096]


def test_info_shows_the_subgraphs_of_a_plan():
    stages = document("info", "squeezenet", "--plan", "G-B-L:3,5")["plan"]
    assert [(stage["component"], stage["groups"]) for stage in stages] == [
        ("gpu", [0, 3]),
        ("big", [3, 5]),
        ("little", [5, 19]),
    ]
    ends = [(stage["nodes"][0]["kind"], stage["nodes"][-1]["kind"]) for stage in stages]
    assert ends == [("Input", "Transmitter"), ("Receiver", "Transmitter"), ("Receiver", "Output")]
    mains = [node["name"] for node in stages[1]["nodes"] if node["kind"] == "Main"]
    assert mains == ["fire3/squeeze1x1", "fire3/expand1x1", "fire3/expand3x3"]
    kinds = {node["kind"] for stage in stages for node in stage["nodes"]}
    assert kinds == {"Input", "Receiver", "Weight", "Bias", "Main", "Op", "Output", "Transmitter"}


def test_info_as_text():
    text = invoke("info", "squeezenet", "--plan", "G-B-L:3,5").stdout
    assert "1,248,424" in text and "1 x 96 x 54 x 54" in text and "279,936" in text
    assert "Stage 2: big, groups 4 to 5" in text and "Receiver" in text


# ---- errors: one line on stderr, nothing on stdout, status 2 ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["devices", "--frob"], "No such option"),
        (["info"], "Missing argument 'MODEL'"),
        (["info", "vgg16"], "'vgg16': expected an .onnx file or one of alexnet"),
        (["info", "absent.onnx"], "absent.onnx"),
        (["info", "alexnet", "--input-shape", "1,3,x"], "expected a shape such as"),
        (["info", "alexnet", "--input-shape", "x=1x3,x=2x3"], "expected a shape such as"),
        (["info", "alexnet", "--input-shape", "1,3,224,224"], "(1, 3, 227, 227)"),
        (["info", "alexnet", "--plan", "G-B:99"], "[0:8]"),
        (["info", "alexnet", "--plan", ""], "got an empty one"),
        (["info", "ABSENT.ONNX"], "ABSENT.ONNX: "),
        (["info", "alexnet", "--plan", "Q"], "expected big, mid, little, gpu, npu or cpu"),
        (["run", "squeezenet", "nowhere.jpg"], "nowhere.jpg"),
        (["run", "squeezenet", "EMPTY"], "expected pictures"),
        (["run", "squeezenet", "TEXT", "--plan", "B"], "text.jpg: expected a picture"),
        (["run", "squeezenet", "CUT", "--plan", "B"], "cut.png: expected a picture"),
        (["run", "squeezenet", "PLAIN", "--plan", "B", "--slots", "65"], "1<=x<=64"),
        (["run", "squeezenet", "PLAIN", "--plan", "B-L:3,5"], "expected 1 for 2 stages, got 2"),
        (["run", "squeezenet", "PLAIN", "--plan", "Bx999"], "cores of big"),
        (["run", "squeezenet", "PLAIN", "--resize", "256"], "--resize: expected --preprocess beside it"),
        (["run", "squeezenet", "PLAIN", "--plan", ""], "got an empty one"),
        (["run", "squeezenet", "DEEP", "--plan", "B"], "deep.png: expected 8 bits per channel, got mode I"),
        (["run", "squeezenet", "FLOAT", "--plan", "B"], "float.tif: expected 8 bits per channel, got mode F"),
        (["run", "squeezenet", "PLAIN", "--plan", "M"], "no component 'mid'"),
        (["run", "squeezenet", "PLAIN", "--preprocess", "imagenet", "--mean", "1,2"], "three numbers"),
        (["run", "squeezenet", "PLAIN", "--preprocess", "imagenet", "--std", "1,0,1"], "no zero divisor"),
        (["run", "squeezenet", "PLAIN", "--preprocess", "imagenet", "--mean", "1,nan,1"], "expected finite"),
        (
            ["run", "squeezenet", "PLAIN", "--preprocess", "imagenet", "--resize", "100"],
            "resize: expected at least 224",
        ),
        (["run", "squeezenet", "PLAIN", "--preprocess", "imagenet", "--size", "227"], "(1, 3, 224, 224)"),
        (
            ["run", "squeezenet", "PLAIN", "--preprocess", "tf", "--size", "227", "--input-shape", "1,3,224,224"],
            "--size 227",
        ),
        (["run", "squeezenet", "PLAIN", "--labels", "TEXT"], "expected 1000 lines"),
        (["run", "squeezenet", "PLAIN", "--labels", "PLAIN"], "is no text in UTF-8"),
        (["run", "squeezenet", "PLAIN", "--first-class", "1000"], "expected 0 to 999"),
        (["bench", "vgg16"], "'vgg16'"),
        (["run", "squeezenet", "PLAIN", "--plan", "TEXT.json"], "TEXT.json: cannot be read"),
        (["run", "squeezenet", "PLAIN", "--plan", "B", "--trace", "absent/t.json"], "a folder that exists"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line(arguments, words, tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_OPENCL", "off")
    folder, text, cut = tmp_path / "empty", tmp_path / "text.jpg", tmp_path / "cut.png"
    folder.mkdir()
    text.write_text("no picture\n")
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    Image.fromarray(noise).save(cut)
    cut.write_bytes(cut.read_bytes()[:1000])
    deep, real = tmp_path / "deep.png", tmp_path / "float.tif"
    Image.fromarray(noise[..., 0].astype(np.uint16)).save(deep)
    Image.fromarray(noise[..., 0].astype(np.float32)).save(real)
    paths = {"EMPTY": folder, "TEXT": text, "CUT": cut, "DEEP": deep, "FLOAT": real, "PLAIN": picture(tmp_path)}
    result = invoke(*(paths.get(word, word) for word in arguments), *(["--json"] if arguments[1:] else []))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ") and words in result.stderr
    assert result.stderr.count("\n") == 1


def test_verbose_adds_the_traceback(monkeypatch):
    monkeypatch.setenv("PIPEALL_VERBOSE", "1")
    result = invoke("info", "vgg16")
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback") and result.stderr.splitlines()[-1].startswith("error: model 'vgg16'")


def test_a_wrong_variable_is_an_error_too(monkeypatch):
    monkeypatch.setenv("PIPEALL_VERBOSE", "loud")
    result = invoke("devices")
    assert result.exit_code == 2 and result.stderr == "error: PIPEALL_VERBOSE: expected 0 or 1; got 'loud'\n"


def test_a_stage_that_fails_ends_the_run_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "0:0")
    result = invoke("run", "squeezenet", *[picture(tmp_path)] * 2, "--plan", "B", "--json")
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("error: ") and "big" in result.stderr and result.stderr.count("\n") == 1


def test_interrupted(monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_module, "load_model", interrupt)
    assert invoke("bench", "squeezenet").exit_code == 130


# ---- the real program ----


def python(*arguments: str, stdout: Any = subprocess.PIPE, **variables: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PIPEALL_OPENCL": "off"} | variables
    return subprocess.run(
        [sys.executable, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment, timeout=60
    )


def test_help_names_every_command_with_an_example():
    shown = python("-m", "pipeall")
    assert shown.returncode == 0 and shown.stderr == ""
    for command in ("devices", "info", "cost", "profile", "search", "run", "simulate", "bench", "nas", "train"):
        assert f"\n  {command} " in shown.stdout
        text = invoke(command, "--help").stdout
        assert f"\n  pipeall {command}" in text and "--json" in text


def test_the_program_itself(tmp_path):
    done = python("-m", "pipeall", "run", "squeezenet", str(picture(tmp_path)), "--plan", "B", "--json")
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[-1])["stats"]["frames"] == 1
    failed = python("-m", "pipeall", "info", "vgg16")
    assert failed.returncode == 2 and failed.stdout == "" and failed.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["devices"], ["devices", "--json"]], ids=" ".join)
def test_a_full_disk_is_one_line(arguments):
    with open("/dev/full", "w") as full:
        done = python("-m", "pipeall", *arguments, stdout=full)
    assert done.returncode == 2 and done.stderr == "error: stdout: No space left on device\n"


def test_a_closed_stdout_is_no_error():
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m pipeall devices >&-', sys.executable], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout == done.stderr == ""


def test_a_name_that_the_encoding_lacks(tmp_path):
    path = picture(tmp_path).rename(tmp_path / "köln.png")
    done = python("-m", "pipeall", "run", "squeezenet", str(path), "--plan", "B", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "k\\xf6ln.png" in done.stdout and done.stderr == ""


def test_help_loads_no_command():
    code = "import sys; from pipeall.cli import main; sys.argv[1:] = ['--help']\n"
    done = python(
        "-c", code + "try: main()\nfinally: print([name for name in ('numpy', 'PIL') if name in sys.modules])"
    )
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]"


def test_interrupted_while_importing():
    """The import of click raises what Ctrl-C raises."""
    code = (
        "import sys, builtins; from pipeall.cli import main; real = __import__\n"
        "def slow(name, *rest):\n"
        "    if name == 'click': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = slow; main()"
    )
    done = python("-c", code)
    assert done.returncode == 130 and done.stdout == done.stderr == ""


def test_no_progress_in_a_file_even_when_colour_is_forced(tmp_path):
    done = python("-m", "pipeall", "run", "squeezenet", str(picture(tmp_path)), "--plan", "B", FORCE_COLOR="1")
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("package", ["click", "rich", "PIL"])
def test_without_the_extra(package):
    """A package that is not installed: None in sys.modules makes its import fail as if it were absent."""
    code = f"import sys; sys.modules[{package!r}] = None; from pipeall.cli import main; main()"
    done = python("-c", code, "run", "squeezenet", "x.png")
    assert done.returncode == 2 and done.stdout == ""
    assert "pip install 'pipeall[cli]'" in done.stderr and done.stderr.count("\n") == 1
