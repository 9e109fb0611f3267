"""Where tensors lie: their layout in a view, the layout of a ring slot, and the arena planned by liveness.

A rank-4 tensor (1, C, H, W) is stored NHWC with a pixel stride of C or more: pixels never lie whole pages apart. Any
other shape is row-major in a single pixel. A tensor is linear where that equals row-major order of its shape: then
reshaping it costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod

from ..steps import SlotTensor, View, item_bytes
from .ir import Tensor

ARENA_TRIES = 16
LINE_BYTES = 64  # bytes of a cache line, the widest vector
# Bytes of a page. Pixels that lie pages apart share the few lines of one set of a first-level cache: the rows that
# a GEMM micro-kernel reads beside each other would drive each other out (12 of them, 8 ways, Zen 4: 62 to 79 % of the
# peak instead of 90 to 92 at 1024 cubed).
PAGE_BYTES = 4096


def padded(nbytes: int) -> int:
    """Bytes that a storage takes: whole lines, and one more so that a vector load at its end stays inside."""
    return -nbytes // LINE_BYTES * -LINE_BYTES + LINE_BYTES


def row_major(dims: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense array of size ``dims``, last axis fastest."""
    return tuple(accumulate(reversed(dims[1:]), int.__mul__, initial=1))[::-1] if dims else ()


def dense(shape: tuple[int, ...], base: int, offset: int, dtype: str = "float32") -> View:
    """A tensor alone in its storage."""
    if len(shape) == 4:
        _, c, h, w = shape
        size = item_bytes(dtype)
        apart = c * size % PAGE_BYTES == 0 and h * w > 1
        return View(base, offset, h, w, c, c + LINE_BYTES // size if apart else c, dtype)
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


@dataclass(frozen=True, slots=True)
class Strided:
    """Elements of a tensor, not necessarily pixels: element i lies at offset + i . strides."""

    base: int
    offset: int
    strides: tuple[int, ...]
    dtype: str = "float32"

    def from_index(self, index: Sequence[int]) -> Strided:
        """The part that starts at ``index``."""
        shift = sum(i * stride for i, stride in zip(index, self.strides, strict=True))
        return replace(self, offset=self.offset + shift)

    def reaching(self, dims: Sequence[int]) -> View:
        """The single pixel from the first of ``dims`` elements to the last."""
        reach = 1 + sum((size - 1) * stride for size, stride in zip(dims, self.strides, strict=True))
        return View(self.base, self.offset, 1, 1, reach, reach, self.dtype)


def strided(shape: tuple[int, ...], view: View) -> Strided:
    """A tensor's elements along the axes of its shape."""
    if len(shape) == 4:
        return Strided(view.base, view.offset, (0, 1, view.w * view.stride, view.stride), view.dtype)
    return Strided(view.base, view.offset, row_major(shape), view.dtype)


def merged(dims: Sequence[int], src: Strided, dst: Strided) -> tuple[tuple[int, ...], Strided, Strided]:
    """The same pairs of elements in the fewest dimensions, slowest in ``dst`` first; axes of size 1 go."""
    axes: list[tuple[int, int, int]] = []
    for size, s, d in sorted(zip(dims, src.strides, dst.strides, strict=True), key=lambda axis: -axis[2]):
        if axes and axes[-1][1:] == (size * s, size * d):
            axes[-1] = (axes[-1][0] * size, s, d)
        elif size > 1:
            axes.append((size, s, d))
    sizes, src_strides, dst_strides = zip(*(axes or [(1, 1, 1)]), strict=True)
    return sizes, replace(src, strides=src_strides), replace(dst, strides=dst_strides)


def is_linear(shape: tuple[int, ...], view: View) -> bool:
    return len(shape) != 4 or view.h * view.w == 1 or view.stride == 1


def part(view: View, shape: tuple[int, ...], axis: int, start: int, stop: int) -> View | None:
    """The elements start to stop - 1 along ``axis`` in place; None where no view describes them."""
    if len(shape) == 4 and axis == 1:
        c = stop - start
        return replace(view, offset=view.offset + start, c=c, stride=view.stride if view.h * view.w > 1 else c)
    if len(shape) != 4 and prod(shape[:axis]) == 1:
        inner = prod(shape[axis + 1 :])
        c = (stop - start) * inner
        return View(view.base, view.offset + start * inner, 1, 1, c, c, view.dtype)
    return None


def reshaped(view: View, shape: tuple[int, ...], new_shape: tuple[int, ...]) -> View | None:
    """The same memory seen as ``new_shape``; None where the order of the elements differs."""
    if shape == new_shape:
        return view
    new = dense(new_shape, view.base, view.offset, view.dtype)
    return new if is_linear(shape, view) and is_linear(new_shape, new) else None


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
        return strided(slot.shape, dense(slot.shape, base, slot.offset, slot.dtype))
    return Strided(base, slot.offset, row_major(slot.shape), slot.dtype)


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
    at_step: dict[int, list[int]] = {}  # what is placed and lives at a step
    for number in order:
        steps = range(lifetimes[number][0], lifetimes[number][1] + 1)
        neighbours = {n for step in steps for n in at_step.get(step, ())}
        size, best_gap, end = padded(sizes[number]), None, 0
        for start, stop in sorted((offsets[n], offsets[n] + padded(sizes[n])) for n in neighbours):
            if start - end >= size and (best_gap is None or start - end < best_gap):
                best_gap, offsets[number] = start - end, end
            end = max(end, stop)
        offsets.setdefault(number, end)
        for step in steps:
            at_step.setdefault(step, []).append(number)
    return offsets
