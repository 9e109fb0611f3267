"""The axes of strided operands as kernels walk them.

They are brought into an order in which neighbouring work items touch neighbouring elements, and joined where all
operands allow; kernels take up to RANK_MAX of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...steps import Strided
from .methods import INDICES

RANK_MAX = 8

Axes = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]  # a shape and the strides of each operand


def joined(shape: Sequence[int], *strides: Sequence[int]) -> Axes:
    """The axes longer than one, those that are dense in some operand first, joined where all operands allow."""

    def key(axis: tuple[int, ...]) -> tuple[int, int]:
        return min((abs(stride) for stride in axis[1:] if stride), default=INDICES), -axis[0]

    axes = sorted((axis for axis in zip(shape, *strides, strict=True) if axis[0] != 1), key=key)
    merged: list[list[int]] = []
    for size, *steps in axes:
        if merged and all(step == last * merged[-1][0] for step, last in zip(steps, merged[-1][1:], strict=True)):
            merged[-1][0] *= size
        else:
            merged.append([size, *steps])
    sizes, *columns = zip(*merged, strict=True) if merged else ((1,), *((0,) for _ in strides))
    return sizes, tuple(columns)


def spread(operand: Strided, shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an operand over a shape that it broadcasts to."""
    rank = len(shape) - len(operand.shape)
    steps = (stride if size != 1 else 0 for size, stride in zip(operand.shape, operand.strides, strict=True))
    return (*(0,) * rank, *steps)


def filled(strides: Sequence[int]) -> tuple[int, ...]:
    """Strides as the kernels take them: int8, 0 for the axes that are not there."""
    return (*strides, *(0,) * (RANK_MAX - len(strides)))


def grid(shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Work items over ``indices`` of typed.cl, and its RANK."""
    sizes = (*shape, 1, 1)
    rank = 3 if len(shape) <= 3 else 4 if len(shape) == 4 else RANK_MAX
    return (sizes[0], sizes[1], prod(shape[2:])), rank
