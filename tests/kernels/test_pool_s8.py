"""Pooling of 8-bit integers as a step, of random windows, pads and strides, against NumPy: equal to the last bit."""

from itertools import product

import numpy as np
import pytest
from kernel_runs import supported_isas
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

LEVELS = (0.07, -5), (0.05, 9)  # scale and zero point of the input and of the output


def expected(x, params, mean):
    """Of (h, w, channels), in int64; the mean's divisor and rounding in float32."""
    (kh, kw), (sy, sx), (dy, dx) = params["kernel"], params["strides"], params["dilations"]
    top, left, bottom, right = params["pads"]
    (x_scale, x_zero), (y_scale, y_zero) = LEVELS
    fill = x_zero if mean else -128
    padded = np.pad(x.astype(np.int64), ((top, bottom), (left, right), (0, 0)), constant_values=fill)
    inside = np.pad(np.ones(x.shape[:2]), ((top, bottom), (left, right)), constant_values=params["count_include_pad"])
    tall, wide = (padded.shape[0] - (kh - 1) * dy - 1) // sy + 1, (padded.shape[1] - (kw - 1) * dx - 1) // sx + 1
    out = np.empty((tall, wide, x.shape[2]), np.int8)
    for i, j in product(range(tall), range(wide)):
        rows, columns = i * sy + dy * np.arange(kh), j * sx + dx * np.arange(kw)
        window, count = padded[np.ix_(rows, columns)], inside[np.ix_(rows, columns)].sum()
        if mean:
            factor = np.float32(x_scale / y_scale) / np.float32(count) if count else np.float32(0)
            real = (window - x_zero).sum((0, 1)).astype(np.float32) * factor
            out[i, j] = np.clip(np.rint(real) + y_zero, -128, 127)
        else:
            out[i, j] = window.max((0, 1))
    return out


def pooled(x, params, mean, shape, isa, threads):
    """By the native step, on views with a gap of 3 bytes behind each pixel, which stay as they are."""
    (h, w, c), (tall, wide, _) = x.shape, shape
    source, target = View(SLOT_IN, 0, h, w, c, c + 3, "int8"), View(SLOT_OUT, 0, tall, wide, c, c + 3, "int8")
    step = Step("avgpool" if mean else "maxpool", "p", (source,), target, params | {"qparams": LEVELS})
    sizes = 64, h * w * (c + 3), tall * wide * (c + 3)
    program = CpuProgram(choose((isa, "ref"), "any core"), (-1,) * threads, "test", sizes)
    program.add(step, None)
    out = program.run(np.pad(x, ((0, 0), (0, 0), (0, 3)), constant_values=127)).reshape(tall, wide, c + 3)
    assert (out[:, :, c:] == -1).all(), "wrote outside its view"
    return out[:, :, :c]


def geometry(random):
    """Parameters of a pool, and a height and width that have room for at least one window."""
    while True:
        kernel, strides, dilations = (tuple(map(int, random.integers(1, most, 2))) for most in (5, 4, 4))
        pads = tuple(int(random.integers(0, k)) for k in (*kernel, *kernel))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        size = [int(random.integers(1, k + 12)) for k in reach]
        if all(size[i] + pads[i] + pads[i + 2] >= reach[i] for i in (0, 1)):
            return dict(kernel=kernel, strides=strides, pads=pads, dilations=dilations), size


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("isa", [row.isa for row in ROWS if (row.op, row.type) == ("pool", "s8")])
def test_pool(isa, mean):
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    random = np.random.default_rng(7)
    for trial in range(100):
        params, size = geometry(random)
        params["count_include_pad"] = trial % 2
        x = random.integers(-128, 128, (*size, (1, 7, 24, 64, 65, 300)[trial % 6])).astype(np.int8)
        wanted = expected(x, params, mean)
        for threads in (1, 3):
            found = pooled(x, params, mean, wanted.shape, isa, threads)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{x.shape} {params} {threads} threads")
