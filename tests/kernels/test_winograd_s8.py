"""Convolutions of integers by Winograd in float32, against exact sums: within the bound of its roundings."""

from dataclasses import replace

import numpy as np
import pytest
from bounds import U
from kernel_runs import FLOAT_ISAS, supported_isas
from pipeall._kernels.cpu.kernels import CpuProgram
from winograd_reference import convolve, matrices, roundings

from pipeall._kernels.cpu.algorithms import GEMM, INTEGERS, Algorithm, candidates, modelled, sensible
from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

VARIANTS = [(3, 2), (3, 4), (3, 6), (5, 2), (5, 4)]  # r, m
SIZES = [  # channels in and out, groups, height and width, pads
    (5, 7, 1, (6, 9), (1, 1, 1, 1)),
    (70, 40, 1, (7, 8), (1, 0, 2, 1)),
    (300, 17, 1, (5, 5), (2, 2, 2, 2)),
    (36, 24, 2, (13, 12), (0, 1, 0, 1)),
]
X, Y = (0.5, -7), (2.0, 20)  # levels
GUARD, GAP, UNTOUCHED = 37, 3, 77
BEFORE_LAST = 2  # roundings more than of floats: the weights and the bias in quanta


def step_of(size, r, relu=False, **after):
    """A convolution of random integers, and these."""
    c_in, c_out, groups, (h, w), pads = size
    random = np.random.default_rng(r)
    x = random.integers(-128, 128, (c_in, h, w), np.int8)
    weight = random.integers(-127, 128, (c_out, c_in // groups, r, r)).astype(np.int8)
    scales = random.uniform(1, 3, c_out).astype(np.float32) / np.float32(70 * (c_in // groups) ** 0.5 * r)
    bias = random.uniform(-30, 30, c_out).astype(np.float32)
    params = dict(kernel=(r, r), strides=(1, 1), pads=pads, dilations=(1, 1), groups=groups, qparams=(X, Y),
                  scales=tuple(scales.tolist()), lo=0.0 if relu else -np.inf, hi=np.inf, **after)  # fmt: skip
    out = h + pads[0] + pads[2] - r + 1, w + pads[1] + pads[3] - r + 1
    source = View(SLOT_IN, GUARD, h, w, c_in, c_in + GAP, "int8")
    target = View(SLOT_OUT, GUARD, *out, c_out, c_out + GAP, "int8")
    return Step("conv", "c", (source,), target, params, weight, bias), x


def pixels(memory, view):
    return np.lib.stride_tricks.as_strided(
        memory[view.offset :], (view.h, view.w, view.c), (view.w * view.stride, view.stride, 1)
    )


def run(step, x, residual, algorithm, isa, threads=1):
    """The result (c, h, w) of a step, after checking every byte around it."""
    sizes = [view.offset + view.h * view.w * view.stride + GUARD for view in (step.src[-1], step.dst)]
    program = CpuProgram(choose((isa, "ref"), "any"), (-1,) * threads, "test", (0, *sizes))
    program.add(step, algorithm)
    slot = np.full(sizes[0], UNTOUCHED, np.int8)
    for view, values in zip(step.src, (x, residual), strict=False):
        pixels(slot, view)[:] = values.transpose(1, 2, 0)
    out = program.run(slot)
    found = pixels(out, step.dst).copy()
    pixels(out, step.dst)[:] = -1
    assert (out == -1).all(), "wrote outside its view"
    return found.transpose(2, 0, 1)


def exact(step, x):
    """Of each output its real number over the output's scale, and the sum of the magnitudes that Winograd rounds."""
    (x_scale, x_zero), (y_scale, _) = step.params["qparams"]
    groups, pads, (r, _) = step.params["groups"], step.params["pads"], step.params["kernel"]
    factor = x_scale * np.array(step.params["scales"], np.float64).reshape(-1, 1, 1, 1) / y_scale
    weight, bias = step.weight * factor, step.bias.reshape(-1, 1, 1) / y_scale
    padded = np.pad(x.astype(np.int64) - x_zero, ((0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (r, r), axis=(1, 2))
    parts = windows.reshape(groups, -1, *windows.shape[1:])
    filters = step.weight.astype(np.int64).reshape(groups, -1, *step.weight.shape[1:])
    sums = np.einsum("gcyxij,gocij->goyx", parts, filters, optimize=True).reshape(-1, *windows.shape[1:3])

    def magnitudes(m):
        sides = (np.abs(matrix) for matrix in matrices(r, m))
        return convolve(np.abs(x - float(x_zero)), np.abs(weight), pads, groups, *sides) + np.abs(bias)

    return sums * factor.reshape(-1, 1, 1) + bias, magnitudes


@pytest.mark.parametrize("isa", FLOAT_ISAS)
@pytest.mark.parametrize(("r", "m"), VARIANTS)
def test_variant(isa, r, m):
    """Between what the least and the greatest sum would become; the same bits from three threads."""
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    for size in SIZES:
        for relu in (False, True):
            step, x = step_of(size, r, relu)
            real, magnitudes = exact(step, x)
            allowed = ((1 + U) ** (roundings(m + r - 1, r, x.shape[0]) + BEFORE_LAST) - 1) * magnitudes(m)
            zero, lo = Y[1], 0 if relu else -128 - Y[1]
            least, most = (np.rint(np.clip(real + side * allowed, lo, 127 - zero)) + zero for side in (-1, 1))
            found = [run(step, x, None, Algorithm("winograd", m, lazy), isa) for lazy in (False, True)]
            found.append(run(step, x, None, Algorithm("winograd", m), isa, threads=3))
            assert all((least <= y).all() and (y <= most).all() for y in found)
            assert np.array_equal(found[0], found[2])
            off = np.abs(found[0] - np.rint(np.clip(real, lo, 127 - zero)) - zero)
            assert off.max() <= 1 and (off > 0).mean() <= 0.01, "the bound is wide of many channels"
            assert len(np.unique(found[0])) > 20


def with_what_follows(step):
    """The step with a table and a sum of scales that are powers of two, hence exact but for the last rounding."""
    where = replace(step.dst, base=SLOT_IN, offset=2 * GUARD + step.src[0].h * step.src[0].w * step.src[0].stride)
    table = np.random.default_rng(1).integers(-128, 128, 256).astype(np.int8)
    add = {"qparams": ((0.5, 3), (0.25, -5), (1.0, 9)), "lo": -np.inf, "hi": np.inf}
    return replace(step, src=(*step.src, where), params={**step.params, "table": table, "add": add})


def residual_of(step):
    return np.random.default_rng(2).integers(-128, 128, (step.dst.c, step.dst.h, step.dst.w), np.int8)


@pytest.mark.parametrize("isa", FLOAT_ISAS)
def test_what_follows(isa):
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    for size in SIZES:
        plain, x = step_of(size, 3)
        follows, residual, way = with_what_follows(plain), residual_of(plain), Algorithm("winograd", 4)
        own = follows.params["table"][run(plain, x, None, way, isa).astype(int) + 128]
        expected = np.clip(np.rint((own - 3.0) * 0.5 + (residual + 5.0) * 0.25) + 9, -128, 127)
        assert np.array_equal(run(follows, x, residual, way, isa), expected)


@pytest.mark.parametrize("isa", FLOAT_ISAS)
def test_gaps_between_taps(isa):
    """The bits of the convolution without gaps for each remainder of rows and columns, with what follows."""
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    way = Algorithm("winograd", 4)
    for apart in (2, 3, 11):  # of 11 some remainders have no pixel
        step, x = step_of((40, 40, 1, (9 + 2 * apart, 7 + 2 * apart), (0, 0, 0, 0)), 3)
        step = replace(step, dst=replace(step.dst, h=9, w=7), params=step.params | {"dilations": (apart, apart)})
        follows, residual = with_what_follows(step), residual_of(step)
        found = run(follows, x, residual, way, isa)
        for down, across in np.ndindex(min(apart, 9), min(apart, 7)):
            part, rest = x[:, down::apart, across::apart], residual[:, down::apart, across::apart]
            plain, _ = step_of((40, 40, 1, part.shape[1:], (0, 0, 0, 0)), 3)
            same = {"scales": step.params["scales"]}  # and weights: those of step_of hang on the size
            plain = replace(plain, params=plain.params | same, weight=step.weight, bias=step.bias)
            expected = run(with_what_follows(plain), part, rest, way, isa)
            assert np.array_equal(found[:, down::apart, across::apart], expected), (apart, down, across)


def test_which_are_compared():
    """Those ahead by the model; kernels of dot products are never behind."""
    step, _ = step_of((128, 128, 1, (28, 28), (1, 1, 1, 1)), 3)
    assert set(candidates(step)) == {
        GEMM,
        *(Algorithm("winograd", m, lazy) for m in (2, 4, 5, 6) for lazy in (False, True)),
    }
    assert modelled(step, 8, "neon", "neon").kind == "winograd"
    assert sensible(step, 8, "neon", "dotprod") == sensible(step, 32, "avx512", "vnni") == (GEMM,)
    assert candidates(replace(step, params={**step.params, "strides": (2, 2)})) == (GEMM,)


def test_every_gemm_of_integers_has_a_factor():
    assert {row.isa for row in ROWS if (row.op, row.type) == ("gemm", "s8")} <= INTEGERS.keys()
