"""OpenCL kernels that are wrong or do not compile are left out by name; drivers that end the process over a compiled
program are given none."""

import json

import numpy as np
import pytest
from build_trees import REPOSITORY, WITH_TESTS, run
from graphs import Net
from preload import built

from pipeall import Board, DeviceError, Engine
from pipeall._kernels.opencl import cl_devices
from pipeall.cache import all_cached
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import run_graph
from pipeall.pipeline.devices.opencl import check_opencl

SHAPE = (1, 8, 10, 11)


@pytest.fixture
def board(opencl_info, tmp_path, monkeypatch):
    """A board whose device and driver nobody has met."""
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path))
    board = Board.detect()
    if "gpu" not in board.components:
        pytest.skip(f"no OpenCL device: {board.gpu_missing}")
    monkeypatch.setattr(cl_devices, "opened", cl_devices.Device)  # compiles anew
    return board


def plant(monkeypatch, right, wrong):
    """Another text wherever kernels have that one."""
    source = cl_devices.source
    monkeypatch.setattr(cl_devices, "source", lambda file: source(file).replace(right, wrong))


def conv_net():
    net = Net(SHAPE)
    return net.graph(net.conv("x0", 12, 3))


def unary_net(op):
    net = Net(SHAPE)
    return net.graph(net.op(op, net.conv("x0", 4)))


def on_gpu(graph, board):
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    with Engine(graph, "gpu", board=board) as engine:
        found = engine(x)
    (expected,) = run_graph(graph, {"x0": x}).values()
    return np.abs(found - expected).max()


def test_all_agree_and_are_checked_once(board, monkeypatch):
    assert on_gpu(conv_net(), board) < 1e-4
    (file,) = all_cached(check_opencl.KIND)
    faults = json.loads(file.read_text())["faults"]
    assert faults and not any(faults.values()) and any(name.startswith("conv ") for name in faults)
    monkeypatch.setattr(check_opencl, "run_case", lambda *_: pytest.fail("checked again"))
    assert on_gpu(conv_net(), board) < 1e-4


@pytest.mark.parametrize("wrong", ["1.5f * fabs(x)", "no such function(x)"])
def test_a_step_with_a_wrong_kernel_is_refused_by_name(wrong, board, monkeypatch):
    plant(monkeypatch, "return fabs(x);", f"return {wrong};")
    graph = unary_net("abs")
    said = r"step .* \(unary\): the OpenCL kernel unary abs float32 is left out on .*, driver .*: "
    with pytest.warns(RuntimeWarning, match="unary abs float32 is left out"), pytest.raises(DeviceError, match=said):
        on_gpu(graph, board)
    assert "unary abs float32 is left out" in board.components["gpu"].device.unsupported(lower(graph))


def test_a_convolution_takes_another_method(board, monkeypatch):
    """Winograd's forget the bias: what is left is the direct method."""
    right = "vec v = result[j] + aligned(bias + c);"
    plant(monkeypatch, right, "vec v = result[j];")
    net = Net((1, 64, 28, 28))
    lowered = lower(net.graph(net.conv("x0", 64, 3)))
    device = board.components["gpu"].device
    (step,) = (step for step in lowered.steps if step.kind == "conv")
    assert check_opencl.methods(step, device.info, "fp32")[0].m > 0, "the model takes Winograd"
    with pytest.warns(RuntimeWarning, match=r"conv winograd\d .* is left out"):
        program = device.compile(lowered, "checked")
    assert [method.m for method in program.algorithms if method is not None] == [0]


TWICE = """
from graphs import frames, small_net
from pipeall import Board, Engine
graph = small_net()
print(Engine(graph, "gpu", Board.detect())(*frames(graph, 1)).shape)
"""


def test_a_driver_that_ends_the_process_over_a_binary_is_given_none(opencl_info, tmp_path):
    known = WITH_TESTS | {"PIPEALL_CACHE": str(tmp_path / "cache")}
    preloaded = known | {"LD_PRELOAD": str(built("abort_binary", tmp_path))}
    first = run(REPOSITORY, "-W", "ignore", "-c", TWICE, **known)
    assert first == run(REPOSITORY, "-W", "ignore", "-c", TWICE, **preloaded) and "(1, 5, 8, 8)" in first
    (file,) = (tmp_path / "cache" / "opencl").glob("binaries-*.json")
    assert json.loads(file.read_text())["taken_back"] is False
    file.unlink()
    run(REPOSITORY, "-W", "ignore", "-c", TWICE, **known)
    assert json.loads(file.read_text())["taken_back"] is True
