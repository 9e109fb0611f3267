"""Memory of tensors: the layout of one that is alone, the layout of a ring slot, and the arena planned by liveness.

An image (N, C, H, W) is stored NHWC with a pixel stride of C or more: pixels never lie whole KB apart. Any other
shape is row-major in a single pixel. ``strides`` has what else there can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod

import numpy as np

from ..steps import SlotTensor, Step, Strided, View, item_bytes
from .ir import Tensor
from .lower.strides import of_view, place, row_major

ARENA_TRIES = 16
LINE_BYTES = 64  # bytes of a cache line, the widest vector
# Pixels that lie multiples of this many bytes apart share a part of the sets of a first-level cache: the rows that a
# GEMM micro-kernel reads beside each other, or keeps for the next panels, would drive each other out (12 rows a page
# apart, 8 ways, Zen 4: 62 to 79 % of the peak instead of 90 to 92 at 1024 cubed; at 1 and 2 KB modelled 2 to 6 % of
# MobileNet and SqueezeNet on Cortex-A53 and A73).
APART_BYTES = 1024


def padded(nbytes: int) -> int:
    """Bytes that a storage takes: whole lines, and one more so that a vector load at its end stays inside."""
    return -nbytes // LINE_BYTES * -LINE_BYTES + LINE_BYTES


def dense(shape: tuple[int, ...], base: int, offset: int, dtype: str = "float32") -> View:
    """A tensor alone in its storage."""
    if len(shape) == 4:
        n, c, h, w = shape
        size = item_bytes(dtype)
        apart = c * size % APART_BYTES == 0 and n * h * w > 1
        return View(base, offset, n * h, w, c, c + LINE_BYTES // size if apart else c, dtype)
    return View(base, offset, 1, 1, prod(shape), prod(shape), dtype)


def extent(shape: tuple[int, ...], dtype: str = "float32") -> int:
    """Bytes of memory that a tensor alone takes."""
    view = dense(shape, 0, 0, dtype)
    return view.h * view.w * view.stride * item_bytes(dtype)


def side_by_side(views: Sequence[View], base: int) -> tuple[tuple[View, ...], int]:
    """The same tensors, each alone, one after the other in another base, and the byte at which they end."""
    moved, end = [], 0
    for view in views:
        shape = (1, view.c, view.h, view.w)
        size = item_bytes(view.dtype)
        begin = -(-end // size) * size
        moved.append(dense(shape, base, begin // size, view.dtype))
        end = begin + extent(shape, view.dtype)
    return tuple(moved), end


def slot_layout(tensors: Sequence[Tensor], nhwc: bool, begin: int = 0) -> tuple[tuple[SlotTensor, ...], int]:
    """The tensors of a ring slot one after the other from byte ``begin`` on, and where they end.

    ``begin`` is a multiple of LINE_BYTES. Equal lists give equal layouts.
    """
    sizes = (extent(tensor.shape, tensor.dtype) if nhwc else tensor.nbytes for tensor in tensors)
    ends = list(accumulate(map(padded, sizes), initial=begin))
    slots = (
        SlotTensor(t.name, t.shape, offset // item_bytes(t.dtype), nhwc, t.dtype)
        for t, offset in zip(tensors, ends[:-1], strict=True)
    )
    return tuple(slots), ends[-1]


def slot_elements(slot: SlotTensor, base: int) -> Strided:
    """A slot tensor's elements along the axes of its shape, in whichever layout the slot holds it."""
    if slot.nhwc:
        return of_view(dense(slot.shape, base, slot.offset, slot.dtype), slot.shape)
    return place(base, slot.offset, slot.shape, row_major(slot.shape), slot.dtype)


def stored_bytes(slot: SlotTensor) -> int:
    """Bytes from the first element of a slot's tensor to its last."""
    return extent(slot.shape, slot.dtype) if slot.nhwc else slot.nbytes


def lifetimes(steps: Sequence[Step], sizes: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The first and the last step that touch each storage; ``sizes`` has their numbers, the bases of their views."""
    spans: dict[int, tuple[int, int]] = {}
    for index, step in enumerate(steps):
        for number in {view.base for view in (*step.src, step.dst)} & sizes.keys():
            spans[number] = (spans.get(number, (index, index))[0], index)
    return spans


def plan_arena(sizes: Mapping[int, int], lifetimes: Mapping[int, tuple[int, int]]) -> tuple[dict[int, int], int]:
    """Offsets of storages such that no two that live at the same time overlap, and the size of the arena.

    ``sizes`` in bytes and ``lifetimes`` (first and last step, inclusive) are by storage number. Greedy by size;
    where that is not the least there can be, the storage on top is placed first and the rest once more, a few times.
    """
    order = sorted(lifetimes, key=lambda number: (-sizes[number], lifetimes[number], number))
    least = live_bytes(sizes, lifetimes)
    best: tuple[dict[int, int], int] | None = None
    for _ in range(ARENA_TRIES):
        offsets = _placed(order, sizes, lifetimes)
        top = max(offsets, key=lambda n: offsets[n] + padded(sizes[n]), default=None)
        end = 0 if top is None else offsets[top] + padded(sizes[top])
        if best is None or end < best[1]:
            best = offsets, end
        if best[1] == least:
            break
        order.remove(top)
        order.insert(0, top)
    return best


def live_bytes(sizes: Mapping[int, int], lifetimes: Mapping[int, tuple[int, int]]) -> int:
    """The most bytes that live at one step: no arena is smaller."""
    change: dict[int, int] = {}
    for number, (first, last) in lifetimes.items():
        change[first] = change.get(first, 0) + padded(sizes[number])
        change[last + 1] = change.get(last + 1, 0) - padded(sizes[number])
    return max(accumulate(change[step] for step in sorted(change)), default=0)


def _placed(order: Sequence[int], sizes: Mapping[int, int], lifetimes: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Offsets of storages placed in this order, each into the smallest gap it fits between those it lives with, or else
    after them: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020), section 5.2."""
    offsets: dict[int, int] = {}
    placed = np.empty((4, len(order)), np.int64)  # begin, end, first and last step; in order of begin
    for count, number in enumerate(order):
        (first, last), size = lifetimes[number], padded(sizes[number])
        begins, ends, firsts, lasts = placed[:, :count]
        lives = (firsts <= last) & (first <= lasts)
        tops = np.maximum.accumulate(np.append(0, ends[lives]))  # of what lies below each gap
        gaps = begins[lives] - tops[:-1]
        fitting = np.flatnonzero(gaps >= size)
        offset = int(tops[fitting[gaps[fitting].argmin()] if len(fitting) else -1])
        offsets[number] = offset
        at = int(begins.searchsorted(offset))
        placed[:, at + 1 : count + 1] = placed[:, at:count].copy()
        placed[:, at] = offset, offset + size, first, last
    return offsets
