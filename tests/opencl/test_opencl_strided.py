"""OpenCL's pointwise ops and those along axes, on strided operands: against NumPy in float64 or exact integers."""

from math import inf, prod

import numpy as np
import pytest
from strided_memory import U, close, computed, drawn

from pipeall._kernels.cpu import kernels
from pipeall._kernels.opencl.reduce_cl import REDUCTIONS, WHOLE_REDUCTIONS
from pipeall.graph.ops import reduction_ops
from pipeall.graph.pointwise import BINARY, INTEGERS, UNARY

# ---- pointwise ----

SHAPE = (3, 5, 1, 7, 2)
# Largest errors of OpenCL 1.2's functions, in ulp (section 7.4); an ulp is at most 2 U of the result
ULP = dict(
    sqrt=3, exp=3, log=3, sin=4, cos=4, tan=5, asin=4, acos=4, atan=5, sinh=4, cosh=4, asinh=4, acosh=4, atanh=5,
    tanh=5, erf=16, reciprocal=2.5, div=2.5, pow=16, softsign=4, rdiv=2.5, rpow=16,
)  # fmt: skip
EXACT = {"clip", "abs", "neg", "sign", "floor", "ceil", "round", "thresholdedrelu", "max", "min", "fmod"}


def pointwise_bound(op, expected, operands):
    """Composed functions: a dozen operations on values up to |x| + 1, of which erf is the least exact (16 ulp)."""
    size = np.abs(expected)
    if op in EXACT:
        return 0 * size
    if op in ULP:
        return 2 * U * ULP[op] * size
    return 48 * U * (sum(np.abs(x) for x in operands) + size + 1)


@pytest.mark.parametrize(
    "op, dtype, sample",
    [(op, dtype, sample) for op, entry in UNARY.items() for dtype in entry.takes for sample in entry.samples],
)
def test_unary(op, dtype, sample, device):
    entry = UNARY[op]
    x = drawn(np.random.default_rng(3), SHAPE, dtype, entry.domain)
    p0, p1 = (*sample, 0.0, 0.0)[:2]
    out = entry.gives or dtype
    got = computed(device, "pointwise", [x], (SHAPE, out), op=op, p0=p0, p1=p1)
    exact = x.astype(np.float64) if dtype == "float32" else x
    inside = np.iinfo(dtype) if dtype in INTEGERS else None
    if op == "clip" and inside:
        expected = np.clip(x.astype(int), np.ceil(max(p0, inside.min)), np.floor(min(p1, inside.max)))
    else:
        expected = entry.compute(exact, *map(np.float32, sample))
    close(got, expected, pointwise_bound(op, np.asarray(expected, float), [exact]) if out == "float32" else 0)


def test_unary_of_what_is_no_number(device, some):
    x = np.array([[np.nan, inf, -inf, 0, 5]], np.float32)
    for op, expected in {"isnan": [1, 0, 0, 0, 0], "isinf": [0, 1, 1, 0, 0]}.items():
        got = computed(device, "pointwise", [x], (x.shape, "bool"), op=op, p0=1.0, p1=1.0)
        np.testing.assert_array_equal(got, [np.array(expected, bool)])
    for op in some(op for op, entry in UNARY.items() if entry.floats):
        got = computed(device, "pointwise", [x], (x.shape, "float32"), op=op, p0=0.5, p1=6.0)
        assert np.isnan(got[0, 0]), op


