"""ONNX operators that move elements and compute nothing, in canonical ops (``convert`` says how)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...ops import MAX_RANK
from ..read.build import Builder, OnnxNode, operator
from ..read.element_types import TYPES
from ..read.fold import RESHAPE, parts, permutation, shape_of, slices

Shape = tuple[int, ...]

# ---- the same elements in another shape ----


@operator("Reshape", "allowzero", "constant shape")
@operator("Flatten", "axis")
@operator("Squeeze Unsqueeze", "axes", "constant axes")
@operator("Identity")
@operator("Dropout", "is_test ratio seed", "inference")
def _reshape(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    shape = RESHAPE[n.op](g, n, g.shape(x))
    g.reshape(n, x, shape)
    if n.op == "Dropout" and 1 in n.made:  # the mask keeps everything
        g.afford(n, prod(shape))
        g.bind(n, np.ones(shape, bool), 1)


@operator("Shape", "end start")
def _shape(g: Builder, n: OnnxNode) -> None:
    g.bind(n, shape_of(n, g.shape(g.x(n))))


@operator("Size")
def _size(g: Builder, n: OnnxNode) -> None:
    g.bind(n, np.array(prod(g.shape(g.x(n)))))


@operator("Transpose", "perm")
def _transpose(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    g.emit(n, "transpose", [x], perm=permutation(n, len(g.shape(x))))


@operator("DepthToSpace", "blocksize mode", "images")
def _depth_to_space(g: Builder, n: OnnxNode) -> None:
    """Channels to blocks of pixels: DCR counts the block's place before the channel, CRD after it."""
    x, block, mode = g.x(n), _block(g, n), n.get("mode", str, "DCR")
    images, channels, height, width = g.shape(x)
    if mode not in ("DCR", "CRD"):
        n.fail(f"unknown mode {mode!r}")
    if channels % block**2:
        n.fail(f"blocks of {block} x {block} do not divide {channels} channels")
    rest = channels // block**2
    split = (block, block, rest) if mode == "DCR" else (rest, block, block)
    perm = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    x = g.reshape(n, x, (images, *split, height, width), part="blocks")
    x = g.emit(n, "transpose", [x], part="places", perm=perm)
    g.reshape(n, x, (images, rest, height * block, width * block))


