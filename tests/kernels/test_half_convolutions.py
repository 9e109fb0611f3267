"""Convolutions of halves, by GEMM, Winograd and Strassen: exact where half precision holds every sum, else within
the bound of its roundings."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_runs import GAP, GUARD, run_step, supported_isas
from strassen_reference import strassen
from winograd_reference import in_phases, in_remainders

from pipeall._kernels.cpu.algorithms import GEMM, HALF_MAX, HALF_SUM, STRASSEN, STRASSEN_WEIGHTS, Algorithm, candidates
from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

ISAS = sorted({row.isa for row in ROWS if (row.op, row.type) == ("gemm", "f16")} & set(supported_isas()))
CORES = sorted({row.core for row in ROWS if (row.op, row.type) == ("gemm", "f16")})
HALF_U = 2.0**-11
ROUNDINGS = {4: 1 + 2, 6: 3 + 3}  # points: of the longest way through the transforms of input and output, a dimension
STRASSEN_ROUNDINGS = 3 + 3  # of sums of A, and of products beside what GEMM adds to one
WINOGRADS = WINOGRAD2, *LARGER = [Algorithm("winograd", m) for m in (2, 3, 4, 5)]
SIZES = [  # channels in and out, groups, height and width, kernel, stride, dilation, pads
    (3, 24, 1, (11, 13), (3, 3), 2, 1, (1, 1, 1, 1)),
    (80, 20, 1, (12, 13), (3, 3), 2, 1, (1, 1, 0, 2)),
    (5, 17, 1, (9, 7), (7, 7), 2, 1, (3, 3, 3, 3)),
    (3, 40, 1, (29, 26), (7, 7), 2, 1, (3, 2, 4, 0)),
    (31, 24, 1, (13, 12), (5, 5), 2, 1, (2, 2, 2, 2)),
    (3, 33, 1, (31, 36), (11, 11), 4, 1, (2, 1, 0, 3)),
    (9, 12, 1, (8, 9), (4, 4), 1, 1, (1, 2, 2, 1)),
    (40, 33, 1, (6, 9), (1, 1), 1, 1, (0, 0, 0, 0)),
    (600, 50, 1, (5, 4), (1, 1), 1, 1, (0, 0, 0, 0)),
    (36, 70, 1, (7, 8), (3, 3), 1, 1, (1, 0, 2, 1)),
    (300, 20, 1, (5, 5), (3, 3), 1, 1, (2, 2, 2, 2)),
    (64, 40, 2, (12, 13), (3, 3), 1, 1, (0, 1, 0, 1)),
    (26, 8, 1, (9, 9), (3, 3), 1, 2, (2, 2, 2, 2)),
    (7, 130, 1, (4, 6), (2, 5), 1, 1, (0, 2, 1, 2)),
    (34, 64, 1, (5, 7), (1, 1), 1, 1, (0, 0, 0, 0)),  # a row of zeros with the last
    (300, 192, 1, (6, 9), (1, 1), 2, 1, (0, 0, 0, 0)),
]


def step_of(size, residual=False, lo=-np.inf, hi=np.inf):
    c_in, c_out, groups, (h, w), (kh, kw), stride, dilation, pads = size
    out_h = (h + pads[0] + pads[2] - dilation * (kh - 1) - 1) // stride + 1
    out_w = (w + pads[1] + pads[3] - dilation * (kw - 1) - 1) // stride + 1
    params = dict(
        kernel=(kh, kw), strides=(stride,) * 2, dilations=(dilation,) * 2, pads=pads, groups=groups, lo=lo, hi=hi
    )
    source = View(SLOT_IN, GUARD, h, w, c_in, c_in + GAP, "float16")
    target = View(SLOT_OUT, GUARD, out_h, out_w, c_out, c_out + GAP, "float16")
    added = replace(target, base=SLOT_IN, offset=2 * GUARD + h * w * source.stride)
    return Step("conv", "c", (source, added)[: 1 + residual], target, params, None, None)


def run(step, arrays, algorithm, isa, core, threads):
    return run_step(step, arrays, choose((isa, "ref"), core), (-1,) * threads, algorithm)


def exact(step, x, weight, bias, residual):
    """In float64, (h, w, c)."""
    p, (kh, kw) = step.params, step.params["kernel"]
    padded = np.pad(x.astype(np.float64), ((p["pads"][0], p["pads"][2]), (p["pads"][1], p["pads"][3]), (0, 0)))
    by, stride, groups = p["dilations"][0], p["strides"][0], p["groups"]
    span = (by * (kh - 1) + 1, by * (kw - 1) + 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, span, axis=(0, 1))[::stride, ::stride, ..., ::by, ::by]
    windows = windows.reshape(*windows.shape[:2], groups, -1, kh, kw)
    filters = weight.astype(np.float64).reshape(groups, -1, weight.shape[1], kh, kw)
    sums = np.einsum("yxgcij,gocij->yxgo", windows, filters, optimize=True)
    return sums.reshape(*sums.shape[:2], -1) + bias + residual


def strassen_sizes(step, x):
    """Of what is added to an output by Strassen's product."""
    stride = step.params["strides"][0]
    a = np.abs(x[::stride, ::stride].astype(np.float64)).reshape(-1, x.shape[2])
    padded = np.pad(a, ((0, len(a) % 2), (0, 0)))
    found = strassen(padded, np.abs(step.weight[:, :, 0, 0].T.astype(np.float64)), np.add)
    return found[: len(a)].reshape(step.dst.h, step.dst.w, -1) + np.abs(step.bias)


