"""Ops that move elements and compute nothing."""

from __future__ import annotations

from math import prod

import numpy as np

from .spec import ANY, GIVEN, Attrs, OpSpec, Shape, Trait, integer, ints, numbers, one_of, require, same

PAD_MODES = ("constant", "reflect", "edge", "wrap")


def _concat_shape(attrs: Attrs, *inputs: Shape) -> Shape:
    first = inputs[0]
    axis = integer(attrs, "axis", 0, len(first) - 1)
    rest = {shape[:axis] + shape[axis + 1 :] for shape in inputs}
    require({len(shape) for shape in inputs} == {len(first)} and len(rest) == 1, f"shapes differ: {list(inputs)}")
    return (*first[:axis], sum(shape[axis] for shape in inputs), *first[axis + 1 :])


def _reshape_shape(attrs: Attrs, x: Shape) -> Shape:
    shape = ints(attrs, "shape", len(attrs["shape"]), 1)
    require(prod(shape) == prod(x), f"cannot reshape {x} to {shape}")
    return shape


def _transpose_shape(attrs: Attrs, x: Shape) -> Shape:
    perm = ints(attrs, "perm", len(x), 0)
    require(sorted(perm) == list(range(len(x))), f"perm {perm} does not permute the axes of {x}")
    return tuple(x[axis] for axis in perm)


def _slice_shape(attrs: Attrs, x: Shape) -> Shape:
    axis = integer(attrs, "axis", 0, len(x) - 1)
    start = integer(attrs, "start", 0, x[axis] - 1)
    stop = integer(attrs, "stop", start + 1, x[axis])
    step = integer(attrs, "step", 1, x[axis])
    return (*x[:axis], -(-(stop - start) // step), *x[axis + 1 :])


def _pad_shape(attrs: Attrs, x: Shape) -> Shape:
    begin, end = ints(attrs, "pads_begin", len(x), 0), ints(attrs, "pads_end", len(x), 0)
    numbers(attrs, "value")
    one_of(attrs, "mode", PAD_MODES)
    return tuple(b + n + e for b, n, e in zip(begin, x, end, strict=True))


def _expand_shape(attrs: Attrs, x: Shape) -> Shape:
    shape = ints(attrs, "shape", len(x), 0)  # 0 of what leaves without elements
    require(all(n in (1, m) for n, m in zip(x, shape, strict=True)), f"{x} does not broadcast to {shape}")
    return shape


def _concat(attrs: Attrs, *inputs: np.ndarray) -> np.ndarray:
    return np.concatenate(inputs, axis=attrs["axis"])


def _reshape(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return x.reshape(attrs["shape"])


def _transpose(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return x.transpose(attrs["perm"])


def _slice(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return x[(slice(None),) * attrs["axis"] + (slice(attrs["start"], attrs["stop"], attrs["step"]),)]


def pad_indices(mode: str, size: int, begin: int, end: int) -> np.ndarray:
    """Which elements an axis of ``size`` has when so many are added at its begin and end: repeated, mirrored or the
    nearest, however many there are."""
    places = np.arange(-begin, size + end)
    if mode == "wrap":
        return places % size
    if mode == "edge":
        return places.clip(0, size - 1)
    places = places % max(2 * (size - 1), 1)
    return np.minimum(places, 2 * (size - 1) - places)


def _pad(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    widths = list(zip(attrs["pads_begin"], attrs["pads_end"], strict=True))
    if attrs["mode"] == "constant":
        return np.pad(x, widths, constant_values=attrs["value"])
    for axis, (begin, end) in enumerate(widths):
        x = x.take(pad_indices(attrs["mode"], x.shape[axis], begin, end), axis)
    return x


def _expand(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, attrs["shape"])


_AXIS = {"axis": GIVEN}
_PAD = {"pads_begin": GIVEN, "pads_end": GIVEN, "mode": "constant", "value": 0.0}
_SLICE = _AXIS | {"start": GIVEN, "stop": GIVEN, "step": 1}
_ANYWHERE = Trait.SELECTS | Trait.ANY_STRIDES
_REORDERING = _ANYWHERE | Trait.REORDERS

OPS: dict[str, OpSpec] = {
    "concat": OpSpec(ANY, _AXIS, _concat_shape, _concat, types=same, traits=_ANYWHERE),
    "reshape": OpSpec((1, 1), {"shape": GIVEN}, _reshape_shape, _reshape, types=same, traits=_REORDERING),
    "transpose": OpSpec((1, 1), {"perm": GIVEN}, _transpose_shape, _transpose, types=same, traits=_REORDERING),
    "slice": OpSpec((1, 1), _SLICE, _slice_shape, _slice, types=same, traits=Trait.SELECTS),
    "pad": OpSpec((1, 1), _PAD, _pad_shape, _pad, types=same),
    "expand": OpSpec((1, 1), {"shape": GIVEN}, _expand_shape, _expand, types=same, traits=_ANYWHERE),
}
