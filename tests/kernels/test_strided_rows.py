"""Softmax and layer normalization along any axes of strided operands, against NumPy in float64."""

import numpy as np
import pytest
from bounds import U
from pipeall._kernels.cpu.kernels import CpuProgram
from strided_steps import everywhere, random_floats, run_strided, tables

from pipeall.graph.ops import OPS
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, Strided


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


@pytest.mark.parametrize("n", [1, 3, 4, 7, 16, 21, 40])
def test_softmax_of_rows_with_infinities(n):
    """A row of -inf alone, or with inf, is NaN; -inf beside numbers is 0. No row shows in another."""
    x = random_floats(np.random.default_rng(n), (70, n))
    x[5], x[40, n - 1], x[64:66, : n // 2] = -np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
        expected = powers / powers.sum(1, keepdims=True)
    assert np.isnan(expected[5]).all() and np.isnan(expected[40]).all() and np.isnan(expected).sum() == 2 * n
    limit = (n + 2 * np.abs(x, where=np.isfinite(x), out=np.zeros_like(x)).max() + 16) * U
    for isa, y in everywhere("softmax_nd", dict(axis=1), [x], x.shape, "float32", plain=True):
        np.testing.assert_allclose(y, expected, limit, 0, err_msg=isa)


@pytest.mark.parametrize("n", [2, 5, 21, 40, 100])
def test_softmax_of_a_row_has_the_same_bits_wherever_it_lies(n):
    """Alone, among others at any place, densely or apart: stages lay rows out in other ways than engines."""
    x = random_floats(np.random.default_rng(n), (83, n))
    wide = np.pad(x, [(0, 0), (0, 3)])
    for isa, table in tables().items():
        whole = run_strided("softmax_nd", [x], dict(axis=1), x.shape, "float32", table, seed=None)
        for r in (0, 15, 16, 63, 64, 82):
            alone = run_strided("softmax_nd", [x[r : r + 1]], dict(axis=1), (1, n), "float32", table, seed=None)
            assert alone.tobytes() == whole[r].tobytes(), f"{isa}: row {r}"
        assert softmax_of_a_part(wide, n, table).tobytes() == whole.tobytes(), f"{isa}: rows apart"


def softmax_of_a_part(wide, n, table):
    """Softmax over the first n columns of a matrix."""
    rows, stride = wide.shape
    src, dst = (Strided(base, 0, (rows, n), (stride, 1), "float32") for base in (SLOT_IN, SLOT_OUT))
    program = CpuProgram(table, (-1,), "test", (0, wide.nbytes, wide.nbytes))
    program.add(Step("softmax_nd", "node", (src,), dst, dict(axis=1)))
    made = program.run(wide.view(np.uint8).ravel()).view(np.float32).reshape(wide.shape)
    return np.ascontiguousarray(made[:, :n])


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
