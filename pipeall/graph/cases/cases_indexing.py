"""Cases of the ops that pick elements by indices, within and beyond the ends of an axis, and of the largest of rows."""

from __future__ import annotations

from .case import Case, Shape

FLOATS_BY = ("float32", "int64")


def _gather(x: Shape, indices: Shape, axis: int, *, computed=False, types=FLOATS_BY, note=""):
    shapes, constants = ((x, indices), ()) if computed else ((x,), (indices,))
    size = x[axis] + (2 if computed else 0)  # those that are computed may leave the axis
    return Case("gather", dict(axis=axis), shapes, constants, types=types, draws=(-size, size), note=note)


GATHER = (
    _gather((1, 17, 4, 5), (3,), 1),
    _gather((1, 17, 4, 5), (2, 3), 2),
    _gather((1, 17, 4, 5), (7,), 3, computed=True),
    _gather((33, 16), (1, 9), 0, note="embedding"),
    _gather((33, 16), (1, 9), 0, computed=True, types=("float32", "int32")),
    _gather((5, 3, 4), (), 1, note="scalar"),
    _gather((2, 9, 3), (4,), 1, types=("int64", "int64")),
    _gather((2, 9, 3), (4,), 1, types=("uint8", "int32"), computed=True),
    _gather((9, 2), (4,), 0, types=("bool", "int64")),
    _gather((2, 70, 5), (2,), 2, computed=True, note="a run along another axis"),
)


def _elements(x: Shape, indices: Shape, axis: int, types=FLOATS_BY):
    size = x[axis] + 1
    return Case("gather_elements", dict(axis=axis), (x, indices), types=types, draws=(-size, size))


GATHER_ELEMENTS = (
    _elements((2, 5, 3), (2, 7, 3), 1),
    _elements((2, 5, 3), (1, 5, 2), 2),
    _elements((17,), (33,), 0),
    _elements((3, 9), (3, 700), 1),
    _elements((4, 5), (3, 2), 0, types=("float32", "int32")),
    _elements((4, 5), (4, 2), 1, types=("int64", "int64")),
)


def _gather_nd(x: Shape, indices: Shape, batch: int = 0, types=FLOATS_BY):
    return Case("gather_nd", dict(batch_dims=batch), (x, indices), types=types, draws=(-9, 9))


GATHER_ND = (
    _gather_nd((4, 5, 3), (6, 1)),
    _gather_nd((4, 5, 3), (2, 3, 2)),
    _gather_nd((4, 5, 3), (7, 3)),
    _gather_nd((4, 5, 3), (4, 2, 1), 1),
    _gather_nd((2, 3, 5, 4), (2, 3, 6, 2), 2),
    _gather_nd((4, 5), (3, 2), types=("int32", "int64")),
)


def _updates(op: str, x: Shape, indices: Shape, updates: Shape, reduction: str, *, types=None, **attrs):
    dtype, index = types or FLOATS_BY
    shapes, reach = (x, updates), (-max(x), max(x))
    attrs = attrs | dict(reduction=reduction)
    return Case(op, attrs, shapes, (indices,), types=(dtype, dtype, index), draws=reach)


REDUCTIONS = ("none", "add", "mul", "max", "min")
SCATTER_ELEMENTS = (
    *(_updates("scatter_elements", (3, 5, 4), (3, 7, 4), (3, 7, 4), how, axis=1) for how in REDUCTIONS),
    _updates("scatter_elements", (3, 5, 4), (2, 3, 4), (2, 3, 4), "none", axis=0),
    _updates("scatter_elements", (3, 5, 9), (3, 5, 2), (3, 5, 2), "add", axis=2, types=("int64", "int64")),
    _updates("scatter_elements", (17,), (9,), (9,), "none", axis=0, types=("float32", "int32")),
    *(_updates("scatter_elements", (2, 9), (2, 700), (2, 700), how, axis=1) for how in ("none", "add")),
)
SCATTER_ND = (
    *(_updates("scatter_nd", (4, 5, 3), (6, 1), (6, 5, 3), how) for how in REDUCTIONS),
    _updates("scatter_nd", (4, 5, 3), (2, 3, 2), (2, 3, 3), "none"),
    _updates("scatter_nd", (4, 5, 3), (9, 3), (9,), "add"),
    _updates("scatter_nd", (8,), (4, 1), (4,), "max", types=("int32", "int64")),
)


def _topk(x: Shape, axis: int, k: int, largest=True, indices=False, types=("float32",), draws=None):
    attrs = dict(axis=axis, k=k, largest=largest, indices=indices)
    return Case("topk", attrs, (x,), types=types, draws=draws, note="ties" if draws else "")


TOPK = (
    *(_topk((3, 33), 1, k, indices=which) for k in (1, 5, 33) for which in (False, True)),
    *(_topk((2, 17, 4), axis, 2, largest=False, indices=which) for axis in (0, 1, 2) for which in (False, True)),
    *(_topk((1, 100), 1, 20, big, True, ("int64",), (-5, 5)) for big in (False, True)),
    _topk((1, 100), 1, 20, types=("uint8",), draws=(0, 9)),
    _topk((1, 4100), 1, 100),
)

INDEXING = (GATHER, GATHER_ELEMENTS, GATHER_ND, SCATTER_ELEMENTS, SCATTER_ND, TOPK)