@pytest.mark.parametrize(
    "op, dtype",
    [(name, dtype) for op, entry in BINARY.items() for name in (op, entry.swapped) if name for dtype in entry.takes],
)
@pytest.mark.parametrize("how", ["alike", "broadcast", "constant"])
def test_binary(op, dtype, how, device):
    swapped = next((base for base, entry in BINARY.items() if entry.swapped == op), None)
    entry, rng = BINARY[swapped or op], np.random.default_rng(5)
    a = drawn(rng, SHAPE, dtype)
    b = drawn(rng, SHAPE if how == "alike" else (1, 5, 1, 1, 2), dtype)
    first, second = (b, a) if swapped else (a, b)
    first[...] = np.clip(first, *(max(min(edge, 9), -9) for edge in entry.domain)) if dtype == "float32" else first
    if op.startswith("shift"):
        second[...] = np.abs(second) % 8
    out = entry.gives or dtype
    sources = [a, np.broadcast_to(b, SHAPE)]
    got = computed(device, "pointwise", sources, (SHAPE, out), constants=(1,) if how == "constant" else (), op=op)
    exact = [x.astype(np.float64) if dtype == "float32" else x for x in (first, second)]
    with np.errstate(all="ignore"):
        expected = entry.compute(*exact)
    bound = pointwise_bound(swapped or op, np.asarray(expected, float), exact) if out == "float32" else 0
    close(got, np.broadcast_to(expected, SHAPE), bound)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_clamp(dtype, device):
    a, b = (drawn(np.random.default_rng(seed), SHAPE, dtype) for seed in (1, 2))
    got = computed(device, "pointwise", [a, b], (SHAPE, dtype), op="add", lo=0.5, hi=6.0)
    lo = 0.5 if dtype == "float32" else 1
    close(got, np.clip(a + b, lo, 6), 0)  # a + b is one rounded operation


def test_integers_wrap_around_and_divide_by_zero(device):
    a = np.array([[127, -128, -128, 100, 5]], np.int8)
    b = np.array([[1, -1, -1, 100, 0]], np.int8)
    expected = {"add": [-128, 127, 127, -56, 5], "div": [127, -128, -128, 1, 0], "mod": [0, 0, 0, 0, 0]}
    for op, values in expected.items():
        got = computed(device, "pointwise", [a, b], (a.shape, "int8"), op=op)
        np.testing.assert_array_equal(got[0], values)
    got = computed(device, "pointwise", [a, b], (a.shape, "int8"), op="add", lo=0.0, hi=inf)
    np.testing.assert_array_equal(got[0], [0, 127, 127, 0, 5])
    a = np.array([[np.iinfo(np.int64).min, 7]])
    got = computed(device, "pointwise", [a, np.array([[-1, 0]])], (a.shape, "int64"), op="div")
    np.testing.assert_array_equal(got[0], [np.iinfo(np.int64).min, 0])


TYPES = ["float32", "float16", "int8", "uint8", "int32", "int64", "bool"]


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_cast(source, target, device):
    x = (np.random.default_rng(7).uniform(-3, 3, SHAPE) * (1 if source == "bool" else 30)).astype(source)
    if target == "uint8":
        x = np.abs(x) if source != "bool" else x
    got = computed(device, "pointwise", [x], (SHAPE, target), op="cast")
    np.testing.assert_array_equal(got, x.astype(target))


def test_cast_of_what_the_type_lacks(device):
    x = np.array([[np.nan, inf, -inf, 1e20, -1e20, 300, -1.9, 1.9]], np.float32)
    most, least = np.iinfo(np.int32).max, np.iinfo(np.int32).min
    for dtype, expected in {
        "int32": [0, most, least, most, least, 300, -1, 1],
        "uint8": [0, 255, 0, 255, 0, 255, 0, 1],
        "bool": [1, 1, 1, 1, 1, 1, 1, 1],
    }.items():
        np.testing.assert_array_equal(computed(device, "pointwise", [x], (x.shape, dtype), op="cast")[0], expected)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_where(dtype, device):
    rng = np.random.default_rng(2)
    condition = np.broadcast_to(rng.integers(0, 2, (3, 1, 1, 7, 1)).astype(bool), SHAPE)
    a, b = drawn(rng, SHAPE, dtype), np.broadcast_to(drawn(rng, (1, 1, 1, 1, 1), dtype), SHAPE)
    got = computed(device, "pointwise", [condition, a, b], (SHAPE, dtype), constants=(2,), op="where")
    np.testing.assert_array_equal(got, np.where(condition, a, b))


