"""Resizing and softmax of 8-bit integers, against float64 and onnxruntime: the nearest level, or one of two as near."""

import numpy as np
import pytest
from graphs import Net
from integer_nets import fake, resized
from onnx import TensorProto, helper, numpy_helper
from quantized_files import reference

from pipeall import Engine, load
from pipeall.graph.ops import run_graph
from pipeall.graph.passes.dequantize import dequantized
from pipeall.graph.passes.int8 import to_int8

F, I8, U8 = np.float32, np.int8, np.uint8
NEAR = 2e-3  # quanta: how far from the middle of two levels float32 may decide another way
SAME = ((0.0213, 5), (0.0213, 5))
LEVELS = [SAME, ((0.0213, -128), (0.0171, 127)), ((3.7, 127), (5.1, -128)), ((1e-3, 0), (0.9e-3, -7))]


def integers_of(shape, seed):
    """All of them, with runs of the least and the greatest at the corners."""
    random = np.random.default_rng(seed)
    values = random.integers(-128, 128, shape).astype(I8)
    flat = values.reshape(-1)
    flat[: flat.size // 8], flat[-(flat.size // 8) :] = -128, 127
    return values if seed % 2 else random.choice(np.array([-128, 127], I8), shape)


def check(build, shape, levels, board, *, image=True, op, threads=1):
    """An op between two sets of levels, in all and alone, as pixels lie or as axes do."""
    (x_scale, x_zero), (y_scale, y_zero) = levels
    for seed in (0, 1):
        net = Net(shape)
        x = fake(net, "x0", x_scale, x_zero)
        x = net.op("maxpool", x, kernel=(1, 1), strides=(1, 1)) if image else x
        made = build(net, x)
        plain, graph = net.graph(made), net.graph(fake(net, made, y_scale, y_zero))
        whole = to_int8(graph)
        assert all(whole.tensors[node.output].dtype == "int8" for node in whole.nodes if node.op == op)
        frame = ((integers_of(shape, seed).astype(int) - x_zero) * F(x_scale)).astype(F)
        (real,) = run_graph(plain, {"x0": frame}, np.float64).values()
        with Engine(whole, "cpu", board=board, threads=threads) as engine:
            found = np.rint(engine(frame) / F(y_scale)) + y_zero
        exact = np.clip(real / np.float64(F(y_scale)) + y_zero, -128, 127)
        assert np.abs(found - exact).max() <= 0.5 + NEAR
        (there,), (back,) = (run_graph(g, {"x0": frame}, F).values() for g in (graph, dequantized(whole)))
        assert np.array_equal(there, back)


SIZES = {  # an image, and what it becomes
    "twice": ((1, 16, 7, 6), (14, 12)),
    "twice, many channels": ((1, 300, 5, 6), (10, 12)),
    "twice, odd channels": ((1, 67, 6, 11), (12, 22)),
    "few channels": ((1, 3, 9, 8), (31, 23)),
    "one channel": ((1, 1, 19, 33), (40, 67)),
    "one channel, narrow": ((1, 1, 5, 3), (15, 9)),
    "smaller": ((1, 21, 19, 23), (7, 11)),
    "half": ((2, 8, 12, 14), (6, 7)),
    "higher": ((1, 40, 7, 60), (21, 60)),
    "wider": ((1, 40, 7, 60), (7, 111)),
    "from one pixel": ((1, 5, 1, 1), (6, 7)),
    "to one pixel": ((1, 5, 6, 7), (1, 1)),
    "batch": ((3, 9, 4, 5), (9, 8)),
    "long rows": ((1, 33, 3, 170), (7, 391)),
}
PLACES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")


@pytest.mark.parametrize("image", [True, False], ids=["pixels", "planes"])
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes(mode, name, image, board):
    shape, size = SIZES[name]
    for levels in LEVELS[:2]:
        check(lambda net, x: resized(net, x, size, mode=mode), shape, levels, board, image=image, op="resize")


@pytest.mark.parametrize("coordinates", PLACES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("levels", LEVELS)
def test_places_and_levels(mode, coordinates, levels, board):
    for shape, size in [((1, 10, 6, 9), (12, 18)), ((1, 10, 11, 9), (5, 13))]:
        check(lambda net, x, to=size: resized(net, x, to, mode=mode, coordinates=coordinates), shape, levels, board,
              op="resize")  # fmt: skip


@pytest.mark.parametrize("attrs", [dict(antialias=True), dict(exclude_outside=True)], ids=str)
def test_wide_taps(attrs, board):
    check(lambda net, x: resized(net, x, (5, 6), mode="cubic", **attrs), (1, 12, 33, 40), LEVELS[1], board, op="resize")


def test_threads(board):
    """Bands of rows, and parts of them, by several threads."""
    check(
        lambda net, x: resized(net, x, (160, 96), mode="linear"), (1, 70, 80, 48), SAME, board, op="resize", threads=2
    )
    check(lambda net, x: net.op("softmax", x, axis=1), (1, 70, 80, 48), LEVELS[1], board, op="softmax", threads=2)


@pytest.mark.parametrize("shape", [(4, 9, 20), (2, 3, 4, 5, 6)], ids=str)
def test_other_ranks(shape, board):
    """Any two axes; more stay in floats."""
    sizes = (*shape[:-2], 2 * shape[-2], 3 * shape[-1] - 1)
    attrs = dict(mode="linear", sizes=sizes, scales=tuple(new / old for new, old in zip(sizes, shape, strict=True)))
    check(lambda net, x: net.op("resize", x, **attrs), shape, LEVELS[1], board, image=False, op="resize")
    attrs["sizes"], attrs["scales"] = (2 * shape[0], *sizes[1:]), (2.0, *attrs["scales"][1:])
    net = Net(shape)
    graph = to_int8(net.graph(fake(net, net.op("resize", fake(net, "x0", 0.1), **attrs), 0.1)))
    assert [graph.tensors[node.output].dtype for node in graph.nodes if node.op == "resize"] == ["float32"]


def steps_of(build, levels):
    """What lies between the two sets of levels in a graph on integers."""
    net = Net((1, 8, 6, 4))
    graph = to_int8(net.graph(fake(net, build(net, fake(net, "x0", *levels[0])), *levels[1])))
    return [node.op for node in graph.nodes[1:-1]]


def test_nearest_is_a_move():
    """Of bytes; on other levels by a table of the fewer."""
    assert steps_of(lambda net, x: resized(net, x, (12, 8), mode="nearest"), SAME) == ["resize"]
    assert steps_of(lambda net, x: resized(net, x, (12, 8), mode="nearest"), LEVELS[1]) == ["clip", "resize"]
    assert steps_of(lambda net, x: resized(net, x, (3, 2), mode="nearest"), LEVELS[1]) == ["resize", "clip"]
    assert steps_of(lambda net, x: net.op("slice", x, start=2, stop=4), LEVELS[1]) == ["slice", "clip"]


def test_nearest_keeps_levels():
    """Without levels of its own it has those of what it reads."""
    net = Net((1, 8, 6, 4))
    x = resized(net, fake(net, "x0", 0.1, 3), (12, 8), mode="nearest")
    graph = to_int8(net.graph(fake(net, net.op("sigmoid", x), 1 / 256, -128)))
    assert [node.op for node in graph.nodes] == ["quantize", "resize", "sigmoid", "dequantize"]


# ---- softmax ----

PROBABILITIES = (1 / 256, -128)
ROWS = [
    *(((1, n), 1) for n in (1, 2, 7, 15, 16, 17, 31, 32, 33, 256, 1000, 5000)),
    *(((1, c, 5, 3), 1) for c in (1, 2, 3, 16, 21, 65)),
    *(((2, 6, 9, 11), axis) for axis in range(4)),
    *(((80, 700), 0), ((3, 5), 0), ((4, 2, 70), 1), ((700, 3), 1)),
]


@pytest.mark.parametrize(("shape", "axis"), ROWS)
@pytest.mark.parametrize("scale", [0.003, 0.11, 2.3])
def test_softmax(shape, axis, scale, board):
    for image in (True, False) if len(shape) == 4 else (False,):
        for levels in (PROBABILITIES, (0.0113, -30)):
            check(lambda net, x: net.op("softmax", x, axis=axis), shape, ((scale, 17), levels), board, image=image,
                  op="softmax")  # fmt: skip


# ---- onnxruntime ----


def one_op(op, shape, constants=(), inputs=("xd",), out=None, levels=((0.0213, 100), (0.0171, 128)), **attrs):
    """A file of one op between quantized tensors."""
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants]
    for name, (scale, zero) in zip("xy", levels, strict=True):
        kept += [numpy_helper.from_array(np.array(scale, F), f"{name}s"),
                 numpy_helper.from_array(np.array(zero, U8), f"{name}z")]  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        helper.make_node(op, list(inputs), ["yd"], **attrs),
        helper.make_node("QuantizeLinear", ["yd", "ys", "yz"], ["y"]),
    ]
    ends = (
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, out or shape)],
    )
    graph = helper.make_graph(nodes, "one", *ends, kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


def levels_off(content, op, shape, board):
    """How far results are from those of onnxruntime, in levels."""
    frame = np.random.default_rng(3).uniform(-2, 3, shape).astype(F)
    graph = load(content)
    assert [graph.tensors[node.output].dtype for node in graph.nodes if node.op == op] == ["int8"]
    (expected,) = reference(content, frame)
    with Engine(graph, "big", board=board) as engine:
        return np.abs(engine(frame).astype(int) - expected)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("place", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("size", [(18, 26), (31, 20), (5, 6)], ids=str)
def test_resize_as_onnxruntime(size, place, mode, board):
    shape = (1, 11, 9, 13)
    out = (*shape[:2], *size)
    content = one_op("Resize", shape, [("sizes", np.array(out, np.int64))], ("xd", "", "", "sizes"), out,
                     mode=mode, coordinate_transformation_mode=place)  # fmt: skip
    off = levels_off(content, "resize", shape, board)
    assert off.max() <= 1 and (off > 0).mean() <= (0 if mode == "nearest" else 0.01)


@pytest.mark.parametrize("axis", [1, 3])
def test_softmax_as_onnxruntime(axis, board):
    shape = (1, 19, 6, 5)
    off = levels_off(one_op("Softmax", shape, levels=((0.0213, 100), (1 / 256, 0)), axis=axis), "softmax", shape, board)
    assert off.max() <= 1 and (off > 0).mean() <= 0.01
