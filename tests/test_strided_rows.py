"""Softmax and layer normalisation along any axes of strided operands, against NumPy in float64."""

import numpy as np
import pytest
from bounds import U
from strided_steps import everywhere, random_floats

from pipeall.graph.ops import OPS


@pytest.mark.parametrize("kind", ["softmax_nd", "logsoftmax"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((40, 21), 1), ((21, 40), 0), ((3, 21, 70), 1), ((2, 5, 3, 4), 2), ((600, 2), 0)]
)
def test_softmax_along_any_axis(kind, shape, axis):
    x = random_floats(np.random.default_rng(10), shape)
    shifted = x - x.max(axis, keepdims=True).astype(np.float64)
    logarithm = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
    expected = np.exp(logarithm) if kind == "softmax_nd" else logarithm
    limit = (shape[axis] + 2 * np.abs(x).max() + 16) * U * (np.abs(expected) + (kind == "logsoftmax"))
    for seed, plain in enumerate([True, False, False]):
        for isa, y in everywhere(kind, dict(axis=axis), [x], shape, "float32", seed=seed, plain=plain):
            assert (np.abs(y - expected) <= limit).all(), isa


@pytest.mark.parametrize("rows", [1, 19, 150])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_rows_of_every_length(rows, axis):
    """As many as fill vectors, and fewer; a NaN spoils its own row alone."""
    for n in (1, 2, 3, 4, 5, 8, 15, 16, 17, 21, 32, 33, 64, 65, 100):
        x = random_floats(np.random.default_rng(n), (rows, n))
        powers = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
        expected = powers / powers.sum(1, keepdims=True)
        x[rows // 2, n // 2], expected[rows // 2] = np.nan, np.nan
        limit = (n + 2 * np.nanmax(np.abs(x), initial=0) + 16) * U
        x, expected = (np.ascontiguousarray(a if axis else a.T) for a in (x, expected))
        for isa, y in everywhere("softmax_nd", dict(axis=axis), [x], x.shape, "float32", plain=True):
            np.testing.assert_allclose(y, expected, limit, 0, err_msg=f"{isa} {n}")


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((40, 33), (1,)),
        ((30, 9, 40), (0, 1)),
        ((3, 9, 7, 5), (1, 3)),
        ((2, 20000), (1,)),
        ((5, 4, 3), (0, 1, 2)),
        ((700, 3), (0,)),
    ],
    ids=str,
)
def test_layernorm_over_any_axes(shape, axes, center):
    x = 2 + random_floats(np.random.default_rng(11), shape)
    attrs = dict(axes=axes, epsilon=1e-5, center=center)
    exact = x.astype(np.float64)
    expected = OPS["layernorm"].compute(attrs, exact)
    deviation = np.sqrt(exact.var(axes, keepdims=True) if center else (exact**2).mean(axes, keepdims=True))
    chain = min(np.prod([shape[d] for d in axes]), 8192) / 4 + 16
    mean_error = chain * U * np.abs(exact).mean(axes, keepdims=True) + U * np.abs(exact)
    limit = mean_error / deviation * (1 + np.abs(expected)) + chain * U * np.abs(expected)
    for seed, plain in enumerate([True, False, False]):
        for isa, y in everywhere("layernorm_nd", attrs, [x], shape, "float32", seed=seed, plain=plain):
            assert (np.abs(y - expected) <= limit).all(), isa
