"""The device beside the CPU's: at every place of a pipeline, whatever crosses, when it fails, and what it is told."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pipeall_onnxruntime import device

import pipeall
from pipeall import Board, DeviceError, Engine, Pipeline, Plan
from pipeall.graph.builder import GraphBuilder
from pipeall.graph.ir import Graph, Tensor
from pipeall.graph.passes.int8 import to_int8
from pipeall.testing import check_device
from pipeall.testing.device_checks import CHECKS
from pipeall.testing.device_runs import small_graph

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def board():
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core only")
    return Board.detect(clusters=[[cores[0]], [cores[1]]])


def residual_net():
    """256 channels, whose pixels lie a line apart in slots; a tensor that passes a group; an early output."""
    image = Tensor("x", (1, 4, 6, 5))
    net = GraphBuilder(Graph("residual", (), {image.name: image}, {}, (image,), (image,)))
    random = np.random.default_rng(0)

    def conv(name, x, before, channels):
        weight = random.standard_normal((channels, before, 3, 3)) / (9 * before) ** 0.5
        constants = net.constant(f"{name}/w", weight), net.constant(f"{name}/b", random.standard_normal(channels))
        return net.add("conv", name, [x, *constants], pads=(1,) * 4)

    first = conv("first", "x", 4, 256)
    early = net.add("sigmoid", "early", [first])
    x = conv("third", conv("second", first, 256, 256), 256, 256)
    x = conv("fourth", net.add("add", "sum", [x, first]), 256, 8)
    return net.graph([early, net.add("softmax", "last", [x], axis=1)]).finer(2)


def of(graph, seed=0):
    random = np.random.default_rng(seed)
    return {tensor.name: random.standard_normal(tensor.shape).astype(np.float32) for tensor in graph.inputs}


def compare(found, expected, most=1e-5):
    for name, wanted in expected.items():
        assert found[name].dtype == wanted.dtype
        np.testing.assert_allclose(found[name], wanted, atol=most * np.abs(wanted).max())


def test_it_passes_what_every_device_must(board):
    assert check_device("npu", board) == list(CHECKS)


@pytest.mark.parametrize("plan", ["N", "N-B:2", "B-N:2", "B-N-L:1,3", "B-N:1~3", "N-B:1~3", "B-N-B:1,2", "N+B"])
@pytest.mark.parametrize("trace", [False, True])
def test_whatever_crosses(plan, trace, board):
    graph = residual_net()
    given = [of(graph, seed) for seed in range(12)]
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in given]
    with Pipeline(graph, plan, board, trace=trace) as pipe:
        for found, wanted in zip(pipe.map(given), expected, strict=True):
            compare(found, wanted)


@pytest.mark.parametrize("plan", ["N", "B-N-L:1,3", "B-N:1~2"])
def test_integers_cross_as_they_are(plan, board):
    """A network of integers gives what it gives on the CPU, within one quantum of its last layer."""
    floats = small_graph()
    (tensor,) = floats.inputs
    samples = [np.random.default_rng(seed).standard_normal(tensor.shape).astype(np.float32) for seed in range(8)]
    graph = to_int8(pipeall.quantize(floats, samples, method="minmax").written)
    assert graph.quantized
    with Engine(graph, "big", board=board) as engine, Pipeline(graph, plan, board) as pipe:
        expected = [engine(x) for x in samples]
        quantum = max(np.abs(wanted).max() for wanted in expected) / 100
        for found, wanted in zip(pipe.map(samples), expected, strict=True):
            assert np.abs(found - wanted).max() <= quantum


def test_it_is_found_by_its_entry_point(board):
    assert isinstance(board.component("N").device, device.OnnxRuntime)
    row = next(row for row in board.describe() if row["component"] == "npu")
    assert (row["kind"], row["provider"], row["stand_in"]) == ("onnxruntime", "CPU", True)
    assert str(Plan.parse("B-N-L:5,11")) == "big-npu-little:5,11"
    peak = board.component("npu").device.peak()
    assert peak.flops > 1e8 and peak.bytes > 1e8


def test_what_cannot_be_written_is_named(board):
    image = Tensor("x", (1, 3, 4, 5))
    net = GraphBuilder(Graph("odd", (), {image.name: image}, {}, (image,), (image,)))
    with pytest.raises(DeviceError, match="'the-sum': expected one of conv, .* got 'cumsum'"):
        Engine(net.graph([net.add("cumsum", "the-sum", ["x"], axis=1)]), "npu", board=board)


def python(code, **variables):
    """What it prints; else its error. Warnings that others use these cores do not count."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | variables)
    return done.stdout or done.stderr[-2000:]


