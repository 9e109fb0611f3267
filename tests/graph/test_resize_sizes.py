"""Resize at ties, with scales that leave part of a pixel, and to sizes that a file computes: as onnxruntime."""

import numpy as np
import pytest
from onnx import helper
from onnx_models import model, run, saved

from pipeall import Engine, load

PLACES = ("half_pixel", "half_pixel_symmetric", "asymmetric", "pytorch_half_pixel", "align_corners")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
# 20 -> 6, 50 -> 15, 28 -> 2: float32 has a place a little off the middle, on either side of it
SIZES = (
    (20, 6),
    (50, 15),
    (28, 2),
    (30, 35),
    (44, 26),
    (13, 8),
    (56, 32),
    (7, 14),
    (9, 4),
    (5, 1),
    (1, 4),
    (5, 7),
    (13, 7),
    (67, 67),
)


def line(size):
    return np.arange(size, dtype=np.float32).reshape(1, 1, 1, size)


def resized(tmp_path, x, limit=0.0, **attrs):
    how = {name: attrs.pop(name) for name in ("scales", "sizes") if name in attrs}
    operands = ["x", "", "scales"] if "scales" in how else ["x", "", "", "sizes"]
    proto = model([helper.make_node("Resize", operands, ["y"], **attrs)], {"x": x.shape}, ["y"], how)
    expected = run(proto, {"x": x})["y"]
    graph = load(saved(proto, tmp_path))
    if not graph.nodes:
        pytest.fail("nothing is left")
    with Engine(graph, "big") as engine:
        np.testing.assert_allclose(engine(x), expected, rtol=0, atol=limit)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("place", PLACES)
def test_the_nearest_element(place, rounding, tmp_path):
    for size, out in SIZES[:-1]:
        given = dict(mode="nearest", coordinate_transformation_mode=place, nearest_mode=rounding)
        resized(tmp_path, line(size), sizes=np.array([1, 1, 1, out]), **given)
        resized(tmp_path, line(size), scales=np.array([1, 1, 1, out / size], np.float32), **given)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("place", PLACES)
def test_scales_that_leave_part_of_a_pixel(place, mode, tmp_path):
    for size, scale in ((9, 0.5), (9, 1.7), (7, 2.9), (4, 0.6), (11, 0.3)):
        given = dict(mode=mode, coordinate_transformation_mode=place)
        limit = 1e-5 * size  # places of float32
        resized(tmp_path, line(size), limit, scales=np.array([1, 1, 1, scale], np.float32), **given)


def test_no_pixel_more_is_no_resizing(tmp_path):
    node = helper.make_node("Resize", ["n", "", "s"], ["y"], mode="linear")
    proto = model([helper.make_node("Neg", ["x"], ["n"]), node], {"x": (1, 1, 1, 67)}, ["y"],
                  {"s": np.array([1, 1, 1, 1.0134], np.float32)})  # fmt: skip
    (expected,) = run(proto, {"x": line(67)}).values()
    graph = load(saved(proto, tmp_path))
    with Engine(graph, "big") as engine:
        assert np.array_equal(engine(line(67)), expected)
    assert [node.op for node in graph.nodes] == ["neg"]


@pytest.mark.parametrize("factor", [0.29, 0.57, 1.1, 2.3, 0.07])
@pytest.mark.parametrize("exact", [np.float32, np.float64])
def test_sizes_of_the_precision_that_computes_them(exact, factor, tmp_path):
    """100 times 0.29 is 29 in float32, below 29 in float64."""
    to = helper.np_dtype_to_tensor_dtype(np.dtype(exact))
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "two", "four"], ["hw"]),
        helper.make_node("Cast", ["hw"], ["d"], to=to),
        helper.make_node("Mul", ["d", "factor"], ["m"]),
        helper.make_node("Floor", ["m"], ["f"]),
        helper.make_node("Cast", ["f"], ["i"], to=7),
        helper.make_node("Slice", ["s", "zero", "two"], ["nc"]),
        helper.make_node("Concat", ["nc", "i"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    constants = {name: np.array([i]) for name, i in (("zero", 0), ("two", 2), ("four", 4))}
    proto = model(nodes, {"x": (1, 1, 100, 90)}, ["y"], constants | {"factor": exact(factor)})
    graph = load(saved(proto, tmp_path))
    (tensor,) = graph.outputs
    assert tensor.shape[2:] == tuple(int(np.floor(exact(size) * exact(factor))) for size in (100, 90))
    x = np.random.default_rng(0).standard_normal((1, 1, 100, 90)).astype(np.float32)
    assert run(proto, {"x": x})["y"].shape == tensor.shape


def test_a_double_that_float32_cannot_hold_is_refused_where_it_is_kept(tmp_path):
    proto = model([helper.make_node("Mul", ["x", "k"], ["y"])], {"x": (2,)}, ["y"], {"k": np.array([1e300])})
    with pytest.raises(Exception, match="constant 'k' has values beyond float32"):
        load(saved(proto, tmp_path))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 1.5, 0.7), (1, 1, 0.5, 0.5)])
def test_integers_between_elements_are_rounded_towards_0(scales, dtype, tmp_path):
    """What quantize_static writes. A weight of float32 may put a sum that is whole on the other side of it: one off."""
    x = np.random.default_rng(0).integers(-100 if dtype != np.uint8 else 0, 120, (1, 3, 8, 10)).astype(dtype)
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    proto = model([node], {"x": x.shape}, ["y"], {"s": np.array(scales, np.float32)}, types={"x": dtype, "y": dtype})
    expected = run(proto, {"x": x})["y"].astype(int)
    with Engine(load(saved(proto, tmp_path)), "big") as engine:
        got = engine(x)
    assert got.dtype == dtype
    off = np.abs(got.astype(int) - expected)
    assert off.max() <= 1 and (off > 0).mean() < 0.02


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [(4, 5), (12, 20), (3, 10), (5, 14)])
def test_bytes_are_smoothed_by_rows_then_columns_and_rounded_each_time(sizes, mode, tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (1, 3, 8, 10)).astype(np.uint8)
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1)
    to = {"s": np.array((1, 3, *sizes), np.int64)}
    proto = model([node], {"x": x.shape}, ["y"], to, types={"x": np.uint8, "y": np.uint8})
    expected = run(proto, {"x": x})["y"].astype(int)
    with Engine(load(saved(proto, tmp_path)), "big") as engine:
        off = np.abs(engine(x).astype(int) - expected)
    assert off.max() <= 1 and (off > 0).mean() < 0.02  # half between two levels, but for the weights' rounding
