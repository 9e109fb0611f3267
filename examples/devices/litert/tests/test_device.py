"""The device beside the CPU's kernels: each operator, whole stages, stand-ins for delegates, and what it refuses."""

import os
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image
from pipeall_litert import device
from pipeall_litert.ends import converted
from pipeall_litert.tflite_file import RULES

import pipeall
from pipeall import Board, DeviceError, Engine, Pipeline, PipelineError, Plan
from pipeall.graph.builder import GraphBuilder
from pipeall.graph.ir import Graph, Tensor
from pipeall.graph.partition import subgraph
from pipeall.graph.passes.int8 import to_int8
from pipeall.pipeline.devices.device import unsupported_groups
from pipeall.testing import check_device
from pipeall.testing.device_checks import CHECKS
from pipeall.testing.device_runs import small_graph

RANDOM = np.random.default_rng(0)
SHARE = 0.999  # of the outputs, that are within one quantum


@pytest.fixture(scope="module")
def board():
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core only")
    return Board.detect(clusters=[[cores[0]], [cores[1]]])


def samples(graph, count=8):
    (tensor,) = graph.inputs
    return [np.random.default_rng(seed).standard_normal(tensor.shape).astype(np.float32) for seed in range(count)]


def quantized(graph):
    return to_int8(pipeall.quantize(graph, samples(graph), method="minmax").written)


@cache
def integers(which):
    """A network of ``which`` whose outputs are int8: all but its last layer, which makes real numbers."""
    graph = quantized(which())
    return replace(subgraph(graph, 0, len(graph.groups) - 1), transmits=False)


