"""ONNX operators element by element, in canonical ops: arithmetic, comparisons, logic, choices, functions.

``binary`` is what other converters build on: operands of any ranks, constant or computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

import numpy as np

from ...ops import OPS
from ...pointwise import BINARY, UNARY
from ..read.build import Builder, OnnxNode, Value, operator
from ..read.element_types import TYPE_NAMES
from ..read.narrow import cast, type_in_file

REDUCED = {"Sum": "add", "Mean": "add", "Max": "max", "Min": "min"}  # of any number of operands
NAMED = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Equal": "equal", "Greater": "greater", "Less": "less",
    "GreaterOrEqual": "greaterequal", "LessOrEqual": "lessequal", "And": "and", "Or": "or", "Xor": "xor",
    "BitwiseAnd": "bitand", "BitwiseOr": "bitor", "BitwiseXor": "bitxor",
}  # fmt: skip

# ---- what converters share ----


def named(g: Builder, n: OnnxNode, value: np.ndarray) -> str:
    """The name to keep a constant by: that of the input that it is."""
    return next((name for name in n.inputs if name and g.values[name] is value), f"{n.outputs[0]}/operand")


def aligned(g: Builder, n: OnnxNode, values: Sequence[Value], rank: int = 0) -> list[str]:
    """Operands of one rank, the largest of theirs and ``rank``: leading axes of 1 are put before the others."""
    shapes = [g.shape_of(value) for value in values]
    rank = max(rank, *map(len, shapes))
    operands = []
    for value, shape in zip(values, shapes, strict=True):
        full = (1,) * (rank - len(shape)) + shape
        if isinstance(value, np.ndarray):
            kept = value if shape == full else value.reshape(full)
            operands.append(g.keep(kept, named(g, n, value), infinite=True))
        else:
            operands.append(g.reshape(n, value, full, part="aligned"))
    return operands


def broadcast(g: Builder, n: OnnxNode, values: Sequence[Value]) -> tuple[int, ...]:
    """The shape of operands, broadcast."""
    shapes = [g.shape_of(value) for value in values]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        n.fail(f"operands {' and '.join(map(str, shapes))} do not broadcast")


def binary(g: Builder, n: OnnxNode, op: str, a: Value, b: Value, part: str = "", output: int = 0) -> str:
    """a op b of any ranks; where the op can be swapped, the first operand of its node is an activation that has the
    shape of the result, if there is one."""
    out = broadcast(g, n, (a, b))
    whole = [isinstance(v, str) and v in g.tensors and prod(g.shape(v)) == prod(out) for v in (a, b)]
    names = aligned(g, n, (a, b))
    if "swapped" not in OPS[op].attrs:
        return g.emit(n, op, names, part=part, output=output)
    swap = not whole[0] and (whole[1] or (isinstance(a, np.ndarray) and isinstance(b, str)))
    swapped = swap and bool(BINARY[op].swapped)
    return g.emit(n, op, names[::-1] if swap else names, part=part, output=output, swapped=swapped)


def _operands(g: Builder, n: OnnxNode) -> list[Value]:
    """The inputs; in opset 6 ``axis`` is where the second one's axes begin."""
    values = [g.value(n, i) for i in range(len(n.inputs))]
    if "axis" in n.attrs:
        shape = g.shape_of(values[1])
        shape += (1,) * (len(g.shape_of(values[0])) - n.get("axis", int) - len(shape))
        values[1] = g.reshape(n, values[1], shape, "axis")
    return values


def _type_of(g: Builder, value: Value) -> str:
    """The type that an operand has as a tensor."""
    return g.dtype(value) if isinstance(value, str) else "float32" if value.dtype.kind == "f" else value.dtype.name


def _is_float(g: Builder, value: Value) -> bool:
    return _type_of(g, value).startswith("float")


# ---- arithmetic, comparisons, logic ----


@operator(" ".join(NAMED), "axis broadcast")
def _binary(g: Builder, n: OnnxNode) -> None:
    a, b = _operands(g, n)
    binary(g, n, NAMED[n.op], a, b)


@operator(" ".join(REDUCED))
def _reduced(g: Builder, n: OnnxNode) -> None:
    """The operands one after the other; for Max and Min all single numbers at once, as a clamp."""
    values = [g.value(n, i) for i in range(len(n.inputs))]
    numbers = []
    if n.op in ("Max", "Min"):
        rank = max(len(g.shape_of(value)) for value in values if isinstance(value, str))
        numbers = [v for v in values if isinstance(v, np.ndarray) and v.size == 1 and v.ndim <= rank]
        numbers = [v for v in numbers if v.item() == v.item()]
        values = [v for v in values if not any(v is single for single in numbers)]
    total = values[0]
    for i, value in enumerate(values[1:], 2):
        last = i == len(values) and not numbers and n.op != "Mean"
        total = binary(g, n, REDUCED[n.op], total, value, "" if last else f"of{i}")
    if numbers:
        limits = [single.item() for single in numbers]
        lo, hi = (max(limits), inf) if n.op == "Max" else (-inf, min(limits))
        g.emit(n, "clip", [total], lo=lo, hi=hi)
    elif n.op == "Mean" and len(values) > 1:
        g.with_number(n, "mul", total, 1 / len(values))
    elif len(values) == 1:
        g.bind(n, total)


