"""What ops that move elements become: mostly another look at the same memory, else copies (``lower_ops`` has the
others)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ...errors import ModelError
from ...steps import Strided
from ..ir import Node
from ..ops.movement_ops import pad_indices
from ..ops.sampling_ops import taps
from . import lower_int8
from .lowering import MAX_COPY_DIMS, Lowering
from .strides import broadcast, constant, cut, from_index, merged, order_of, permuted, pixels, place, reaching, reshaped

RUN = 128  # elements that are filled while a run of a margin is begun


def concat(to: Lowering, node: Node) -> None:
    axis = node.attrs["axis"]
    whole = to.target(node, to.natural(node.output))
    parts = [(to.operand(name), cut(whole, axis, start, stop)) for name, start, stop in to.operands(node)]
    for source, target in _stacked([(a, b) for a, b in parts if a != b]):
        to.copy(node.name, source, target)


MOST_PIECES = 8  # of an axis that is padded with itself: each is a step of its own

Move = tuple[Strided, Strided]  # from, to


def _stacked(moves: list[Move]) -> list[Move]:
    """One move of those that follow each other at even distances in both, again and again: slices that a concat puts
    together are parts of one permutation."""
    merged, left = [], moves
    while left:
        count = _evenly_apart(left)
        steps = _apart(*left[:2]) if count > 1 else ()
        grown = [
            place(at.base, at.offset, (count, *at.shape), (step, *at.strides), at.dtype)
            for at, step in zip(left[0], steps, strict=False)
        ]
        merged.append(tuple(grown) if count > 1 else left[0])
        left = left[count:]
    return merged if len(merged) == len(moves) else _stacked(merged)


def _evenly_apart(moves: list[Move]) -> int:
    """How many moves, from the first on, are alike and lie at equal distances that are not negative."""
    count = 1
    while count < len(moves) and _alike(moves[0], moves[count]):
        steps = _apart(moves[count - 1], moves[count])
        if min(steps) < 0 or steps != _apart(moves[0], moves[1]):
            break
        count += 1
    return count if len(moves[0][0].shape) < MAX_COPY_DIMS else 1


def _alike(one: Move, other: Move) -> bool:
    return all(a.array is None and replace(b, offset=a.offset) == a for a, b in zip(one, other, strict=True))


def _apart(one: Move, other: Move) -> tuple[int, ...]:
    return tuple(b.offset - a.offset for a, b in zip(one, other, strict=True))


def reshape(to: Lowering, node: Node) -> None:
    name = to.activation(node)
    shape, at = to.shape(node.output), to.places[name]
    view = reshaped(at, shape)
    if view is None:
        target = to.target(node, range(len(shape)))
        seen = reshaped(target, to.shape(name))
        if seen is not None:
            to.copy(node.name, at, seen)
            return
        view = reshaped(to.contiguous(name), shape)
    to.look(node, view)


def transpose(to: Lowering, node: Node) -> None:
    to.look(node, permuted(to.places[to.activation(node)], node.attrs["perm"]))


def slice_(to: Lowering, node: Node) -> None:
    to.look(
        node, cut(to.places[to.activation(node)], *(node.attrs[name] for name in ("axis", "start", "stop", "step")))
    )


def expand(to: Lowering, node: Node) -> None:
    at = to.operand(node.inputs[0])
    if at.array is not None:
        to.copy(node.name, at, to.target(node))
    else:
        to.look(node, broadcast(at, node.attrs["shape"]))


def pad(to: Lowering, node: Node) -> None:
    name, begin = to.activation(node), node.attrs["pads_begin"]
    x = to.places[name]
    target = to.target(node, order_of(x))
    if node.attrs["mode"] != "constant":
        _mirrored(to, node, x, target)
        return
    inside = replace(from_index(target, begin), shape=to.shape(name))
    margins, value = _margins(target, begin, inside.shape), _element(to, node, node.attrs["value"])
    if sum(map(_runs, margins)) * RUN < prod(target.shape):
        element = constant(np.full((1,) * len(target.shape), value, target.dtype))
        for margin in margins:
            to.copy(node.name, element, margin)
    else:
        whole = pixels(target) if len(target.shape) == 4 else None
        whole = whole or reaching(target)  # dense: ``writes`` refuses other places
        to.step("fill", node, (), whole, {"value": value})
    to.copy(node.name, x, inside)


def _margins(whole: Strided, begin: Sequence[int], inner: Sequence[int]) -> list[Strided]:
    """What of a place lies around a part of it: on both sides along each axis, between those along the axes before."""
    margins = []
    for axis, (first, size) in enumerate(zip(begin, inner, strict=True)):
        sides = ((0, first), (first + size, whole.shape[axis]))
        margins += [cut(whole, axis, *side) for side in sides if side[0] < side[1]]
        whole = cut(whole, axis, first, first + size)
    return [margin for margin in margins if prod(margin.shape)]


def _runs(at: Strided) -> int:
    """Runs of neighbouring elements that a place consists of."""
    (flat,) = merged(at.shape, at)
    return prod(flat.shape[:-1]) if flat.strides[-1] in (0, 1) else prod(flat.shape)


def _element(to: Lowering, node: Node, value: float) -> float:
    """``value``, where an element of the node's output can hold it."""
    dtype = np.dtype(to.tensor(node.output).dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if value != int(value) or not limits.min <= value <= limits.max:
            raise ModelError(f"node {node.name!r} ({node.op}): expected a value that {dtype} can hold, got {value}")
    return value


def _mirrored(to: Lowering, node: Node, x: Strided, target: Strided, axis: int = 0) -> None:
    """Along each axis the target consists of pieces: elements of the input as they lie, one of them again and again, or
    others that are gathered."""
    if axis == len(x.shape):
        to.copy(node.name, x, target)
        return
    begin, end = (node.attrs[side][axis] for side in ("pads_begin", "pads_end"))
    index = pad_indices(node.attrs["mode"], x.shape[axis], begin, end)
    start = 0
    for stop in _pieces(index):
        piece, part = index[start:stop], cut(target, axis, start, stop)
        source = gathered(x, axis, piece)
        if source is None:
            shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
            source = part if shape == part.shape else to.dense(shape, order_of(x), x.dtype)
            to.step("gather", node, (x, constant(piece.astype(np.int32))), source, {"axis": axis})
        if source != part:
            _mirrored(to, node, source, part, axis + 1)
        start = stop


def _pieces(index: np.ndarray) -> list[int]:
    """Where runs of indices end that rise, stay or fall by the same step; all is one where there are many."""
    ends, step = [], None
    for i in range(1, len(index)):
        change = int(index[i] - index[i - 1])
        if step is not None and change != step:
            ends.append(i)
            step = None
        else:
            step = change
    return [*(ends if len(ends) < MOST_PIECES else []), len(index)]


def gathered(x: Strided, axis: int, index: np.ndarray) -> Strided | None:
    """The elements of x at indices along an axis, where these rise evenly along each axis of their own; else None."""
    index = np.where(index < 0, index + x.shape[axis], index)
    first = int(index.flat[0])
    steps = [int(index.take(min(1, size - 1), d).flat[0]) - first for d, size in enumerate(index.shape)]
    even = first + np.tensordot(steps, np.indices(index.shape), 1)
    if min(steps, default=0) < 0 or first < 0 or index.max() >= x.shape[axis] or (index != even).any():
        return None
    by = x.strides[axis]
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    strides = (*x.strides[:axis], *(step * by for step in steps), *x.strides[axis + 1 :])
    return place(x.base, x.offset + first * by, shape, strides, x.dtype)


def resize(to: Lowering, node: Node) -> None:
    """Tables of taps for the kernel; elements that are repeated evenly are copied."""
    x, out = to.places[to.activation(node)], to.shape(node.output)
    changed = [
        axis for axis, (old, new) in enumerate(zip(x.shape, out, strict=True)) if old != new or _shifts(node, axis)
    ]
    taps_of = {axis: taps(node.attrs, axis, x.shape[axis]) for axis in changed}
    dst = to.target(node, order_of(x))
    if all(len(weights[0]) == 1 and _repeats(index[:, 0], x.shape[axis]) for axis, (index, weights) in taps_of.items()):
        _repeated(to, node, x, dst)
        return
    tables = {axis: (index.astype(np.int32), weights.astype(np.float32)) for axis, (index, weights) in taps_of.items()}
    params = {} if node.attrs["mode"] == "nearest" else lower_int8.qparams(to, node)
    to.step("resize", node, (x,), dst, {"taps": tables} | params)


def _repeats(index: np.ndarray, size: int) -> bool:
    """Whether an axis of ``size`` elements is read so that each is there as often as any other, one after the other."""
    times, rest = divmod(len(index), size)
    return times > 0 and rest == 0 and np.array_equal(index, np.arange(len(index)) // times)


def _shifts(node: Node, axis: int) -> bool:
    return node.attrs["scales"][axis] != 1


def _repeated(to: Lowering, node: Node, x: Strided, dst: Strided) -> None:
    """Every element n times along an axis: each axis of the output becomes two, along the second the input stays."""
    shape, source, target = [], [], []
    for size, total, a, b in zip(x.shape, dst.shape, x.strides, dst.strides, strict=True):
        shape += [size, total // size]
        source += [a, 0]
        target += [b * (total // size), b]
    to.copy(
        node.name,
        place(x.base, x.offset, shape, source, x.dtype),
        place(dst.base, dst.offset, shape, target, dst.dtype),
    )
