"""ONNX operators that pick or place elements by index, and those on boxes."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from ..read.build import Builder, OnnxNode, Value, operator
from .movement import taken
from .pointwise_nodes import binary


def _indices(g: Builder, n: OnnxNode, i: int, limits: tuple[int, ...] | int) -> str:
    """An input of indices, int32 or int64; constant ones must lie inside the axes of these sizes (one per column, or
    one for all)."""
    value = g.value(n, i)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "iu":
            n.fail(f"input {i} ({n.inputs[i]!r}) must hold integers, got {value.dtype}")
        if isinstance(limits, tuple) and value.shape[-1:] != (len(limits),):
            n.fail(f"input {i} ({n.inputs[i]!r}) must hold {len(limits)} indices in a row, got {value.shape}")
        outside = (value < -np.asarray(limits)) | (value >= np.asarray(limits))
        if outside.any():
            n.fail(f"index {value[outside].reshape(-1)[0]} is outside of an axis of {limits}")
        if value.dtype.name not in ("int32", "int64"):
            return g.new_constant(n, value.astype(np.int64), "indices")
    name = g.operand(n, i)
    if g.dtype(name) not in ("int32", "int64"):
        n.fail(f"input {i} ({n.inputs[i]!r}) must hold integers, got {g.dtype(name)}")
    return name


@operator("Gather", "axis")
def _gather(g: Builder, n: OnnxNode) -> None:
    """One constant index, and several with one step between them, are a slice."""
    x, index = g.operand(n, 0), g.value(n, 1)
    shape = g.shape(x)
    axis = n.axis_of(len(shape), 0)
    indices = _indices(g, n, 1, shape[axis])
    if isinstance(index, np.ndarray) and index.ndim <= 1 and x in g.tensors:
        places = (index.reshape(-1) % shape[axis]).tolist()
        step = places[1] - places[0] if len(places) > 1 else 1
        chosen = range(places[0], places[0] + step * len(places), step) if step > 0 and places else range(0)
        if list(chosen) == places and places:
            if index.ndim and len(places) == shape[axis]:
                g.bind(n, x)
                return
            y = taken(g, n, x, axis, chosen, part="" if index.ndim else "at")
            if not index.ndim:
                g.reshape(n, y, (*shape[:axis], *shape[axis + 1 :]))
            return
    g.emit(n, "gather", [x, indices], axis=axis)


@operator("GatherElements", "axis")
def _gather_elements(g: Builder, n: OnnxNode) -> None:
    x = g.operand(n, 0)
    axis = n.axis_of(len(g.shape(x)), 0)
    g.emit(n, "gather_elements", [x, _indices(g, n, 1, g.shape(x)[axis])], axis=axis)


@operator("GatherND", "batch_dims")
def _gather_nd(g: Builder, n: OnnxNode) -> None:
    x, batch = g.operand(n, 0), n.get("batch_dims", int, 0)
    sizes = g.shape(x)[max(batch, 0) :][: (g.shape_of(g.value(n, 1)) or (0,))[-1]]
    g.emit(n, "gather_nd", [x, _indices(g, n, 1, sizes)], batch_dims=batch)


@operator("ScatterElements", "axis reduction")
@operator("Scatter", "axis")
def _scatter_elements(g: Builder, n: OnnxNode) -> None:
    x = g.operand(n, 0)
    axis = n.axis_of(len(g.shape(x)), 0)
    operands = [x, _indices(g, n, 1, g.shape(x)[axis]), g.operand(n, 2)]
    g.emit(n, "scatter_elements", operands, axis=axis, reduction=n.get("reduction", str, "none"))


@operator("ScatterND", "reduction")
def _scatter_nd(g: Builder, n: OnnxNode) -> None:
    """Constant indices of a box, which exporters make of ``x[..., 1:, 1:] = y``, are slices around the updates."""
    x, indices, updates = (g.value(n, i) for i in range(3))
    sizes = g.shape_of(x)[: (g.shape_of(indices) or (0,))[-1]]
    operands = [g.operand(n, 0), _indices(g, n, 1, sizes), g.operand(n, 2)]
    reduction = n.get("reduction", str, "none")
    box = None
    if isinstance(indices, np.ndarray) and reduction == "none" and {operands[0], operands[2]} & g.tensors.keys():
        if g.shape_of(updates) == (*indices.shape[:-1], *g.shape_of(x)[len(sizes) :]):
            box = _box(indices, sizes)
    if box is None:
        g.emit(n, "scatter_nd", operands, reduction=reduction)
    else:
        _put_in_box(g, n, x, box, updates)


def _box(indices: np.ndarray, sizes: tuple[int, ...]) -> list[range] | None:
    """For each axis the places that rows of indices name, if they are all of a box, in order."""
    if not indices.size:
        return None
    rows = indices.reshape(-1, len(sizes)) % np.array(sizes)
    box = [range(int(low), int(high) + 1) for low, high in zip(rows.min(0), rows.max(0), strict=True)]
    if prod(map(len, box)) != len(rows):
        return None
    places = np.indices([*map(len, box)]).reshape(len(box), -1).T + rows[0]
    return box if np.array_equal(rows, places) else None


def _put_in_box(g: Builder, n: OnnxNode, x: Value, box: list[range], updates: Value) -> None:
    """``x`` with ``updates`` in its place: axis by axis from the last, what lies before and behind is put around."""
    shape = g.shape_of(x)
    whole = [range(size) for size in shape]
    left = [*box, *whole[len(box) :]]

    def piece(axis: int, begin: int, end: int) -> list[str]:
        """Of the elements whose later axes are whole."""
        if begin == end:
            return []
        ranges = [*left[:axis], range(begin, end), *whole[axis + 1 :]]
        if isinstance(x, np.ndarray):
            cut = x[tuple(slice(chosen.start, chosen.stop) for chosen in ranges)]
            return [g.new_constant(n, cut, "around", infinite=True)]
        result = x
        for i, chosen in enumerate(ranges):
            if chosen != whole[i]:
                result = taken(g, n, result, i, chosen, part="around")
        return [result]

    inner = tuple(map(len, left))
    partial = [axis for axis in range(len(box)) if left[axis] != whole[axis]]
    if isinstance(updates, np.ndarray):
        updates = updates.reshape(inner)
        if not partial:
            g.bind(n, updates)
            return
        kept = g.new_constant(n, updates, "updates", infinite=True)
    else:
        kept = g.reshape(n, updates, inner, part="updates" if partial else "")
    for axis in reversed(partial):
        around = piece(axis, 0, left[axis].start), piece(axis, left[axis].stop, shape[axis])
        part = "" if axis == partial[0] else "box"
        kept = g.emit(n, "concat", [*around[0], kept, *around[1]], part=part, axis=axis)


@operator("TensorScatter", "axis mode")
def _tensor_scatter(g: Builder, n: OnnxNode) -> None:
    """A cache of keys or values with the new ones of each sample from an index of its own on."""
    cache, update = g.operand(n, 0), g.operand(n, 1)
    shape, few = g.shape(cache), g.shape(update)
    axis, mode = n.axis_of(len(shape), -2), n.get("mode", str, "linear")
    fits = len(few) == len(shape) and all(a == b or i == axis for i, (a, b) in enumerate(zip(few, shape, strict=True)))
    if mode not in ("linear", "circular") or axis == 0 or not fits or few[axis] > shape[axis]:
        n.fail(f"cannot put {few} into {shape} along axis {axis}, mode {mode!r}")
    starts = g.value(n, 2) if g.has(n, 2) else np.zeros(shape[0], np.int64)
    if g.shape_of(starts) != shape[:1]:
        n.fail(f"expected {shape[0]} write indices, got {g.shape_of(starts)}")
    one = (1,) * len(few)
    starts = g.cast(n, starts, "int64", "starts")
    starts = g.reshape(n, starts, (shape[0], *one[1:]), "indices")
    steps = np.arange(few[axis]).reshape(-1, *one[axis + 1 :])
    places = binary(g, n, "add", starts, steps, "places")
    if mode == "circular":
        places = binary(g, n, "mod", places, np.full(one, shape[axis]), "around")
    places = g.emit(n, "expand", [places], part="indices", shape=few)
    g.emit(n, "scatter_elements", [cache, places, update], axis=axis)


def compressed(g: Builder, n: OnnxNode) -> None:
    """Compress by a constant condition."""
    x, condition = g.x(n), g.constant(n, 1)
    axis = n.get("axis", int, None) if "axis" in n.attrs else None
    if axis is None:
        x, axis = g.reshape(n, x, (int(np.prod(g.shape(x))),), part="flat"), 0
    axis = n.axis(axis, len(g.shape(x)))
    chosen = np.flatnonzero(condition.reshape(-1))
    if not chosen.size or chosen[-1] >= g.shape(x)[axis]:
        n.fail(f"the condition picks {chosen.size} elements of axis {axis} of {g.shape(x)}")
    g.emit(n, "gather", [x, g.new_constant(n, chosen, "indices")], axis=axis)


@operator("OneHot", "axis", "constant depth and values")
def _one_hot(g: Builder, n: OnnxNode) -> None:
    """Where an index, or the negative one for the same place, equals the place along a new axis."""
    indices, depth, values = g.cast(n, g.x(n), "int64", part="int64"), g.constant(n, 1), g.constant(n, 2)
    if depth.size != 1 or values.shape != (2,):
        n.fail(f"expected one depth and two values, got {depth.shape} and {values.shape}")
    count, rank = int(depth.item()), len(g.shape(indices)) + 1
    if count < 1:
        n.fail(f"depth must be at least 1, got {count}")
    g.afford(n, count)
    axis = n.axis_of(rank, -1)
    shape = g.shape(indices)
    indices = g.reshape(n, indices, (*shape[:axis], 1, *shape[axis:]), part="column")
    places = np.arange(count).reshape(-1, *(1,) * (rank - axis - 1))
    places = places.reshape((1,) * (rank - places.ndim) + places.shape)

    def constant(array: np.ndarray, name: str) -> str:
        return g.new_constant(n, array, f"{name}")

    above = g.emit(n, "equal", [indices, constant(places, "places")], part="above")
    below = g.emit(n, "equal", [indices, constant(places - count, "negative")], part="below")
    hot = g.emit(n, "or", [above, below], part="hot")
    off, on = (constant(value.reshape((1,) * rank), name) for value, name in zip(values, ("off", "on"), strict=True))
    g.emit(n, "where", [hot, on, off])


@operator("TopK", "axis k largest sorted", "constant k; sorted even where it need not be")
def _topk(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    k = n.get("k", int) if "k" in n.attrs else (g.ints(n, 1) or n.fail("k is missing"))[0]
    axis = n.axis_of(len(g.shape(x)), -1)
    for i in n.made:
        g.emit(n, "topk", [x], output=i, axis=axis, k=k, largest=bool(n.get("largest", int, 1)), indices=i == 1)


# ---- boxes ----


def suppression(g: Builder, n: OnnxNode) -> dict[str, Any]:
    """The limits of NonMaxSuppression, as attributes."""

    most = int(g.scalar(n, 2, 0))
    if most < 1:
        n.fail("max_output_boxes_per_class is 0: nothing is selected")
    center = bool(n.get("center_point_box", int, 0))
    iou, score = float(g.scalar(n, 3, 0.0)), float(g.scalar(n, 4, -inf))
    return dict(max_output=most, iou=iou, score=score, center_box=center)


@operator(
    "RoiAlign", "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale", "images"
)
def _roi_align(g: Builder, n: OnnxNode) -> None:
    x, rois = g.operand(n, 0), g.operand(n, 1)
    if len(g.shape(x)) != 4:
        n.fail(f"only images are supported, got {g.shape(x)}")
    coordinates = n.get("coordinate_transformation_mode", str, "half_pixel" if n.opset >= 16 else "output_half_pixel")
    if coordinates not in ("half_pixel", "output_half_pixel"):
        n.fail(f"unknown coordinate_transformation_mode {coordinates!r}")
    g.emit(
        n,
        "roi_align",
        [x, rois, _indices(g, n, 2, g.shape(x)[0])],
        mode=n.get("mode", str, "avg"),
        size=(n.get("output_height", int, 1), n.get("output_width", int, 1)),
        sampling_ratio=n.get("sampling_ratio", int, 0),
        spatial_scale=n.get("spatial_scale", float, 1.0),
        half_pixel=coordinates == "half_pixel",
    )
