"""Layers of one pixel that multiply halves, as steps: exact where every sum is one that halves hold, else within the
bound of their roundings (kernels_f16.h: pa_gemv_f32_f16w_f16acc_fn)."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_runs import GAP, GUARD, end, run_step, supported_isas

from pipeall._kernels.cpu.algorithms import GEMV_HALVES, HALF_ROW
from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

ISAS = sorted({row.isa for row in ROWS if row.type == "f32_f16w_f16acc"} & set(supported_isas()))
HALF_U, LEAST, U = 2.0**-11, 2.0**-25, 2.0**-24  # what rounding loses: of halves, of the smallest of them, of floats
SIZES = [  # height, width and channels of the input, outputs, groups
    *((1, 1, depth, outputs, 1) for depth, outputs in ((1, 1), (2, 32), (31, 33), (33, 31), (65, 130), (300, 5))),
    (1, 1, 9216, 40, 1),
    (6, 5, 70, 37, 1),
    (2, 3, 7, 9, 1),
    (3, 3, 36, 45, 3),
]


def step_of(size, residual=False, lo=-np.inf, hi=np.inf):
    h, w, depth, outputs, groups = size
    params = dict(kernel=(h, w), strides=(1, 1), dilations=(1, 1), pads=(0,) * 4, groups=groups, lo=lo, hi=hi)
    source = View(SLOT_IN, GUARD, h, w, depth, depth + GAP)
    target = View(SLOT_OUT, GUARD, 1, 1, outputs, outputs + GAP)
    added = replace(target, base=SLOT_IN, offset=end(source) + GUARD)
    return Step("conv", "fc", (source, added)[: 1 + residual], target, params, None, None)


def run(step, arrays, isa, threads):
    table = choose((isa, "ref"), "any core")
    return run_step(step, arrays, table, (-1,) * threads, GEMV_HALVES).reshape(-1)


def product(x, weight, groups):
    """In float64: x (h, w, depth), weight (outputs, depth / groups, h, w)."""
    filters = weight.astype(np.float64).reshape(groups, -1, weight[0].size)
    vectors = x.astype(np.float64).transpose(2, 0, 1).reshape(groups, -1)
    return np.einsum("gok,gk->go", filters, vectors).reshape(-1)


def cases():
    return pytest.mark.parametrize(("size", "isa"), [(size, isa) for size in SIZES for isa in ISAS])


@cases()
@pytest.mark.parametrize("threads", [1, 3])
def test_integers_that_halves_hold_are_exact(size, isa, threads):
    """No sum of a block reaches 2048; what floats add is exact up to 2^24."""
    random = np.random.default_rng(0)
    h, w, depth, outputs, groups = size
    x = random.integers(-8, 9, (h, w, depth))
    weight, bias = random.integers(-7, 8, (outputs, depth // groups, h, w)), random.integers(-999, 999, outputs)
    residual = random.integers(-99, 99, outputs)
    step = replace(step_of(size, True, -900.0, 1000.0), weight=weight.astype(np.float32), bias=bias.astype(np.float32))
    expected = (product(x, weight, groups) + bias + residual).clip(-900, 1000)
    assert np.array_equal(run(step, (x, residual), isa, threads), expected)


@cases()
@pytest.mark.parametrize("scale", [1e-5, 1.0, 300.0])
def test_real_numbers(size, isa, scale):
    random = np.random.default_rng(1)
    h, w, depth, outputs, groups = size
    x = (scale * random.standard_normal((h, w, depth))).astype(np.float32)
    weight = random.normal(0, 0.05, (outputs, depth // groups, h, w)).astype(np.float32)
    bias = random.standard_normal(outputs).astype(np.float32)
    step = replace(step_of(size), weight=weight, bias=bias)
    products = h * w * depth // groups
    # An input and a weight are rounded, then a block's products, one after the other; what floats add is as exact as
    # floats are. Below the normal halves each of these roundings loses LEAST instead.
    row = min(HALF_ROW, depth // groups)
    sums, sizes = product(x, weight, groups), product(np.abs(x), np.abs(weight), groups)
    inputs, weights = (product(np.abs(x), np.ones_like(weight), groups),
                       product(np.ones_like(x), np.abs(weight), groups))  # fmt: skip
    allowed = ((1 + HALF_U) ** (2 + row + 1) - 1) * sizes
    allowed += (1 + row * HALF_U) * LEAST * (inputs + weights + 2 * products)
    allowed += (products / row + h * w + 3) * U * (sizes + np.abs(bias))
    error = np.abs(run(step, (x,), isa, 1) - (sums + bias))
    assert (error <= allowed).all(), (error / allowed).max()
    if scale == 1 and products > 9000:
        # Roundings of random signs, of variance u^2 / 3 where they are largest. In a block the i-th of 32 products
        # loses what i of them have: 16.5 times a product's variance on average, and 2 for weight and input. One sum of
        # halves would lose 4608 times that.
        deviation = np.sqrt(np.mean(error**2) / products) / (scale * 0.05 * HALF_U)
        assert 0.3 < deviation < np.sqrt((16.5 + 2) / 3)
