"""Launches of pointwise ops: strided.cl, and elementwise.cl where operands are pixels."""

from __future__ import annotations

import re
from functools import cache
from math import ceil, floor, inf
from typing import Any

import numpy as np

from ...steps import ARENA, Step, View
from . import cl_devices as opencl
from .axes import filled, grid, joined, spread
from .recorder import FLOATS, SLOT, Base, Kind, Recorder, at, float32_only, whole


@cache
def formulas() -> dict[str, str]:
    """Pointwise op -> its formula in pointwise.cl, which says for which numbers it is: REAL_, WHOLE_ or EVERY_."""
    text = opencl.source("pointwise.cl")
    return {match[2]: match[0] for match in re.finditer(r"(?<=#define )(REAL|WHOLE|EVERY)_(\w+)", text)}


def formula(step: Step) -> str:
    """The formula of a pointwise step."""
    op = step.params["op"]
    return "EVERY_truth" if op == "cast" and step.dst.dtype == "bool" else formulas()[op]


def _bounds(lo: float, hi: float, integers: int) -> tuple[Any, Any]:
    """The limits of a clamp as the kernel takes them."""
    if not integers:
        return float(lo), float(hi)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return tuple(
        np.int64(least if value < least else most if value >= most else rounded(value))
        for value, rounded in ((lo, ceil), (hi, floor))
    )


def pointwise(recorder: Recorder, step: Step) -> None:
    p, out = step.params, step.dst
    shape, strides = joined(out.shape, *(spread(x, out.shape) for x in step.src), out.strides)
    number = whole(step.src[1:] if p["op"] == "where" else step.src)
    args: list[Any] = []
    types = {"Y": recorder.stored(out)}
    for name, x, steps in zip("ABC", step.src, strides, strict=False):
        args += [recorder.memory(x), x.offset, filled(steps)]
        types[name] = recorder.stored(x)
    args += [None, 0, filled(())] * (3 - len(step.src))
    args += [recorder.memory(out), out.offset, filled(strides[-1]), shape]
    parameters = p.get("p0", 0.0), p.get("p1", 0.0)
    bounds = (*_bounds(*parameters, number), *_bounds(p.get("lo", -inf), p.get("hi", inf), number))
    items, rank = grid(shape)
    known = types | dict(FORMULA=formula(step), OPERANDS=len(step.src), WHOLE=number, RANK=rank)
    if number and out.dtype not in FLOATS:
        known["NARROW"] = types["Y"]
    recorder.launch(step, "strided.cl", "pointwise", items, *args, *bounds, **known)


def _refusal(step: Step) -> str | None:
    op = step.params["op"]
    if op not in formulas():
        return f"has no {op}"
    number = whole(step.src[1:] if op == "where" else step.src)
    if formula(step).startswith(("WHOLE_", "REAL_")[number]):
        return f"has no {op} of {', '.join(x.dtype for x in step.src)}"
    return None


def binary(recorder: Recorder, step: Step) -> None:
    a, p = step.src[0], step.params
    if len(step.src) > 1:
        b, memory = step.src[1], Base(step.src[1].base)
    else:
        h, w, c = step.weight.shape
        b, memory = View(ARENA, 0, h, w, c, c), step.weight
    strides = (b.w * b.stride * (b.h > 1), b.stride * (b.w > 1), int(b.c > 1))
    args = (*at(a), memory, b.offset, *strides, *at(step.dst), a.c, a.w, float(p["lo"]), float(p["hi"]))
    types = recorder.types(X=Base(a.base), Y=Base(step.dst.base), R=memory if isinstance(memory, Base) else SLOT)
    recorder.launch(step, "elementwise.cl", "binary", (a.c, a.w, a.h), *args, BINARY=formula(step), **types)


def unary(recorder: Recorder, step: Step) -> None:
    x, p = step.src[0], step.params
    args = (*at(x), *at(step.dst), x.c, float(p["p0"]), float(p["p1"]))
    types = recorder.types(X=Base(x.base), Y=Base(step.dst.base))
    recorder.launch(step, "elementwise.cl", "unary", (x.c, x.h * x.w), *args, UNARY=formula(step), **types)


KINDS = {
    "pointwise": Kind(pointwise, (_refusal,)),
    "binary": Kind(binary, (_refusal, float32_only)),
    "unary": Kind(unary, (_refusal, float32_only)),
}
