"""ONNX operators that reduce along axes, in canonical ops: sums, global pooling, places of extremes, running sums."""

from __future__ import annotations

import numpy as np

from ...ops.reduction_ops import FLOAT_ONLY
from ..read.build import Builder, OnnxNode, operator

HOW = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod",
    "ReduceL1": "l1", "ReduceL2": "l2", "ReduceSumSquare": "sumsquare", "ReduceLogSum": "logsum",
    "ReduceLogSumExp": "logsumexp",
}  # fmt: skip
SMALL = ("bool", "int8", "uint8")  # are compared as int32


@operator(" ".join(HOW), "axes keepdims noop_with_empty_axes", "constant axes")
def _reduce(g: Builder, n: OnnxNode) -> None:
    x, how = g.x(n), HOW[n.op]
    shape, keepdims = g.shape(x), bool(n.get("keepdims", int, 1))
    reduced = reduced_axes(g, n, len(shape))
    if not reduced:  # every element is a set of its own
        x, reduced, keepdims = g.reshape(n, x, (*shape, 1), part="single"), (len(shape),), False
    along(g, n, how, x, reduced, keepdims)


def reduced_axes(g: Builder, n: OnnxNode, rank: int) -> tuple[int, ...]:
    """The axes that a node reduces: all where it names none, unless it says that those are none."""
    axes = g.attr_or_ints(n, "axes", 1)
    if not axes and not n.get("noop_with_empty_axes", int, 0):
        return tuple(range(rank))
    return tuple(sorted({n.axis(axis, rank) for axis in axes or ()}))


def along(g: Builder, n: OnnxNode, how: str, x: str, axes: tuple[int, ...], keepdims: bool, part: str = "") -> str:
    """Reduces a tensor of any type; means over height and width of images as pooling."""
    kind, shape = g.dtype(x), g.shape(x)
    if how == "mean" and kind == "float32" and len(shape) == 4 and set(axes) <= {2, 3}:
        kernel = tuple(shape[axis] if axis in axes else 1 for axis in (2, 3))
        left = tuple(size for axis, size in enumerate(shape) if axis not in axes)
        y = g.emit(n, "avgpool", [x], part=part if keepdims else f"{part}mean", kernel=kernel)
        return y if keepdims else g.reshape(n, y, left, part)
    if how == "mean" and kind != "float32":  # rounded towards 0
        total = along(g, n, "sum", x, axes, keepdims, f"{part}sum")
        return g.with_number(n, "div", total, int(np.prod([shape[axis] for axis in axes])), part)
    to = "int32" if kind in SMALL else "float32" if how in FLOAT_ONLY else kind
    if to == kind:
        return g.emit(n, "reduce", [x], part=part, how=how, axes=axes, keepdims=keepdims)
    x = g.cast(n, x, to, part=f"{part}{to}")
    y = g.emit(n, "reduce", [x], part=f"{part}{how}", how=how, axes=axes, keepdims=keepdims)
    return g.cast(n, y, kind, part)


@operator("ArgMax ArgMin", "axis keepdims select_last_index")
def _arg(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    axis = n.axis_of(len(g.shape(x)), 0)
    keepdims, last = bool(n.get("keepdims", int, 1)), bool(n.get("select_last_index", int, 0))
    x = g.cast(n, x, "int32", "int32") if g.dtype(x) in SMALL else x
    g.emit(n, "arg", [x], how="max" if n.op == "ArgMax" else "min", axis=axis, keepdims=keepdims, last=last)


@operator("CumSum", "exclusive reverse", "constant axis")
def _cumsum(g: Builder, n: OnnxNode) -> None:
    x, axis = g.x(n), g.scalar(n, 1, kinds="iu")
    exclusive, reverse = (bool(n.get(name, int, 0)) for name in ("exclusive", "reverse"))
    g.emit(n, "cumsum", [x], axis=n.axis(axis, len(g.shape(x))), exclusive=exclusive, reverse=reverse)


@operator("GlobalMaxPool GlobalAveragePool")
def _global_pool(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    shape = _pooled_shape(g, n, x)
    op, how = ("maxpool", "max") if n.op == "GlobalMaxPool" else ("avgpool", "mean")
    if len(shape) == 4:
        g.emit(n, op, [x], kernel=shape[2:])
    elif len(shape) == 2:
        g.bind(n, x)
    else:
        along(g, n, how, x, tuple(range(2, len(shape))), True)


@operator("GlobalLpPool", "p")
def _global_lp_pool(g: Builder, n: OnnxNode) -> None:
    """The sum of |x|^p, to the power of 1 / p."""
    x = g.x(n)
    axes = tuple(range(2, len(_pooled_shape(g, n, x))))
    p = n.get("p", int | float, 2)
    if p < 1:
        n.fail(f"p must be at least 1, got {p}")
    if not axes:
        g.emit(n, "abs", [x])
    elif p in (1, 2):
        along(g, n, f"l{p:.0f}", x, axes, True)
    else:
        powers = g.with_number(n, "pow", g.emit(n, "abs", [x], part="abs"), p, "powers")
        g.with_number(n, "pow", along(g, n, "sum", powers, axes, True, "sum"), 1 / p)


def _pooled_shape(g: Builder, n: OnnxNode, x: str) -> tuple[int, ...]:
    shape = g.shape(x)
    return shape if len(shape) >= 2 else n.fail(f"expected samples and channels, got {shape}")
