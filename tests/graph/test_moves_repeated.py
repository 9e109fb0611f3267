"""Elements that are read more than once: padding that repeats or mirrors, tiles, expansions, and what follows them."""

import numpy as np
import pytest
from onnx import helper
from onnx_models import model, run, saved

from pipeall import Engine, load

IMAGE = (1, 4, 7, 6)
ULPS = 1e-5  # of the largest value: sums of some 36 products in float32


def agrees(proto, tmp_path, x, tolerance=0.0):
    (expected,) = run(proto, {"x": x}).values()
    graph = load(saved(proto, tmp_path))
    with Engine(graph, "big") as engine:
        got = engine(x)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= tolerance * np.abs(expected).max()
    return graph


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("reader", ["Conv", "grouped", "AveragePool", "MaxPool", "ConvTranspose"])
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "constant"])
def test_padding_of_each_mode_before_windows(mode, reader, tmp_path):
    window = {"kernel_shape": [3, 3], "strides": [1, 2]}
    operands, more = ["p"], {}
    if reader not in ("AveragePool", "MaxPool"):
        operands.append("w")
        more = {"group": 4 if reader == "grouped" else 1}
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"], mode=mode),
        helper.make_node({"grouped": "Conv"}.get(reader, reader), operands, ["y"], **window, **more),
    ]
    pads = np.array([0, 0, 2, 1, 0, 0, 1, 3], np.int64)
    weights = numbers(4, 1 if reader == "grouped" else 4, 3, 3)
    proto = model(nodes, {"x": IMAGE}, ["y"], {"pads": pads} | ({"w": weights} if len(operands) > 1 else {}))
    agrees(proto, tmp_path, numbers(*IMAGE), ULPS)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("begin, end", [(1, 1), (3, 3), (0, 7), (9, 2)])
def test_padding_wider_than_the_axis_goes_on_in_its_way(mode, size, begin, end, tmp_path):
    """As NumPy pads, where onnxruntime refuses."""
    pads = np.array([0, begin, 1, 0, end, 0], np.int64)
    proto = model(
        [helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)], {"x": (2, size, 3)}, ["y"], {"pads": pads}
    )
    x = numbers(2, size, 3)
    with Engine(load(saved(proto, tmp_path)), "big") as engine:
        assert np.array_equal(engine(x), np.pad(x, ((0, 0), (begin, end), (1, 0)), mode))


AFTER = {
    "Relu": {}, "Tanh": {}, "HardSigmoid": {}, "Sqrt": {}, "Floor": {}, "Softmax": {"axis": -1}, "Neg": {},
    "Identity": {},
}  # fmt: skip
REPEATED = {
    "expand the first of two": (("Expand", (1, 48), [3, 48]),),
    "expand the first of three": (("Expand", (1, 30, 4), [5, 30, 4]),),
    "expand two": (("Expand", (1, 1, 4), [5, 3, 4]),),
    "expand the last": (("Expand", (5, 4, 1), [5, 4, 3]),),
    "expand a pixel": (("Expand", (1, 30, 1, 1), [1, 30, 4, 5]),),
    "expand a channel": (("Expand", (1, 1, 8, 6), [1, 3, 8, 6]),),
    "expand images": (("Expand", (1, 4, 8, 6), [3, 4, 8, 6]),),
    "tile the first": (("Tile", (1, 4, 6), [3, 1, 1]),),
    "tile a channel": (("Tile", (1, 1, 8, 6), [1, 3, 1, 1]),),
    "gather the same": (("Gather", (1, 48), [0, 0, 0]),),
    "gather the same of several": (("Gather", (3, 48), [1, 1]),),
}


@pytest.mark.parametrize("op", AFTER)
@pytest.mark.parametrize("repeated", REPEATED)
def test_a_function_of_what_is_repeated(repeated, op, tmp_path):
    ((first, shape, by),) = REPEATED[repeated]
    nodes = [helper.make_node(first, ["x", "by"], ["r"]), helper.make_node(op, ["r"], ["y"], **AFTER[op])]
    proto = model(nodes, {"x": shape}, ["y"], {"by": np.array(by, np.int64)})
    agrees(proto, tmp_path, np.abs(numbers(*shape)) + 0.25, ULPS)


@pytest.mark.parametrize(
    "shape, repeats",
    [
        ((1, 2, 2, 3, 2, 1), (1, 2, 2, 2, 1, 1)),
        ((2, 2, 2, 2, 2, 2), (2, 3, 2, 1, 2, 2)),
        ((2, 1, 2, 1, 2, 1, 2, 1), (1, 2, 2, 1, 3, 1, 1, 2)),
        ((2,) * 8, (1, 1, 2, 1, 1, 1, 1, 3)),
    ],
)
def test_tiles_along_many_axes(shape, repeats, tmp_path):
    proto = model(
        [helper.make_node("Tile", ["x", "k"], ["y"])], {"x": shape}, ["y"], {"k": np.array(repeats, np.int64)}
    )
    agrees(proto, tmp_path, numbers(*shape))


@pytest.mark.parametrize("op, shape, out", [("Squeeze", (1, 3, 1, 2), (3, 2)), ("Unsqueeze", (3, 2), (3, 2))])
def test_an_empty_list_of_axes(op, shape, out, tmp_path):
    nodes = [helper.make_node(op, ["x", "a"], ["s"]), helper.make_node("Neg", ["s"], ["y"])]
    graph = agrees(model(nodes, {"x": shape}, ["y"], {"a": np.zeros(0, np.int64)}), tmp_path, numbers(*shape))
    assert graph.outputs[0].shape == out