@operator("Pow", "axis broadcast")
def _pow(g: Builder, n: OnnxNode) -> None:
    """In the base's type, unless the exponent alone is of floats; small powers are products."""
    x, exponent = _operands(g, n)
    kind, single = _type_of(g, x), isinstance(exponent, np.ndarray) and exponent.size == 1
    if single and isinstance(x, str) and exponent.ndim <= len(g.shape(x)) and _small_power(g, n, x, exponent.item()):
        return
    if isinstance(exponent, np.ndarray) and not _is_float(g, x) and (exponent == np.rint(exponent)).all():
        exponent = exponent.astype(kind)
    if not _is_float(g, x) and _is_float(g, exponent):
        power = binary(g, n, "pow", g.cast(n, x, "float32", "base"), exponent, "power")
        g.cast(n, power, kind)
    else:
        binary(g, n, "pow", x, g.cast(n, exponent, kind, "exponent"))


def _small_power(g: Builder, n: OnnxNode, x: str, exponent: float) -> bool:
    """Emits x to the power of 1, 2, 3, 1/2 or -1; False where it is another."""
    if exponent == 1:
        g.bind(n, x)
    elif exponent == 2:
        g.emit(n, "mul", [x, x])
    elif exponent == 3:
        g.emit(n, "mul", [g.emit(n, "mul", [x, x], part="square"), x])
    elif exponent in (0.5, -1) and _is_float(g, x):
        g.emit(n, "sqrt" if exponent == 0.5 else "reciprocal", [x])
    else:
        return False
    return True


@operator("Mod", "fmod")
def _mod(g: Builder, n: OnnxNode) -> None:
    binary(g, n, "fmod" if n.get("fmod", int, 0) else "mod", g.value(n, 0), g.value(n, 1))


@operator("BitShift", "direction", "int8, uint8, int32 and int64")
def _bit_shift(g: Builder, n: OnnxNode) -> None:
    direction = n.get("direction", str)
    if direction not in ("LEFT", "RIGHT"):
        n.fail(f"direction must be LEFT or RIGHT, got {direction!r}")
    binary(g, n, f"shift{direction.lower()}", g.value(n, 0), g.value(n, 1))


@operator("PRelu")
def _prelu(g: Builder, n: OnnxNode) -> None:
    x, slope = g.x(n), g.value(n, 1)
    shape = g.shape_of(slope)
    if n.opset < 7 and prod(shape) > 1:  # one slope per channel
        per_channel = (prod(shape), *(1,) * (len(g.shape(x)) - 2))
        slope = g.reshape(n, slope, per_channel, "slope")
    if broadcast(g, n, (x, slope)) != g.shape(x):
        n.fail(f"slopes {shape} do not broadcast to {g.shape(x)}")
    binary(g, n, "prelu", x, slope)


# ---- choices and casts ----


@operator("Where")
def _where(g: Builder, n: OnnxNode) -> None:
    values = [g.value(n, i) for i in range(3)]
    broadcast(g, n, values)
    g.emit(n, "where", aligned(g, n, values))


@operator("Cast", "round_mode saturate to", "float16, bfloat16 and double stay float32; no strings")
def _cast(g: Builder, n: OnnxNode) -> None:
    to = n.get("to", int)
    cast(g, n, g.x(n), TYPE_NAMES[to] if to in TYPE_NAMES else n.fail(f"cannot cast to element type {to}"))


@operator("CastLike", "round_mode saturate", "as Cast")
def _cast_like(g: Builder, n: OnnxNode) -> None:
    to = type_in_file(g, g.value(n, 1))
    to = "float32" if to.startswith("float") else to
    if to not in TYPE_NAMES.values():
        n.fail(f"cannot cast to {to}")
    value = g.value(n, 0)
    if isinstance(value, np.ndarray):
        g.bind(n, value.astype(to))
    else:
        cast(g, n, value, to)


# ---- one operand ----

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


def _unary(g: Builder, n: OnnxNode) -> None:
    op = CANONICAL[n.op]
    parameters = UNARY[op].parameters
    g.emit(n, op, [g.x(n)], **{name: n.get(name, float, default) for name, default in parameters.items()})


# The table knows most; those whose attributes are other than parameters follow
CANONICAL = {entry.onnx: op for op, entry in UNARY.items() if entry.onnx}
for _name, _op in CANONICAL.items():
    operator(_name, " ".join(UNARY[_op].parameters))(_unary)


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
