"""1x1 convolution by Strassen's seven products: on every instruction set, within a derived bound."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from bounds import U
from kernel_runs import FLOAT_ROWS, check_pointwise, conv_step, pointwise_case, pointwise_magnitudes, single_step
from pipeall._kernels.cpu.kernels import CpuProgram
from strassen_reference import strassen

from pipeall._kernels.cpu.algorithms import GEMM, STRASSEN, candidates, modelled
from pipeall._kernels.cpu.table import choose
from pipeall.errors import ArgumentError
from pipeall.steps import SLOT_IN

ROW_OPS = ("gemm", "strassen_split", "strassen_join")
KERNELS = sorted({(row.isa, row.core) for row in FLOAT_ROWS if row.op in ROW_OPS})


CASES = (
    pointwise_case(2, 64, (1, 2)),
    pointwise_case(34, 64, (1, 3)),  # a row of zeros with the second
    pointwise_case(62, 128, (5, 3), 0.0, 6.0),
    pointwise_case(64, 64, (7, 7), -1.0, 1.0),
    pointwise_case(130, 192, (9, 13)),
    pointwise_case(256, 128, (14, 14), 0.0),
    pointwise_case(514, 64, (3, 4), -inf, 0.5),
    pointwise_case(34, 64, (30, 31)),  # two chunks of a thread
    pointwise_case(80, 64, (41, 29)),  # and one row too many
    pointwise_case(62, 192, (6, 7), strides=(2, 2)),
    pointwise_case(34, 64, (9, 8), 0.0, 6.0, strides=(3, 1)),
    pointwise_case(80, 64, (83, 57), strides=(2, 2)),
    pointwise_case(34, 64, (1, 3), residual=True),
    pointwise_case(62, 192, (4, 7), -1.0, 1.0, residual=True),
    pointwise_case(80, 64, (41, 29), 0.0, residual=True),
    pointwise_case(34, 64, (9, 7), strides=(2, 2), residual=True),
)


def bound(graph, inputs):
    """Largest allowed |result - expected|, (rows, columns).

    k roundings are at most (1 + u)^k - 1 of the sum of magnitudes. A product of the first quarter goes through three
    sums of A, three of B, its own sum of K / 2 and that of the product added to it, and four sums of products and bias,
    five with a residual.
    """
    a, b, added = pointwise_magnitudes(graph, inputs)
    odd = ((0, len(a) % 2), (0, 0))  # a row of zeros follows where the rows are odd
    a, added = np.pad(a, odd), np.pad(added, odd)
    roundings = a.shape[1] + 12 + (len(inputs) - 1)
    return ((1 + U) ** roundings - 1) * (strassen(a, b, np.add) + added)


def with_residual(step):
    return replace(step, src=(step.src[0], replace(step.dst, base=SLOT_IN)))


def test_the_seven_products_are_the_matrix_product():
    random = np.random.default_rng(0)
    a, b = random.standard_normal((6, 10)), random.standard_normal((10, 8))
    np.testing.assert_allclose(strassen(a, b, np.subtract), a @ b, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("isa", "core"), KERNELS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(isa, core, case):
    check_pointwise(case, isa, core, STRASSEN, bound)


def test_nan_shows_in_every_result_it_is_part_of():
    """And in no other pixel than the one it goes with, half the rows away."""
    step = conv_step(64, 64, 4, 1)
    step = replace(step, weight=np.ones_like(step.weight))
    program = CpuProgram(choose(("ref",), "any"), (-1,), "test", (0, 4 * 16 * 64, 4 * 16 * 64))
    program.add(step, STRASSEN)
    x = np.full((16, 64), 0.125, np.float32)
    x[3, 40] = np.nan
    missing = np.isnan(program.run(x).reshape(16, 64))
    assert missing[3].all() and not np.delete(missing, (3, 11), axis=0).any()


def test_nan_of_a_residual_stays_where_it_is():
    """In each quarter of the result."""
    step = with_residual(conv_step(64, 64, 4, 1))
    step = replace(step, src=(step.src[0], replace(step.src[1], offset=64 * 16)))
    program = CpuProgram(choose(("ref",), "any"), (-1,), "test", (0, 4 * 2 * 16 * 64, 4 * 16 * 64))
    program.add(step, STRASSEN)
    residual = np.zeros((16, 64), np.float32)
    residual[[3, 4, 9, 10], [5, 40, 6, 41]] = np.nan
    found = program.run(np.concatenate([np.ones((16, 64), np.float32), residual])).reshape(16, 64)
    assert np.array_equal(np.isnan(found), np.isnan(residual))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (conv_step(512, 512, 14, 1), STRASSEN),  # MobileNet's
        (conv_step(1024, 256, 14, 1), STRASSEN),  # ResNet-50's
        (conv_step(256, 512, 56, 1, stride=2), STRASSEN),
        (with_residual(conv_step(512, 512, 14, 1)), STRASSEN),
        (with_residual(conv_step(64, 256, 56, 1)), GEMM),
        (with_residual(conv_step(128, 512, 28, 1)), STRASSEN),
        (conv_step(64, 64, 56, 1), GEMM),  # the sums would take longer
        (conv_step(512, 512, 2, 1), GEMM),  # so would reading more weights
    ],
)
def test_model_on_known_layers(step, expected):
    assert {modelled(step, nr, isa) for nr, isa in ((32, "avx512"), (16, "avx2"), (8, "neon"))} == {expected}
    assert STRASSEN.products(step) == 7 / 8 * GEMM.products(step)


@pytest.mark.parametrize(
    "step",
    [
        conv_step(64, 64, 8, 1, groups=2),
        conv_step(64, 64, 1, 1),
        conv_step(64, 64, 2, 1, stride=2),
        conv_step(63, 64, 8, 1),
        conv_step(64, 96, 8, 1),
        conv_step(64, 64, 8, 3),
    ],
    ids=("groups", "one pixel", "one pixel out", "odd input", "output in no halves", "3x3"),
)
def test_where_it_does_not_fit(step):
    assert STRASSEN not in candidates(step)
    program = CpuProgram(choose(("ref",), "any"), (-1,), "test", (0, 4 * 9000, 4 * 9000))
    with pytest.raises(ArgumentError, match=r"step c \(conv\): expected one of .*, got strassen"):
        program.add(step, STRASSEN)


def test_every_case_fits():
    assert all(candidates(single_step(case)) == (GEMM, STRASSEN) for case in CASES)
