"""1x1 convolution without the zeros that eight filters have in common: on every instruction set, within a bound."""

from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from bounds import U
from kernel_runs import FLOAT_ROWS, check_pointwise, conv_step, pointwise_case, pointwise_magnitudes
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall._kernels.cpu.algorithms import GEMM, SPARSE, STRASSEN, candidates, modelled, sensible
from pipeall._kernels.cpu.sparse_panels import kept_rows
from pipeall._kernels.cpu.table import choose
from pipeall.errors import ArgumentError

KERNELS = sorted({(row.isa, row.core) for row in FLOAT_ROWS if row.op == "gemm_sparse"})


CASES = (
    pointwise_case(9, 1, (1, 2)),
    pointwise_case(3, 9, (1, 3)),
    pointwise_case(33, 16, (5, 3), 0.0, 6.0),
    pointwise_case(64, 23, (7, 7), -1.0, 1.0, residual=True),
    pointwise_case(130, 40, (9, 13), residual=True),
    pointwise_case(1100, 17, (5, 4), -inf, 0.5, residual=True),  # three blocks of channels
    pointwise_case(34, 64, (30, 31)),  # several chunks
    pointwise_case(62, 25, (6, 7), strides=(2, 2)),
    pointwise_case(34, 30, (9, 8), 0.0, 6.0, strides=(3, 1)),
    pointwise_case(20, 24, (83, 57), strides=(1, 2), residual=True),
)


def with_zeros(weight, share=0.7, seed=0):
    """A matrix of filters of which so many blocks of 8 x 1 are zeros, and a panel is nothing else."""
    count, channels = weight.shape[:2]
    keep = np.random.default_rng(seed).random((-(-count // 8), channels)) >= share
    keep[-1, 0], keep[0] = True, keep[0] & (len(keep) == 1)
    return weight * np.repeat(keep, 8, axis=0)[:count].reshape(count, channels, *([1] * (weight.ndim - 2)))


def bound(graph, inputs):
    """Largest allowed |result - expected|, (rows, columns): of products and sums, then bias, residual."""
    a, b, added = pointwise_magnitudes(graph, inputs)
    return ((1 + U) ** (a.shape[1] + 1 + len(inputs)) - 1) * (a @ b + added)


@pytest.mark.parametrize(("isa", "core"), KERNELS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(isa, core, case):
    check_pointwise(case, isa, core, SPARSE, bound, weights=with_zeros)


def test_kept_rows_are_the_matrix():
    weight = with_zeros(np.random.default_rng(0).standard_normal((21, 13)).astype(np.float32))
    starts, k, values = kept_rows(weight)
    made = np.zeros((24, 13), np.float32)
    for panel, (first, end) in enumerate(pairwise(starts)):
        made[8 * panel : 8 * panel + 8, k[first:end]] = values[first:end].T
    assert np.array_equal(made[:21], weight) and not made[21:].any()
    assert len(k) == starts[-1] < 3 * 13 and values.flags.c_contiguous


def pruned(step, share):
    weight = np.random.default_rng(0).standard_normal(step.weight.shape).astype(np.float32)
    return replace(step, weight=with_zeros(weight, share))


def test_where_it_is_chosen():
    """With many zeros, on every instruction set; with few that filters share, or none, never."""
    step = conv_step(512, 512, 14, 1)
    some = replace(step, weight=np.random.default_rng(0).standard_normal(step.weight.shape).astype(np.float32))
    lone = replace(some, weight=some.weight * (np.random.default_rng(1).random(some.weight.shape) > 0.5))
    for nr, isa in ((32, "avx512"), (16, "avx2"), (8, "neon")):
        assert modelled(pruned(step, 0.7), nr, isa) == SPARSE
        assert SPARSE not in sensible(pruned(step, 0.1), nr, isa)
        assert modelled(some, nr, isa) == modelled(lone, nr, isa) == STRASSEN
    assert SPARSE not in candidates(some) and SPARSE in candidates(pruned(conv_step(64, 72, 7, 1), 0.7))
    assert SPARSE.products(pruned(step, 0.7)) < 0.35 * GEMM.products(step)


@pytest.mark.parametrize(
    "step",
    [conv_step(64, 64, 8, 1, groups=2), conv_step(64, 64, 1, 1), conv_step(64, 64, 8, 3)],
    ids=("groups", "one pixel", "3x3"),
)
def test_where_it_does_not_fit(step):
    step = pruned(step, 0.7)
    assert SPARSE not in candidates(step)
    program = CpuProgram(choose(("ref",), "any"), (-1,), "test", (0, 4 * 9000, 4 * 9000))
    with pytest.raises(ArgumentError, match=r"step c \(conv\): expected one of .*, got sparse"):
        program.add(step, SPARSE)
