"""Convolutions that compute several pixels as one: where they do, and that the result is the same bit for bit."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from kernel_runs import conv_step, float_isas
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall._kernels.cpu.algorithms import GEMM, modelled
from pipeall._kernels.cpu.pack_pixels import KC, fold
from pipeall._kernels.cpu.table import choose
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

GUARD = 64  # floats around what a program may write


def conv(
    c_in, c_out, hw, kernel=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), residual=False, bound=inf
):
    """A step with random weights, its views one after the other in the slots."""
    random = np.random.default_rng(0)
    out = [
        (size + pads[a] + pads[a + 2] - dilations[a] * (kernel[a] - 1) - 1) // strides[a] + 1
        for a, size in enumerate(hw)
    ]
    source, target = View(SLOT_IN, 0, *hw, c_in, c_in), View(SLOT_OUT, GUARD, *out, c_out, c_out)
    beside = (replace(target, base=SLOT_IN, offset=source.elements),) if residual else ()
    params = dict(kernel=kernel, strides=strides, pads=pads, dilations=dilations, groups=1, lo=-bound, hi=bound)
    weight = random.standard_normal((c_out, c_in, *kernel)).astype(np.float32)
    return Step(
        "conv", "c", (source, *beside), target, params, weight, random.standard_normal(c_out).astype(np.float32)
    )


CASES = {
    "1x1": conv(4, 4, (12, 13)),
    "1x1, residual": conv(8, 8, (16, 12), residual=True, bound=1.0),
    "1x1, three images of a stripe": conv(40, 3, (1, 90)),
    "3x3, one output": conv(8, 1, (9, 32), (3, 3), pads=(1, 1, 1, 1)),
    "3x3, longest sum": conv(KC // 9, 2, (6, 24), (3, 3), pads=(1, 1, 1, 1)),
    "stem": conv(3, 8, (33, 48), (3, 3), (2, 2), (1, 1, 1, 1)),
    "uneven pads, residual": conv(5, 3, (13, 19), (3, 5), (1, 1), (2, 0, 1, 3), residual=True),
    "wider than the row": conv(2, 1, (20, 8), (3, 7), pads=(1, 3, 1, 3)),
    "dilated": conv(6, 2, (14, 27), (3, 3), (2, 1), (1, 3, 1, 0), (2, 3)),
    "window beside window": conv(3, 2, (12, 48), (2, 3), (1, 3)),
}


def run(step, isa, threads=1):
    """What is written, between guards that must stay."""
    end = GUARD + (step.dst.h * step.dst.w - 1) * step.dst.stride + step.dst.c
    frame = np.random.default_rng(1).standard_normal(sum(view.elements for view in step.src)).astype(np.float32)
    program = CpuProgram(choose((isa, "ref"), "any"), (-1,) * threads, "test", (0, 4 * frame.size, 4 * (end + GUARD)))
    program.add(step, GEMM)
    out = program.run(frame)
    pixels = out[GUARD : GUARD + step.dst.h * step.dst.w * step.dst.stride].reshape(-1, step.dst.stride)
    result = pixels[:, : step.dst.c].copy()
    pixels[:, : step.dst.c] = np.nan
    assert np.isnan(out).all(), "wrote outside its view"
    return result


@pytest.mark.parametrize("isa", float_isas())
@pytest.mark.parametrize("step", CASES.values(), ids=CASES.keys())
def test_same_bits_as_pixel_by_pixel(step, isa):
    """As a view with gaps between its pixels has them."""
    apart = replace(step, dst=replace(step.dst, stride=step.dst.c + 1))
    assert fold(apart, 32) == 1 < fold(step, 32)
    assert fold(step, 8) > 1 or step.dst.c > 4
    result = run(step, isa)
    assert np.isfinite(result).all()
    assert np.array_equal(result, run(apart, isa))
    assert np.array_equal(result, run(step, isa, threads=3))


@pytest.mark.parametrize(
    ("step", "pixels"),
    [
        (conv_step(8, 1, 256, 3), 16),
        (conv_step(3, 8, 224, 3, stride=2), 2),
        (conv_step(3, 16, 224, 3, stride=2), 1),  # no lane is empty
        (conv_step(4, 4, 196, 1), 4),
        (conv_step(8, 2, 257, 3), 1),  # a prime
        (conv_step(72, 1, 64, 3), 1),  # a sum of several blocks
        (conv_step(8, 8, 64, 3, groups=2), 1),
        (conv_step(8, 1, 2, 1), 1),  # not even a tile
    ],
)
def test_known_layers(step, pixels):
    assert fold(step, 32) == pixels
    assert fold(step, 16) == pixels
    assert pixels == 1 or modelled(step, 32, "avx512") == GEMM