def test_eight_axes(device):
    shape = (2, 3, 2, 2, 3, 2, 2, 3)
    a, b = drawn(np.random.default_rng(1), shape, "float32"), drawn(np.random.default_rng(2), shape, "float32")
    close(computed(device, "pointwise", [a, b], (shape, "float32"), op="mul"), a * b, 0)


# ---- along axes ----

ALONG = [
    ((4, 6), (1,)),
    ((4, 6), (0,)),
    ((3, 5, 7), (0, 2)),
    ((2, 3, 4, 5, 2), (1, 2, 4)),
    ((3, 300), (1,)),
    ((700,), (0,)),
]
REDUCE = {
    "sum": lambda x, axes: x.sum(axes),
    "mean": lambda x, axes: x.mean(axes),
    "max": lambda x, axes: x.max(axes),
    "min": lambda x, axes: x.min(axes),
    "prod": lambda x, axes: x.prod(axes),
    "l1": lambda x, axes: np.abs(x).sum(axes),
    "l2": lambda x, axes: np.sqrt((x * x).sum(axes)),
    "sumsquare": lambda x, axes: (x * x).sum(axes),
    "logsum": lambda x, axes: np.log(x.sum(axes)),
    "logsumexp": lambda x, axes: np.log(np.exp(x).sum(axes)),
}


def test_every_device_has_every_reduction():
    assert set(reduction_ops.HOW) == set(kernels.REDUCTIONS) == set(REDUCTIONS)
    assert WHOLE_REDUCTIONS == set(REDUCTIONS) - set(reduction_ops.FLOAT_ONLY)


@pytest.mark.parametrize("how", REDUCE)
@pytest.mark.parametrize("shape, axes", ALONG, ids=str)
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
def test_reduce(how, shape, axes, keepdims, parameters, request):
    """A sum of n terms is within (n + 2) U of the sum of their sizes; functions add what they err by, 3 ulp."""
    x = drawn(
        np.random.default_rng(4), shape, "float32", {"logsum": (0.5, 4), "prod": (0.9, 1.1)}.get(how, (-1.2, 1.2))
    )
    exact = x.astype(np.float64)
    expected = REDUCE[how](exact, axes)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    out = kept if keepdims else expected.shape
    device = request.getfixturevalue(parameters)
    got = computed(device, "reduce", [x], (out, "float32"), how=how, axes=axes, keepdims=keepdims)
    n = prod(shape[axis] for axis in axes)
    terms = REDUCE["sumsquare" if how in ("l2", "sumsquare") else "l1"](exact, axes)
    bound = {
        "max": 0,
        "min": 0,
        "prod": n * U * np.abs(expected),
        "mean": (n + 8) * U * terms / n,
        "l2": (n + 8) * U * np.abs(expected),
        "logsum": (n + 8) * U * (1 + np.abs(expected)),
        "logsumexp": (n + 16) * U * (1 + np.abs(expected)),
    }.get(how, (n + 2) * U * terms)
    close(got, expected.reshape(out), np.reshape(bound + 0 * expected, out))