FAILS = """
import sys
from pipeall import Board, Pipeline, PipelineError
from pipeall.testing.device_runs import DISTINCT, Runs, small_graph
board = Board.detect(clusters=[[int(core)] for core in sys.argv[1:]])
runs = Runs(board, board.component("npu"), small_graph(), small_graph(), 1e-3, 0)
with Pipeline(runs.graph, "B-N-L:1,3", board) as pipe:
    results = pipe.map(runs.frames[:9])
    for number in range(9):
        try:
            runs.check(number, next(results))
        except PipelineError as error:
            print(number, error)
            break
"""


@pytest.mark.parametrize(
    ("crash", "text"),
    [
        (None, "the accelerator was unplugged"),
        (signal.SIGSEGV, "the provider crashed: Segmentation fault"),
        (signal.SIGABRT, "the provider crashed: Aborted"),
        (signal.SIGFPE, "the provider crashed: Floating point exception"),
    ],
)
def test_a_provider_that_fails_is_one_error_that_names_it(crash, text, tmp_path):
    """Frames before it come out; the text is onnxruntime's, in a line. A crash ends the pipeline, not the process."""
    shim, headers = tmp_path / "failing.so", Path(device.__file__).parent
    folder = headers if (headers / "ort_api.h").exists() else HERE.parent / "pipeall_onnxruntime"
    source = [HERE / "failing_ort.c", "-o", shim, f"-I{folder}"]
    subprocess.run(["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", *source, "-ldl"], check=True)
    cores = sorted(os.sched_getaffinity(0))[:2]
    more = {"FAILING_ORT_SIGNAL": str(int(crash))} if crash else {}
    printed = python(f"import sys; sys.argv = ['', *{cores}]\n{FAILS}\nprint('goes on')", ORT_LIBRARY=str(shim),
                     FAILING_ORT_LIBRARY=str(device.library()), FAILING_ORT_FRAME="4", **more)  # fmt: skip
    assert printed == f"4 stage 1 on npu failed at frame 4: {text}\ngoes on\n"


def test_a_crash_elsewhere_is_no_business_of_it():
    """It ends the process as it would without the device; drivers of OpenCL may have a handler of their own."""
    code = "from pipeall import Board\nBoard.detect().component('npu')\nimport os\nos.kill(os.getpid(), {})"
    variables = os.environ | {"PIPEALL_OPENCL": "off"}
    for number in (signal.SIGSEGV, signal.SIGABRT):
        line = [sys.executable, "-c", code.format(int(number))]
        done = subprocess.run(line, capture_output=True, timeout=60, env=variables)
        assert done.returncode == -number


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"ORT_PROVIDER": "NoSuchThing"}, "onnxruntime, provider NoSuchThing: .*NoSuchThing"),
        ({"ORT_LIBRARY": "/nowhere/libonnxruntime.so"}, "no component 'npu' .*/nowhere/libonnxruntime.so"),
        ({"ORT_THREADS": "none"}, "no component 'npu' .*ORT_THREADS, ORT_PROVIDER: expected a number"),
    ],
)
def test_an_environment_that_does_not_fit(variables, message):
    code = (
        "from pipeall import Engine\nfrom pipeall.testing.device_runs import small_graph\nEngine(small_graph(), 'npu')"
    )
    printed = python(code, **variables)
    assert re.search(f"DeviceError: .*{message}", printed), printed


def test_several_threads(board):
    code = FAILS.replace("B-N-L:1,3", "N").replace(
        "for number", "print(board.component('npu').device.width)\n    for number"
    )
    cores = sorted(os.sched_getaffinity(0))[:2]
    assert python(f"import sys; sys.argv = ['', *{cores}]\n{code}", ORT_THREADS="2") == "2\n"
