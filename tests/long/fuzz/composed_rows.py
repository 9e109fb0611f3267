"""Operators of compositions that sum, normalize, order or remember: windows, products, rows, levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from composed import Composer, Unfit
from composed_nodes import MOVING, POINTWISE, axis_of

REDUCED = (
    "ReduceMean ReduceMean ReduceSum ReduceSum ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare "
    "ReduceLogSumExp"
).split()


# ---- windows ----


def _window(c: Composer, x: str, most: int = 3) -> dict[str, Any]:
    sizes = c.of(x).shape[2:]
    kernel = [c.whole(1, most) for _ in sizes]
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if c.chance(0.6):
        attributes["strides"] = [c.whole(1, 2) for _ in sizes]
    if c.chance(0.5):
        attributes["pads"] = [c.whole(0, size - 1) for size in kernel * 2]
    elif c.chance(0.2):
        attributes["auto_pad"] = c.one_of(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return attributes


def _weights(c: Composer, shape: Sequence[int], dtype: Any = np.float32) -> str:
    return c.constant(c.array(shape, dtype))


def conv(c: Composer) -> str:
    x = c.pick("float32 float32 float16 float64", 3, 5)
    channels, dtype = c.of(x).shape[1], c.of(x).dtype
    group = c.one_of([n for n in (1, 1, 2, 3, channels) if n and channels % n == 0])
    attributes = _window(c, x, 5 if c.of(x).ndim == 4 else 3)
    out = group * c.whole(1, 4)
    if c.chance(0.2):
        attributes["dilations"] = [2 for _ in attributes["kernel_shape"]]
        attributes.pop("auto_pad", None)
    w = _weights(c, (out, channels // group, *attributes["kernel_shape"]), dtype)
    bias = [_weights(c, (out,), dtype)] if c.chance(0.6) else []
    return c.node("Conv", [x, w, *bias], group=group, **attributes)


def deconv(c: Composer) -> str:
    x = c.pick("f", 3, 4)
    attributes = _window(c, x)
    attributes.pop("auto_pad", None)
    group = c.one_of([n for n in (1, 1, 2) if c.of(x).shape[1] % n == 0])
    if "strides" in attributes and c.chance(0.4):
        attributes["output_padding"] = [stride - 1 for stride in attributes["strides"]]
    w = _weights(c, (c.of(x).shape[1], c.whole(1, 3), *attributes["kernel_shape"]), c.of(x).dtype)
    return c.node("ConvTranspose", [x, w], group=group, **attributes)


def pool(c: Composer) -> str:
    x = c.pick("f", 3, 5)
    op = c.one_of(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"))
    attributes = _window(c, x)
    if c.opset >= (18 if op == "LpPool" else 10):
        attributes["ceil_mode"] = c.whole(0, 1)
    if op == "AveragePool":
        attributes["count_include_pad"] = c.whole(0, 1)
    if op == "MaxPool" and c.opset >= 10 and "auto_pad" not in attributes and c.chance(0.2):
        attributes["dilations"] = [2] * (c.of(x).ndim - 2)
    return c.node(op, [x], **attributes)


def global_pool(c: Composer) -> str:
    return c.node(c.one_of(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")), [c.pick("f", 3, 5)])


# ---- rows ----


def reduce(c: Composer) -> str:
    x = c.pick("f" if c.chance(0.8) else "fi", 1)
    op, rank = c.one_of(REDUCED if c.of(x).dtype.kind == "f" else REDUCED[2:7]), c.of(x).ndim
    if not c.of(x).size:
        raise Unfit  # undefined
    if op == "ReduceProd" and np.log10(np.maximum(abs(c.of(x).astype(np.float64)), 1)).sum() > 30:
        raise Unfit  # overflows or not, as the order is
    axes = None if c.chance(0.15) else [axis - c.one_of((0, rank)) * (c.opset >= 11) for axis in c.some_of(range(rank))]
    return c.set_of(op, 13 if op == "ReduceSum" else 18, [x], axes=axes or None, keepdims=c.whole(0, 1))


def arg(c: Composer) -> str:
    x = c.pick("f", 1)
    last = c.whole(0, 1) if c.opset >= 12 else None
    axis = axis_of(c, x)
    return c.node(c.one_of(("ArgMax", "ArgMin")), [x], axis=axis, keepdims=c.whole(0, 1), select_last_index=last)


def top_k(c: Composer) -> str:
    x = c.pick("f", 1)
    axis = axis_of(c, x)
    k = c.whole(1, max(1, c.of(x).shape[axis]))
    if c.opset < 10:
        return c.node("TopK", [x], 2, axis=axis, k=k)
    return c.node("TopK", [x, c.constant([k], np.int64)], 2, axis=axis, largest=c.whole(0, 1) if c.opset > 10 else None)


def softmax(c: Composer) -> str:
    x = c.pick("f", 1)
    return c.node(c.one_of(("Softmax", "Softmax", "LogSoftmax", "Hardmax")), [x], axis=axis_of(c, x))


def normalize(c: Composer) -> str:
    x = c.pick("float32", 2)
    shape = c.of(x).shape
    op = c.one_of(["BatchNormalization", "BatchNormalization", "InstanceNormalization", "LRN", "LpNormalization",
                   *(["LayerNormalization"] * 2 if c.opset >= 17 else []),
                   *(["GroupNormalization"] if c.opset >= 21 else [])])  # fmt: skip
    channels = (shape[1],)
    if op == "BatchNormalization":
        spread = c.constant(np.abs(c.array(channels)) + 0.5, np.float32)
        return c.node(op, [x, *(_weights(c, channels) for _ in range(3)), spread])
    if op == "LRN":
        if len(shape) != 4:
            raise Unfit
        return c.node(op, [x], size=c.one_of((3, 5)), alpha=0.1)
    if op == "LpNormalization":
        return c.node(op, [x], axis=axis_of(c, x), p=c.whole(1, 2))
    if op == "LayerNormalization":
        axis = c.whole(1, len(shape) - 1)
        return c.node(
            op, [x, _weights(c, shape[axis:]), *([_weights(c, shape[axis:])] if c.chance(0.5) else [])], axis=axis
        )
    if len(shape) < 3:
        raise Unfit
    groups = {"num_groups": c.one_of([n for n in (1, 2, 3) if shape[1] % n == 0])} if op[0] == "G" else {}
    return c.node(op, [x, _weights(c, channels), _weights(c, channels)], **groups)


def cumsum(c: Composer) -> str:
    if c.opset < 11:
        raise Unfit
    x = c.pick("float32 float64 int32 int64", 1)
    axis = c.constant(axis_of(c, x), np.int64)
    return c.node("CumSum", [x, axis], exclusive=c.whole(0, 1), reverse=c.whole(0, 1))


# ---- products ----


def matmul(c: Composer) -> str:
    x = c.pick("f", 1, 5)
    shape = c.of(x).shape
    stack = shape[c.whole(0, len(shape) - 2) : -2] if len(shape) > 2 and c.chance(0.4) else ()
    if c.chance(0.3):
        left = c.operand((*stack, c.whole(1, 5), shape[-2] if len(shape) > 1 else shape[-1]), c.of(x).dtype)
        return c.node("MatMul", [left, x])
    if c.chance(0.2) and len(shape) > 1:
        perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        return c.node("MatMul", [x, c.node("Transpose", [x], perm=perm)])
    return c.node("MatMul", [x, c.operand((*stack, shape[-1], c.whole(1, 9)), c.of(x).dtype)])


def gemm(c: Composer) -> str:
    x = c.pick("f", 2, 2)
    a, b = c.whole(0, 1), c.whole(0, 1)
    rows, depth = c.of(x).shape[::-1] if a else c.of(x).shape
    columns = c.whole(1, 9)
    w = c.operand((columns, depth) if b else (depth, columns), c.of(x).dtype)
    bias = [c.operand(c.one_of(((columns,), (1, columns), (rows, 1), (rows, columns), (1,))), c.of(x).dtype)]
    alpha, beta = c.one_of((1.0, 0.5)), c.one_of((1.0, 2.0))
    inputs = [x, w, *(bias if c.chance(0.7) or c.opset < 11 else [])]
    return c.node("Gemm", inputs, transA=a, transB=b, alpha=alpha, beta=beta)


def einsum(c: Composer) -> str:
    if c.opset < 12:
        raise Unfit
    x = c.pick("float32", 2, 4)
    letters = "abcd"[: c.of(x).ndim]
    sizes = dict(zip(letters, c.of(x).shape, strict=True)) | {"n": c.whole(1, 5)}
    second = c.random.permutation([*(c.some_of(letters) or letters[:1]), "n"]).tolist()
    out = [letter for letter in (*letters, "n") if c.chance(0.7)]
    y = c.operand([sizes[letter] for letter in second], np.float32)
    out = "".join(c.random.permutation(out).tolist()) if out else ""
    return c.node("Einsum", [x, y], equation=f"{letters},{''.join(second)}->{out}")


def recurrent(c: Composer) -> str:
    x = c.pick("float32", 3, 3)
    if not c.of(x).size:
        raise Unfit  # onnxruntime aborts
    op, gates = c.one_of((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    hidden, direction = c.whole(1, 5), c.one_of(("forward", "reverse", "bidirectional"))
    ways = 1 + (direction == "bidirectional")
    inputs = [x, _weights(c, (ways, gates * hidden, c.of(x).shape[2])), _weights(c, (ways, gates * hidden, hidden))]
    if c.chance(0.7):
        inputs.append(_weights(c, (ways, 2 * gates * hidden)))
    before = {"linear_before_reset": c.whole(0, 1)} if op == "GRU" else {}
    return c.node(op, inputs, 3 if op == "LSTM" else 2, hidden_size=hidden, direction=direction, **before)


# ---- levels ----


def _scale(c: Composer, shape: Sequence[int] = ()) -> str:
    return c.constant(c.random.choice([0.01, 0.02, 0.05, 0.1, 0.25, 0.0078125], shape), np.float32)


def _zero(c: Composer, dtype: str, shape: Sequence[int] = ()) -> str:
    centre = 0 if dtype == "int8" else 128
    return c.constant(np.full(shape, centre if c.chance(0.5) else centre + c.whole(-20, 20)), dtype)


def quantized(c: Composer) -> str:
    x = c.pick("float32")
    if c.opset < 10:
        raise Unfit
    levels = [_scale(c), _zero(c, c.one_of(("int8", "uint8")))]
    return c.node("DequantizeLinear", [c.node("QuantizeLinear", [x, *levels]), *levels])


def quantized_conv(c: Composer) -> str:
    """Levels, weights in levels by channel, and levels again, as tools write it."""
    x = c.pick("float32", 4, 4)
    if c.opset < 13:
        raise Unfit
    levels = [_scale(c), _zero(c, c.one_of(("int8", "uint8")))]
    y = c.node("DequantizeLinear", [c.node("QuantizeLinear", [x, *levels]), *levels])
    channels, out, attributes = c.of(x).shape[1], c.whole(1, 8), _window(c, x)
    w = c.constant(c.random.integers(-127, 128, (out, channels, *attributes["kernel_shape"])), np.int8)
    w = c.node("DequantizeLinear", [w, _scale(c, (out,)), c.constant(np.zeros(out), np.int8)], axis=0)
    y = c.node("Conv", [y, w], **attributes)
    y = c.node("Relu", [y]) if c.chance(0.4) else y
    levels = [c.constant(c.one_of((0.25, 0.5, 1.0)), np.float32), _zero(c, c.one_of(("int8", "uint8")))]
    return c.node("DequantizeLinear", [c.node("QuantizeLinear", [y, *levels]), *levels])


def integer_product(c: Composer) -> str:
    if c.opset < 10:
        raise Unfit
    x = c.pick("uint8 int8", 2, 4)
    if not c.of(x).size:
        raise Unfit  # onnxruntime leaves the result as the memory was
    dtype = c.of(x).dtype.name
    inputs = c.of(x).shape
    if c.chance(0.5) and len(inputs) == 4:
        attributes, out = _window(c, x), c.whole(1, 6)
        w = c.constant(c.random.integers(-127, 128, (out, inputs[1], *attributes["kernel_shape"])), np.int8)
        parts = [x, _scale(c), _zero(c, dtype), w, _scale(c), c.constant(0, np.int8), _scale(c), _zero(c, dtype)]
        return c.node("QLinearConv", parts, **attributes)
    w = c.constant(c.random.integers(0 if dtype == "uint8" else -127, 128, (inputs[-1], c.whole(1, 6))), dtype)
    if c.chance(0.4):
        return c.node("MatMulInteger", [x, w, _zero(c, dtype), _zero(c, dtype)])
    return c.node(
        "QLinearMatMul", [x, _scale(c), _zero(c, dtype), w, _scale(c), _zero(c, dtype), _scale(c), _zero(c, dtype)]
    )


def stored(c: Composer) -> str:
    """Levels that stay levels."""
    if c.opset < 10:
        raise Unfit
    return c.node("QuantizeLinear", [c.pick("float32"), _scale(c), _zero(c, c.one_of(("int8", "uint8")))])


# ---- lengths that depend on values ----


def nonzero(c: Composer) -> str:
    """Where something holds, and mostly what is there."""
    x = c.pick("f", 1, 3)
    places = c.node("NonZero", [c.node("Greater", [x, c.constant(c.array((), c.of(x).dtype))])])
    if c.chance(0.3) or c.opset < 11:
        return places
    return c.node("GatherND", [x, c.node("Transpose", [places], perm=[1, 0])])


def suppression(c: Composer) -> str:
    """Boxes that do not overlap: their places, and mostly themselves."""
    if c.opset < 10:
        raise Unfit
    count = c.whole(2, 12)
    corner = c.random.uniform(0, 10, (1, count, 2))
    boxes = c.feed(np.concatenate([corner, corner + c.random.uniform(1, 8, corner.shape)], 2).astype(np.float32))
    scores = c.feed(c.random.random((1, c.whole(1, 3), count)).astype(np.float32))
    limits = [c.constant([c.whole(1, 6)], np.int64), c.constant([0.4], np.float32), c.constant([0.3], np.float32)]
    chosen = c.node("NonMaxSuppression", [boxes, scores, *limits])
    if c.chance(0.3):
        return chosen
    return c.node("Gather", [boxes, c.node("Gather", [chosen, c.constant(2, np.int64)], axis=1)], axis=1)


OPERATORS = (
    *MOVING,
    *POINTWISE,
    (6, conv),
    (1, deconv),
    (4, pool),
    (1, global_pool),
    (5, reduce),
    (1, arg),
    (1, top_k),
    (2, softmax),
    (4, normalize),
    (1, cumsum),
    (3, matmul),
    (2, gemm),
    (1, einsum),
    (1, recurrent),
    (1, quantized),
    (2, quantized_conv),
    (2, integer_product),
    (1, stored),
    (0.5, nonzero),
    (0.5, suppression),
)
