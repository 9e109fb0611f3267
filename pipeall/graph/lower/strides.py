"""Where the elements of a tensor lie: a place has a stride for every axis, so that moving elements is often only
another way to look at them.

A place is a ``steps.Strided``. Axes of size 1 have stride 0, so that equal places compare equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod

import numpy as np

from ...steps import CONSTANT, Strided, View

IMAGE_ORDER = (0, 2, 3, 1)  # NHWC: the axes of an image, slowest first
LINE = 16  # elements, of a cache line of floats
FEW = 4  # channels of an image that are as fast one by one as they would be together, had they to be brought together


def row_major(dims: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense array of size ``dims``, last axis fastest."""
    return tuple(accumulate(reversed(dims[1:]), int.__mul__, initial=1))[::-1] if dims else ()


def place(base: int, offset: int, shape: Sequence[int], strides: Sequence[int], dtype: str = "float32") -> Strided:
    """A tensor with these strides."""
    kept = tuple(stride if size > 1 else 0 for size, stride in zip(shape, strides, strict=True))
    return Strided(base, offset, tuple(shape), kept, dtype)


def ordered(base: int, offset: int, shape: Sequence[int], order: Sequence[int], dtype: str = "float32") -> Strided:
    """A dense tensor whose axes lie in this order, slowest first."""
    inner = row_major([shape[axis] for axis in order])
    strides = [0] * len(shape)
    for axis, stride in zip(order, inner, strict=True):
        strides[axis] = stride
    return place(base, offset, shape, strides, dtype)


def constant(array: np.ndarray, order: Sequence[int] | None = None) -> Strided:
    """An operand that brings its elements, laid out in this order of its axes."""
    order = tuple(range(array.ndim)) if order is None else order
    laid = ordered(CONSTANT, 0, array.shape, order, str(array.dtype))
    return replace(laid, array=np.ascontiguousarray(array.transpose(order)).reshape(-1))


def order_of(at: Strided) -> tuple[int, ...]:
    """Its axes, slowest first; those that are not stepped along, first."""
    return tuple(sorted(range(len(at.shape)), key=lambda axis: (at.strides[axis] != 0, -at.strides[axis])))


def is_row_major(at: Strided) -> bool:
    return at == place(at.base, at.offset, at.shape, row_major(at.shape), at.dtype)


def in_lines(at: Strided) -> bool:
    """Whether the elements lie in row-major order, with gaps only between runs that are worth a call each."""
    (flat,) = merged(at.shape, at)
    steps = [stride for size, stride in zip(at.shape, at.strides, strict=True) if size > 1]
    falling = steps == sorted(steps, reverse=True)
    return is_row_major(at) or (falling and flat.strides[-1] == 1 and flat.shape[-1] >= LINE)


def from_index(at: Strided, index: Sequence[int]) -> Strided:
    """The part that starts at ``index``, without its end."""
    return replace(at, offset=at.offset + sum(i * stride for i, stride in zip(index, at.strides, strict=True)))


