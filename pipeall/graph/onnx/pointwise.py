"""ONNX operators on single elements, and Softmax, in canonical ops (``operators`` says how)."""

from __future__ import annotations

from math import inf, pi, prod

import numpy as np

from ..pointwise import BINARY, BY_OPERATOR, UNARY
from .build import Builder, OnnxNode, operator

FLOAT_MAX = float(np.finfo(np.float32).max)

# ---- arithmetic ----


@operator(
    " ".join((*(entry.onnx for entry in BINARY.values() if entry.onnx), "Sum")),
    "axis broadcast",
    "an operand is computed and has the shape of the result",
)
@operator("Div", "axis broadcast", "by a constant")
def _arithmetic(g: Builder, n: OnnxNode) -> None:
    values = [g.value(n, i) for i in range(len(n.inputs))]
    op = {"Div": "mul", "Sum": "add"}.get(n.op) or BY_OPERATOR[n.op]
    if n.op == "Div":
        g.x(n, 0)
        divisor = g.floats(n, 1)
        if not divisor.all():
            n.fail("division by zero")
        values[1] = np.asarray(1 / divisor)
    if "axis" in n.attrs:  # opset 6: where the second operand's axes begin
        shape = g.shape_of(values[1])
        shape += (1,) * (len(g.shape_of(values[0])) - n.get("axis", int) - len(shape))
        values[1] = (
            values[1].reshape(shape) if isinstance(values[1], np.ndarray) else g.reshape(n, values[1], shape, "axis")
        )
    total = values[0]
    for i in range(1, len(values)):
        total = _binary(g, n, op, total, values[i], "" if i == len(values) - 1 else f"sum{i}")
    if len(values) == 1:
        g.bind(n, total)


def _binary(g: Builder, n: OnnxNode, op: str, a: np.ndarray | str, b: np.ndarray | str, part: str) -> str:
    """a op b, where the canonical node's first operand is the activation that has the shape of the result."""
    shapes = [g.shape_of(value) for value in (a, b)]
    try:
        out = np.broadcast_shapes(*shapes)
    except ValueError:
        n.fail(f"operands {shapes[0]} and {shapes[1]} do not broadcast")
    whole = [isinstance(v, str) and prod(s) == prod(out) for v, s in zip((a, b), shapes, strict=True)]
    if not any(whole):
        n.fail(f"one operand must be computed and have the shape of the result {out}, got {shapes[0]} and {shapes[1]}")
    swapped = not whole[0]
    operands = []
    for value, shape in zip((b, a) if swapped else (a, b), shapes[::-1] if swapped else shapes, strict=True):
        aligned = (1,) * (len(out) - len(shape)) + shape
        if isinstance(value, str):
            operands.append(g.reshape(n, value, aligned, part="aligned"))
        else:
            if value.dtype.kind != "f":
                n.fail(f"operands must be floats, got {value.dtype}")
            named = next((name for name in n.inputs if g.values[name] is value), f"{n.outputs[0]}/operand")
            operands.append(g.keep(value if shape == aligned else value.reshape(aligned), named))
    return g.emit(n, op, operands, part=part, swapped=swapped and bool(BINARY[op].swapped))


@operator("Neg")
def _neg(g: Builder, n: OnnxNode) -> None:
    _scaled(g, n, g.x(n), -1.0)


def _scaled(g: Builder, n: OnnxNode, x: str, factor: float, part: str = "") -> str:
    return _with_number(g, n, "mul", x, factor, part)


def _shifted(g: Builder, n: OnnxNode, x: str, shift: float, part: str) -> str:
    return _with_number(g, n, "add", x, shift, part)


def _with_number(g: Builder, n: OnnxNode, op: str, x: str, number: float, part: str) -> str:
    constant = g.keep(np.full((1,) * len(g.shape(x)), number, np.float32), f"{n.outputs[0]}/number")
    return g.emit(n, op, [x, constant], part=part)


@operator("Pow", limits="squares and identities")
def _pow(g: Builder, n: OnnxNode) -> None:
    x, exponent = g.x(n), g.constant(n, 1)
    if exponent.size != 1 or exponent.item() not in (1, 2):
        n.fail(f"only the exponents 1 and 2 are supported, got {exponent.reshape(-1)[:4].tolist()}")
    if exponent.item() == 1:
        g.bind(n, x)
    else:
        g.emit(n, "mul", [x, x])


@operator("Max Min", limits="of a tensor and constant numbers")
def _bounded(g: Builder, n: OnnxNode) -> None:
    numbers = [value for name in n.inputs if isinstance(value := g.values[name], np.ndarray)]
    computed = [name for name in n.inputs if isinstance(g.values[name], str)]
    if len(computed) != 1 or any(
        value.size != 1 or value.ndim > len(g.shape(g.values[computed[0]])) for value in numbers
    ):
        n.fail("expected one computed tensor and single constant numbers")
    x, limits = g.values[computed[0]], [value.item() for value in numbers]
    lo, hi = (max(limits, default=-inf), inf) if n.op == "Max" else (-inf, min(limits, default=inf))
    g.emit(n, "clip", [x], lo=lo, hi=hi)