def cases(sizes, ways):
    return [
        (size, way, isa, core)
        for size in sizes
        for way in ways
        if way in candidates(replace(step_of(size), weight=np.zeros(1)))
        for isa in ISAS
        for core in (CORES if isa != "ref" else ["any"])
    ]


@pytest.mark.parametrize(("size", "way", "isa", "core"), cases(SIZES, (GEMM, STRASSEN, WINOGRAD2)))
@pytest.mark.parametrize("threads", [1, 3])
def test_integers_that_halves_hold_are_exact(size, way, isa, core, threads):
    """Products of -1, 0 and 1: no sum reaches 512, and Winograd's has two bits of fraction."""
    random = np.random.default_rng(3)
    step = step_of(size, residual=True, lo=-8.0, hi=9.0)
    kernel, c_out = step.params["kernel"], step.dst.c
    density = min(1.0, 300 / (size[0] // size[2] * kernel[0] * kernel[1]))
    x = random.integers(-1, 2, (*size[3], size[0])).astype(np.float16)
    weight = random.integers(-1, 2, (c_out, size[0] // size[2], *kernel)) * (
        random.random((c_out, 1, *kernel)) < density
    )
    bias, residual = random.integers(-9, 10, c_out), random.integers(-9, 10, (step.dst.h, step.dst.w, c_out))
    step = replace(step, weight=weight.astype(np.float32), bias=bias.astype(np.float32))
    expected = exact(step, x, weight, bias, residual)
    assert np.abs(expected).max() > 10, "nothing is clamped"
    found = run(step, (x, residual), way, isa, core, threads)
    assert np.array_equal(found, expected.clip(-8, 9))


@pytest.mark.parametrize(("size", "way", "isa", "core"), cases(SIZES, (GEMM, STRASSEN, *WINOGRADS)))
def test_real_numbers(size, way, isa, core):
    random = np.random.default_rng(4)
    step = step_of(size)
    kernel, each = step.params["kernel"], size[0] // size[2]
    products = each * kernel[0] * kernel[1]
    x = np.maximum(random.standard_normal((*size[3], size[0])), 0).astype(np.float16)
    weight = (random.standard_normal((step.dst.c, each, *kernel)) * np.sqrt(2 / products)).astype(np.float32)
    bias = random.standard_normal(step.dst.c).astype(np.float32)
    step = replace(step, weight=weight, bias=bias)
    expected = exact(step, x, weight, bias, 0)
    found = run(step, (x,), way, isa, core, 1).astype(np.float64)
    if way == GEMM:
        sizes, sums = exact(step, np.abs(x), np.abs(weight), np.abs(bias), 0), products
        transforms = 0
    elif way == STRASSEN:
        sizes, sums, transforms = strassen_sizes(step, x), products // 2, STRASSEN_ROUNDINGS
    else:
        planes, filters = np.abs(x.astype(np.float64)).transpose(2, 0, 1), np.abs(weight.astype(np.float64))
        planes, filters, pads = in_phases(planes, filters, step.params["strides"][0], step.params["pads"])
        sizes = in_remainders(planes, filters, pads, size[2], size[6], way.m).transpose(1, 2, 0) + np.abs(bias)
        sums, transforms = filters.shape[1], 2 * ROUNDINGS[way.m + filters.shape[2] - 1]
    # a weight and the bias are rounded, each step of both dimensions' transforms, a block's sums of products, the sums
    # of blocks, and what adds the bias
    error, block = np.abs(found - expected), min(sums, HALF_SUM)
    rounded = block + -(-sums // HALF_SUM) * (kernel[0] if way == GEMM else 1) + transforms + 3
    assert (error <= ((1 + HALF_U) ** rounded - 1) * sizes).all()
    # roundings of random signs: of a sum of products of size s, one after the other, some sqrt(sums / 3) s_rms
    deviation = np.sqrt(np.mean(error**2) / np.mean(expected**2)) / HALF_U
    assert deviation < (8 if way in LARGER else 5) * np.sqrt(1 + block / 20)


@pytest.mark.parametrize(("size", "way", "isa", "core"), cases(SIZES, (STRASSEN,)))
def test_strassen_of_inputs_whose_sums_no_half_holds(size, way, isa, core):
    random = np.random.default_rng(5)
    step = step_of(size)
    x = random.choice([-60000, 60000], (*size[3], size[0])).astype(np.float16)
    weight = random.choice([-1, 1], (step.dst.c, size[0], 1, 1)).astype(np.float32) * 2.0**-12
    step = replace(step, weight=weight, bias=np.zeros(step.dst.c, np.float32))
    error = np.abs(run(step, (x,), way, isa, core, 1) - exact(step, x, weight, step.bias, 0))
    assert (error <= ((1 + HALF_U) ** (size[0] // 2 + 9) - 1) * strassen_sizes(step, x)).all()


def test_strassen_leaves_weights_whose_sums_no_half_holds():
    step = step_of(SIZES[-1])
    weight = np.full((192, 300, 1, 1), -HALF_MAX / STRASSEN_WEIGHTS, np.float32)
    assert candidates(replace(step, weight=weight)) == (GEMM, STRASSEN)
    assert candidates(replace(step, weight=1.001 * weight)) == (GEMM,)
