"""What a device executes: views of memory and primitive steps on them.

``lower.lower(graph)`` turns a graph into a ``Lowered`` once; every device (CPU, OpenCL) implements the
step kinds below and nothing else. Memory comes in four bases: the arena (ARENA), the slot the stage
reads (SLOT_IN), the slot it writes (SLOT_OUT) and what each thread has for strips (LOCAL). Every view
has an element type: its offset and strides are in elements of that type. Sizes of bases are in bytes.

Copies move elements of any type. The kinds on pixels, in the table, have kernels for float32.

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
fill      -                       value: every element of dst; one that its type can hold

Every other kind is an op of ``graph/ops`` on tensors of any rank: src and dst are ``Strided``, of the shapes and types
that the op's table says, in the order of its inputs; params are its attributes. ``pad`` has ``places`` besides: of each
axis, which element each position has, or -1 for the value.

``lo`` and ``hi`` clamp the result (ReLU is 0, inf; ReLU6 is 0, 6; nothing is -inf, inf); conv computes
clamp(conv(x) + bias + residual, lo, hi), with ``silu`` silu(clamp(conv(x) + bias, lo, hi)) + residual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

ARENA, SLOT_IN, SLOT_OUT, LOCAL = 0, 1, 2, 3
CONSTANT = -1  # of an operand that brings its elements

TYPES = {  # element type, as tensors and files name it: as kernels.inc does
    "float32": "f32",
    "float16": "f16",
    "int8": "s8",
    "uint8": "u8",
    "int32": "s32",
    "int64": "s64",
    "bool": "b8",
}

# Kinds whose operands are views of pixels, of one type; copies are among them
PIXEL_KINDS = frozenset("conv maxpool avgpool lrn softmax layernorm binary unary copy fill".split())


def item_bytes(dtype: str) -> int:
    """The size of an element of a type, in bytes."""
    return np.dtype(dtype).itemsize


@dataclass(frozen=True, slots=True)
class View:
    """h x w pixels of c channels; pixel (y, x) starts at offset + (y * w + x) * stride, stride >= c.

    A tensor that is not rank 4 is one pixel: h = w = 1, c = its element count, in row-major order. Offset and stride
    are in elements of ``dtype``, a key of ``TYPES``.
    """

    base: int
    offset: int
    h: int
    w: int
    c: int
    stride: int
    dtype: str = "float32"

    @property
    def elements(self) -> int:
        return self.h * self.w * self.c

    @property
    def nbytes(self) -> int:
        """The bytes of its elements, without what lies between pixels."""
        return self.elements * item_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class Strided:
    """Elements of a tensor of any rank: element i lies at offset + i . strides, in elements of ``dtype``.

    A stride of 0 broadcasts. ``array`` holds the elements of a constant, C-contiguous, whose base is CONSTANT.
    """

    base: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str = "float32"
    array: np.ndarray | None = field(default=None, compare=False)

    @property
    def nbytes(self) -> int:
        """The bytes of its elements; a broadcast axis counts once."""
        met = (size for size, stride in zip(self.shape, self.strides, strict=True) if stride)
        return prod(met) * item_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class Step:
    kind: str
    node: str
    src: tuple[View | Strided, ...]
    dst: View | Strided
    params: Mapping[str, Any] = field(default_factory=dict)
    weight: np.ndarray | None = None
    bias: np.ndarray | None = None


def is_depthwise(step: Step) -> bool:
    """Whether a conv step has one filter per channel: it has a kernel of its own."""
    return 1 < step.params["groups"] == step.src[0].c == step.dst.c


@dataclass(frozen=True, slots=True)
class SlotTensor:
    """One tensor of a ring slot: where it lies, in elements of its type, and its shape.

    ``nhwc`` is False at the model's own borders.
    """

    name: str
    shape: tuple[int, ...]
    offset: int
    nhwc: bool
    dtype: str = "float32"

    @property
    def offset_bytes(self) -> int:
        return self.offset * item_bytes(self.dtype)

    @property
    def nbytes(self) -> int:
        """The bytes of its elements, without what lies between pixels."""
        return prod(self.shape) * item_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class Strips:
    """Steps first to last, which take turns: of each band of rows, that one thread computes, parts of these steps in
    the order they run, with the number of the step. ``local_bytes`` is what a thread has behind LOCAL."""

    first: int
    last: int
    bands: tuple[tuple[tuple[int, Step], ...], ...]
    local_bytes: int


@dataclass(frozen=True, slots=True)
class Lowered:
    """A sub-graph as steps; sizes in bytes. The two sides of a ring agree on the slot layout by construction.

    ``leaves`` are outputs of the model that leave here and cross nothing, in the model's own layout. They lie in the
    outgoing slot behind all that crosses, so the stage after sees nothing of them: its ``slot_in_bytes`` end before.

    Steps [first_late, last_early) are always run. Those before are left out for a frame on which the stage before has
    done them, those after where the next stage does them; the tensors that cross there lie in the slot, behind those of
    the cut before. Without floating cuts that is all steps (last_early is None).

    ``float32`` are layers that stay in single precision, though all else is computed in half: those that
    ``keep_float32`` names, and heads.

    ``strips`` say how some of the steps are computed in parts; what lies behind LOCAL in these steps has no memory.

    ``source`` is what was lowered: the sub-graph (``graph.ir.Graph``) and where cuts float (``partition.Border``, or
    None for each), as ``lower`` was given them. Devices that hand a network to a compiler of its own read it.
    """

    steps: tuple[Step, ...]
    arena_bytes: int
    slot_in: tuple[SlotTensor, ...]
    slot_in_bytes: int
    slot_out: tuple[SlotTensor, ...]
    slot_out_bytes: int
    first_late: int = 0
    last_early: int | None = None
    leaves: tuple[SlotTensor, ...] = ()
    float32: frozenset[str] = frozenset()
    strips: tuple[Strips, ...] = ()
    source: Any = field(default=None, compare=False, repr=False)
