"""OpenCL's products, tables and indices on strided operands, against NumPy in float64; in half; what is refused."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from strided_memory import HALF, U, close, computed, computed_in_half, drawn

from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.errors import DeviceError
from pipeall.pipeline.devices.opencl.opencl_device import ClProgram
from pipeall.steps import CONSTANT, SLOT_OUT, Lowered, Step, Strided

# ---- products ----

MATMUL = [
    ((5, 7), (7, 9)),
    ((1, 33), (33, 17)),
    ((13, 40), (40, 1)),
    ((2, 3, 5, 7), (2, 3, 7, 8)),
    ((2, 1, 9, 4), (1, 3, 4, 5)),
    ((6, 1, 1), (6, 1, 19)),
]


@pytest.mark.parametrize("a, b", MATMUL, ids=str)
@pytest.mark.parametrize("dense", [(), (0,), (1,)])
@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
def test_matmul(a, b, dense, parameters, request):
    """``dense``: which is a constant, and so lies in order."""
    a, b = (drawn(np.random.default_rng(seed), shape, "float32") for seed, shape in ((1, a), (2, b)))
    expected = 0.25 * (a.astype(np.float64) @ b)
    device = request.getfixturevalue(parameters)
    for seed in range(3):
        got = computed(device, "matmul", [a, b], (expected.shape, "float32"), seed, dense, alpha=0.25)
        close(got, expected, (a.shape[-1] + 3) * U * 0.25 * (np.abs(a).astype(np.float64) @ np.abs(b)))


@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
@pytest.mark.parametrize("rows", [1, 5])
def test_long_matmul_is_a_sum_of_blocks(rows, parameters, request):
    """One, then 2^-25: in one chain of n products, half of n is lost (test_long_sums.py)."""
    n = 6000
    a = np.full((rows, n), U / 2, np.float32)
    a[:, 0] = 1
    expected = np.full((rows, 3), a[0].sum(dtype=np.float64))
    device = request.getfixturevalue(parameters)
    got = computed(device, "matmul", [a, np.ones((n, 3), np.float32)], ((rows, 3), "float32"), 0, alpha=1.0)
    close(got, expected, (192 + n / 192) * U)


def attended(q, k, v, mask, scale, causal):
    """The result in float64, and its error in float32: of the scores and of the sums, by the size of the values."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * scale + mask
    wrong = (q.shape[-1] + 8) * U * (np.abs(q) @ np.abs(k).swapaxes(-1, -2) * scale + np.abs(mask)).max()
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    size = weights @ np.abs(v)
    return weights @ v, (2 * wrong + (2 * k.shape[-2] + 2 * np.abs(scores[np.isfinite(scores)]).max() + 24) * U) * size


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "shapes", [((4, 6), (4, 6), (4, 3)), ((2, 3, 7, 8), (2, 3, 9, 8), (2, 3, 9, 5)), ((1, 200, 16),) * 3]
)
@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
def test_attention(causal, masked, shapes, parameters, request):
    rng = np.random.default_rng(1)
    q, k, v = (drawn(rng, shape, "float32") for shape in shapes)
    mask = drawn(rng, (*(1,) * (q.ndim - 1), k.shape[-2]), "float32") if masked else np.zeros((1,) * q.ndim)
    expected, bound = attended(q, k, v, mask, 0.3, causal)
    sources = [q, k, v, *([mask] if masked else [])]
    device = request.getfixturevalue(parameters)
    got = computed(device, "attention", sources, (expected.shape, "float32"), scale=0.3, causal=causal)
    close(got, expected, bound)


# ---- tables and indices ----


def resampled(x, taps):
    for axis, (indices, weights) in taps.items():
        picked = np.moveaxis(x, axis, -1)[..., indices]  # (..., out, k)
        x = np.moveaxis((picked * weights).sum(-1), -1, axis)
    return x