def cut(at: Strided, axis: int, start: int, stop: int, step: int = 1) -> Strided:
    """The elements start, start + step, ... below stop along an axis."""
    shape, strides = list(at.shape), list(at.strides)
    shape[axis], strides[axis] = -(-(stop - start) // step), strides[axis] * step
    return place(at.base, at.offset + start * at.strides[axis], shape, strides, at.dtype)


def permuted(at: Strided, perm: Sequence[int]) -> Strided:
    return place(at.base, at.offset, [at.shape[axis] for axis in perm], [at.strides[axis] for axis in perm], at.dtype)


def broadcast(at: Strided, shape: Sequence[int]) -> Strided:
    """Repeated along the axes of size 1 that are larger in ``shape``, of the same rank."""
    return replace(at, shape=tuple(shape))


def reshaped(at: Strided, shape: Sequence[int]) -> Strided | None:
    """The same elements in the same order of their indices; None where no strides describe them."""
    axes = [(size, stride) for size, stride in zip(at.shape, at.strides, strict=True) if size > 1]
    strides: list[int] = []
    taken = 0
    for size, ends in runs([size for size, _ in axes], [size for size in shape if size > 1]):
        run = axes[taken : taken + size]
        taken += size
        if any(outer[1] != inner[1] * inner[0] for outer, inner in zip(run, run[1:], strict=False)):
            return None
        strides += [stride * run[-1][1] for stride in row_major(ends)]
    given = iter(strides)
    return place(at.base, at.offset, shape, [next(given) if size > 1 else 0 for size in shape], at.dtype)


def runs(old: list[int], new: list[int]) -> list[tuple[int, list[int]]]:
    """The smallest runs of axes with equal products: how many of the old, and the sizes of the new."""
    runs, i, j = [], 0, 0
    while i < len(old):
        first, ends, size, other = i, [new[j]], old[i], new[j]
        i, j = i + 1, j + 1
        while size != other:
            if size < other:
                size, i = size * old[i], i + 1
            else:
                ends.append(new[j])
                other, j = other * new[j], j + 1
        runs.append((i - first, ends))
    return runs


def merged(shape: Sequence[int], *operands: Strided) -> tuple[Strided, ...]:
    """The same sets of elements in the fewest dimensions, slowest in the last operand first; at least one."""
    axes: list[tuple[int, ...]] = []
    rows = zip(shape, *(operand.strides for operand in operands), strict=True)
    for size, *strides in sorted(rows, key=lambda axis: -axis[-1]):
        if axes and all(outer == size * inner for outer, inner in zip(axes[-1][1:], strides, strict=True)):
            axes[-1] = (axes[-1][0] * size, *strides)
        elif size > 1:
            axes.append((size, *strides))
    sizes, *all_strides = zip(*(axes or [(1,) + (0,) * len(operands)]), strict=True)
    return tuple(
        replace(operand, shape=sizes, strides=strides) for operand, strides in zip(operands, all_strides, strict=True)
    )


def pixels(at: Strided) -> View | None:
    """An image as pixels: several images lie one below the other. None where its channels or pixels do not lie so."""
    if len(at.shape) != 4:
        return None
    (n, c, h, w), (by_n, by_c, by_h, by_w) = at.shape, at.strides
    if c > 1 and by_c != 1:
        return None
    stride = by_w if w > 1 else by_h if h > 1 else by_n if n > 1 else c
    fits = (h == 1 or by_h == w * stride) and (n == 1 or by_n == h * w * stride) and stride >= c
    return View(at.base, at.offset, n * h, w, c, stride, at.dtype) if fits else None


def images(view: View, count: int) -> list[View]:
    """The images that lie one below the other in a view."""
    h = view.h // count
    return [replace(view, offset=view.offset + i * h * view.w * view.stride, h=h) for i in range(count)]


def planes(at: Strided) -> list[View] | None:
    """The channels of an image, each as pixels of one, where each lies row after row."""
    if len(at.shape) != 4:
        return None
    (n, c, h, w), (by_n, by_c, by_h, by_w) = at.shape, at.strides
    if (w > 1 and by_w != 1) or (h > 1 and by_h != w):
        return None
    starts = [at.offset + i * by_n + j * by_c for i in range(n) for j in range(c)]
    return [View(at.base, start, h, w, 1, 1, at.dtype) for start in starts]


def rows(at: Strided, axis: int) -> View | None:
    """The elements from ``axis`` on as the channels of pixels, which the axes before it count; None where they do not
    lie so."""
    count, width = prod(at.shape[:axis]), prod(at.shape[axis:])
    flat = reshaped(at, (count, width))
    if flat is None or (width > 1 and flat.strides[1] != 1):
        return None
    stride = flat.strides[0] if count > 1 else width
    return View(at.base, at.offset, count, 1, width, stride, at.dtype) if stride >= width else None


def of_view(view: View, shape: tuple[int, ...]) -> Strided:
    """The place of a tensor that a view shows: an image, or elements in row-major order in one pixel."""
    if len(shape) == 4:
        n, _, h, w = shape
        line = view.w * view.stride
        return place(view.base, view.offset, shape, (h * line, 1, line, view.stride), view.dtype)
    return place(view.base, view.offset, shape, row_major(shape), view.dtype)


def reaching(at: Strided) -> View:
    """The single pixel from the first element to the last, of strides that are not negative."""
    reach = 1 + sum((size - 1) * stride for size, stride in zip(at.shape, at.strides, strict=True))
    return View(at.base, at.offset, 1, 1, reach, reach, at.dtype)
