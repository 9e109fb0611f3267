"""Ops on elements one by one, made of the table in ``pointwise.py``; and casts and choices between tensors."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor

import numpy as np

from ...steps import TYPES
from ..pointwise import BINARY, UNARY, Binary, Unary
from .spec import FREE, GIVEN, Attrs, OpSpec, Shape, Trait, clamp, flags, integer, numbers, require, same


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


def bounds(attrs: Attrs, dtype: np.dtype) -> tuple[float, float]:
    """lo and hi as an element type can hold them."""
    lo, hi = attrs["lo"], attrs["hi"]
    if dtype.kind == "f":
        return lo, hi
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return ceil(min(max(lo, least), most)), floor(max(min(hi, most), least))


def _unary(op: Unary) -> Callable[[Attrs, np.ndarray], np.ndarray]:
    if "lo" in op.parameters:
        return lambda attrs, x: np.clip(x, *bounds(attrs, x.dtype))
    return lambda attrs, x: op.compute(x, *(x.dtype.type(attrs[name]) for name in op.parameters))


def _binary(op: Binary) -> Callable[[Attrs, np.ndarray, np.ndarray], np.ndarray]:
    def arithmetic(attrs: Attrs, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.clip(op.compute(b, a) if attrs["swapped"] else op.compute(a, b), *bounds(attrs, a.dtype))

    return arithmetic if op.clamped else lambda attrs, a, b: op.compute(a, b)


def _types(op: Unary | Binary) -> Callable[..., str]:
    def types(attrs: Attrs, *types: str) -> str:
        dtype = same(attrs, *types)
        require(dtype in op.takes, f"elements must be {', '.join(op.takes)}, got {dtype}")
        return op.gives or dtype

    return types


def _traits(op: Unary | Binary) -> Trait:
    return Trait.JUMPS if op.jumps or op.gives == "bool" else Trait.NONE


def _unary_spec(op: Unary) -> OpSpec:
    return OpSpec((1, 1), op.parameters, _unary_shape(*op.parameters), _unary(op), types=_types(op), traits=_traits(op))


def _binary_spec(op: Binary) -> OpSpec:
    attrs = FREE | {"swapped": False} if op.clamped else {}
    shape = _binary_shape if op.clamped else lambda attrs, *x: broadcast(*x)
    return OpSpec((2, 2), attrs, shape, _binary(op), types=_types(op), traits=_traits(op))


def _cast_shape(attrs: Attrs, x: Shape) -> Shape:
    require(attrs["to"] in TYPES, f"to must be one of {', '.join(TYPES)}, got {attrs['to']!r}")
    return x


def _cast(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    """Between floats in the type of the reference; a float that an integer type lacks becomes the nearest it has."""
    to = np.dtype(attrs["to"])
    if to.kind == "f" and x.dtype.kind == "f":
        return x
    if to.kind in "iu" and x.dtype.kind == "f":
        least, most = np.iinfo(to).min, np.iinfo(to).max
        inside = np.where((x >= least) & (x < float(most) + 1), x, 0).astype(to)
        return np.where(x < least, least, np.where(x >= float(most) + 1, most, inside)).astype(to)
    return x.astype(to)


# ---- integers that stand for reals ----

INTEGERS = ("int8", "uint8", "int32")  # int32: sums, which are only read


def _levels_shape(attrs: Attrs, x: Shape) -> Shape:
    numbers(attrs, "scale")
    require(attrs["scale"] > 0, f"scale must be above 0, got {attrs['scale']!r}")
    integer(attrs, "zero", -(2**31), 2**31 - 1)
    if "to" in attrs:
        least, most = _range(attrs)
        require(attrs["to"] in INTEGERS[:2], f"to must be int8 or uint8, got {attrs['to']!r}")
        require(least <= attrs["zero"] <= most, f"zero must be of {attrs['to']}, got {attrs['zero']}")
    return x


def _range(attrs: Attrs) -> tuple[int, int]:
    return (0, 255) if attrs["to"] == "uint8" else (-128, 127)


def _quantize(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    levels = np.rint(x / x.dtype.type(attrs["scale"])) + attrs["zero"]
    return np.clip(levels, *_range(attrs)).astype(attrs["to"])


def _quantize_type(attrs: Attrs, x: str) -> str:
    require(x == "float32", f"elements must be float32, got {x}")
    return attrs["to"]


def _dequantize(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32) - np.float32(attrs["zero"])) * np.float32(attrs["scale"])


def _dequantize_type(attrs: Attrs, x: str) -> str:
    require(x in INTEGERS, f"elements must be {', '.join(INTEGERS)}, got {x}")
    return "float32"


def _where_types(attrs: Attrs, condition: str, *types: str) -> str:
    require(condition == "bool", f"the condition must be bool, got {condition}")
    return same(attrs, *types)


_QPARAMS = {"scale": GIVEN, "zero": GIVEN}

OPS: dict[str, OpSpec] = {
    **{op: _binary_spec(entry) for op, entry in BINARY.items()},
    **{op: _unary_spec(entry) for op, entry in UNARY.items()},
    "cast": OpSpec((1, 1), {"to": GIVEN}, _cast_shape, _cast, types=lambda attrs, x: attrs["to"]),
    "quantize": OpSpec(
        (1, 1), _QPARAMS | {"to": GIVEN}, _levels_shape, _quantize, types=_quantize_type, traits=Trait.JUMPS
    ),
    "dequantize": OpSpec((1, 1), _QPARAMS, _levels_shape, _dequantize, types=_dequantize_type),
    "where": OpSpec((3, 3), {}, lambda attrs, *x: broadcast(*x), lambda attrs, *x: np.where(*x), types=_where_types),
}