@pytest.mark.parametrize("axes", [{2: 9, 3: 3}, {0: 2, 1: 7, 3: 11}, {3: 8}, {1: 1, 2: 12}], ids=str)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_resize(axes, count, device):
    rng = np.random.default_rng(3)
    x = drawn(rng, (2, 3, 5, 4), "float32")
    taps = {
        axis: (
            rng.integers(0, x.shape[axis], (size, count)).astype(np.int32),
            rng.uniform(-1, 1, (size, count)).astype(np.float32),
        )
        for axis, size in axes.items()
    }
    expected = resampled(x.astype(np.float64), taps)
    size = resampled(np.abs(x).astype(np.float64), {axis: (i, np.abs(w)) for axis, (i, w) in taps.items()})
    got = computed(device, "resize", [x], (expected.shape, "float32"), taps=taps)
    close(got, expected, len(axes) * (count + 2) * U * size)


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool"])
def test_resize_that_moves_elements(dtype, device):
    rng = np.random.default_rng(3)
    x = drawn(rng, (2, 3, 5, 4), dtype)
    taps = {a: (rng.integers(0, x.shape[a], (7, 1)).astype(np.int32), np.ones((7, 1), np.float32)) for a in (2, 3)}
    expected = x[:, :, taps[2][0][:, 0]][..., taps[3][0][:, 0]]
    np.testing.assert_array_equal(computed(device, "resize", [x], (expected.shape, dtype), taps=taps), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
@pytest.mark.parametrize("dtype, of", [("float32", "int64"), ("int64", "int32"), ("bool", "int64"), ("uint8", "int64")])
@pytest.mark.parametrize("known", [True, False])
def test_gather(axis, shape, dtype, of, known, device):
    rng = np.random.default_rng(6)
    x = drawn(rng, (4, 5, 6), dtype)
    indices = rng.integers(-x.shape[axis], x.shape[axis], shape).astype(of)
    expected = np.take(x, indices, axis)
    constants = (1,) if known else ()
    indices = np.asarray(indices)
    got = computed(device, "gather", [x, indices], (expected.shape, dtype), constants=constants, axis=axis)
    np.testing.assert_array_equal(got, expected)


def test_indices_outside_stay_inside(device):
    x = np.arange(5, dtype=np.float32)
    indices = np.array([99, -99, 2**40, -(2**62), 4, -5])
    got = computed(device, "gather", [x, indices], ((6,), "float32"), axis=0)
    np.testing.assert_array_equal(got, [4, 0, 4, 0, 4, 0])


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis, device):
    rng = np.random.default_rng(6)
    x = drawn(rng, (4, 5), "float32")
    indices = rng.integers(-x.shape[axis], x.shape[axis], (3, 4))
    expected = np.take_along_axis(x[:3] if axis else x[:, :4], indices, axis)
    got = computed(device, "gather_elements", [x, indices], (expected.shape, "float32"), axis=axis)
    np.testing.assert_array_equal(got, expected)


def test_tensors_without_elements(device):
    x = np.zeros((0, 4), np.float32)
    assert computed(device, "pointwise", [x], (x.shape, "float32"), op="abs").shape == (0, 4)


# ---- half precision ----


def in_half(rng, *shapes):
    """Numbers of half precision: then results are rounded to it, and nothing else is."""
    return [np.float32(np.float16(drawn(rng, shape, "float32"))) for shape in shapes]


@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
def test_stored_in_half(parameters, request):
    device, rng = request.getfixturevalue(parameters), np.random.default_rng(1)
    (x,) = in_half(rng, (3, 5, 8))
    exact = x.astype(np.float64)
    powers = np.exp(exact)
    taps = {1: (np.array([[0, 1], [3, 4]], np.int32), np.full((2, 2), 0.5, np.float32))}
    mean, variance = exact.mean(2, keepdims=True), exact.var(2, keepdims=True)
    results = [
        ("pointwise", dict(op="exp"), powers),
        ("reduce", dict(how="sum", axes=(1,), keepdims=True), exact.sum(1, keepdims=True)),
        ("softmax_nd", dict(axis=1), powers / powers.sum(1, keepdims=True)),
        ("layernorm_nd", dict(axes=(2,), epsilon=1e-5, center=True), (exact - mean) / np.sqrt(variance + 1e-5)),
        ("resize", dict(taps=taps), (exact[:, [0, 3]] + exact[:, [1, 4]]) / 2),
        ("cumsum", dict(axis=2, exclusive=False, reverse=False), exact.cumsum(2)),
    ]
    for kind, params, expected in results:
        got = computed_in_half(device, kind, [x], expected.shape, **params)
        close(got, expected, 1.01 * HALF * np.abs(expected) + 2.0**-25 + 200 * U)


