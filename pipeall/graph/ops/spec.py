"""What the table of ops says of an op, and the checks that its shape functions share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from math import inf, isfinite, isnan
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Attrs = Mapping[str, Any]

MAX_WINDOW = 2**20  # sizes of kernels, strides, dilations, paddings
MAY_BE_INFINITE = ("lo", "hi", "value", "score", "clip")
ANY = (1, 2**15)  # number of inputs
GIVEN = object()  # in place of a default: the attribute must be given
FREE = {"lo": -inf, "hi": inf}


class Misfit(ValueError):
    """What is wrong with a node; ``infer_shape`` adds which node."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise Misfit(message)


def ints(attrs: Attrs, name: str, count: int, least: int) -> tuple[int, ...]:
    values = attrs[name]
    fits = isinstance(values, tuple) and len(values) == count
    fits = fits and all(isinstance(v, int) and not isinstance(v, bool) and v >= least for v in values)
    require(fits, f"{name} must be {count} integers >= {least}, got {values!r}")
    return values


def window(attrs: Attrs, name: str, count: int = 2, least: int = 1) -> tuple[int, ...]:
    values = ints(attrs, name, count, least)
    require(max(values) <= MAX_WINDOW, f"{name} must be at most {MAX_WINDOW}, got {values}")
    return values


def integer(attrs: Attrs, name: str, least: int, most: int) -> int:
    value = attrs[name]
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    require(fits, f"{name} must be an integer from {least} to {most}, got {value!r}")
    return value


def numbers(attrs: Attrs, *names: str) -> None:
    for name in names:
        value = attrs[name]
        fits = isinstance(value, int | float) and (isfinite(value) or (name in MAY_BE_INFINITE and not isnan(value)))
        require(fits, f"{name} must be a number, got {value!r}")


def flags(attrs: Attrs, *names: str) -> None:
    for name in names:
        require(isinstance(attrs[name], bool), f"{name} must be True or False, got {attrs[name]!r}")


def one_of(attrs: Attrs, name: str, known: Collection[str]) -> str:
    require(attrs[name] in known, f"{name} must be one of {', '.join(known)}, got {attrs[name]!r}")
    return attrs[name]


def axes_of(attrs: Attrs, x: Shape) -> tuple[int, ...]:
    require(isinstance(attrs["axes"], tuple), f"axes must be integers, got {attrs['axes']!r}")
    axes = ints(attrs, "axes", len(attrs["axes"]), 0)
    require(0 < len(axes) == len({axis for axis in axes if axis < len(x)}), f"axes {axes} are not axes of {x}")
    return axes


def clamp(attrs: Attrs) -> None:
    numbers(attrs, "lo", "hi")
    require(attrs["lo"] <= attrs["hi"], f"lo must not exceed hi, got {attrs['lo']} and {attrs['hi']}")


def image(x: Shape) -> None:
    require(len(x) == 4, f"input must be (N, C, H, W), got {x}")


# ---- element types: f(attrs, *input types) -> type of the output ----


def same(attrs: Attrs, *types: str) -> str:
    """All inputs and the output are of one type."""
    require(len(set(types)) == 1, f"expected inputs of one element type, got {', '.join(types)}")
    return types[0]


def floats(attrs: Attrs, *types: str) -> str:
    """All inputs and the output are float32."""
    require(set(types) == {"float32"}, f"expected float32 inputs, got {', '.join(types)}")
    return "float32"


def floats_to_int64(attrs: Attrs, *types: str) -> str:
    """All inputs are float32, the output holds indices."""
    floats(attrs, *types)
    return "int64"


def indexed(attrs: Attrs, x: str, indices: str, *others: str) -> str:
    """The second input holds indices, the others and the output are of one type."""
    require(indices in ("int32", "int64"), f"indices must be int32 or int64, got {indices}")
    return same(attrs, x, *others)


class Trait(Flag):
    """What passes, lowering and quantization ask of an op."""

    NONE = 0
    IMAGES = auto()  # reads and writes images as pixels
    REORDERS = auto()  # the axes of its output have other meanings than those of its inputs
    SELECTS = auto()  # every value that it makes is one that it reads
    ANY_STRIDES = auto()  # can write its output with any strides, as fast
    POOLS = auto()
    WEIGHTS = auto()  # a layer with weights and a bias, at inputs 1 and 2
    INT8_WEIGHTS = auto()  # a layer whose weights may be int8
    JUMPS = auto()  # its result may jump where an operand hardly changes
    SUMS = auto()  # adds up products of many values in an order that no file says: the last bit is not known


@dataclass(frozen=True)
class OpSpec:
    """One op.

    inputs   least and most number of inputs; weights and biases of conv, deconv and fc are at 1 and 2
    attrs    name -> default of what every node of this op carries, no more and no less
    shape    (attrs, *input shapes) -> output shape; raises Misfit on anything that does not fit
    compute  (attrs, *arrays) -> array, NCHW, in the arrays' own types: the yardstick of all kernels
    macs     (output shape, weight shape) -> multiply-accumulates; None for ops without weights, which count as 0
    types    (attrs, *input types) -> output type; raises Misfit
    traits   what else is known of it
    """

    inputs: tuple[int, int]
    attrs: Attrs
    shape: Callable[..., Shape]
    compute: Callable[..., np.ndarray]
    macs: Callable[[Shape, Shape], int] | None = None
    types: Callable[..., str] = floats
    traits: Trait = Trait.NONE
