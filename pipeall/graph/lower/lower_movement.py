"""What ops that move elements become: mostly another look at the same memory, else copies (``lower_ops`` has the
others)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...errors import ModelError
from ...steps import Strided
from ..ir import Node
from ..ops.movement_ops import pad_indices
from ..ops.sampling_ops import taps
from . import lower_int8
from .lowering import MAX_COPY_DIMS, Lowering
from .strides import (
    LINE,
    broadcast,
    cut,
    from_index,
    merged,
    order_of,
    permuted,
    pixels,
    place,
    reaching,
    reshaped,
)


def concat(to: Lowering, node: Node) -> None:
    axis = node.attrs["axis"]
    whole = to.target(node, to.natural(node.output))
    parts = [(to.operand(name), cut(whole, axis, start, stop)) for name, start, stop in to.operands(node)]
    for source, target in _stacked([(a, b) for a, b in parts if a != b]):
        to.copy(node.name, source, target)


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
        target = to.target(node, to.natural(node.output))
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
    """One pass over the rows; a constant around shorter runs than a line is filled in first."""
    name, begin, mode = to.activation(node), node.attrs["pads_begin"], node.attrs["mode"]
    x = to.places[name]
    target = to.target(node, order_of(x))
    inside = replace(from_index(target, begin), shape=x.shape)
    value, run = _element(to, node, node.attrs["value"]), _run(x, inside)
    if mode == "constant" and run < LINE:
        whole = pixels(target) if len(target.shape) == 4 else None
        to.step("fill", node, (), whole or reaching(target), {"value": value})  # dense: ``writes`` refuses other places
        to.copy(node.name, x, inside)
        return
    if run == 1 and order_of(x) != order_of(target):
        line = to.dense(x.shape, order_of(target), x.dtype)
        to.copy(node.name, x, line)
        x = line
    sides = zip(x.shape, begin, node.attrs["pads_end"], strict=True)
    places = tuple(places_of(mode, size, before, after) for size, before, after in sides)
    to.step("pad", node, (x,), target, dict(node.attrs) | {"places": places})


def _run(*operands: Strided) -> int:
    """How many elements follow one another in all of these places of one shape."""
    flat = merged(operands[0].shape, *operands)
    return flat[0].shape[-1] if all(at.strides[-1] == 1 for at in flat) else 1


def places_of(mode: str, size: int, before: int, after: int) -> np.ndarray:
    """Which element of an axis each position of the padded one has; -1: the constant."""
    if mode != "constant":
        return pad_indices(mode, size, before, after)
    return np.concatenate([np.full(before, -1), np.arange(size), np.full(after, -1)])


def _element(to: Lowering, node: Node, value: float) -> float:
    """``value``, where an element of the node's output can hold it."""
    dtype = np.dtype(to.tensor(node.output).dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if value != int(value) or not limits.min <= value <= limits.max:
            raise ModelError(f"node {node.name!r} ({node.op}): expected a value that {dtype} can hold, got {value}")
    return value


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