@pytest.mark.parametrize("how", ["sum", "prod", "max", "min", "l1", "sumsquare"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_reduce_of_integers(how, dtype, device):
    x = np.random.default_rng(4).integers(-3, 4, (3, 4, 5)).astype(dtype)
    got = computed(device, "reduce", [x], ((3, 5), dtype), how=how, axes=(1,), keepdims=False)
    np.testing.assert_array_equal(got, REDUCE[how](x, 1))


def test_extremes_of_what_is_no_number(device):
    x = np.array([[1, np.nan, 3], [-inf, -inf, -inf], [inf, 0, -inf]], np.float32)
    options = dict(axes=(1,), keepdims=False)
    for how, expected in {
        "max": [np.nan, -inf, inf],
        "min": [np.nan, -inf, -inf],
        "logsumexp": [np.nan, -inf, inf],
    }.items():
        close(computed(device, "reduce", [x], ((3,), "float32"), how=how, **options), np.array(expected), 0)
    for how, expected in {"max": [1, 0, 0], "min": [1, 0, 2]}.items():
        got = computed(device, "arg", [x], ((3,), "int64"), how=how, axis=1, keepdims=False, last=False)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("how", ["max", "min"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_arg(how, last, axis, dtype, device):
    x = np.random.default_rng(4).integers(-2, 3, (4, 9, 5)).astype(dtype)  # many are equal
    out = tuple(1 if i == axis else size for i, size in enumerate(x.shape))
    got = computed(device, "arg", [x], (out, "int64"), how=how, axis=axis, keepdims=True, last=last)
    best = np.expand_dims(x.max(axis) if how == "max" else x.min(axis), axis)
    places = np.where(
        x == best, np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(3)]), -1 if last else 99
    )
    np.testing.assert_array_equal(got, np.expand_dims(places.max(axis) if last else places.min(axis), axis))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_cumsum(exclusive, reverse, axis, dtype, device):
    x = drawn(np.random.default_rng(4), (40, 30), dtype)
    got = computed(device, "cumsum", [x], (x.shape, dtype), axis=axis, exclusive=exclusive, reverse=reverse)
    turned = np.flip(x.astype(np.float64), axis) if reverse else x.astype(np.float64)
    sums = turned.cumsum(axis) - (turned if exclusive else 0)
    bound = 40 * U * np.abs(turned).cumsum(axis) if dtype == "float32" else 0 * sums
    close(got, np.flip(sums, axis) if reverse else sums, np.flip(bound, axis) if reverse else bound)


@pytest.mark.parametrize("kind", ["softmax_nd", "logsoftmax"])
@pytest.mark.parametrize(
    "shape, axis", [((4, 9), 1), ((4, 9), 0), ((2, 3, 4, 5), 1), ((3, 300), 1), ((300, 2), 0)], ids=str
)
@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
def test_softmax(kind, shape, axis, parameters, request):
    x = 5 * drawn(np.random.default_rng(4), shape, "float32")
    got = computed(request.getfixturevalue(parameters), kind, [x], (shape, "float32"), axis=axis)
    shifted = x.astype(np.float64) - x.max(axis, keepdims=True)
    logarithm = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
    relative = (shape[axis] + 2 * np.abs(x).max() + 16) * U  # bounds.py: x - max is rounded, exp, a sum, a division
    expected = logarithm if kind == "logsoftmax" else np.exp(logarithm)
    close(got, expected, relative * (1 + np.abs(expected)) if kind == "logsoftmax" else relative * expected)


def test_softmax_in_place_never_overflows(device):
    x = np.array([[1e38, 0.0], [88.0, 89.0]], np.float32)
    got = computed(device, "softmax_nd", [x], (x.shape, "float32"), axis=1)
    close(got[0], np.array([1.0, 0.0]), 0)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("shape, axes", ALONG, ids=str)
@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
def test_layernorm(center, shape, axes, parameters, request):
    x = 3 + drawn(np.random.default_rng(4), shape, "float32")
    device = request.getfixturevalue(parameters)
    got = computed(device, "layernorm_nd", [x], (shape, "float32"), axes=axes, epsilon=1e-5, center=center)
    exact = x.astype(np.float64)
    difference = exact - exact.mean(axes, keepdims=True) if center else exact
    deviation = np.sqrt((difference**2).mean(axes, keepdims=True) + 1e-5)
    expected, n = difference / deviation, prod(shape[axis] for axis in axes)
    mean_error = (n + 2) * U * np.abs(exact).mean(axes, keepdims=True) + U * np.abs(exact)  # bounds.py
    close(got, expected, mean_error / deviation * (1 + np.abs(expected)) + (n + 12) * U * np.abs(expected))
