"""Ops on elements one by one, made of the table in ``pointwise.py``; and casts and choices between tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...steps import TYPES
from ..pointwise import BINARY, UNARY, Binary, Unary
from .images import clamped
from .spec import FREE, GIVEN, Attrs, OpSpec, Shape, clamp, flags, numbers, require, same


def broadcast(*shapes: Shape) -> Shape:
    """The shape of tensors of one rank, broadcast."""
    require(len({len(shape) for shape in shapes}) == 1, f"operands must have the same rank, got {shapes}")
    fits = all(len(set(sizes) - {1}) <= 1 for sizes in zip(*shapes, strict=True))
    require(fits, f"operands {', '.join(map(str, shapes))} do not broadcast")
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


def _binary_shape(attrs: Attrs, a: Shape, b: Shape) -> Shape:
    clamp(attrs)
    flags(attrs, "swapped")
    return broadcast(a, b)


def _unary_shape(*parameters: str) -> Callable[..., Shape]:
    def shape(attrs: Attrs, x: Shape) -> Shape:
        numbers(attrs, *parameters)
        if "lo" in parameters:
            clamp(attrs)
        return x

    return shape


def _unary(op: Unary) -> Callable[[Attrs, np.ndarray], np.ndarray]:
    return lambda attrs, x: op.compute(x, *(x.dtype.type(attrs[name]) for name in op.parameters))


def _binary(op: Binary) -> Callable[[Attrs, np.ndarray, np.ndarray], np.ndarray]:
    return lambda attrs, a, b: clamped(attrs, op.compute(b, a) if attrs["swapped"] else op.compute(a, b))


def _cast_shape(attrs: Attrs, x: Shape) -> Shape:
    require(attrs["to"] in TYPES, f"to must be one of {', '.join(TYPES)}, got {attrs['to']!r}")
    return x


def _cast(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    """Between floats in the type of the reference itself."""
    if attrs["to"] in ("float32", "float16") and x.dtype.kind == "f":
        return x
    with np.errstate(invalid="ignore"):
        return x.astype(attrs["to"])


def _where_types(attrs: Attrs, condition: str, *types: str) -> str:
    require(condition == "bool", f"the condition must be bool, got {condition}")
    return same(attrs, *types)


OPS: dict[str, OpSpec] = {
    **{op: OpSpec((2, 2), FREE | {"swapped": False}, _binary_shape, _binary(b)) for op, b in BINARY.items()},
    **{op: OpSpec((1, 1), u.parameters, _unary_shape(*u.parameters), _unary(u)) for op, u in UNARY.items()},
    "cast": OpSpec((1, 1), {"to": GIVEN}, _cast_shape, _cast, types=lambda attrs, x: attrs["to"]),
    "where": OpSpec((3, 3), {}, lambda attrs, *x: broadcast(*x), lambda attrs, *x: np.where(*x), types=_where_types),
}
