"""Ways to compute a convolution on an OpenCL device: every one of them right, timed once, and the fastest used."""

import json

import numpy as np
import pytest
from bounds import bound
from commands import document, invoke
from winograd_reference import winograd_bound

from pipeall import ArgumentError, Board, Engine
from pipeall._kernels.opencl import cl_devices as opencl
from pipeall._kernels.opencl.methods import methods
from pipeall.cli import model_argument as model
from pipeall.errors import DeviceError, MissingExtraError
from pipeall.graph.cases.op_cases import Case, case_graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import attributes, run_graph
from pipeall.pipeline.devices.opencl import tune_opencl
from pipeall.pipeline.devices.opencl.opencl_device import ClProgram
from pipeall.pipeline.devices.opencl.tune_opencl import known

CASES = {
    "3x3": Case("conv", attributes("conv", pads=(1,) * 4), ((1, 9, 11, 13),), ((19, 9, 3, 3), (19,))),
    "1x1": Case("conv", attributes("conv"), ((1, 17, 5, 7),), ((21, 17, 1, 1), (21,))),
    "fc": Case("conv", attributes("conv"), ((1, 33, 1, 1),), ((37, 33, 1, 1), (37,))),
}


@pytest.fixture(params=sorted(CASES))
def case(request):
    return CASES[request.param]


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path))
    try:
        return Board.detect().component("gpu")
    except (MissingExtraError, DeviceError) as error:
        pytest.skip(f"no OpenCL device: {error}; pip install 'pyopencl[pocl]' adds one that runs on any CPU")


def conv_of(graph):
    return next(step for step in lower(graph).steps if step.kind == "conv")


def test_every_method_is_right(case, gpu):
    graph, inputs = case_graph(case)
    (x,), (expected,) = inputs.values(), run_graph(graph, {k: v.astype(np.float64) for k, v in inputs.items()}).values()
    lowered = lower(graph)
    slot = np.zeros(lowered.slot_in_bytes // 4, np.float32)
    slot[: x.size] = x.reshape(-1)
    for method in methods(conv_of(graph), gpu.device.info, "fp32"):
        program = ClProgram(lowered, opencl.opened(gpu.device.info), choose=lambda step, all_, method=method: method)
        error = np.abs(program.run(slot)[: expected.size].reshape(expected.shape) - expected)
        most = winograd_bound(graph, inputs, method.m) if method.m else bound(graph, inputs, expected)
        assert (error <= most).all(), f"{method}: {error.max()}"


def test_a_shape_is_timed_once_and_its_fastest_method_used(gpu, monkeypatch):
    graph, _ = case_graph(CASES["3x3"])
    asked = []
    candidates = methods(conv_of(graph), gpu.device.info, "fp32")

    def timed(step, component, found):
        asked.append(step.node)
        return {str(method): 100.0 if method != candidates[-1] else 50.0 for method in found}

    monkeypatch.setattr(tune_opencl, "timed", timed)
    first, again = gpu.device.tune(graph), gpu.device.tune(graph)
    assert first == again and len(asked) == 1
    (row,) = first
    assert (row.default, row.default_us, row.best, row.best_us) == (
        str(candidates[0]),
        100.0,
        str(candidates[-1]),
        50.0,
    )
    assert known(gpu.device.info, "fp32")(conv_of(graph), candidates) == candidates[-1]
    assert known(gpu.device.info, "mixed")(conv_of(graph), candidates) == candidates[0]


def test_the_default_stays_unless_another_is_clearly_faster(gpu, monkeypatch):
    graph, _ = case_graph(CASES["1x1"])
    candidates = methods(conv_of(graph), gpu.device.info, "fp32")
    times = {str(method): 98.0 for method in candidates} | {str(candidates[0]): 100.0}
    monkeypatch.setattr(tune_opencl, "timed", lambda step, component, found: times)
    (row,) = gpu.device.tune(graph)
    assert row.best == row.default == str(candidates[0])


@pytest.mark.parametrize("damage", ["", "{", '{"format": "pipeall.opencl-methods/1", "us": {}}'])
def test_a_damaged_file_means_the_defaults(damage, gpu, monkeypatch, tmp_path):
    graph, _ = case_graph(CASES["1x1"])
    candidates = methods(conv_of(graph), gpu.device.info, "fp32")
    monkeypatch.setattr(
        tune_opencl, "timed", lambda step, component, found: {str(m): float(i) for i, m in enumerate(found)}
    )
    gpu.device.tune(graph)
    (path,) = tmp_path.glob("opencl-methods/*.json")
    assert json.loads(path.read_text())["us"]
    path.write_text(damage)
    assert known(gpu.device.info, "fp32")(conv_of(graph), candidates) == candidates[0]


def test_real_times_and_the_network_after_them(gpu):
    graph, inputs = case_graph(CASES["3x3"])
    (x,) = inputs.values()
    with Engine(graph, "gpu") as engine:
        before = engine(x)
    (row,) = gpu.device.tune(graph)
    assert 0 < row.best_us <= row.default_us
    with Engine(graph, "gpu") as engine:
        after = engine(x)
    assert (np.abs(after - before) <= 2 * winograd_bound(graph, inputs, 4)).all()


def test_only_opencl_is_tuned(gpu):
    graph, _ = case_graph(CASES["1x1"])
    with pytest.raises(ArgumentError, match="expected a device that is tuned ahead, such as a gpu"):
        Board.detect().component("big").device.tune(graph)


def test_the_command(gpu, monkeypatch):
    graph, _ = case_graph(CASES["1x1"])
    monkeypatch.setitem(model.ZOO, "alexnet", lambda: graph)
    found = document("profile", "tune", "alexnet")
    ((shape,),) = [network["shapes"] for network in found["networks"]]
    assert shape["shape"].startswith("5x7x17-21 k1x1") and shape["best_us"] > 0
    assert "direct" in invoke("profile", "tune", "alexnet").output
    for arguments, message in (
        (("--unit", "big"), "expected a device that is tuned ahead, such as a gpu"),
        (("--unit", "tpu"), "expected big, mid, little, gpu"),
    ):
        failed = invoke("profile", "tune", "alexnet", *arguments)
        assert failed.exit_code == 2 and message in failed.stderr
