"""Gathers, scatters, the largest elements, boxes, samples: native steps against NumPy references."""

import numpy as np
import pytest
from strided_steps import expected, run_op, run_strided, tables

from pipeall import ArgumentError
from pipeall.graph.ops import attributes
from pipeall.steps import TYPES

TABLE = next(iter(tables().values()))
EXTREMES = {np.int32: (-(2**31), 2**31 - 1), np.int64: (-(2**63), 2**63 - 1)}
SUM_BOUND = 1e-6  # of float32 sums of at most 64 products of numbers around 1: 64 roundings of 2^-24


def drawn(rng, dtype, shape):
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def indices(rng, shape, size, dtype):
    """Within the axis, from its end, beyond it on both sides, and as far as integers go."""
    found = rng.integers(-size, size, shape).astype(dtype)
    odd = rng.random(shape)
    found[odd < 0.1] = size + 3
    found[odd > 0.9] = -size - 3
    found.reshape(-1)[:2] = EXTREMES[dtype][: found.size]
    return found


def check_exactly(op, arrays, attrs, seeds=range(4)):
    want = expected(op, arrays, attrs)
    for seed in (None, *seeds):
        constants = () if seed is None else (1,) * (seed % 2)
        got = run_op(op, arrays, attrs, TABLE, seed=seed, constants=constants, cores=(-1,) * (1 + (seed or 0) % 3))
        np.testing.assert_array_equal(got, want.astype(got.dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_gathers_of_every_type(dtype, index_type):
    rng = np.random.default_rng(0)
    for axis in range(3):
        for shape in ((), (5,), (2, 3)):
            x = drawn(rng, dtype, (4, 6, 9))
            index = indices(rng, shape, x.shape[axis], index_type) if shape else np.array(-2, index_type)
            check_exactly("gather", (x, index), {"axis": axis})
        index = indices(rng, (3, 4, 7)[:axis] + (11,) + (3, 4, 7)[axis + 1 :], x.shape[axis], index_type)
        check_exactly("gather_elements", (x, index), {"axis": axis})


@pytest.mark.parametrize("batch, depth", [(0, 1), (0, 3), (0, 2), (1, 1), (1, 2), (2, 1)])
def test_gather_nd(batch, depth):
    rng = np.random.default_rng(1)
    x = drawn(rng, "float32", (3, 4, 5))
    shape = (*x.shape[:batch], 6, depth)
    index = np.stack([indices(rng, shape[:-1], x.shape[batch + i], np.int64) for i in range(depth)], -1)
    check_exactly("gather_nd", (x, index), {"batch_dims": batch})


def test_rows_of_an_embedding():
    """Long runs on several threads."""
    rng = np.random.default_rng(2)
    x = drawn(rng, "float32", (300, 256))
    index = indices(rng, (2, 150), 300, np.int64)
    want = expected("gather", (x, index), {"axis": 0})
    for cores in ((-1,), (-1, -1, -1)):
        got = run_op("gather", (x, index), {"axis": 0}, TABLE, seed=None, cores=cores, constants=(0,))
        np.testing.assert_array_equal(got, want.astype(np.float32))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int32", "int64"])
def test_scatters(reduction, dtype):
    rng = np.random.default_rng(3)
    x = drawn(rng, dtype, (4, 5, 6))
    if dtype == "float32":
        x = np.round(x * 4) / 4  # sums and products are exact
    for axis in range(3):
        shape = (2, 3, 4)[:axis] + (4,) + (2, 3, 4)[axis + 1 :]
        index = indices(rng, shape, x.shape[axis], np.int64)
        updates = rng.integers(-2 if dtype != "uint8" else 0, 3, shape).astype(dtype)
        check_exactly("scatter_elements", (x, index, updates), {"axis": axis, "reduction": reduction})
    for depth in (1, 2, 3):
        index = np.stack([indices(rng, (7,), x.shape[i], np.int32) for i in range(depth)], -1)
        updates = rng.integers(-2 if dtype != "uint8" else 0, 3, (7, *x.shape[depth:])).astype(dtype)
        check_exactly("scatter_nd", (x, index, updates), {"reduction": reduction})


def test_scatter_puts_elements_of_any_type():
    rng = np.random.default_rng(4)
    for dtype in TYPES:
        x, index = drawn(rng, dtype, (5, 7)), indices(rng, (5, 3), 7, np.int64)
        check_exactly("scatter_elements", (x, index, drawn(rng, dtype, (5, 3))), {"axis": 1, "reduction": "none"})


def test_scattered_nan_wins():
    x, index = np.zeros((1, 4), np.float32), np.array([[1, 1, 2]], np.int64)
    updates = np.array([[np.nan, 3, 5]], np.float32)
    for reduction in ("max", "min"):
        got = run_op("scatter_elements", (x, index, updates), {"axis": 1, "reduction": reduction}, TABLE)
        np.testing.assert_array_equal(
            got, expected("scatter_elements", (x, index, updates), {"axis": 1, "reduction": reduction})
        )


@pytest.mark.parametrize("dtype", [name for name in TYPES if name != "bool"])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(dtype, largest):
    """Many elements are equal, of floats some are NaN, infinite or a negative zero."""
    rng = np.random.default_rng(5)
    for shape, axis in (((3, 40, 2), 1), ((70,), 0), ((5, 1, 3), 1), ((4, 9), 0)):
        x = rng.integers(0 if dtype == "uint8" else -6, 7, shape).astype(dtype)
        if np.dtype(dtype).kind == "f":
            for value in (np.nan, np.inf, -np.inf, -0.0, 0.0):
                x[rng.random(shape) < 0.05] = value
        for k in {1, min(3, shape[axis]), shape[axis]}:
            for places in (False, True):
                check_exactly(
                    "topk", (x,), {"axis": axis, "k": k, "largest": largest, "indices": places}, seeds=range(2)
                )


@pytest.mark.parametrize("center_box", [True, False])
@pytest.mark.parametrize("score", [-np.inf, 0.4])
def test_nms(center_box, score):
    """Coordinates are eighths, so that overlaps are the same in float32; scores repeat, some are NaN."""
    rng = np.random.default_rng(6)
    for n, classes, count, most in ((1, 1, 40, 10), (2, 3, 33, 5), (1, 2, 7, 100), (3, 1, 1, 1)):
        boxes = (rng.integers(0, 80, (n, count, 4)) / 8).astype(np.float32)
        scores = (rng.integers(0, 20, (n, classes, count)) / 20).astype(np.float32)
        scores[rng.random(scores.shape) < 0.05] = np.nan
        attrs = {"max_output": most, "iou": 0.3, "score": score, "center_box": center_box}
        check_exactly("nms", (boxes, scores), attrs)


def test_nms_of_boxes_that_are_no_numbers():
    boxes = np.full((1, 5, 4), np.nan, np.float32)
    boxes[0, 2] = (0, 0, np.inf, np.inf)
    attrs = {"max_output": 5, "iou": 0.5, "score": 0.0, "center_box": False}
    got = run_op("nms", (boxes, np.ones((1, 1, 5), np.float32)), attrs, TABLE)
    assert got[:, 2].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_grid_sample(mode, padding, align_corners):
    rng = np.random.default_rng(7)
    for shape, out in (((2, 3, 5, 7), (4, 6)), ((1, 1, 1, 1), (3, 3)), ((1, 17, 4, 1), (2, 5))):
        x = rng.standard_normal(shape).astype(np.float32)
        grid = (rng.integers(-96, 97, (shape[0], *out, 2)) / 64 + 1 / 1024).astype(np.float32)  # far from ties
        attrs = {"mode": mode, "padding": padding, "align_corners": align_corners}
        want = expected("grid_sample", (x, grid), attrs)
        for seed in (None, 0, 1):
            got = run_op("grid_sample", (x, grid), attrs, TABLE, seed=seed, cores=(-1,) * (1 + (seed or 0)))
            np.testing.assert_allclose(got, want, atol=SUM_BOUND * 10, rtol=0)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_that_is_no_number_or_far_away(padding):
    x = np.ones((1, 2, 4, 4), np.float32)
    grid = np.zeros((1, 1, 6, 2), np.float32)
    grid[0, 0, :, 0] = (np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9)
    for mode in ("nearest", "linear", "cubic"):
        attrs = {"mode": mode, "padding": padding, "align_corners": False}
        got = run_op("grid_sample", (x, grid), attrs, TABLE)
        np.testing.assert_allclose(got, expected("grid_sample", (x, grid), attrs), atol=1e-5)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2, 3])