class Net(GraphBuilder):
    def __init__(self, shape):
        self.x = Tensor("x", shape)
        super().__init__(Graph("net", (), {"x": self.x}, {}, (self.x,), (self.x,)))

    def conv(self, x, channels, k=1, groups=1, **attrs):
        before = self.tensors[x].shape[1]
        weight = RANDOM.standard_normal((channels, before // groups, k, k)) / (k * (before // groups) ** 0.5)
        name = f"conv{len(self.nodes)}"
        constants = self.constant(f"{name}/w", weight), self.constant(f"{name}/b", RANDOM.standard_normal(channels))
        return self.add("conv", name, [x, *constants], groups=groups, **({"pads": (k // 2,) * 4} | attrs))


def every_op():
    """Each op that is written, with padding that TFLite has (SAME) and that it has not."""
    net = Net((1, 4, 14, 12))
    x = net.conv("x", 16, 3, strides=(2, 2), lo=0.0)  # 14 by 2: SAME pads the end alone
    x = net.conv(x, 16, 3, groups=16, lo=0.0, hi=6.0)
    x = net.add("add", "sum", [x, net.conv(x, 16)], lo=0.0)
    x = net.add("maxpool", "max", [net.conv(x, 16)], kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    x = net.add("concat", "both", [net.conv(x, 8), net.conv(x, 8)], axis=1)
    height, width = net.tensors[x].shape[2:]
    sizes, scales = (1, 16, 2 * height, 2 * width), (1.0, 1.0, 2.0, 2.0)
    x = net.add("resize", "larger", [net.conv(x, 16)], sizes=sizes, scales=scales, mode="nearest",
                coordinates="asymmetric", rounding="floor")  # fmt: skip
    x = net.add("transpose", "turned", [net.conv(x, 16)], perm=(0, 1, 3, 2))
    _, _, height, width = net.tensors[x].shape
    x = net.conv(net.add("reshape", "rows", [x], shape=(1, 8, 2 * height, width)), 16)
    x = net.add("mul", "gate", [x, net.add("sigmoid", "open", [net.conv(x, 16)])])
    x = net.add("avgpool", "mean", [net.conv(x, 16)], kernel=(2, 2), strides=(2, 2))
    shape = net.tensors[x].shape[2:]
    x = net.add("avgpool", "all", [net.conv(x, 16)], kernel=shape, strides=(1, 1))
    constants = (
        net.constant("fc/w", RANDOM.standard_normal((10, 16)) / 4),
        net.constant("fc/b", RANDOM.standard_normal(10)),
    )
    x = net.add("fc", "features", [net.add("reshape", "flat", [x], shape=(1, 16)), *constants], axis=1)
    last = net.constant("last/w", RANDOM.standard_normal((4, 10))), net.constant("last/b", RANDOM.standard_normal(4))
    return net.graph([net.add("fc", "last", [x, *last], axis=1)])


def shares():
    """What pipeall quantize leaves to floats: a softmax of integers, and what it makes as real numbers again."""
    net = Net((1, 24))
    x = net.add("fakequant", "levels", ["x"], scale=2**-5, low=-128.0)
    x = net.add("softmax", "softmax", [x], axis=1)
    return to_int8(net.graph([net.add("fakequant", "shares", [x], scale=2**-8, low=0.0)]))


@pytest.mark.parametrize("plan", ["N", "N-B:3", "B-N:4", "B-N-L:2,7", "B-N:3~5", "N-B:3~5"])
@pytest.mark.parametrize("trace", [False, True])
def test_whatever_crosses(plan, trace, board):
    """Rounding differs, and errors grow from layer to layer: a few quanta after fifteen."""
    graph = integers(every_op)
    given = samples(graph, 12)
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x).astype(int) for x in given]
    with Pipeline(graph, plan, board, trace=trace) as pipe:
        for found, wanted in zip(pipe.map(given), expected, strict=True):
            assert found.dtype == np.int8 and np.abs(found - wanted).max() <= 3
    assert np.ptp(expected) > 30


@pytest.mark.parametrize("first", range(0, 12, 3))
def test_each_op_is_within_one_quantum_of_the_kernels(first, board):
    """Three groups of what the CPU has made."""
    graph = integers(every_op)
    part = replace(subgraph(graph, first, min(first + 3, len(graph.groups))), receives=False, transmits=False)
    prefix = replace(graph, outputs=part.inputs)
    off = []
    with Engine(part, "npu", board=board) as npu, Engine(part, "big", board=board) as big:
        with Engine(prefix if first else part, "big", board=board) as before:
            for x in samples(graph, 20):
                given = before(x) if first else x
                off.append(np.abs(npu(given).astype(int) - big(given)).ravel())
    assert np.mean(np.concatenate(off) <= 1) >= SHARE


NETWORKS = {
    "models/mobilenet_v1_0.75_192": (1, 27),
    "models/resnet50": (1, 17),
    "edge/ssd_mobilenetv2_oidv4_fp16": (5, 34),
}
DATA = os.environ.get("PIPEALL_TEST_DATA")


def photos(shape, names):
    """As a network reads them, whose channels are first or last."""
    height, width = shape[2:] if shape[1] == 3 else shape[1:3]
    for name in names:
        with Image.open(Path(DATA, "photos", name)) as photo:
            pixels = np.asarray(photo.convert("RGB").resize((width, height)), np.float32)[None] / 127.5 - 1
        yield np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)) if shape[1] == 3 else pixels


@pytest.mark.skipif(not DATA, reason="PIPEALL_TEST_DATA: expected a folder with models/, edge/ and photos/")
@pytest.mark.parametrize("name", NETWORKS)
def test_groups_of_known_networks(name, board):
    """Each group that is not refused by its node, on what the CPU has made of photos."""
    net, (refused, able) = pipeall.load(Path(DATA, f"{name}.onnx")), NETWORKS[name]
    (image,) = net.inputs
    samples = list(photos(image.shape, ["ccby_coral_hot_dog.jpg", "glow_cat_285.png", "skimage_chelsea.png"]))
    graph = to_int8(pipeall.quantize(net, samples, method="minmax").written)
    reasons = unsupported_groups(graph, board.component("npu").device.unsupported)
    assert len(reasons) == refused and all(reason.startswith("node '") for reason in reasons.values())
    given, tried = list(photos(image.shape, ["skimage_coffee.png", "wonnx_pelican.jpeg"])), 0
    for group in sorted(set(range(len(graph.groups))) - {number - 1 for number in reasons}):
        part = replace(subgraph(graph, group, group + 1), receives=False, transmits=False)
        within, prefix = [], replace(graph, outputs=part.inputs, lengths={}, declared={})
        with Engine(part, "npu", board=board) as npu, Engine(part, "big", board=board) as big:
            with Engine(prefix if group else part, "big", board=board) as before:
                for x in given:
                    read = before(x) if group else x
                    found, wanted = npu(read), big(read)
                    pairs = (
                        [(found[t.name], wanted[t.name]) for t in part.outputs]
                        if isinstance(found, dict)
                        else [(found, wanted)]
                    )
                    within += [(np.abs(a.astype(int) - b) <= 1).ravel() for a, b in pairs if a.dtype == np.int8]
        tried += bool(within)
        assert not within or np.mean(np.concatenate(within)) >= SHARE, group + 1
    assert tried >= able - 2  # some only make real numbers


def test_all_rules_are_tried():
    nodes = (*integers(every_op).nodes, *shares().nodes)
    assert {node.op for node in nodes} >= RULES.keys() - {"clip", "reshape"}


def test_a_network_of_bytes(board, tmp_path):
    """uint8 in and out, a transpose to rank 3: to the bit, as the CPU and onnxruntime have it."""
    tensors = [("sx", np.float32(0.02)), ("zx", np.uint8(117)), ("sw", np.float32(0.01)), ("sy", np.float32(0.05)),
               ("zw", np.int8(0)), ("zy", np.uint8(100)), ("w", RANDOM.integers(-127, 128, (8, 3, 3, 3), np.int8)),
               ("shape", np.array([1, 64, 8]))]  # fmt: skip
    nodes = [("DequantizeLinear", "x sx zx", "xf", {}), ("DequantizeLinear", "w sw zw", "wf", {}),
             ("Conv", "xf wf", "c", {"pads": [1] * 4}), ("QuantizeLinear", "c sy zy", "cq", {}),
             ("DequantizeLinear", "cq sy zy", "cf", {}), ("Transpose", "cf", "t", {"perm": [0, 2, 3, 1]}),
             ("Reshape", "t shape", "r", {}), ("QuantizeLinear", "r sy zy", "y", {})]  # fmt: skip
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, shape)
            for name, shape in (("x", [1, 3, 8, 8]), ("y", [1, 64, 8]))]  # fmt: skip
    made = onnx.helper.make_graph(
        [onnx.helper.make_node(op, read.split(), [out], **attrs) for op, read, out, attrs in nodes], "bytes",
        ends[:1], ends[1:], [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in tensors],
    )  # fmt: skip
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "bytes.onnx")
    graph = pipeall.load(tmp_path / "bytes.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "bytes.onnx", providers=["CPUExecutionProvider"])
    with Engine(graph, "npu", board=board) as npu, Engine(graph, "big", board=board) as big:
        for _ in range(4):
            x = RANDOM.integers(0, 256, (1, 3, 8, 8), np.uint8)
            found, (wanted,) = npu(x), session.run(None, {"x": x})
            assert found.dtype == np.uint8 and np.ptp(wanted.astype(int)) > 100
            np.testing.assert_array_equal(found, big(x))
            assert np.abs(found.astype(int) - wanted).max() <= 1


def test_values_halfway_between_two_levels_become_the_same(board):
    """LiteRT's own op rounds many of them otherwise: a picture has some in thousands of places."""
    graph = integers(every_op)
    (first,) = (node for node in graph.nodes if node.op == "quantize")
    x = (RANDOM.integers(-100, 100, (1, 4, 14, 12)) + 0.5).astype(np.float32) * np.float32(first.attrs["scale"])
    alone = replace(graph, nodes=(first,), outputs=(graph.tensors[first.output],))
    with Engine(alone, "big", board=board) as big:
        np.testing.assert_array_equal(converted(first, x), big(x))


def test_shares_of_classes(board):
    with Engine(shares(), "npu", board=board) as npu, Engine(shares(), "big", board=board) as big:
        for x in samples(shares()):
            assert np.abs(npu(x) - big(x)).max() <= 2**-8


def test_it_passes_what_every_device_must(board):
    assert check_device("npu", board, integers(small_graph), tolerance=0.03, frames=2000) == list(CHECKS)


def test_planning_goes_around_what_it_refuses(board):
    """The last layer makes real numbers; the reason names the node."""
    graph = quantized(small_graph())
    with pytest.raises(DeviceError, match="node 'conv3': tensor 'conv3': expected integers with a scale, got float32"):
        Engine(graph, "npu", board=board)
    with pytest.raises(DeviceError, match="node 'conv0': .*expected integers"):
        Engine(small_graph(), "npu", board=board)
    profile = pipeall.profile(graph, board, ["big", "npu"], seconds=0.05)
    assert list(profile.units["npu"].refused) == [4]
    found = pipeall.search(graph, profile)
    plans = [row.plan for row in found.ranked]
    assert any("npu" in plan.units for plan in plans)
    assert not any(lane[-1].unit == "npu" for plan in plans for lane in plan.lanes)


def test_a_frame_that_fails_is_one_error_that_names_it(board, monkeypatch):
    graph, frames = integers(every_op), samples(integers(every_op))
    run, count = device._Run.__call__, iter(range(100))

    def failing(self, bases):
        if next(count) == 3:
            raise RuntimeError("the accelerator was unplugged\nline 2")
        run(self, bases)

    monkeypatch.setattr(device._Run, "__call__", failing)
    with Pipeline(graph, "B-N-L:2,7", board) as pipe:
        found = pipe.map(frames)
        for _ in range(3):
            next(found)
        with pytest.raises(PipelineError, match="npu.*frame 3.*the accelerator was unplugged$"):
            next(found)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    built = tmp_path_factory.mktemp("delegate") / "libstandin.so"
    source = Path(__file__).parent / "delegate.c"
    subprocess.run(["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", source, "-o", built], check=True)
    return built


def test_a_delegate(library, monkeypatch):
    monkeypatch.setenv("LITERT_DELEGATE", str(library))
    cores = sorted(os.sched_getaffinity(0))
    board = Board.detect(clusters=[[cores[0]], [cores[1]]])
    row = next(row for row in board.describe() if row["component"] == "npu")
    assert row["delegate"] == str(library) and not row["stand_in"] and str(Plan.parse("N")) == "npu"
    graph = integers(every_op)
    with Engine(graph, "npu", board=board) as npu, Engine(graph, "big", board=board) as big:
        for x in samples(graph, 4):
            assert np.abs(npu(x).astype(int) - big(x)).max() <= 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{library}:absent=1", "no component 'npu' .*LiteRT, delegate .*libstandin.so"),
        ("/nowhere/libteflon.so", "no component 'npu' .*LiteRT, delegate /nowhere/libteflon.so: .*nowhere"),
        ("{library}:broken=1", "LiteRT: .*[Dd]elegate"),
        ("{library}:broken", "LITERT_THREADS, LITERT_DELEGATE: expected a number and FILE:KEY=VALUE"),
    ],
)
def test_a_delegate_that_does_not_work(text, message, library, monkeypatch):
    monkeypatch.setenv("LITERT_DELEGATE", text.format(library=library))
    with pytest.raises(DeviceError, match=message):
        Engine(integers(every_op), "npu", board=Board.detect())


def test_its_peak(board):
    peak = board.component("npu").device.peak()
    assert peak.integer_ops > 1e8 and peak.bytes > 1e7
