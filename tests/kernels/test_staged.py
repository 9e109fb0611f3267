"""Convolutions whose input is staged, narrow groups and slices: the bits of dense inputs, a group each."""

from dataclasses import dataclass
from math import inf

import numpy as np
import pytest
from kernel_runs import float_isas
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall._kernels.cpu.algorithms import GEMM
from pipeall._kernels.cpu.table import choose
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View


@dataclass(frozen=True)
class Layer:
    groups: int
    channels: tuple[int, int]  # in and out of a group
    hw: tuple[int, int]
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilations: tuple[int, int] = (1, 1)
    more: int = 0  # channels of the pixels that are not read

    @property
    def out(self) -> list[int]:
        return [
            (self.hw[a] + self.pads[a] + self.pads[a + 2] - self.dilations[a] * (self.kernel[a] - 1) - 1)
            // self.strides[a] + 1
            for a in range(2)
        ]  # fmt: skip


LAYERS = {
    "chunks of five rows": Layer(3, (8, 8), (23, 37)),
    "a row is more than a chunk": Layer(2, (4, 4), (3, 300)),
    "stride 2": Layer(5, (8, 8), (31, 56), strides=(2, 2)),
    "uneven pads and strides": Layer(2, (5, 3), (40, 29), (3, 5), (2, 3), (2, 0, 1, 3)),
    "padding wider than the row": Layer(2, (3, 9), (70, 2), (3, 7), pads=(1, 5, 1, 4)),
    "rows beyond the image": Layer(2, (7, 2), (9, 33), (5, 3), (3, 1), (4, 1, 6, 1)),
    "rows dilated": Layer(3, (8, 4), (30, 41), dilations=(3, 1), pads=(3, 1, 3, 1)),  # gathered
    "columns unread": Layer(2, (6, 6), (18, 50), (2, 2), (2, 3), (0, 0, 0, 0)),
    "a slice": Layer(1, (9, 20), (25, 38), more=7),
}


def run(isa, frame, source, weight, bias, layer, groups, threads):
    out = layer.out
    target = View(SLOT_OUT, 0, *out, bias.size, bias.size)
    params = dict(kernel=layer.kernel, strides=layer.strides, pads=layer.pads, dilations=layer.dilations,
                  groups=groups, lo=-inf, hi=inf)  # fmt: skip
    program = CpuProgram(choose((isa, "ref"), "any"), (-1,) * threads, "test", (0, frame.nbytes, 4 * target.elements))
    program.add(Step("conv", "c", (source,), target, params, weight, bias), GEMM)
    return program.run(frame.ravel()).reshape(*out, bias.size)


@pytest.mark.parametrize("isa", float_isas())
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS.keys())
def test_same_bits_as_dense_groups(layer, isa):
    random = np.random.default_rng(3)
    (c_in, c_out), groups = layer.channels, layer.groups
    pixel = layer.more + groups * c_in
    frame = random.standard_normal((*layer.hw, pixel)).astype(np.float32)
    weight = random.standard_normal((groups * c_out, c_in, *layer.kernel)).astype(np.float32)
    bias = random.standard_normal(groups * c_out).astype(np.float32)
    source = View(SLOT_IN, layer.more, *layer.hw, groups * c_in, pixel)
    expected = []
    for g in range(groups):
        mine, first = slice(g * c_out, (g + 1) * c_out), layer.more + g * c_in
        dense = np.ascontiguousarray(frame[..., first : first + c_in])
        alone = View(SLOT_IN, 0, *layer.hw, c_in, c_in)
        expected.append(run(isa, dense, alone, weight[mine], bias[mine], layer, 1, 1))
    for threads in (1, 3):
        result = run(isa, frame, source, weight, bias, layer, groups, threads)
        assert np.isfinite(result).all()
        assert np.array_equal(result, np.concatenate(expected, axis=-1)), f"{threads} threads"
