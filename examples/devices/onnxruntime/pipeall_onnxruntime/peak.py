"""The most that a provider does: of a convolution that computes much, and of a product that reads much."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from pipeall._kernels.peak import Peak
from pipeall.graph.builder import GraphBuilder
from pipeall.graph.ir import Graph, Tensor
from pipeall.graph.lower.lower import lower

if TYPE_CHECKING:
    from .device import Program

CHANNELS, SIDE, FEATURES = 256, 28, 4096
TIMES = 9


def measured(compile: Callable[..., Program]) -> Peak:
    """Medians of some runs each; ``compile``: the device's."""
    image = Tensor("x", (1, CHANNELS, SIDE, SIDE))
    much = _seconds(compile, image, "conv", (CHANNELS, CHANNELS, 3, 3), pads=(1,) * 4)
    row = Tensor("x", (1, FEATURES))
    read = _seconds(compile, row, "fc", (FEATURES, FEATURES), axis=1)
    return Peak(2 * CHANNELS * CHANNELS * 9 * SIDE * SIDE / much, 4 * FEATURES * FEATURES / read)


def _seconds(compile: Callable[..., Program], x: Tensor, op: str, shape: tuple[int, ...], **attrs: object) -> float:
    net = GraphBuilder(Graph("peak", (), {x.name: x}, {}, (x,), (x,)))
    constants = net.constant("weight", np.ones(shape)), net.constant("bias", np.ones(shape[0]))
    lowered = lower(net.graph([net.add(op, "y", [x.name, *constants], **attrs)]))
    program = compile(lowered, "peak")
    slots = [np.zeros(nbytes, np.uint8) for nbytes in (lowered.slot_in_bytes, lowered.slot_out_bytes)]
    times = []
    for _ in range(TIMES):
        begin = perf_counter()
        program.run(*slots)
        times.append(perf_counter() - begin)
    return median(times)