@operator("SpaceToDepth", "blocksize mode", "images")
def _space_to_depth(g: Builder, n: OnnxNode) -> None:
    x, block, mode = g.x(n), _block(g, n), n.get("mode", str, "DCR")
    images, channels, height, width = g.shape(x)
    if mode not in ("DCR", "CRD"):
        n.fail(f"unknown mode {mode!r}")
    if height % block or width % block:
        n.fail(f"blocks of {block} x {block} do not divide {height} x {width} pixels")
    x = g.reshape(n, x, (images, channels, height // block, block, width // block, block), part="blocks")
    x = g.emit(n, "transpose", [x], part="places", perm=(0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    g.reshape(n, x, (images, channels * block**2, height // block, width // block))


def _block(g: Builder, n: OnnxNode) -> int:
    if len(g.shape(g.x(n))) != 4:
        n.fail(f"only images are supported, got {g.shape(g.x(n))}")
    block = n.get("blocksize", int)
    return block if block >= 1 else n.fail(f"blocksize must be at least 1, got {block}")


# ---- parts ----


@operator("Concat", "axis")
def _concat(g: Builder, n: OnnxNode) -> None:
    """Constants join like the computed tensors; those without elements add nothing."""
    values = [g.value(n, i) for i in range(len(n.inputs))]
    empty = [isinstance(value, np.ndarray) and not value.size for value in values]
    inputs = [g.operand(n, i) for i in range(len(n.inputs)) if not empty[i]]
    axis = n.axis_of(len(g.shape(inputs[0])))
    if len(inputs) == 1:
        g.bind(n, inputs[0])
    else:
        g.emit(n, "concat", inputs, axis=axis)


def cut_out(g: Builder, n: OnnxNode) -> None:
    """One slice per axis that is cut; backwards a gather, whose indices are constant. Nothing is a constant, too."""
    x = g.x(n)
    cuts, shape = [], list(g.shape(x))
    for axis, start, end, step in slices(g, n, len(shape)):
        size = shape[axis]
        if step == 0:
            n.fail("a step is 0")
        chosen = range(size)[start:end:step]
        shape[axis] = len(chosen)
        if chosen != range(size):
            cuts.append((axis, chosen))
    if 0 in shape:
        g.bind(n, np.zeros(shape, g.dtype(x)))
        return
    for i, (axis, chosen) in enumerate(cuts, 1):
        x = taken(g, n, x, axis, chosen, part="" if i == len(cuts) else f"axis{axis}")
    if not cuts:
        g.bind(n, x)


def taken(g: Builder, n: OnnxNode, x: str, axis: int, chosen: range, part: str = "", output: int = 0) -> str:
    """The elements of a range of indices along an axis of a tensor, or with ``part`` of a kept constant."""
    if x in g.constants:
        return g.keep(g.constants[x].take(chosen, axis), f"{n.outputs[output]}/{part}", infinite=True)
    if chosen.step < 0 and len(chosen) > 1:
        indices = g.keep(np.array(chosen, np.int64), f"{n.outputs[output]}/indices")
        return g.emit(n, "gather", [x, indices], part=part, output=output, axis=axis)
    step = chosen.step if len(chosen) > 1 else 1
    return g.emit(n, "slice", [x], part=part, output=output, axis=axis, start=chosen[0], stop=chosen[-1] + 1, step=step)


@operator("Split", "axis num_outputs split", "constant sizes")
def _split(g: Builder, n: OnnxNode) -> None:
    """A part without elements is a constant, which a Concat may read."""
    x = g.x(n)
    for i, (axis, start, stop) in enumerate(parts(g, n, shape := g.shape(x))):
        if n.outputs[i] and stop - start == shape[axis]:
            g.bind(n, x, i)
        elif n.outputs[i] and start == stop:
            g.bind(n, np.zeros((*shape[:axis], 0, *shape[axis + 1 :]), g.dtype(x)), i)
        elif n.outputs[i]:
            g.emit(n, "slice", [x], output=i, axis=axis, start=start, stop=stop)


# ---- more than there was ----


@operator("Pad", "mode pads value", "constant pads")
def _pad(g: Builder, n: OnnxNode) -> None:
    """Negative pads cut first."""
    x = g.x(n)
    rank = len(g.shape(x))
    pads, value = pads_of(g, n, rank, g.attr_or_ints(n, "pads", 1))
    begin, end = [0] * rank, [0] * rank
    for axis, before, after in pads:
        begin[axis], end[axis] = before, after
    padded(g, n, x, begin, end, mode=n.get("mode", str, "constant"), value=value)


def pads_of(g: Builder, n: OnnxNode, rank: int, pads: Sequence | None) -> tuple[list[tuple[int, Any, Any]], float]:
    """Axis, and how much is put before and after, of every axis that Pad names, and the value there."""
    if pads is None:
        n.fail("pads are missing")
    axes = g.ints(n, 3) if g.has(n, 3) else tuple(range(rank))
    value = g.scalar(n, 2, n.get("value", float, 0.0))
    value = int(value) if isinstance(value, bool) else value
    if len(pads) != 2 * len(axes):
        n.fail(f"expected two pads per axis, got {len(pads)} for {len(axes)} axes")
    sides = zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True)
    return [(n.axis(axis, rank), before, after) for axis, before, after in sides], value


def padded(g: Builder, n: OnnxNode, x: str, begin: list[int], end: list[int], part: str = "", **attrs) -> str:
    """x with elements added at the beginning and end of its axes, or removed where that is negative."""
    adds = any(count > 0 for count in (*begin, *end))
    cut = [axis for axis, counts in enumerate(zip(begin, end, strict=True)) if min(counts) < 0]
    for axis in cut:
        size = g.shape(x)[axis]
        kept = range(max(0, -begin[axis]), size - max(0, -end[axis]))
        if not kept:
            n.fail(f"pads {begin[axis]}, {end[axis]} leave nothing of {size} elements")
        last = axis == cut[-1] and not adds
        x = taken(g, n, x, axis, kept, part=part if last else f"{part}cut{axis}")
    if adds:
        begin, end = (tuple(max(0, count) for count in counts) for counts in (begin, end))
        return g.emit(n, "pad", [x], part=part, pads_begin=begin, pads_end=end, **attrs)
    if not cut and not part:
        g.bind(n, x)
    return x


@operator("CenterCropPad", "axes", "constant shape")
def _center_crop_pad(g: Builder, n: OnnxNode) -> None:
    x, target = g.x(n), g.ints(n, 1)
    shape = g.shape(x)
    axes = [n.axis(axis, len(shape)) for axis in n.get("axes", list, list(range(len(shape))))]
    if len(target) != len(axes):
        n.fail(f"expected {len(axes)} sizes, got {target}")
    begin, end = [0] * len(shape), [0] * len(shape)
    for axis, size in zip(axes, target, strict=True):
        more = size - shape[axis]
        begin[axis] = more // 2 if more >= 0 else -(-more // 2)
        end[axis] = more - begin[axis]
    padded(g, n, x, begin, end)


@operator("Expand", limits="constant shape")
def _expand(g: Builder, n: OnnxNode) -> None:
    x, target = g.operand(n, 0), g.ints(n, 1)
    shape = g.shape(x)
    try:
        out = np.broadcast_shapes(shape, target)
    except ValueError:
        n.fail(f"cannot expand {shape} to {target}")
    aligned = (1,) * (len(out) - len(shape)) + shape
    x = g.reshape(n, x, aligned, part="" if aligned == out else "aligned")
    if aligned != out:
        g.emit(n, "expand", [x], shape=out)


@operator("Tile", limits="constant repeats")
def _tile(g: Builder, n: OnnxNode) -> None:
    """Every repeated axis gets one before it, which is expanded and merged with it; where that makes too many axes, one
    after the other does, and all others are two."""
    x, repeats = g.x(n), g.ints(n, 1)
    shape = g.shape(x)
    if len(repeats) != len(shape) or min(repeats, default=1) < 1:
        n.fail(f"expected {len(shape)} repeats of at least 1, got {repeats}")
    before: list[int] = []
    after: list[int] = []
    for size, count in zip(shape, repeats, strict=True):
        if count > 1 and size > 1:
            before, after = [*before, 1], [*after, count]
        before, after = [*before, size], [*after, count if size == 1 else size]
    if before == after:
        g.bind(n, x)
    elif len(after) <= MAX_RANK:
        _repeated(g, n, x, before, after, [size * count for size, count in zip(shape, repeats, strict=True)])
    else:
        axes = [axis for axis, count in enumerate(repeats) if count > 1]
        for axis in axes:
            before = [prod(shape[:axis]), 1, prod(shape[axis:])]
            after = [before[0], repeats[axis], before[2]]
            shape = (*shape[:axis], shape[axis] * repeats[axis], *shape[axis + 1 :])
            x = _repeated(g, n, x, before, after, shape, "" if axis == axes[-1] else f"axis{axis}")


def _repeated(
    g: Builder, n: OnnxNode, x: str, before: Sequence[int], after: Sequence[int], out: Sequence[int], part: str = ""
) -> str:
    x = g.reshape(n, x, tuple(before), part=f"{part}apart")
    x = g.emit(n, "expand", [x], part=part if len(after) == len(out) else f"{part}copies", shape=tuple(after))
    return x if len(after) == len(out) else g.reshape(n, x, tuple(out), part)


# ---- orders and masks ----


@operator("ReverseSequence", "batch_axis time_axis", "constant lengths")
def _reverse_sequence(g: Builder, n: OnnxNode) -> None:
    """The first elements of every sequence backwards: a gather of the steps of all sequences."""
    x, lengths = g.x(n), np.array(g.ints(n, 1))
    shape = g.shape(x)
    batch, time = n.get("batch_axis", int, 1), n.get("time_axis", int, 0)
    if {batch, time} != {0, 1} or len(shape) < 2:
        n.fail(f"batch_axis and time_axis must be 0 and 1, got {batch} and {time} of {shape}")
    sequences, steps = shape[batch], shape[time]
    if lengths.shape != (sequences,) or lengths.min() < 0 or lengths.max() > steps:
        n.fail(f"expected {sequences} lengths of at most {steps}, got {lengths.tolist()}")
    step = np.arange(steps)
    order = np.where(step < lengths[:, None], lengths[:, None] - 1 - step, step)  # (sequences, steps)
    order += np.arange(sequences)[:, None] * steps if batch == 0 else 0
    order = order if batch == 0 else (order * sequences + np.arange(sequences)[:, None]).T
    rows = g.reshape(n, x, (sequences * steps, *shape[2:]), part="rows")
    indices = g.new_constant(n, order.reshape(-1), "indices")
    g.reshape(n, g.emit(n, "gather", [rows, indices], part="reversed", axis=0), shape)


@operator("Trilu", "upper", "constant k")
def _trilu(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    shape, k = g.shape(x), (g.ints(n, 1) or n.fail("k is empty"))[0] if g.has(n, 1) else 0
    if len(shape) < 2:
        n.fail(f"expected matrices, got {shape}")
    k = int(np.clip(k, -(2**31), 2**31 - 1))
    if n.get("upper", int, 1):
        mask = ~np.tri(*shape[-2:], k - 1, dtype=bool)
    else:
        mask = np.tri(*shape[-2:], k, dtype=bool)
    ones = (1,) * (len(shape) - 2)
    kept = g.new_constant(n, mask.reshape(*ones, *shape[-2:]), "mask")
    g.emit(n, "where", [kept, x, g.number(n, 0, x, "zero")])


@operator("EyeLike", "dtype k")
def _eye_like(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    shape = g.shape(x)
    if len(shape) != 2:
        n.fail(f"expected a matrix, got {shape}")
    g.afford(n, prod(shape))
    to = n.get("dtype", int, 0)
    dtype = np.dtype(g.dtype(x)) if not to else TYPES.get(to) or n.fail(f"element type {to} is not supported")
    g.bind(n, np.eye(*shape, n.get("k", int, 0), dtype=dtype))


def _depends(g: Builder, n: OnnxNode) -> None:
    n.fail("the size of its result depends on the data, every size must be known beforehand")


operator("Unique", "axis sorted", "of constants")(_depends)
