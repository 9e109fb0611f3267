"""``pipeall profile layers``: what bounds a layer, against numbers computed by hand, and the command."""

from dataclasses import replace

import numpy as np
import pytest
from commands import BOARD, document, invoke, quick_net, two_clusters
from graphs import Net
from integer_nets import chain

from pipeall import ArgumentError, Board, Pipeline
from pipeall._kernels.cpu import peak_cpu
from pipeall._kernels.cpu.algorithms import GEMM, STRASSEN, Algorithm, candidates
from pipeall._kernels.cpu.table import choose
from pipeall._kernels.opencl import cl_devices as opencl
from pipeall._kernels.opencl import methods as cl_methods
from pipeall._kernels.opencl import peak_opencl
from pipeall._kernels.peak import Peak
from pipeall.cli.model_argument import ZOO
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import attributes
from pipeall.graph.passes.int8 import to_int8
from pipeall.pipeline.devices.cpu.cpu_device import Cpu
from pipeall.pipeline.devices.opencl.opencl_device import OpenCl
from pipeall.pipeline.measuring.layers import LayerTimes, LayerWork, layer_times
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

QUICK = ("--seconds", "0.01")


def conv(size, channels, filters, *, kernel=3, stride=1, groups=1, residual=False):
    x, y = View(SLOT_IN, 0, size, size, channels, channels), size // stride
    views = (x, View(SLOT_IN, 0, y, y, filters, filters)) if residual else (x,)
    params = attributes("conv", strides=(stride,) * 2, pads=(1,) * 4, groups=groups) | dict(kernel=(kernel,) * 2)
    weight = np.zeros((filters, channels // groups, kernel, kernel), np.float32)
    dst = View(SLOT_OUT, 0, y, y, filters, filters)
    return Step("conv", "c", views, dst, params, weight, np.zeros(filters, np.float32))


@pytest.mark.parametrize(
    "step, algorithm, macs, products, floats",
    [
        (conv(8, 16, 32, kernel=1), GEMM, 64 * 16 * 32, 64 * 16 * 32, 16 * 32 + 32 + 64 * (16 + 32)),
        (conv(8, 16, 64, kernel=1), STRASSEN, 64 * 16 * 64, 32 * 16 * 64 // 4 * 7,
         16 * 64 // 4 * 7 + 64 + 64 * (16 + 64)),
        (conv(8, 6, 4, stride=2, groups=2, residual=True), GEMM, 16 * 9 * 3 * 4, 16 * 9 * 3 * 4,
         9 * 3 * 4 + 4 + 64 * 6 + 2 * 16 * 4),
        (conv(8, 16, 16, groups=16), None, 64 * 9 * 16, 64 * 9 * 16, 9 * 16 + 16 + 2 * 64 * 16),
        (conv(9, 2, 5), Algorithm("winograd", 4), 81 * 9 * 10, 9 * 36 * 10, 36 * 10 + 5 + 81 * 7),
        (conv(9, 2, 5), Algorithm("winograd", 4, lazy=True), 81 * 9 * 10, 9 * 36 * 10, 9 * 10 + 5 + 81 * 7),
        (conv(9, 2, 5, kernel=5), Algorithm("winograd", 2), 81 * 25 * 10, 25 * 36 * 10, 36 * 10 + 5 + 81 * 7),
    ],
)  # fmt: skip
def test_what_a_convolution_computes_and_touches(step, algorithm, macs, products, floats):
    layer = LayerWork.of(step, algorithm)
    assert (layer.macs, layer.products, layer.bytes) == (macs, products, 4 * floats)
    assert layer.algorithm == str(algorithm or "depthwise") and layer.kernel == step.params["kernel"]


@pytest.mark.parametrize("groups, weight_bytes", [(1, 9 * 16 * 16), (16, 2 * 9 * 16)])
def test_what_a_convolution_of_integers_touches(groups, weight_bytes):
    """Bytes, but for 12 of each output: bias, sum of the weights and scale; depthwise weights are kept in 16 bits."""
    step = conv(8, 16, 16, groups=groups)
    views = dict(src=(replace(step.src[0], dtype="int8"),), dst=replace(step.dst, dtype="int8"))
    layer = LayerWork.of(replace(step, **views, weight=step.weight.astype(np.int8)), None)
    assert (layer.dtype, layer.macs, layer.products) == ("int8", 64 * 9 * 256 // groups, 64 * 9 * 256 // groups)
    assert layer.bytes == weight_bytes + 16 * 12 + 2 * 64 * 16


def test_what_other_steps_touch():
    x, y = View(SLOT_IN, 0, 4, 4, 8, 8), View(SLOT_OUT, 0, 1, 1, 8, 8)
    pool = LayerWork.of(Step("avgpool", "p", (x,), y, dict(kernel=(4, 4), strides=(1, 1))), None)
    assert (pool.algorithm, pool.macs, pool.bytes) == ("avgpool", 0, 4 * (16 * 8 + 8))
    scale = LayerWork.of(Step("binary", "b", (x,), replace(x, base=SLOT_OUT), {}, np.zeros((1, 1, 8))), None)
    assert scale.bytes == 4 * (2 * 16 * 8 + 8) and scale.kernel is None
    whole = replace(x, h=1, w=1, c=200, stride=200)  # from the first to the last, of which 12 are copied
    copied = Step("copy", "d", (whole,), whole, dict(dims=(3, 4), src_strides=(60, 1), dst_strides=(60, 1)))
    assert LayerWork.of(copied, None).bytes == 2 * 4 * 12
    assert LayerWork.of(Step("fill", "f", (), y, dict(value=1.0)), None).bytes == 4 * 8


def layer(algorithm, macs, products, nbytes, dtype="float32"):
    return LayerWork("conv", "c", (1, 1, 1), (1, 1, 1), (1, 1), (1, 1), 1, algorithm, macs, products, nbytes, dtype)


TIMES = LayerTimes(  # 10 GFLOP/s, 1 GB/s: a million products take 0.2 ms, a million bytes 1 ms
    "net", "big", "cpu", 2, 10e9, 1e9, None,
    (layer("gemm", 5_000_000, 5_000_000, 100_000), layer("gemm", 1_000_000, 1_000_000, 900_000),
     layer("winograd4", 20_000_000, 5_000_000, 100_000), layer("copy", 0, 0, 100_000), layer("copy", 0, 0, 0)),
    (1.25, 1.0, 2.0, 0.4, 0.0),
)  # fmt: skip


def test_what_bounds_a_layer():
    """The larger of the two names the bound, if it explains half of the time."""
    rows = TIMES.rows()
    assert [row["bound"] for row in rows] == ["arithmetic", "memory", "arithmetic", "overhead", "overhead"]
    assert [row["explained"] for row in rows] == pytest.approx([0.8, 0.9, 0.5, 0.25, 0.0])
    assert [row["gflops"] for row in rows] == pytest.approx([8.0, 2.0, 20.0, 0.0, 0.0])
    assert [row["peak_share"] for row in rows] == pytest.approx([0.8, 0.2, 2.0, 0.0, 0.0])
    assert rows[2]["ms"] == 2.0 and rows[2]["algorithm"] == "winograd4"


def test_totals_of_each_algorithm():
    totals = {row["algorithm"]: row for row in TIMES.totals()}
    assert list(totals) == ["gemm", "winograd4", "copy", "all"]
    gemm, every = totals["gemm"], totals["all"]
    assert gemm["layers"] == 2 and gemm["ms"] == 2.25 and gemm["time_share"] == pytest.approx(2.25 / 4.65)
    assert gemm["gflops"] == pytest.approx(12 / 2.25) and gemm["peak_share"] == pytest.approx(1.2 / 2.25)
    assert gemm["explained"] == pytest.approx((1.0 + 0.9) / 2.25)
    assert every["layers"] == 5 and every["gflops"] == pytest.approx(52 / 4.65) and every["time_share"] == 1
    assert every["explained"] == pytest.approx((1.0 + 0.9 + 1.0 + 0.1) / 4.65)


def test_layers_on_integers_are_judged_by_the_peak_of_integers():
    """A million products of bytes take 0.05 ms at 40 GOP/s; what is computed by both types counts at both peaks."""
    layers = (layer("gemm", 10_000_000, 10_000_000, 0, "int8"), layer("gemm", 5_000_000, 5_000_000, 0))
    times = replace(TIMES, peak_integer_ops=40e9, layers=layers, ms=(1.0, 2.0))
    rows, totals = times.rows(), {(row["algorithm"], row["dtype"]): row for row in times.totals()}
    assert [row["dtype"] for row in rows] == ["int8", "float32"]
    assert [row["peak_share"] for row in rows] == pytest.approx([0.5, 0.5])
    assert [row["explained"] for row in rows] == pytest.approx([0.5, 0.5])
    assert [row["gflops"] for row in rows] == pytest.approx([20.0, 5.0])
    assert list(totals) == [("gemm", "float32"), ("gemm", "int8"), ("all", None)]
    assert totals["all", None]["gflops"] == pytest.approx(10.0)
    assert totals["all", None]["peak_share"] == totals["all", None]["explained"] == pytest.approx(0.5)


def test_a_trace_tells_what_each_step_was_computed_by():
    graph = quick_net()
    with Pipeline(graph, "big", BOARD, trace=True) as pipe:
        list(pipe.map([np.zeros(graph.inputs[0].shape, np.float32)]))
    (trace,) = pipe.trace
    steps = lower(replace(graph, receives=False, transmits=False)).steps
    for step, algorithm in zip(steps, trace.algorithms, strict=True):
        assert algorithm in candidates(step) if step.kind == "conv" else algorithm is None


def test_peak_is_of_all_cores():
    """Far above and below what any core does, and measured where it was said."""
    cluster = BOARD.component("big").device.cluster
    found = peak_cpu.peak(choose(cluster.isas, cluster.core_type), cluster.cores)
    assert 1e8 < found.flops < 1e12 * len(cluster.cores) and 1e8 < found.bytes < 1e12 * len(cluster.cores)
    assert 1e8 < found.integer_ops < 1e13 * len(cluster.cores)


def test_a_unit_of_a_modelled_board_is_refused():
    with pytest.raises(ArgumentError, match="unit big: expected one of this machine"):
        layer_times(quick_net(), Board.load("a311d-armcl"), "big")


@pytest.mark.parametrize("unit, nbytes", [("gpu", 4), ("gpu@mixed", 2)])
def test_layers_of_an_opencl_device(unit, nbytes, board_with_gpu, monkeypatch):
    """A step of several kernels is one layer, with what lies between them."""
    monkeypatch.setattr(OpenCl, "peak", lambda device: Peak(1e11, 1e10))
    net = Net((1, 16, 12, 12))
    graph = net.graph(net.conv(net.op("maxpool", net.conv("x0", 16, k=3), kernel=(2, 2), strides=(2, 2)), 8))
    monkeypatch.setattr(cl_methods, "winograd", lambda step, largest: max(cl_methods.winograd_tiles(step)))
    found = layer_times(graph, board_with_gpu, unit, seconds=0.01)
    steps = lower(replace(graph, receives=False, transmits=False)).steps
    assert found.worker == "compute unit" and [layer.node for layer in found.layers] == [step.node for step in steps]
    assert len(found.ms) == len(steps) and min(found.ms) > 0
    convs = [layer for layer in found.layers if layer.kind == "conv"]
    assert [layer.algorithm.split()[0] for layer in convs] == ["winograd4", "direct"]
    assert [layer.macs for layer in convs] == [16 * 9 * 16 * 144, 16 * 8 * 36]
    assert [layer.products for layer in convs] == [16 * 36 * 16 * 9, 16 * 8 * 36]
    between = 2 * 9 * 36 * (16 + 16)  # written and read: the transformed input and its products
    assert convs[0].bytes == nbytes * (16 * 16 * 36 + 16 + 2 * 16 * 144 + between)
    assert convs[1].bytes == nbytes * (16 * 8 + 8 + 16 * 36 + 8 * 36)


@pytest.mark.parametrize("precision", ["fp32", "mixed"])
def test_peak_of_an_opencl_device(precision, board_with_gpu, monkeypatch):
    """Far above and below what any device does."""
    monkeypatch.setattr(peak_opencl, "BUFFER", 2**26)
    monkeypatch.setattr(peak_opencl, "RUN_NS", 10_000)
    device = opencl.opened(board_with_gpu.component("gpu").device.info)
    found = peak_opencl.peak(device, precision)
    assert 1e8 < found.flops < 1e15 and 1e7 < found.bytes < 1e14


@pytest.fixture
def quick_peak(monkeypatch):
    """The peak as it is, without the seconds it takes."""
    monkeypatch.setattr(Cpu, "peak", lambda device: Peak(1e11 * device.width, 1e10, 4e11 * device.width))


@pytest.mark.usefixtures("tiny", "quick_peak")
@two_clusters
def test_layers_of_the_first_cpu_or_of_units():
    found = document("profile", "layers", "tiny", *QUICK)
    (big,) = found["networks"]
    assert found["format"] == "pipeall.layers/1" and (big["network"], big["unit"]) == ("quick", "big")
    assert (
        big["threads"] == len(BOARD.component("big").device.cluster.cores)
        and big["peak_flops"] == 1e11 * big["threads"]
    )
    convs = [row for row in big["layers"] if row["kind"] == "conv"]
    assert [row["node"] for row in convs] == [node.name for node in quick_net().nodes if node.op == "conv"]
    assert convs[1]["macs"] == 32 * 32 * 32 * 32 and convs[1]["algorithm"] == "gemm" and convs[1]["kernel"] == [1, 1]
    assert all(row["ms"] > 0 and row["gflops"] > 0 for row in convs)
    assert big["totals"][-1]["ms"] == pytest.approx(sum(row["ms"] for row in big["layers"]))
    networks = document("profile", "layers", "tiny", "tiny", "--units", "Bx1,L", *QUICK)["networks"]
    assert [times["unit"] for times in networks] == ["bigx1", "little"] * 2


@pytest.mark.usefixtures("tiny", "quick_peak")
def test_layers_as_text():
    text = invoke("profile", "layers", "tiny", "--units", "Bx1", *QUICK).stdout
    assert "quick on bigx1, 1 thread; at most 100.0 GFLOP/s, 10.0 GB/s from memory" in text
    assert "32 x 32 x 16" in text and "3x3" in text and "Totals" in text and "gemm" in text


@pytest.mark.usefixtures("tiny", "quick_peak")
def test_layers_of_a_quantized_network(monkeypatch):
    monkeypatch.setitem(ZOO, "tiny", lambda: to_int8(chain()))
    command = "profile", "layers", "tiny", "--units", "Bx1", *QUICK
    text = invoke(*command).stdout
    assert "at most 400.0 GOP/s of int8, 100.0 GFLOP/s, 10.0 GB/s from memory" in text
    assert "gemm int8" in text and "depthwise int8" in text
    (times,) = document(*command)["networks"]
    assert times["peak_integer_ops"] == 4e11
    convs = [row for row in times["layers"] if row["kind"] == "conv"]
    assert {row["dtype"] for row in convs} == {"int8"}
    assert all(row["peak_share"] == pytest.approx(row["gflops"] / 400) for row in convs)
    assert convs[0]["bytes"] == 12 * 10 * (8 + 16) + 9 * 8 * 16 + 12 * 16