# ---- activations ----


@operator("Relu")
def _relu(g: Builder, n: OnnxNode) -> None:
    g.emit(n, "clip", [g.x(n)], lo=0.0, hi=inf)


@operator("Clip", "max min", "constant bounds")
def _clip(g: Builder, n: OnnxNode) -> None:
    limits = []
    for i, (name, unbounded) in enumerate((("min", -inf), ("max", inf)), 1):
        limit = n.get(name, float, unbounded)
        if g.has(n, i):
            limit = g.floats(n, i)
            limit = limit.item() if limit.size == 1 else n.fail(f"{name} must be one number, got {limit.shape}")
        limits.append(unbounded if abs(limit) >= FLOAT_MAX and (limit > 0) == (unbounded > 0) else limit)
    lo, hi = limits
    g.emit(n, "clip", [g.x(n)], lo=min(lo, hi), hi=hi)  # ONNX-13: all elements become hi where lo > hi


def _named(g: Builder, n: OnnxNode) -> None:
    op = BY_OPERATOR[n.op]
    parameters = UNARY[op].parameters
    g.emit(n, op, [g.x(n)], **{name: n.get(name, float, default) for name, default in parameters.items()})


for _entry in UNARY.values():
    if _entry.onnx:
        operator(_entry.onnx, " ".join(_entry.parameters))(_named)


@operator("PRelu", limits="constant slopes")
def _prelu(g: Builder, n: OnnxNode) -> None:
    """max(x, 0) + slope * min(x, 0)"""
    x, slope = g.x(n), g.floats(n, 1)
    if n.opset < 7 and slope.size > 1:  # one slope per channel
        slope = slope.reshape(-1, *(1,) * (len(g.shape(x)) - 2))
    above = g.emit(n, "clip", [x], part="above", lo=0.0, hi=inf)
    below = g.emit(n, "clip", [x], part="below", lo=-inf, hi=0.0)
    below = _binary(g, n, "mul", below, slope, "sloped")
    if g.shape(below) != g.shape(x):
        n.fail(f"slopes {slope.shape} do not broadcast to {g.shape(x)}")
    g.emit(n, "add", [above, below])


@operator("Swish", "alpha")
def _swish(g: Builder, n: OnnxNode) -> None:
    x, alpha = g.x(n), n.get("alpha", float, 1.0)
    scaled = x if alpha == 1 else _scaled(g, n, x, alpha, "scaled")
    g.emit(n, "mul", [x, g.emit(n, "sigmoid", [scaled], part="sigmoid")])


@operator("Gelu", "approximate")
def _gelu(g: Builder, n: OnnxNode) -> None:
    """x / 2 (1 + erf(x / sqrt 2)), or x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))"""
    x, mode = g.x(n), n.get("approximate", str, "none")
    if mode not in ("none", "tanh"):
        n.fail(f"unknown approximate {mode!r}")
    if mode == "none":
        curve = g.emit(n, "erf", [_scaled(g, n, x, 0.5**0.5, "scaled")], part="curve")
    else:
        square = g.emit(n, "mul", [x, x], part="square")
        factor = _shifted(g, n, _scaled(g, n, square, 0.044715 * (2 / pi) ** 0.5, "cubic"), (2 / pi) ** 0.5, "factor")
        argument = g.emit(n, "mul", [x, factor], part="argument")
        curve = g.emit(n, "tanh", [argument], part="curve")
    gate = _scaled(g, n, _shifted(g, n, curve, 1.0, "shifted"), 0.5, "gate")
    g.emit(n, "mul", [x, gate])


@operator("Softmax", "axis")
def _softmax(g: Builder, n: OnnxNode) -> None:
    """Along one axis; before opset 13 over all axes from there on."""
    x = g.x(n)
    shape = g.shape(x)
    axis = n.axis(n.get("axis", int, -1 if n.opset >= 13 else 1), len(shape))
    end = axis + 1 if n.opset >= 13 else len(shape)
    outer, size, inner = prod(shape[:axis]), prod(shape[axis:end]), prod(shape[end:])
    if len(shape) == 4 and axis == 1 and size == shape[1]:
        g.emit(n, "softmax", [x], axis=1)
        return
    view = (1, size) if outer == inner == 1 else (1, size, 1, inner) if outer == 1 else (1, outer, size, inner)
    x = g.reshape(n, x, view, part="view")
    if outer == 1:
        y = g.emit(n, "softmax", [x], part="" if view == shape else "softmax", axis=1)
    else:
        x = g.emit(n, "transpose", [x], part="channels", perm=(0, 2, 1, 3))
        x = g.emit(n, "softmax", [x], part="softmax", axis=1)
        y = g.emit(n, "transpose", [x], part="" if view == shape else "back", perm=(0, 2, 1, 3))
    if view != shape:
        g.reshape(n, y, shape)
