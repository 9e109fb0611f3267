"""Resizing: native steps on strided operands against float64 references, on every instruction set."""

from itertools import product

import numpy as np
import pytest
from strided_steps import expected, run_strided, tables

from pipeall import ArgumentError
from pipeall.graph.ops import attributes
from pipeall.graph.ops.sampling_ops import taps
from pipeall.steps import TYPES

ROUNDING = 2.0**-24  # of float32, relative
TABLES = tables()


def resize_attrs(shape, sizes, **given):
    scales = tuple(out / size for size, out in zip(shape, sizes, strict=True))
    return attributes("resize", sizes=tuple(sizes), scales=scales, **given)


def step_params(attrs, shape):
    """What the lowering gives the step: taps of the axes that change."""
    found = {}
    for axis, size in enumerate(shape):
        if attrs["sizes"][axis] != size:
            indices, weights = taps(attrs, axis, size)
            found[axis] = (indices.astype(np.int32), weights.astype(np.float32))
    return {"taps": found}


def bound(x, params):
    """Each axis rounds its weights and at most every product and sum once; the sums grow by the weights' sizes."""
    growth, roundings = 1.0, 0
    for _, weights in params["taps"].values():
        growth *= np.abs(weights).sum(1).max()
        roundings += 2 + weights.shape[1]
    return roundings * growth * ROUNDING * np.abs(x).max() * 2


def check(shape, sizes, table, threads=(1, 3), seeds=(None, 0, 1), **given):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    attrs = resize_attrs(shape, sizes, **given)
    params, want = step_params(attrs, shape), expected("resize", (x,), attrs)
    for seed in seeds:
        one, *others = (
            run_strided("resize", (x,), params, sizes, "float32", table, seed=seed, cores=(-1,) * n) for n in threads
        )
        np.testing.assert_allclose(one, want, atol=bound(x, params), rtol=0)
        for other in others:
            np.testing.assert_array_equal(one, other)
    return one


SIZES = (
    ((1, 3, 5, 7), (1, 3, 10, 14)),
    ((1, 5, 7, 17), (1, 10, 14, 17)),  # channels last
    ((2, 1, 8, 8), (2, 1, 3, 20)),
    ((1, 9, 11, 64), (1, 40, 33, 64)),
    ((1, 2, 6, 300), (1, 2, 13, 300)),  # one axis before a long run
    ((1, 2, 6, 5), (1, 2, 13, 5)),
    ((3, 4, 9), (3, 4, 31)),
    ((1, 2, 3, 4, 5), (1, 2, 6, 7, 3)),  # three axes
    ((1, 3, 4, 5, 16), (1, 6, 7, 3, 16)),
    ((1, 1, 1, 1), (1, 1, 4, 5)),
    ((2, 3), (5, 4)),
    ((1, 2, 9, 40), (1, 2, 18, 80)),  # twice and four times as wide: taps that repeat
    ((1, 1, 7, 33), (1, 1, 28, 132)),
    ((1, 5, 7, 19), (1, 10, 14, 19)),  # both passes in one: a vector over another, one block of pixels and several
    ((1, 3, 40, 80), (1, 12, 160, 80)),
    ((1, 4, 90, 16), (1, 11, 180, 16)),
    ((3, 1500), (6, 3000)),  # in several parts
    ((1, 1, 40, 70), (1, 1, 20, 35)),  # planes, of which pixels are picked from one vector, from two or one by one
    ((2, 50, 33), (2, 20, 70)),
    ((2, 9, 200), (2, 40, 50)),
    ((1, 5, 1), (1, 9, 40)),
    ((2, 40, 50), (2, 160, 200)),  # planes that grow: across first, in one go, in several, and too wide for it
    ((1, 70, 150), (1, 300, 600)),
    ((1, 9, 300), (1, 40, 900)),
)