@pytest.mark.parametrize("half_pixel", [True, False])
def test_roi_align(mode, ratio, half_pixel):
    rng = np.random.default_rng(8)
    x = rng.standard_normal((2, 5, 9, 8)).astype(np.float32)
    corners = np.sort(rng.integers(-16, 96, (6, 2, 2)) / 8 + 1 / 64, axis=1)
    rois = corners.reshape(6, 4).astype(np.float32)
    rois[5] = (np.nan, 3, np.inf, 1e30)
    batch = np.array([0, 1, -1, 7, -9, 1])
    attrs = attributes(
        "roi_align", mode=mode, size=(3, 2), sampling_ratio=ratio, spatial_scale=0.5, half_pixel=half_pixel
    )
    with np.errstate(all="ignore"):
        want = expected("roi_align", (x, rois, batch), attrs)
    for seed in (None, 0, 1):
        got = run_op("roi_align", (x, rois, batch), attrs, TABLE, seed=seed, cores=(-1,) * (1 + (seed or 0)))
        np.testing.assert_allclose(got, want, atol=SUM_BOUND * 10, rtol=0)


@pytest.mark.parametrize("column_major", [True, False])
def test_places_of_maxima_and_back(column_major):
    rng = np.random.default_rng(9)
    x = rng.integers(-3, 4, (2, 3, 7, 8)).astype(np.float32)
    x[0, 0, :4, :4] = np.nan
    x[1, 1] = -np.inf
    attrs = attributes("maxpool", kernel=(3, 2), strides=(2, 1), pads=(1, 0, 1, 1), dilations=(1, 2), ceil=True)
    check_exactly("maxpool_indices", (x,), attrs | {"column_major": column_major})
    for dtype in TYPES:
        back = indices(rng, (2, 3, 3, 3), 2 * 3 * 7 * 8, np.int64)
        check_exactly("max_unpool", (drawn(rng, dtype, (2, 3, 3, 3)), back), {"shape": (2, 3, 7, 8)})


