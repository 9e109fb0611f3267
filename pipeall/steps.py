"""What a device executes: views of memory and primitive steps on them.

``lower.lower(graph)`` turns a graph into a ``Lowered`` once; every device (CPU, OpenCL) implements the
step kinds below and nothing else. Memory comes in three bases: the arena (ARENA), the slot the stage
reads (SLOT_IN) and the slot it writes (SLOT_OUT). Offsets and strides are in float32 elements.

kind      src                     params
conv      x, [residual]           kernel (kh, kw), strides, pads (top, left, bottom, right), dilations, groups, lo, hi;
                                  weight (Cout, Cin/groups, kh, kw), bias (Cout,). A fully connected layer is a
                                  conv whose kernel covers its whole input.
maxpool   x                       kernel, strides, pads, dilations
avgpool   x                       kernel, strides, pads, count_include_pad
lrn       x                       size, alpha, beta, bias        (across channels)
softmax   x                       -                              (over the channels of each pixel)
layernorm x                       epsilon                        (over the channels of each pixel)
binary    a, [b]                  op of ``pointwise.BINARY``, lo, hi; b is a view or, if absent, ``weight`` (h, w, c);
                                  each of b's h, w, c equals a's or is 1
unary     x                       op of ``pointwise.UNARY``, p0, p1
copy      x                       dims (<= 6), src_strides, dst_strides: dst[i . dst_strides] = x[i . src_strides];
                                  both views are one pixel from the first element touched to the last
fill      -                       value: every element of dst

``lo`` and ``hi`` clamp the result (ReLU is 0, inf; ReLU6 is 0, 6; nothing is -inf, inf); conv computes
clamp(conv(x) + bias + residual, lo, hi).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ARENA, SLOT_IN, SLOT_OUT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class View:
    """h x w pixels of c channels; pixel (y, x) starts at offset + (y * w + x) * stride, stride >= c.

    A tensor that is not rank 4 is one pixel: h = w = 1, c = its element count, in row-major order.
    """

    base: int
    offset: int
    h: int
    w: int
    c: int
    stride: int


@dataclass(frozen=True, slots=True)
class Step:
    kind: str
    node: str
    src: tuple[View, ...]
    dst: View
    params: Mapping[str, Any] = field(default_factory=dict)
    weight: np.ndarray | None = None
    bias: np.ndarray | None = None


def is_depthwise(step: Step) -> bool:
    """Whether a conv step has one filter per channel: it has a kernel of its own."""
    return 1 < step.params["groups"] == step.src[0].c == step.dst.c


@dataclass(frozen=True, slots=True)
class SlotTensor:
    """One tensor of a ring slot: where it lies, and its shape. ``nhwc`` is False at the model's own borders."""

    name: str
    shape: tuple[int, ...]
    offset: int
    nhwc: bool


@dataclass(frozen=True, slots=True)
class Lowered:
    """A sub-graph as steps; sizes in elements. The two sides of a ring agree on the slot layout by construction.

    Steps [first_late, last_early) are always run. Those before are left out for a frame on which the stage before has
    done them, those after where the next stage does them; the tensors that cross there lie in the slot, behind those of
    the cut before. Without floating cuts that is all steps (last_early is None).
    """

    steps: tuple[Step, ...]
    arena_elements: int
    slot_in: tuple[SlotTensor, ...]
    slot_in_elements: int
    slot_out: tuple[SlotTensor, ...]
    slot_out_elements: int
    first_late: int = 0
    last_early: int | None = None
