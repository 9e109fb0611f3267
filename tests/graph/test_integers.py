"""Quantized networks in 8 bits: which ops become integer ones, and what they compute, against onnxruntime and NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import Net
from integer_nets import chain, fake, levels_between, quantized_weights
from onnx import TensorProto, helper, numpy_helper
from quantized_files import MICROSOFT, integers, one_node, parameters, reference, small_network

from pipeall import ArgumentError, Engine, Pipeline, load, profile, search
from pipeall.graph.ir import Quantization
from pipeall.graph.ops import run_graph
from pipeall.graph.passes.dequantize import dequantized
from pipeall.graph.passes.int8 import to_int8
from pipeall.graph.passes.rewrite import rewrite

RNG = np.random.default_rng(0)
F, I8, U8 = np.float32, np.int8, np.uint8


def frame_of(graph):
    (tensor,) = graph.inputs
    return RNG.uniform(-3, 3, tensor.shape).astype(F)


def test_floats_stay_as_they_are():
    net = Net((1, 3, 8, 8))
    graph = net.graph(net.conv("x0", 4, 3))
    assert to_int8(graph) is graph and dequantized(graph) is graph


def test_what_computes_with_integers():
    graph = chain()
    whole = to_int8(graph)
    ops = [(node.op, whole.tensors[node.output].dtype) for node in whole.nodes]
    assert ops == [
        *(("quantize", "int8"), ("conv", "int8"), ("conv", "int8"), ("sigmoid", "int8"), ("mul", "int8")),
        *(("add", "int8"), ("maxpool", "int8"), ("avgpool", "int8"), ("clip", "int8"), ("clip", "int8")),
        *(("concat", "int8"), ("clip", "int8"), ("resize", "int8"), ("softmax", "int8"), ("dequantize", "float32")),
        *(("lrn", "int8"), ("dequantize", "float32"), ("sub", "float32"), ("quantize", "int8")),
        *(("conv", "int8"), ("resize", "int8"), ("fc", "int8"), ("dequantize", "float32")),
    ]
    assert all(whole.constants[node.inputs[1]].dtype == I8 for node in whole.nodes if node.op in ("conv", "fc"))
    assert len(whole.groups) == len(graph.groups)
    assert [cut.nbytes for cut in whole.cuts[:2]] == [cut.nbytes // 4 for cut in graph.cuts[:2]]


def test_there_and_back():
    """Real numbers made of integers made of real numbers: the same values, bit for bit."""
    graph = chain()
    x = {"x0": frame_of(graph)}
    (expected,), (found,) = (run_graph(g, x, F).values() for g in (graph, dequantized(to_int8(graph))))
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_engine(board, threads):
    """Next to the level of float64 at most, where float32 decides another way on the way."""
    graph = to_int8(chain())
    x = frame_of(graph)
    (expected,) = run_graph(dequantized(graph), {"x0": x}, np.float64).values()
    with Engine(graph, "cpu", board=board, threads=threads) as engine, Engine(graph, "cpu@fp32", board=board) as floats:
        found, real = engine(x), floats(x)
    assert levels_between(graph, found, expected) <= 1
    assert levels_between(graph, real, expected) <= 1


def test_stages(board_with_gpu):
    """Slots between stages hold bytes, whichever device is beside them."""
    graph = to_int8(chain())
    x = frame_of(graph)
    with Engine(graph, "big", board=board_with_gpu) as engine:
        expected = engine(x)
    for plan in ("big-little:1", "big-gpu-little:1,2", "gpu-big:2"):
        with Pipeline(graph, plan, board=board_with_gpu) as pipe:
            (found,) = pipe.map([x])
        assert levels_between(graph, found, expected) <= 1
        assert "gpu" in plan or np.array_equal(found, expected)


def test_precisions_of_one_plan(board):
    """A unit of each precision: all are timed, and teams have a cluster in one of them."""
    graph, x = to_int8(chain()), frame_of(chain())
    with Engine(graph, "big", board=board) as engine, Engine(graph, "big@int8", board=board) as named:
        assert np.array_equal(named(x), engine(x))
    found = profile(graph, board, units=["big", "big@fp32", "little"], seconds=0.05)
    plans = [str(choice.plan) for choice in search(graph, found, top=99).ranked]
    assert {"big-little:1", "little-big@fp32:2"} <= set(plans)
    assert not any("big" in plan.replace("big@fp32", "", 1) for plan in plans if "@" in plan)
    with Pipeline(graph, "little-big@fp32:2", board=board) as pipe:
        assert levels_between(graph, *pipe.map([x]), engine_of_floats(graph, x, board)) <= 1


def engine_of_floats(graph, x, board):
    with Engine(graph, "big@fp32", board=board) as engine:
        return engine(x)


def test_integers_of_a_network_of_floats(board):
    with pytest.raises(ArgumentError, match="big@int8: expected a network that pipeall quantize makes"):
        Engine(Net((1, 3, 8, 8)).graph("x0"), "big@int8", board=board)


@pytest.mark.parametrize("plan", ["big-gpu-little:1~2,3", "gpu-big:1~3", "little-gpu:1~3"])
@pytest.mark.parametrize("slow", [0, 1, 2])
def test_floating_cuts_beside_floats(plan, slow, board_with_gpu):
    """What crosses a cut is bytes, wherever a frame crosses it."""
    graph = to_int8(chain())
    frames = [frame_of(graph) for _ in range(12)]
    with Engine(graph, "big", board=board_with_gpu) as engine:
        expected = [engine(x) for x in frames]
    with Pipeline(graph, plan, board=board_with_gpu) as pipe:
        pipe.lanes.all[0].set_paces([4.0 if stage == slow else 1.0 for stage in range(len(pipe.plan.lanes[0]))])
        found = list(pipe.map(frames))
    assert levels_between(graph, found, expected) <= 1


# ---- layers whose results lie on no levels ----


def real_layers(rank, **attrs):
    """A layer on integers with a result in real numbers, and what reads it."""
    net = Net((2, 20, 9, 11) if rank == 4 else (5, 37))
    x = fake(net, "x0", 0.0213, 5)
    made = net.fc(x, 21) if rank == 2 else net.conv(x, 40, **attrs)
    return quantized_weights(net.graph(net.op("sigmoid", made), made))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "rank, attrs",
    [
        (4, {"k": 1}), (4, {"k": 3, "lo": 0.0, "hi": 90.0}), (4, {"k": 3, "groups": 4}), (2, {}),
        (4, {"k": 5, "strides": (2, 1)}),
    ],
)  # fmt: skip
def test_real_numbers_of_integers(rank, attrs, threads, board):
    """Against float64: sums are exact but for the bias, which is the nearest quantum; two roundings follow. Floats add
    one rounding for each term. A sigmoid makes less of either."""
    graph = real_layers(rank, **attrs)
    found, x = to_int8(graph), frame_of(graph)
    layer = next(node for node in found.nodes if node.op in ("conv", "fc"))
    assert [found.tensors[name].dtype for name in (layer.inputs[0], layer.output)] == ["int8", "float32"]
    assert found.constants[layer.inputs[1]].dtype == I8
    expected = run_graph(graph, {"x0": x}, np.float64)
    back = run_graph(dequantized(found), {"x0": x}, np.float64)
    quantum = 0.0213 * max(found.qparams[layer.inputs[1]].scale)
    weight = graph.constants[next(node for node in graph.nodes if node.output == layer.output).inputs[1]]
    sizes = np.abs(weight).reshape(len(weight), -1).sum(1).max() * 2**7 * 0.0213 + 1
    most, many = 0.51 * quantum + 2**-22 * sizes, weight[0].size * 2.0**-23 * sizes
    with Engine(found, "cpu", board=board, threads=threads) as engine, Engine(found, "cpu@fp32", board=board) as floats:
        made, real = engine(x), floats(x)
    for name, of in expected.items():
        assert np.abs(made[name] - of).max() <= most and np.abs(back[name] - of).max() <= most
        assert np.abs(real[name] - of).max() <= many
    assert np.ptp(expected[layer.output]) > 200 * max(most, many)


def test_filters_of_one_channel_stay_floats(board):
    net = Net((1, 8, 9, 7))
    graph = quantized_weights(net.graph(net.conv(fake(net, "x0", 0.0213, 5), 16, 3, groups=8)))
    found, x = to_int8(graph), frame_of(graph)
    assert found.constants[found.nodes[-1].inputs[1]].dtype == F
    (expected,) = run_graph(graph, {"x0": x}, np.float64).values()
    with Engine(found, "big", board=board) as engine:
        np.testing.assert_allclose(engine(x), expected, atol=1e-5 * np.abs(expected).max())


# ---- what stays in floats ----


def is_integer(graph, op):
    (node,) = (node for node in graph.nodes if node.op == op)
    return graph.tensors[node.output].dtype == "int8"


def of_weights(whole, scale, zero=0, bias=0.5):
    """A convolution of these integers."""
    net = Net((1, whole.shape[1], 5, 5))
    weight, biases = net.constant(whole.shape), net.constant((len(whole),))
    out = net.op("conv", fake(net, "x0", 0.1), weight, biases)
    graph = net.graph(fake(net, out, 0.7))
    values = {weight: ((whole.astype(int) - zero) * scale).astype(F), biases: np.full(len(whole), bias, F)}
    qparams = {weight: Quantization((scale,), (zero,))}
    return replace(graph, constants=graph.constants | values, qparams=qparams)


@pytest.mark.parametrize(
    ("whole", "zero", "integer"),
    [
        (np.full((2, 3, 1, 1), 127), 0, True),
        (np.full((2, 3, 1, 1), -127), 0, True),
        (np.full((2, 3, 1, 1), -128), 0, False),  # two products of it do not fit 16 bits
        (np.full((2, 3, 1, 1), 100), -27, True),
        (np.full((2, 3, 1, 1), 100), -28, False),
        (np.ones((1, 2**16 - 1, 1, 1)), 0, True),
        (np.ones((1, 2**16, 1, 1)), 0, False),  # sums and biases may not fit 32 bits
    ],
)
def test_weights_of_integer_kernels(whole, zero, integer, board):
    graph = of_weights(whole, 0.01, zero)
    found = to_int8(graph)
    assert is_integer(found, "conv") == integer
    x = frame_of(graph)
    (expected,) = run_graph(graph, {"x0": x}, np.float64).values()
    with Engine(found, "big", board=board) as engine:
        assert np.abs(engine(x) - expected).max() <= 0.71


@pytest.mark.parametrize(("quanta", "integer"), [(2**31 - 2**18, True), (2**31, False), (-(2.0**40), False)])
def test_biases_of_integer_kernels(quanta, integer, board):
    """What a sum with its bias may not fit into 32 bits stays in floats, which saturate as they should."""
    graph = to_int8(of_weights(np.full((2, 3, 1, 1), 127), 2.0**-10, bias=quanta * 0.1 * 2.0**-10))
    assert is_integer(graph, "conv") == integer
    with Engine(graph, "big", board=board) as engine:
        found = engine(frame_of(graph))
    assert np.abs(found - 0.7 * (127 if quanta > 0 else -128)).max() < 1e-4


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("shape", [(1, 6, 1, 1), (1, 6, 5, 4), (1, 1, 1, 1)])
def test_a_constant_on_levels(op, shape, board):
    net = Net((1, 6, 5, 4))
    constant = net.constant(shape)
    graph = net.graph(fake(net, net.op(op, fake(net, "x0", 0.031, 3), constant), 0.057, -9))
    values = ((RNG.integers(-128, 128, shape) - 5) * 0.0173).astype(F)
    qparams = {constant: Quantization((0.0173,), (5,))}
    graph = replace(graph, constants=graph.constants | {constant: values}, qparams=qparams)
    found, x = to_int8(graph), frame_of(graph)
    assert is_integer(found, op)
    (expected,) = run_graph(graph, {"x0": x}, np.float64).values()
    with Engine(found, "big", board=board) as engine:
        assert levels_between(found, engine(x), expected) == 0


# ---- convolutions of every geometry, against onnxruntime ----

GEOMETRIES = {  # input, weights, attributes
    "1x1": ((1, 19, 7, 5), (33, 19, 1, 1), {}),
    "one pixel": ((1, 130, 1, 1), (67, 130, 1, 1), {}),
    "3x3, padded": ((1, 16, 9, 11), (40, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
    "3 channels": ((1, 3, 23, 21), (24, 3, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "7x7 of 3 channels": ((1, 3, 30, 31), (16, 3, 7, 7), {"pads": [3, 3, 3, 3], "strides": [2, 2]}),
    "dilated": ((1, 5, 14, 13), (9, 5, 3, 3), {"pads": [2, 0, 1, 3], "dilations": [2, 3]}),
    "1 channel, 1x7": ((1, 1, 6, 19), (6, 1, 1, 7), {"pads": [0, 3, 0, 3]}),
    "groups": ((1, 12, 9, 8), (30, 4, 3, 3), {"pads": [1, 1, 1, 1], "group": 3}),
    "groups of one output": ((1, 12, 9, 8), (4, 3, 3, 3), {"group": 4}),
    "depthwise": ((1, 41, 10, 9), (41, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 41}),
    "depthwise 5x5, stride 2": ((1, 70, 15, 16), (70, 1, 5, 5), {"pads": [2, 2, 2, 2], "group": 70, "strides": [2, 2]}),
    "depthwise, dilated": ((1, 8, 15, 16), (8, 1, 3, 3), {"pads": [3, 3, 3, 3], "group": 8, "dilations": [3, 3]}),
    "two filters a channel": ((1, 6, 9, 8), (12, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 6}),
    "batch": ((3, 9, 6, 5), (10, 9, 3, 3), {"pads": [1, 1, 1, 1]}),
}


@pytest.mark.parametrize("kind", [I8, U8], ids=["signed", "unsigned"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolutions(name, kind, board):
    """Of integers that are there in full, the zero point far from the middle: equal but for ties."""
    image, weights, attrs = GEOMETRIES[name]
    x, low = integers(kind, *image), np.iinfo(kind).min
    weight = RNG.integers(-127, 128, weights).astype(I8)
    scales = np.linspace(0.01, 0.03, len(weight)).astype(F)
    spread = 0.02 * 0.02 * 74 * 74 * np.sqrt(np.prod(weights[1:]))
    operands = [
        *(x, *parameters(0.02, low + 100, kind), weight, scales, np.zeros(len(weight), I8)),
        *(*parameters(spread / 60, low + 30, kind), RNG.integers(-9000, 9000, len(weight)).astype(np.int32)),
    ]
    content = one_node("QLinearConv", operands, **attrs)
    graph = load(content)
    assert any(node.op == "conv" and graph.tensors[node.output].dtype == "int8" for node in graph.nodes)
    (expected,) = reference(content, x)
    with Engine(graph, "cpu", board=board) as engine:
        found = engine(x)
    off = np.abs(found.astype(int) - expected)
    assert len(np.unique(expected)) > 20 and off.max() <= 1 and (off > 0).mean() <= 0.001


POOLS = {
    "average": ("QLinearAveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "average with pads": (
        "QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    "all": ("QLinearGlobalAveragePool", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", POOLS)
def test_pools(name, board):
    op, attrs = POOLS[name]
    x = integers(U8, 1, 37, 12, 9)
    content = one_node(op, [x, *parameters(0.02, 90, U8), *parameters(0.015, 60, U8)], domain=MICROSOFT, **attrs)
    graph = load(content)
    assert any(node.op == "avgpool" and graph.tensors[node.output].dtype == "int8" for node in graph.nodes)
    (expected,) = reference(content, x)
    with Engine(graph, "big", board=board) as engine:
        off = np.abs(engine(x).astype(int) - expected)
    assert off.max() <= 1 and (off > 0).mean() <= 0.02  # a mean of nine lies on a tie more often


def broadcast_model(op, shapes):
    """A sum or product of quantized operands of these shapes."""
    names = ["a", "b"]
    nodes, constants = [], []
    for scale, name in zip((0.0213, 0.0497, 0.0389), (*names, "y"), strict=True):
        zero = U8({"a": 100, "b": 20, "y": 128}[name])
        constants += [numpy_helper.from_array(np.array(scale, F), f"{name}s"),
                      numpy_helper.from_array(np.array(zero), f"{name}z")]  # fmt: skip
    for name in names:
        nodes.append(helper.make_node("QuantizeLinear", [name, f"{name}s", f"{name}z"], [f"{name}q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}q", f"{name}s", f"{name}z"], [f"{name}d"]))
    nodes.append(helper.make_node(op, ["ad", "bd"], ["yd"]))
    nodes.append(helper.make_node("QuantizeLinear", ["yd", "ys", "yz"], ["y"]))
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    out = helper.make_tensor_value_info("y", TensorProto.UINT8, np.broadcast_shapes(*shapes))
    graph = helper.make_graph(nodes, "two", inputs, [out], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


@pytest.mark.parametrize("op", ["Add", "Mul"])
@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 20, 6, 5), (1, 20, 6, 5)),
        ((1, 20, 6, 5), (1, 20, 1, 1)),
        ((1, 1, 6, 5), (1, 20, 6, 5)),
        ((1, 20, 1, 1), (1, 1, 6, 5)),
        ((1, 16, 13, 9), (1, 16, 1, 1)),  # few channels: many pixels are one run
        ((2, 8, 1, 1), (2, 8, 11, 40)),
        ((7, 33), (1, 33)),
        ((7, 1), (7, 33)),
    ],
)
def test_of_two(op, shapes, board):
    content = broadcast_model(op, shapes)
    frames = [RNG.uniform(-2, 3, shape).astype(F) for shape in shapes]
    graph = load(content)
    assert any(node.op == op.lower() and graph.tensors[node.output].dtype == "int8" for node in graph.nodes)
    (expected,) = reference(content, *frames)
    with Engine(graph, "big", board=board) as engine:
        found = engine(dict(zip("ab", frames, strict=True)))
    off = np.abs(found.astype(int) - expected)
    assert off.max() <= 1 and (off > 0).mean() <= 0.01


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_small_network_is_all_integers(form, tmp_path):
    from onnxruntime import quantization as tool
    from quantized_files import Photos, real

    from pipeall.graph.onnx.write.write import onnx_bytes

    path, made = tmp_path / "net.onnx", tmp_path / "int8.onnx"
    path.write_bytes(onnx_bytes(small_network()))
    frames = Photos("x0", [real(1, 3, 24, 24) for _ in range(4)])
    tool.quantize_static(path, made, frames, per_channel=True, quant_format=tool.QuantFormat[form])
    graph = load(made)
    floats = [node.op for node in graph.nodes if graph.tensors[node.output].dtype != "int8"]
    assert floats == ["dequantize"]
    assert rewrite(graph).nodes == graph.nodes