@pytest.mark.parametrize("isa", TABLES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_every_mode(mode, isa):
    for shape, sizes in SIZES:
        check(shape, sizes, TABLES[isa], mode=mode)


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
def test_coordinates_and_antialias(coordinates):
    table = next(iter(TABLES.values()))
    for shape, sizes in SIZES:
        check(shape, sizes, table, mode="linear", coordinates=coordinates, seeds=(2,))
        check(shape, sizes, table, mode="cubic", coordinates=coordinates, exclude_outside=True, seeds=(3,))
    for sizes in ((1, 3, 4, 5), (1, 3, 40, 5), (1, 3, 31, 17)):
        check((1, 3, 32, 29), sizes, table, mode="linear", coordinates=coordinates, antialias=True, seeds=(None, 4))
        check((1, 3, 32, 29), sizes, table, mode="cubic", coordinates=coordinates, antialias=True, seeds=(None, 4))


def test_instruction_sets_give_the_same_bits():
    for (shape, sizes), mode, seed in product(SIZES, ("linear", "cubic"), (None, 5)):
        one, *others = (check(shape, sizes, table, mode=mode, seeds=(seed,)) for table in TABLES.values())
        for other in others:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", TYPES)
def test_nearest_moves_every_type(dtype):
    rng = np.random.default_rng(1)
    for shape, sizes in SIZES:
        x = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
        attrs = resize_attrs(shape, sizes, mode="nearest", coordinates="asymmetric", rounding="floor")
        for seed in (None, 0, 1):
            got = run_strided(
                "resize", (x,), step_params(attrs, shape), sizes, dtype, next(iter(TABLES.values())), seed=seed
            )
            np.testing.assert_array_equal(got, expected("resize", (x,), attrs).astype(dtype))


def test_rows_in_any_order():
    """Taps that no mode has: rows far apart, the same one twice, and back."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, 5, 3)).astype(np.float32)
    given = {
        axis: (rng.integers(0, x.shape[axis], (n, k)).astype(np.int32), rng.standard_normal((n, k)).astype(np.float32))
        for axis, n, k in ((0, 40, 3), (1, 7, 2))
    }
    want = x.astype(np.float64)
    for axis, (indices, weights) in given.items():
        along = np.moveaxis(want, axis, 0)
        want = np.moveaxis((along[indices] * weights.reshape(*weights.shape, 1, 1)).sum(1), 0, axis)
    for table in TABLES.values():
        got = run_strided("resize", (x,), {"taps": given}, want.shape, "float32", table)
        np.testing.assert_allclose(got, want, atol=bound(x, {"taps": given}), rtol=0)


def pairs(rng, count, size, apart=1):
    """Two taps of each position, rising."""
    first = np.sort(rng.integers(0, size - apart, count))
    return np.stack([first, first + apart], 1).astype(np.int32), rng.standard_normal((count, 2)).astype(np.float32)


@pytest.mark.parametrize("rows", ["far apart", "falling"])
def test_rows_of_planes_that_grow(rows):
    """Of which across first wants few neighbours, rising."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((12, 40)).astype(np.float32)
    indices, weights = pairs(rng, 90, 12, apart=9 if rows == "far apart" else 1)
    given = {0: (indices if rows == "far apart" else indices[::-1], weights), 1: pairs(rng, 70, 40)}
    want = x.astype(np.float64)
    for axis, (indices, weights) in given.items():
        want = np.moveaxis((np.moveaxis(want, axis, 0)[indices] * weights[..., None]).sum(1), 0, axis)
    for table in TABLES.values():
        got = run_strided("resize", (x,), {"taps": given}, want.shape, "float32", table)
        np.testing.assert_allclose(got, want, atol=bound(x, {"taps": given}), rtol=0)


@pytest.mark.parametrize("shape", [(8, 20), (8, 9, 16)], ids=["planes", "channels last"])
@pytest.mark.parametrize("other", ["weight", "index"])
def test_one_pixel_unlike_the_others(shape, other):
    """Of rows that grow twice, whose taps repeat but for it."""
    sizes = (2 * shape[0], 2 * shape[1], *shape[2:])
    given = step_params(resize_attrs(shape, sizes, mode="linear"), shape)["taps"]
    indices, weights = given[1]
    if other == "weight":
        weights[11] *= 2
    else:
        indices[11] -= 1
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    want = x.astype(np.float64)
    for axis, (indices, weights) in given.items():
        along = np.moveaxis(want, axis, 0)[indices]
        want = np.moveaxis((along * weights.reshape(*weights.shape, *(1,) * (x.ndim - 1))).sum(1), 0, axis)
    for table in TABLES.values():
        got = run_strided("resize", (x,), {"taps": given}, sizes, "float32", table, seed=None)
        np.testing.assert_allclose(got, want, atol=bound(x, {"taps": given}), rtol=0)


GOOD = (np.zeros((4, 2), np.int32), np.ones((4, 2), np.float32))


@pytest.mark.parametrize(
    "given, dtype, message",
    [
        ({0: (GOOD[0] + 2, GOOD[1])}, "float32", "indices below 2 along axis 0"),
        ({0: (GOOD[0] - 1, GOOD[1])}, "float32", "indices below 2 along axis 0"),
        ({0: (GOOD[0][:3], GOOD[1][:3])}, "float32", "taps of 4 positions"),
        ({0: (GOOD[0], GOOD[1][:, :1])}, "float32", "taps of 4 positions"),
        ({2: GOOD}, "float32", "taps of axes below 2"),
        ({}, "float32", "axis 0 of 2"),
        ({0: GOOD}, "int32", "float32, where taps have weights"),
    ],
)
def test_taps_that_do_not_fit_are_refused(given, dtype, message):
    with pytest.raises(ArgumentError, match=f"step node \\(resize\\): expected .*{message}"):
        run_strided("resize", (np.zeros((2, 3), dtype),), {"taps": given}, (4, 3), dtype, next(iter(TABLES.values())))
