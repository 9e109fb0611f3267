"""Convolutions on 8-bit integers of many channels: what a chunk reads of its input, exact on every instruction set."""

import numpy as np
import pytest
from kernel_runs import supported_isas
from pipeall._kernels.cpu.kernels import CpuProgram, small_sums

from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

ISAS = [isa for isa in supported_isas() if any((row.op, row.type, row.isa) == ("gemm", "s8", isa) for row in ROWS)]
LAYERS = {  # channels, outputs, groups, height and width, kernel, strides, dilations, pads, channels beside
    "rows in parts": (32, 33, 1, (5, 450), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 0),
    "rows in parts, strides": (28, 9, 1, (7, 901), (3, 5), (2, 2), (1, 1), (1, 2, 1, 2), 0),
    "dilated": (32, 40, 1, (19, 33), (3, 3), (1, 1), (6, 4), (6, 4, 6, 4), 0),
    "most taps outside": (40, 8, 1, (7, 9), (3, 3), (1, 1), (12, 12), (12, 12, 12, 12), 0),
    "groups of a slice, long sums": (272, 146, 2, (5, 17), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 7),
    "one pixel, strides": (37, 35, 1, (13, 17), (1, 1), (2, 3), (1, 1), (0, 0, 0, 0), 3),
    "one pixel of a slice, long sums": (1237, 75, 1, (13, 17), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 3),
    "depthwise": (83, 83, 83, (9, 21), (5, 5), (1, 1), (1, 1), (2, 2, 2, 2), 0),
    "depthwise of a slice": (119, 119, 119, (9, 21), (3, 2), (2, 2), (2, 1), (2, 1, 2, 0), 5),
    "depthwise, stride 2": (83, 83, 83, (9, 22), (3, 3), (2, 2), (1, 1), (0, 0, 1, 1), 3),
    "depthwise, long rows": (12, 12, 12, (17, 40), (3, 9), (1, 1), (1, 1), (1, 4, 1, 4), 0),
    "depthwise, gaps": (21, 21, 21, (17, 19), (3, 6), (3, 1), (2, 2), (3, 5, 3, 5), 0),
}
X, Y = (0.5, -7), (2.0, 20)  # levels


def sums_of(x, weight, groups, strides, dilations, pads):
    """(h, w, outputs) sums of products with the integers less their zero point."""
    top, left, bottom, right = pads
    padded = np.pad(x.astype(np.int64) - X[1], ((top, bottom), (left, right), (0, 0)))
    reach = [(k - 1) * d for k, d in zip(weight.shape[2:], dilations, strict=True)]
    rows, columns = (range(0, n - r, s) for n, r, s in zip(padded.shape, reach, strides, strict=False))
    made = np.zeros((len(rows), len(columns), len(weight)), np.int64)
    width, outputs = weight.shape[1], len(weight) // groups
    for i, j in np.ndindex(*weight.shape[2:]):
        under = padded[np.ix_([y + i * dilations[0] for y in rows], [c + j * dilations[1] for c in columns])]
        for g in range(groups):
            filters = weight[g * outputs : (g + 1) * outputs, :, i, j].astype(np.int64)
            made[..., g * outputs : (g + 1) * outputs] += under[..., g * width : (g + 1) * width] @ filters.T
    return made


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_convolutions_of_many_channels(layer, isa):
    channels, outputs, groups, (h, w), kernel, strides, dilations, pads, beside = layer
    random, stride = np.random.default_rng(0), channels + beside
    memory = random.integers(-128, 128, (h, w, stride)).astype(np.int8)
    weight = random.integers(-127, 128, (outputs, channels // groups, *kernel)).astype(np.int8)
    scales = random.uniform(1, 3, outputs).astype(np.float32) / np.float32(70 * weight[0].size ** 0.5)
    sums = sums_of(memory[..., :channels], weight, groups, strides, dilations, pads)
    real = sums.astype(np.float32) * (X[0] * scales.astype(np.float64) / Y[0]).astype(np.float32)
    expected = np.clip(np.rint(real) + Y[1], -128, 127)
    params = dict(kernel=kernel, strides=strides, pads=pads, dilations=dilations, groups=groups, qparams=(X, Y),
                  scales=tuple(scales.tolist()), lo=-np.inf, hi=np.inf)  # fmt: skip
    source = View(SLOT_IN, 0, h, w, channels, stride, "int8")
    target = View(SLOT_OUT, 0, *expected.shape[:2], outputs, outputs, "int8")
    kernels = choose((isa, "ref"), "cortex-a76")
    for threads in (1, 3):
        program = CpuProgram(kernels, (-1,) * threads, "test", (0, memory.size, target.elements))
        program.add(Step("conv", "c", (source,), target, params, weight, np.zeros(outputs, np.float32)))
        found = program.run(memory.ravel())[: target.elements].reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)


def test_small_sums():
    """Sums are small below 2^22, and what they are scaled to below 2^14, of the worst input of all."""
    weight = np.random.default_rng(0).integers(-128, 128, (1, 50)).astype(np.int8)
    most, least = (int((weight * np.where(weight > 0, *ends)).sum()) for ends in ((127, -128), (-128, 127)))
    for bound, scale in ((2**22, 2.0**-9), (2**21, 2.0**-7)):
        for bias, nearer in ((bound - most, -1), (-bound - least, 1)):
            assert not small_sums(weight, np.array([float(bias)]), np.array([scale]))
            assert small_sums(weight, np.array([float(bias + nearer)]), np.array([scale]))
