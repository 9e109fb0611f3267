"""SiLU behind a convolution, and the residual behind that: every half against float64, and every driver against the
convolution alone."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from graphs import Net
from kernel_runs import GAP, GUARD, reference_table, run_step, supported_isas

from pipeall._kernels.cpu.algorithms import DIRECT, GEMM, STRASSEN, Algorithm
from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.graph.lower.lower import lower
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

HALF, LEAST = 2.0**-11, 2.0**-24  # what rounding loses of a normal half, and the least half
SILU_ROWS = [row for row in ROWS if row.op == "silu"]
FREE = dict(strides=(1, 1), dilations=(1, 1), lo=-np.inf, hi=np.inf)
KERNELS = {  # name -> (algorithm, kernel, groups, channels of input and output); gaps: taps are 3 pixels apart
    "gemm": (GEMM, 3, 1, 5, 21),
    "pointwise": (GEMM, 1, 1, 40, 70),
    "winograd4": (Algorithm("winograd", 4), 3, 1, 9, 37),
    "winograd2": (Algorithm("winograd", 2), 3, 1, 9, 20),
    "gaps": (Algorithm("winograd", 4), 3, 1, 12, 37),
    "direct": (DIRECT, 3, 5, 15, 20),
    "depthwise": (None, 3, 43, 43, 43),
    "strassen": (STRASSEN, 1, 1, 8, 128),
}


def silu(x):
    return x / (1 + np.exp(-np.maximum(x, -700)))


def allowed_halves(x):
    """HALF of the result for each rounding of 1 + e^-x, of x r and of the quotient, and 0.4 HALF for h^3 and what is
    rounded beside it; e^-x / (1 + e^-x) of what e^-x is off: 1.9 HALF by fit and roundings, and 0.36 HALF |x| as half
    precision has log2 e. Below -9.6 the result is the one there."""
    near = np.maximum(x, np.float64(np.float16(-9.6)))
    of_exp = (1.9 + 0.36 * np.abs(near)) / (1 + np.exp(np.minimum(near, 700)))
    error = HALF * (3.4 + of_exp) * np.abs(silu(near)) + 2 * LEAST
    return error + np.abs(silu(x) - silu(near))


def view(base, offset, h, w, c, dtype):
    return View(base, offset + GUARD, h, w, c, c + GAP, dtype)


def conv(h, w, c_in, c_out, k, groups, dtype, residual, weight=None):
    """A convolution with SiLU, and its inputs."""
    random = np.random.default_rng(c_out)
    target = view(SLOT_OUT, 0, h, w, c_out, dtype)
    sources = [view(SLOT_IN, 0, h, w, c_in, dtype)]
    if residual:
        sources.append(view(SLOT_IN, h * w * (c_in + GAP) + 2 * GUARD, h, w, c_out, dtype))
    params = FREE | dict(kernel=(k, k), pads=(k // 2,) * 4, groups=groups, silu=True)
    if weight is None:
        weight = random.normal(0, 2 / k, (c_out, c_in // groups, k, k)).astype(np.float16)
    bias = np.zeros(c_out, np.float32) if residual is None else random.normal(0, 1, c_out).astype(np.float32)
    inputs = [random.normal(0, 1, (at.h, at.w, at.c)).astype(dtype) for at in sources]
    return Step("conv", "c", tuple(sources), target, params, weight.astype(np.float32), bias), inputs


def run(step, inputs, isa, threads=1, algorithm=None):
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    return run_step(step, inputs, choose((isa, "ref"), "any core"), (-1,) * threads, algorithm, arena_bytes=64)


@pytest.mark.parametrize("isa", [row.isa for row in SILU_ROWS if row.type == "f16"])
def test_every_half(isa):
    """By a convolution that leaves what it reads as it is."""
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    x = np.where(np.isfinite(x), x, 0).astype(np.float16).reshape(32, 32, 64)
    ones = np.ones((64, 1, 1, 1), np.float16)
    step, _ = conv(32, 32, 64, 64, 1, 64, "float16", None, ones)
    exact, error = silu(x.astype(np.float64)), np.abs(run(step, [x], isa) - silu(x.astype(np.float64)))
    allowed = allowed_halves(x.astype(np.float64))
    worst = (error / allowed).argmax()
    assert (error <= allowed).all(), f"{x.flat[worst]}: off by {error.flat[worst]:.3g} of {exact.flat[worst]:.3g}"


@pytest.mark.parametrize("isa", [row.isa for row in SILU_ROWS if row.type == "f16"])
def test_what_is_no_number_or_infinite(isa):
    x = np.array([np.nan, np.inf, -np.inf, 0.0], np.float16).reshape(1, 1, 4)
    step, _ = conv(1, 1, 4, 4, 1, 4, "float16", None, np.ones((4, 1, 1, 1), np.float16))
    nan, high, low, zero = run(step, [x], isa).reshape(-1)
    assert np.isnan(nan) and high == np.inf and zero == 0 and (np.isnan(low) or abs(low) < 7e-4)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(
    ("row", "name"),
    [(row, name) for row in SILU_ROWS for name in KERNELS],
    ids=lambda of: getattr(of, "name", of),
)
def test_behind_a_convolution(row, name, residual):
    """Floats bit by bit as by a step of its own; halves as near as SiLU and a sum of halves can be."""
    algorithm, k, groups, c_in, c_out = KERNELS[name]
    dtype = {"f32": "float32", "f16": "float16"}[row.type]
    step, inputs = conv(11, 14, c_in, c_out, k, groups, dtype, residual)
    if name == "gaps":
        step = replace(step, params=step.params | {"dilations": (3, 3), "pads": (3,) * 4})
    alone = replace(step, src=step.src[:1], params=step.params | dict(silu=False))
    before = run(alone, inputs[:1], row.isa, 1, algorithm).astype(np.float64)
    added = inputs[1].astype(np.float64) if residual else 0
    for threads in (1, 3):
        found = run(step, inputs, row.isa, threads, algorithm)
        if row.type == "f32":
            own = unary(before.astype(np.float32), row)
            assert np.array_equal(found, own + inputs[1] if residual else own), f"{threads} threads"
        else:
            exact, bound = silu(before), allowed_halves(before)
            rounding = HALF * (np.abs(exact + added) + bound) + LEAST if residual else 0
            error = np.abs(found - (exact + added))
            assert (error <= bound + rounding).all(), (
                f"{threads} threads: {(error - bound - rounding).max():.3g} too far"
            )


def unary(x, row):
    """By the kernel of SiLU steps."""
    h, w, c = x.shape
    step = Step(
        "unary",
        "u",
        (View(SLOT_IN, 0, h, w, c, c),),
        View(SLOT_OUT, GUARD, h, w, c, c),
        dict(op="swish", p0=1.0, p1=0.0),
    )
    name = next(other.name for other in ROWS if (other.op, other.type, other.isa) == ("unary", "f32", row.isa))
    return run_step(step, [x], {**reference_table(), ("unary", "f32"): name}, (-1,))


def kinds(lowered):
    return Counter(step.kind for step in lowered.steps)


def silu_net(alpha=1.0, keep=False, order=1):
    """A convolution, its SiLU, and the sum of that and the input."""
    net = Net((1, 8, 6, 6))
    made = net.conv("x0", 8, 3)
    gated = net.op("swish", made, alpha=alpha)
    total = net.op("add", *("x0", gated)[::order])
    last = net.conv(total, 4)
    return net.graph(last, *([made] if keep else []))


@pytest.mark.parametrize(
    ("graph", "counts"),
    [
        (silu_net(), {"conv": 2}),
        (silu_net(order=-1), {"conv": 2}),
        (silu_net(alpha=1.5), {"conv": 2, "unary": 1, "binary": 1}),
        (silu_net(keep=True), {"conv": 2, "unary": 1, "binary": 1}),
    ],
)
def test_silu_and_the_sum_behind_it_are_of_the_convolution(graph, counts):
    """Where the device says so, and nobody else reads what is between."""
    graph = replace(graph, receives=True, transmits=True)
    fused = lower(graph, silu=True)
    assert kinds(fused) == counts and kinds(lower(graph)) == {"conv": 2, "unary": 1, "binary": 1}
    assert [len(step.src) for step in fused.steps if step.params.get("silu")] == ([2] if len(counts) == 1 else [])
