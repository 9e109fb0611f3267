"""First layers on 8-bit integers, whose windows of few channels are gathered: exact, on every instruction set."""

import numpy as np
import pytest
from kernel_runs import supported_isas
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

ISAS = [isa for isa in supported_isas() if any((row.op, row.type, row.isa) == ("gemm", "s8", isa) for row in ROWS)]
LAYERS = {  # channels, height and width, kernel, strides, pads; a row of the kernel has so many bytes:
    "6": (3, (9, 31), (2, 2), (1, 2), (0, 0, 0, 0)),
    "9": (3, (13, 40), (3, 3), (2, 2), (1, 1, 1, 1)),
    "16": (4, (11, 37), (3, 4), (1, 1), (1, 2, 0, 1)),
    "21": (3, (20, 33), (7, 7), (2, 2), (3, 3, 3, 3)),
    "33": (3, (25, 43), (11, 11), (4, 4), (2, 0, 2, 0)),
    "55": (5, (12, 41), (2, 11), (1, 3), (1, 4, 1, 5)),
    "21, narrower than the kernel": (3, (5, 4), (7, 7), (1, 1), (3, 3, 3, 3)),
}
X, Y = (0.5, -7), (2.0, 20)  # levels


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_windows_of_few_channels(layer, isa):
    channels, (h, w), kernel, strides, (top, left, bottom, right) = layer
    random = np.random.default_rng(0)
    x = random.integers(-128, 128, (h, w, channels), np.int8)
    weight = random.integers(-127, 128, (9, channels, *kernel)).astype(np.int8)
    scales = random.uniform(1, 3, 9).astype(np.float32) / np.float32(70 * weight[0].size ** 0.5)
    padded = np.pad(x.astype(np.int64) - X[1], ((top, bottom), (left, right), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(0, 1))[:: strides[0], :: strides[1]]
    sums = np.einsum("yxcij,ocij->yxo", windows, weight.astype(np.int64))
    real = sums.astype(np.float32) * (X[0] * scales.astype(np.float64) / Y[0]).astype(np.float32)
    expected = np.clip(np.rint(real) + Y[1], -128, 127)
    out = expected.shape[:2]
    params = dict(kernel=kernel, strides=strides, pads=(top, left, bottom, right), dilations=(1, 1), groups=1,
                  qparams=(X, Y), scales=tuple(scales.tolist()), lo=-np.inf, hi=np.inf)  # fmt: skip
    source, target = View(SLOT_IN, 0, h, w, channels, channels, "int8"), View(SLOT_OUT, 0, *out, 9, 9, "int8")
    for threads in (1, 3):
        program = CpuProgram(choose((isa, "ref"), "any"), (-1,) * threads, "test", (0, x.size, target.elements))
        program.add(Step("conv", "c", (source,), target, params, weight, np.zeros(9, np.float32)))
        found = program.run(x.ravel())[: target.elements].reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)
