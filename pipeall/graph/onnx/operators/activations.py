"""ONNX operators of one operand, element by element, in canonical ops."""

from __future__ import annotations

from math import inf

import numpy as np

from ...pointwise import UNARY
from ..read.build import Builder, OnnxNode, operator
from .pointwise_nodes import binary

FLOAT_MAX = float(np.finfo(np.float32).max)


@operator("Relu")
def _relu(g: Builder, n: OnnxNode) -> None:
    g.emit(n, "clip", [g.x(n)], lo=0.0, hi=inf)


@operator("Clip", "max min")
def _clip(g: Builder, n: OnnxNode) -> None:
    """Constant bounds as a clamp, computed ones as operands."""
    x, computed, limits = g.x(n), {}, []
    for i, (name, unbounded) in enumerate((("min", -inf), ("max", inf)), 1):
        limit = n.get(name, float, unbounded)
        if g.has(n, i):
            limit = g.value(n, i)
            if g.shape_of(limit) not in ((), (1,)):
                n.fail(f"{name} must be one number, got {g.shape_of(limit)}")
            if isinstance(limit, str):
                computed[name], limit = limit, unbounded
            else:
                limit = limit.item()
        limits.append(unbounded if _no_limit(g.dtype(x), limit, unbounded) else limit)
    lo, hi = limits
    if not computed:
        g.emit(n, "clip", [x], lo=min(lo, hi), hi=hi)  # ONNX-13: all elements become hi where lo > hi
        return
    lower, upper = (computed.get(name, np.asarray(limit, g.dtype(x)) if abs(limit) < inf else None)
                    for name, limit in (("min", lo), ("max", hi)))  # fmt: skip
    if lower is not None:
        x = binary(g, n, "max", x, lower, "" if upper is None else "above")
    if upper is not None:
        binary(g, n, "min", x, upper)


def _no_limit(dtype: str, limit: float, unbounded: float) -> bool:
    """Whether a bound is the largest number of its type on its side."""
    if dtype == "float32":
        most = FLOAT_MAX
    else:
        info = np.iinfo(dtype)
        most = info.max if unbounded > 0 else -info.min
    return abs(limit) >= most and (limit > 0) == (unbounded > 0)


def _named(g: Builder, n: OnnxNode) -> None:
    op = CANONICAL[n.op]
    parameters = UNARY[op].parameters
    g.emit(n, op, [g.x(n)], **{name: n.get(name, float, default) for name, default in parameters.items()})


# The table knows most; those whose attributes are other than parameters follow
CANONICAL = {entry.onnx: op for op, entry in UNARY.items() if entry.onnx}
for _name, _op in CANONICAL.items():
    operator(_name, " ".join(UNARY[_op].parameters))(_named)


@operator("Gelu", "approximate")
def _gelu(g: Builder, n: OnnxNode) -> None:
    mode = n.get("approximate", str, "none")
    if mode not in ("none", "tanh"):
        n.fail(f"unknown approximate {mode!r}")
    g.emit(n, "gelu" if mode == "none" else "gelu_tanh", [g.x(n)])


@operator("IsInf", "detect_negative detect_positive")
def _isinf(g: Builder, n: OnnxNode) -> None:
    negative, positive = (float(bool(n.get(f"detect_{side}", int, 1))) for side in ("negative", "positive"))
    g.emit(n, "isinf", [g.x(n)], negative=negative, positive=positive)


@operator("Swish", "alpha")
def _swish(g: Builder, n: OnnxNode) -> None:
    g.emit(n, "swish", [g.x(n)], alpha=n.get("alpha", float, 1.0))
