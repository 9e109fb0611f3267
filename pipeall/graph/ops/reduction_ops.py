"""Ops that reduce along axes: sums and their kin, the place of the extremes, running sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .spec import GIVEN, Attrs, OpSpec, Shape, Trait, axes_of, flags, integer, one_of, require

COUNTED = ("float32", "int32", "int64")  # what is summed and compared; smaller types are cast to these
FLOAT_ONLY = ("mean", "l2", "logsum", "logsumexp")

# ---- references: f(x, axes, keepdims) ----

Reference = Callable[[np.ndarray, tuple[int, ...], bool], np.ndarray]


def _sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    return x.sum(axis=axes, keepdims=keepdims, dtype=x.dtype)


def _prod(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    return x.prod(axis=axes, keepdims=keepdims, dtype=x.dtype)


def _logsumexp(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The largest element comes out of the sum, so that no power overflows; it may be infinite."""
    most = x.max(axis=axes, keepdims=True)
    finite = np.where(np.isfinite(most), most, 0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(x - finite).sum(axis=axes, keepdims=True)) + finite
    return total if keepdims else total.squeeze(axes)


def _logsum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(_sum(x, axes, keepdims))


HOW: dict[str, Reference] = {
    "sum": _sum,
    "mean": lambda x, axes, keepdims: x.mean(axis=axes, keepdims=keepdims),
    "max": lambda x, axes, keepdims: x.max(axis=axes, keepdims=keepdims),
    "min": lambda x, axes, keepdims: x.min(axis=axes, keepdims=keepdims),
    "prod": _prod,
    "l1": lambda x, axes, keepdims: _sum(np.abs(x), axes, keepdims),
    "l2": lambda x, axes, keepdims: np.sqrt(_sum(x * x, axes, keepdims)),
    "sumsquare": lambda x, axes, keepdims: _sum(x * x, axes, keepdims),
    "logsum": _logsum,
    "logsumexp": _logsumexp,
}
EXTREMES = {"max": np.argmax, "min": np.argmin}


def _reduce(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.asarray(HOW[attrs["how"]](x, attrs["axes"], attrs["keepdims"]))


def _arg(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    axis, extreme = attrs["axis"], EXTREMES[attrs["how"]]
    place = x.shape[axis] - 1 - extreme(np.flip(x, axis), axis) if attrs["last"] else extreme(x, axis)
    place = np.asarray(place, np.int64)
    return np.expand_dims(place, axis) if attrs["keepdims"] else place


def _cumsum(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    axis = attrs["axis"]
    x = np.flip(x, axis) if attrs["reverse"] else x
    total = x.cumsum(axis, dtype=x.dtype)
    if attrs["exclusive"]:  # the sums of what lies before, 0 for the first
        total = np.concatenate([np.zeros_like(x.take([0], axis)), np.delete(total, -1, axis)], axis)
    return np.flip(total, axis) if attrs["reverse"] else total


# ---- output shapes and types ----


def _left(x: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if axis in axes else size for axis, size in enumerate(x))
    return tuple(size for axis, size in enumerate(x) if axis not in axes)


def _reduce_shape(attrs: Attrs, x: Shape) -> Shape:
    one_of(attrs, "how", HOW)
    flags(attrs, "keepdims")
    return _left(x, axes_of(attrs, x), attrs["keepdims"])


def _arg_shape(attrs: Attrs, x: Shape) -> Shape:
    one_of(attrs, "how", EXTREMES)
    flags(attrs, "keepdims", "last")
    return _left(x, (integer(attrs, "axis", 0, len(x) - 1),), attrs["keepdims"])


def _cumsum_shape(attrs: Attrs, x: Shape) -> Shape:
    integer(attrs, "axis", 0, len(x) - 1)
    flags(attrs, "exclusive", "reverse")
    return x


def _counted(attrs: Attrs, x: str) -> str:
    known = ("float32",) if attrs.get("how") in FLOAT_ONLY else COUNTED
    require(x in known, f"expected {' or '.join(known)}, got {x}")
    return x


def _arg_types(attrs: Attrs, x: str) -> str:
    require(x in COUNTED, f"expected {' or '.join(COUNTED)}, got {x}")
    return "int64"


_REDUCE = {"how": GIVEN, "axes": GIVEN, "keepdims": True}
_ARG = {"how": GIVEN, "axis": GIVEN, "keepdims": True, "last": False}
_CUMSUM = {"axis": GIVEN, "exclusive": False, "reverse": False}

OPS: dict[str, OpSpec] = {
    "reduce": OpSpec((1, 1), _REDUCE, _reduce_shape, _reduce, types=_counted),
    "arg": OpSpec((1, 1), _ARG, _arg_shape, _arg, types=_arg_types, traits=Trait.JUMPS),
    "cumsum": OpSpec((1, 1), _CUMSUM, _cumsum_shape, _cumsum, types=_counted),
}
