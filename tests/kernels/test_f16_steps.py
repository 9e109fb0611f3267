"""Depthwise convolution and pooling of halves as steps, on views with gaps, against float64: step_reference.py."""

import numpy as np
import pytest
from kernel_runs import GAP, GUARD, run_step, supported_isas
from step_reference import compute

from pipeall._kernels.cpu.algorithms import DIRECT
from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View, is_depthwise

HALF, LEAST = 2.0**-11, 2.0**-25  # what rounding loses, of a normal number and of one below
NARROW = [(2, 2, 5), (3, 3, 4), (4, 4, 3), (8, 8, 2), (3, 6, 4), (1, 2, 7), (2, 1, 9), (12, 5, 3), (9, 20, 2)]


def kernels_of(op):
    """A parameter for every instruction set with a kernel of halves."""
    return pytest.mark.parametrize("isa", [row.isa for row in ROWS if (row.op, row.type) == (op, "f16")])


def window(kernel, stride=1, dilation=1, pads=None):
    pads = tuple(dilation * (kernel // 2) for _ in range(4)) if pads is None else pads
    return dict(kernel=(kernel, kernel), strides=(stride, stride), pads=pads, dilations=(dilation, dilation))


def view_of(base, offset, h, w, c):
    """With a guard band before it and gaps behind its pixels."""
    return View(base, offset + GUARD, h, w, c, c + GAP, "float16")


def end(view):
    return view.offset + view.h * view.w * view.stride + GUARD


def out_size(size, params, axis):
    before, after = params["pads"][axis], params["pads"][axis + 2]
    reach = (params["kernel"][axis] - 1) * params["dilations"][axis] + 1
    return (size + before + after - reach) // params["strides"][axis] + 1


def run_on(isa, step, inputs, threads):
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    algorithm = DIRECT if step.kind == "conv" and not is_depthwise(step) else None
    return run_step(step, inputs, choose((isa, "ref"), "any core"), (-1,) * threads, algorithm, arena_bytes=64)


def conv(random, size, groups, each_in, each_out, params, lo=-np.inf, hi=np.inf, residual=False):
    """A step and its inputs; every other bias is large beside the sums."""
    tall, wide = (out_size(size[axis], params, axis) for axis in (0, 1))
    weight = random.normal(0, 1, (groups * each_out, each_in, *params["kernel"])).astype(np.float16)
    bias = random.normal(0, 1, groups * each_out).astype(np.float32)
    bias[::2] *= 30
    target = view_of(SLOT_OUT, 0, tall, wide, groups * each_out)
    sources = [view_of(SLOT_IN, 0, *size, groups * each_in)]
    if residual:
        sources.append(view_of(SLOT_IN, end(sources[0]), tall, wide, groups * each_out))
    step = Step("conv", "c", tuple(sources), target, params | dict(groups=groups, lo=lo, hi=hi), weight, bias)
    inputs = [random.normal(0, 1, (view.h, view.w, view.c)).astype(np.float16) for view in sources]
    return step, inputs


def bound(step, inputs, exact):
    """A sum of n fused products in half precision: each of the n roundings loses HALF of a partial sum, none of which
    is larger than the sum of the products' sizes and what a half leaves of the bias. The bias itself, and a residual,
    are added with a rounding each; the rest of the bias is a half too."""
    taps = step.weight[0].size
    sizes = Step("conv", "c", step.src[:1], step.dst, step.params | dict(lo=-np.inf, hi=np.inf), np.abs(step.weight),
                 HALF * np.abs(step.bias))  # fmt: skip
    products = compute(sizes, [np.abs(inputs[0]).astype(np.float64)])
    before = np.abs(exact - (inputs[1] if len(inputs) > 1 else 0))
    lost = (1 + taps * HALF) * (taps * (HALF * products + LEAST) + HALF**2 * np.abs(step.bias) + LEAST)
    adding = HALF * before if len(inputs) > 1 else 0
    return (1 + 2 * HALF) * (lost + adding + HALF * np.abs(exact) + LEAST)


def check_conv(step, inputs, isa):
    wide = [x.astype(np.float64) for x in inputs]
    free = Step("conv", "c", step.src, step.dst, step.params | dict(lo=-np.inf, hi=np.inf), step.weight, step.bias)
    exact = compute(free, wide)
    expected = np.clip(exact, step.params["lo"], step.params["hi"])
    for threads in (1, 3):
        found = run_on(isa, step, inputs, threads)
        error, allowed = np.abs(found - expected), bound(step, inputs, exact)
        assert (error <= allowed).all(), f"{step.params}: error {error.max():.3g}, allowed {allowed.max():.3g}"
    return error.max()


@kernels_of("depthwise")
@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 7, 9])
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (3, 1), (1, 2)])
def test_depthwise(isa, kernel, stride, dilation):
    random = np.random.default_rng(kernel)
    for channels in (2, 3, 7, 8, 13, 31, 40):
        pads = None if channels % 2 else (kernel - 1, 0, 1, kernel // 2)
        params = window(kernel, stride, dilation, pads)
        step, inputs = conv(random, (19, 23), channels, 1, 1, params)
        check_conv(step, inputs, isa)


@kernels_of("depthwise")
@pytest.mark.parametrize("each_in, each_out, groups", NARROW)
def test_narrow_groups(isa, each_in, each_out, groups):
    random = np.random.default_rng(each_in)
    for kernel, stride in ((3, 1), (3, 2), (1, 1), (2, 1)):
        step, inputs = conv(random, (9, 17), groups, each_in, each_out, window(kernel, stride))
        check_conv(step, inputs, isa)


@kernels_of("depthwise")
@pytest.mark.parametrize("lo, hi", [(0, np.inf), (0, 6), (-1.0001, 2.4999)])
@pytest.mark.parametrize("residual", [False, True])
def test_bounds_and_residual(isa, lo, hi, residual):
    """Of a size that a team of two cuts in halves."""
    random = np.random.default_rng(5)
    step, inputs = conv(random, (12, 14), 21, 1, 1, window(3), lo, hi, residual)
    check_conv(step, inputs, isa)
    if np.float16(lo) == lo:
        assert (run_on(isa, step, inputs, 1) >= lo).all()


@kernels_of("depthwise")
def test_long_sums_are_of_floats(isa):
    """More products than a sum in half precision may have: those of the reference kernel."""
    random = np.random.default_rng(5)
    step, inputs = conv(random, (20, 18), 3, 1, 1, window(17))
    exact = compute(step, [inputs[0].astype(np.float64)])
    np.testing.assert_allclose(run_on(isa, step, inputs, 1), exact, rtol=1.1 * HALF, atol=1e-4)


@kernels_of("depthwise")
def test_biases_beyond_halves(isa):
    random = np.random.default_rng(5)
    step, inputs = conv(random, (5, 6), 9, 1, 1, window(3))
    step.bias[:3] = 1e6, -1e6, 70000
    found = run_on(isa, step, inputs, 1)
    assert (found[..., 0] == np.inf).all() and (found[..., 1] == -np.inf).all() and np.isfinite(found[..., 3:]).all()


def pool(kind, size, channels, params):
    source = view_of(SLOT_IN, 0, *size, channels)
    target = view_of(SLOT_OUT, 0, *(out_size(size[axis], params, axis) for axis in (0, 1)), channels)
    return Step(kind, "p", (source,), target, params)


def geometry(random):
    """Of a window, none of it in the padding alone, and a picture."""
    while True:
        kernel, strides, dilations = (tuple(map(int, random.integers(1, most, 2))) for most in (5, 4, 3))
        pads = tuple(int(random.integers(0, k)) for k in (*kernel, *kernel))
        params = dict(kernel=kernel, strides=strides, pads=pads, dilations=dilations)
        size = tuple(int(random.integers(k * d + 1, k * d + 12)) for k, d in zip(kernel, dilations, strict=True))
        if all(out_size(size[axis], params, axis) >= 1 for axis in (0, 1)):
            return params, size


@kernels_of("pool")
@pytest.mark.parametrize("kind", ["maxpool", "avgpool"])
def test_pool(isa, kind):
    """Maxima to the last bit; means of which each addition, of floats, and the result are rounded."""
    random = np.random.default_rng(7)
    for trial in range(60):
        params, size = (window(3, 1 + trial // 3 % 2), (15, 17)) if trial % 3 == 0 else geometry(random)
        params["count_include_pad"] = trial % 2
        step = pool(kind, size, (1, 7, 8, 13, 40, 65)[trial % 6], params)
        x = random.normal(0, 1, (*size, step.src[0].c)).astype(np.float16)
        expected = compute(step, [x.astype(np.float64)])
        for threads in (1, 3):
            found = run_on(isa, step, [x], threads)
            if kind == "maxpool":
                np.testing.assert_array_equal(found, expected)
            else:
                allowed = HALF * np.abs(expected) + LEAST + 2.0**-23 * np.prod(params["kernel"]) * np.abs(x).max()
                assert (np.abs(found - expected) <= allowed).all()


@kernels_of("pool")
def test_mean_of_a_large_picture(isa):
    """A sum of halves would stop at 2048."""
    step = pool("avgpool", (56, 60), 24, dict(kernel=(56, 60), strides=(1, 1), pads=(0,) * 4, count_include_pad=0,
                                              dilations=(1, 1)))  # fmt: skip
    x = np.full((56, 60, 24), 30.25, np.float16)
    np.testing.assert_array_equal(run_on(isa, step, [x], 1), x[:1, :1])


@kernels_of("pool")
def test_maxima_of_infinities(isa):
    x = np.full((6, 7, 9), -np.inf, np.float16)
    x[3, 3, 4] = np.inf
    step = pool("maxpool", x.shape[:2], 9, window(3))
    np.testing.assert_array_equal(run_on(isa, step, [x], 1), compute(step, [x.astype(np.float64)]))
