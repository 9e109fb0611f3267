"""Ops that pick elements by indices computed or constant, and the largest of a row.

Indices are int32 or int64. A negative one counts from the end; one beyond either end is taken for the nearest
element, so that no index, whatever a network computes, leaves the tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from .spec import GIVEN, Attrs, OpSpec, Shape, Trait, flags, indexed, integer, one_of, require

COMBINE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
REDUCTIONS = ("none", *COMBINE)

# ---- output shapes ----


def _axis(attrs: Attrs, x: Shape) -> int:
    return integer(attrs, "axis", 0, len(x) - 1)


def _gather_shape(attrs: Attrs, x: Shape, indices: Shape) -> Shape:
    axis = _axis(attrs, x)
    return (*x[:axis], *indices, *x[axis + 1 :])


def _gather_elements_shape(attrs: Attrs, x: Shape, indices: Shape) -> Shape:
    axis = _axis(attrs, x)
    fits = len(indices) == len(x)
    fits = fits and all(i == axis or few <= n for i, (few, n) in enumerate(zip(indices, x, strict=True)))
    require(fits, f"indices {indices} do not fit {x} along axis {axis}")
    return indices


def _scatter_elements_shape(attrs: Attrs, x: Shape, indices: Shape, updates: Shape) -> Shape:
    _gather_elements_shape(attrs, x, indices)
    require(updates == indices, f"updates must be {indices}, got {updates}")
    one_of(attrs, "reduction", REDUCTIONS)
    return x


def _gather_nd_shape(attrs: Attrs, x: Shape, indices: Shape) -> Shape:
    require(len(x) >= 1 and len(indices) >= 1, f"input and indices must have axes, got {x} and {indices}")
    batch = integer(attrs, "batch_dims", 0, min(len(x), len(indices)) - 1)
    require(x[:batch] == indices[:batch], f"the first {batch} axes of {x} and {indices} must agree")
    require(indices[-1] <= len(x) - batch, f"tuples of {indices[-1]} indices exceed the axes of {x}")
    return (*indices[:-1], *x[batch + indices[-1] :])


def _scatter_nd_shape(attrs: Attrs, x: Shape, indices: Shape, updates: Shape) -> Shape:
    expected = _gather_nd_shape({"batch_dims": 0}, x, indices)
    require(updates == expected, f"updates must be {expected}, got {updates}")
    one_of(attrs, "reduction", REDUCTIONS)
    return x


def _topk_shape(attrs: Attrs, x: Shape) -> Shape:
    axis = _axis(attrs, x)
    flags(attrs, "largest", "indices")
    return (*x[:axis], integer(attrs, "k", 1, x[axis]), *x[axis + 1 :])


def _topk_types(attrs: Attrs, x: str) -> str:
    require(x != "bool", "bools have no order")
    return "int64" if attrs["indices"] else x


# ---- references ----


def inside(indices: np.ndarray, size: int) -> np.ndarray:
    """Indices into an axis of ``size`` elements, all of them from 0 to size - 1."""
    indices = np.clip(indices.astype(np.int64), -size, size - 1)
    return np.where(indices < 0, indices + size, indices)


def _gather(attrs: Attrs, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return np.take(x, inside(indices, x.shape[attrs["axis"]]), axis=attrs["axis"])


def _gather_elements(attrs: Attrs, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return x[_along(attrs, x, indices)]


def _along(attrs: Attrs, x: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, ...]:
    """Where each of the indices points: one array of coordinates per axis of x."""
    where = list(np.indices(indices.shape, sparse=True))
    where[attrs["axis"]] = inside(indices, x.shape[attrs["axis"]])
    return tuple(where)


def _scatter_elements(attrs: Attrs, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    return _scattered(attrs, x, np.broadcast_arrays(*_along(attrs, x, indices)), updates)


def _scattered(attrs: Attrs, x: np.ndarray, where: list[np.ndarray], updates: np.ndarray) -> np.ndarray:
    """Where several updates meet the same element they are all applied; the last in order wins without reduction."""
    out = x.copy()
    flat = np.ravel_multi_index(where, x.shape[: len(where)]).reshape(-1)
    rows = out.reshape(prod(x.shape[: len(where)]), -1)
    values = updates.reshape(flat.size, -1)
    if attrs["reduction"] == "none":
        met, backwards = np.unique(flat[::-1], return_index=True)
        rows[met] = values[::-1][backwards]
    else:
        COMBINE[attrs["reduction"]].at(rows, flat, values)
    return rows.reshape(x.shape)


def _tuples(x: Shape, indices: np.ndarray) -> list[np.ndarray]:
    return [inside(indices[..., i], x[i]) for i in range(indices.shape[-1])]


def _gather_nd(attrs: Attrs, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    batch = attrs["batch_dims"]
    out = _gather_nd_shape(attrs, x.shape, indices.shape)
    count = prod(x.shape[:batch])
    xs, rows = x.reshape(count, *x.shape[batch:]), indices.reshape(count, *indices.shape[batch:])
    return np.stack([a[tuple(_tuples(a.shape, i))] for a, i in zip(xs, rows, strict=True)]).reshape(out)


def _scatter_nd(attrs: Attrs, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    return _scattered(attrs, x, _tuples(x.shape, indices), updates)


def _topk(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    axis = attrs["axis"]
    if attrs["largest"]:  # the stable order of the reversed row, backwards: of equals the lower index comes first
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    order = np.take(order, np.arange(attrs["k"]), axis)
    return order if attrs["indices"] else np.take_along_axis(x, order, axis)


_AXIS = {"axis": GIVEN}
_NONE = {"reduction": "none"}
_TOPK = _AXIS | {"k": GIVEN, "largest": True, "indices": False}

OPS: dict[str, OpSpec] = {
    "gather": OpSpec((2, 2), _AXIS, _gather_shape, _gather, types=indexed, traits=Trait.REORDERS),
    "gather_elements": OpSpec((2, 2), _AXIS, _gather_elements_shape, _gather_elements, types=indexed),
    "gather_nd": OpSpec((2, 2), {"batch_dims": 0}, _gather_nd_shape, _gather_nd, types=indexed),
    "scatter_elements": OpSpec((3, 3), _AXIS | _NONE, _scatter_elements_shape, _scatter_elements, types=indexed),
    "scatter_nd": OpSpec((3, 3), _NONE, _scatter_nd_shape, _scatter_nd, types=indexed),
    "topk": OpSpec((1, 1), _TOPK, _topk_shape, _topk, types=_topk_types, traits=Trait.JUMPS),
}