@pytest.mark.parametrize(
    "image, block, strides, dilations, pads",
    [
        ((5, 6), (2, 3), (1, 1), (1, 1), (0, 0, 0, 0)),
        ((7, 8), (3, 2), (2, 1), (1, 3), (1, 0, 2, 1)),
        ((9,), (3,), (2,), (2,), (1, 1)),
        ((3, 4, 5), (2, 2, 2), (1, 2, 1), (1, 1, 2), (0, 1, 0, 1, 0, 2)),
    ],
)
def test_col2im(image, block, strides, dilations, pads):
    rng, rank = np.random.default_rng(10), len(image)
    reach = [n + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1 for i, n in enumerate(image)]
    positions = np.prod([n // s + 1 for n, s in zip(reach, strides, strict=True)])
    x = (rng.integers(-9, 10, (2, 3 * np.prod(block), positions)) / 4).astype(np.float32)  # sums are exact
    check_exactly("col2im", (x,), dict(image=image, block=block, strides=strides, dilations=dilations, pads=pads))


FLOATS, WHOLE = np.zeros((4, 5), np.float32), np.zeros((4, 5), np.int64)
GRID, BOX = np.zeros((1, 2, 2, 2), np.float32), np.zeros((1, 3, 4), np.float32)


@pytest.mark.parametrize(
    "kind, arrays, params, out, message",
    [
        ("gather", (FLOATS, WHOLE), {"axis": 2}, (4, 4, 5), "an axis below 2"),
        ("gather", (FLOATS, WHOLE), {"axis": 0}, (4, 5), "output of shape"),
        ("gather", (FLOATS, FLOATS), {"axis": 0}, (4, 5, 5), "indices of int32 or int64"),
        ("gather_elements", (FLOATS, WHOLE[:, :3]), {"axis": 0}, (4, 5), "elements of shape"),
        ("gather_elements", (FLOATS[:2], WHOLE), {"axis": 1}, (4, 5), "indices that fit"),
        ("gather_nd", (FLOATS, WHOLE), {"batch_dims": 0}, (4,), "tuples of indices"),
        ("scatter_elements", (FLOATS, WHOLE, FLOATS), {"axis": 0, "reduction": "mean"}, (4, 5), "one of none, add"),
        ("scatter_nd", (FLOATS, WHOLE[:, :1], FLOATS[:2]), {"reduction": "add"}, (4, 5), "elements of shape"),
        ("topk", (FLOATS,), {"axis": 1, "k": 6, "largest": True, "indices": False}, (4, 6), "1 to 5 elements"),
        ("nms", (BOX, BOX), {"max_output": 1, "iou": 0, "score": 0, "center_box": False}, (3, 3), "boxes of shape"),
        ("grid_sample", (GRID, GRID), {"mode": "linear", "padding": "wrap", "align_corners": 0}, GRID.shape,
         "zeros, border"),
        ("max_unpool", (FLOATS, WHOLE[:3]), {"shape": (9,)}, (9,), "indices of shape"),
        ("col2im", (BOX,), dict(image=(2,), block=(3,), strides=(1,), dilations=(1,), pads=(0, 0)),
         (1, 1, 2), "blocks"),
    ],
)  # fmt: skip
def test_steps_that_do_not_fit_are_refused(kind, arrays, params, out, message):
    with pytest.raises(ArgumentError, match=f"step node \\({kind}\\): expected .*{message}"):
        run_strided(kind, arrays, params, out, "int64" if kind == "nms" else "float32", TABLE)