@pytest.mark.parametrize("parameters", ["device", "tiled_as_gpu"])
def test_products_stored_in_half(parameters, request):
    device, rng = request.getfixturevalue(parameters), np.random.default_rng(1)
    a, b = in_half(rng, (2, 9, 7), (2, 7, 5))
    expected = a.astype(np.float64) @ b
    got = computed_in_half(device, "matmul", [a, b], expected.shape, alpha=1.0)
    close(got, expected, 1.01 * HALF * np.abs(expected) + 2.0**-25 + 9 * U * (np.abs(a) @ np.abs(b)))
    q, k, v = in_half(rng, (2, 9, 7), (2, 6, 7), (2, 6, 5))
    expected, bound = attended(q, k, v, np.zeros((1, 1, 1)), 0.3, False)
    got = computed_in_half(device, "attention", [q, k, v], expected.shape, scale=0.3, causal=False)
    close(got, expected, 1.01 * HALF * np.abs(expected) + 2.0**-25 + bound)  # scores are not stored in half


# ---- what is refused ----

ROW = Strided(SLOT_OUT, 0, (4,), (1,))
WHOLE_ROW = replace(ROW, dtype="int64")


@pytest.mark.parametrize(
    "kind, src, dst, params, expected",
    [
        ("nms", (ROW,), ROW, {}, r"step it: OpenCL has no nms kernel"),
        ("pointwise", (ROW,), ROW, dict(op="digamma"), r"step it \(pointwise\): OpenCL has no digamma"),
        ("pointwise", (WHOLE_ROW,), WHOLE_ROW, dict(op="sin"), "OpenCL has no sin of int64"),
        ("pointwise", (ROW,), ROW, dict(op="bitnot"), "OpenCL has no bitnot of float32"),
        ("reduce", (WHOLE_ROW,), WHOLE_ROW, dict(how="l2", axes=(0,), keepdims=True), "no reduction l2 of int64"),
        ("softmax_nd", (WHOLE_ROW,), WHOLE_ROW, dict(axis=0), "OpenCL has no softmax_nd kernel for int64"),
        ("resize", (ROW,), ROW, dict(taps={}), "OpenCL resizes 1 to 3 axes, got 0"),
        (
            "resize",
            (ROW,),
            ROW,
            dict(taps={0: (np.array([[0], [1], [2], [4]]), np.ones((4, 1)))}),
            "expected indices below 4 along axis 0",
        ),
        (
            "pointwise",
            (Strided(SLOT_OUT, 0, (1,) * 9, (1,) * 9),),
            Strided(SLOT_OUT, 0, (1,) * 9, (1,) * 9),
            dict(op="abs"),
            "takes at most 8 axes, got 9",
        ),
    ],
)
def test_what_has_no_kernel_is_named_before_anything_is_built(kind, src, dst, params, expected, device, monkeypatch):
    monkeypatch.setattr(opencl.Device, "kernel", lambda *_, **__: pytest.fail("built a kernel"))
    with pytest.raises(DeviceError, match=expected):
        ClProgram(Lowered((Step(kind, "it", src, dst, params),), 0, (), 8, (), 64), device)


def test_half_precision_stores_floats_only(device):
    """Constants are not stored in the arena, and may be indices."""
    index = Strided(CONSTANT, 0, (2,), (1,), "int64", np.array([3, 0]))
    step = Step("gather", "it", (ROW, index), replace(ROW, shape=(2,), offset=4), dict(axis=0))
    ClProgram(Lowered((step,), 0, (), 8, (), 64), device, precision="mixed")
    index = Strided(SLOT_OUT, 4, (2,), (1,), "int64")
    step = replace(step, src=(ROW, index))
    with pytest.raises(DeviceError, match="step it .gather.: mixed: expected float32 tensors alone.*got int64"):
        ClProgram(Lowered((step,), 0, (), 8, (), 64), device, precision="mixed")
