"""LRN of halves and of 8-bit integers as a step, on views with gaps and without, beside float64: within a rounding."""

import numpy as np
import pytest
from kernel_runs import float_isas
from pipeall._kernels.cpu.kernels import CpuProgram
from step_reference import compute

from pipeall._kernels.cpu.table import choose
from pipeall.errors import ArgumentError
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

LEVELS = (0.031, -9), (0.0173, 23)  # scale and zero point of the input and of the output
FLOAT = 2.0**-23
SHAPES = [(1, 1, 1), (3, 5, 1), (2, 3, 7), (9, 4, 96), (5, 3, 65), (1, 3, 2051), (24, 18, 40)]


def normalized(x, params, isa, threads, gap):
    """By the native step; what lies in the gaps stays as it is."""
    h, w, c = x.shape
    source, target = (View(base, 0, h, w, c, c + gap, str(x.dtype)) for base in (SLOT_IN, SLOT_OUT))
    step = Step("lrn", "n", (source,), target, params)
    nbytes = h * w * (c + gap) * x.itemsize
    program = CpuProgram(choose((isa, "ref"), "any core"), (-1,) * threads, "test", (64, nbytes, nbytes))
    program.add(step)
    given = np.pad(x, ((0, 0), (0, 0), (0, gap)), constant_values=100).reshape(-1)
    out = program.run(given)[: h * w * (c + gap)].reshape(h, w, c + gap)
    assert (out.view(np.uint8)[:, :, c * x.itemsize :] == 255).all(), "wrote outside its view"
    return out[:, :, :c].astype(np.float64)


def cases():
    """Shapes, windows that are even and odd, and powers; windows may be longer than the pixel."""
    for number, shape in enumerate(SHAPES):
        for size in (1, 2, 5, 8):
            beta = (0.75, 0.5)[(number + size) % 2]
            yield shape, dict(size=size, alpha=0.7, beta=beta, bias=1.5)


def exact(x, params):
    view = View(SLOT_IN, 0, *x.shape, x.shape[2])
    return compute(Step("lrn", "n", (view,), view, params), [x.astype(np.float64)])


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("isa", float_isas())
def test_halves(isa, gap):
    random = np.random.default_rng(3)
    for shape, params in cases():
        x = random.normal(0, 2, shape).astype(np.float16)
        expected = exact(x, params)
        for threads in (1, 3):
            error = np.abs(normalized(x, params, isa, threads, gap) - expected)
            assert (error <= (2.0**-11 + 16 * FLOAT) * np.abs(expected) + 2.0**-25).all(), (shape, params)


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("isa", float_isas())
def test_integers(isa, gap):
    """The nearest level: half a level off, and what 16 roundings of floats lose of at most 256 levels."""
    random, ((x_scale, x_zero), (scale, zero)) = np.random.default_rng(4), LEVELS
    for shape, params in cases():
        x = random.integers(-128, 128, shape).astype(np.int8)
        real = (x.astype(np.float64) - x_zero) * np.float64(np.float32(x_scale))
        expected = np.clip(exact(real, params) / np.float64(np.float32(scale)) + zero, -128, 127)
        for threads in (1, 3):
            found = normalized(x, params | {"qparams": LEVELS}, isa, threads, gap)
            assert (np.abs(found - expected) <= 0.5 + 256 * 16 * FLOAT).all(), (shape, params)


def test_other_types():
    view = View(SLOT_IN, 0, 2, 2, 8, 8, "int32")
    program = CpuProgram(choose(("ref",), "any core"), (-1,), "test", (64, 128, 128))
    params = dict(size=5, alpha=1.0, beta=0.75, bias=1.0)
    with pytest.raises(ArgumentError, match="n .lrn.: expected floats, halves or int8, got int32"):
        program.add(Step("lrn", "n", (view,), View(SLOT_OUT, 0, 2, 2, 8, 8, "int32"), params))
