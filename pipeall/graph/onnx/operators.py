"""What each ONNX operator means in canonical ops: one function per operator, opsets 6 to 28.

A function reads its node through the builder, which checks what it hands out, and emits one or several canonical
nodes; the last of them makes the ONNX node's own output, those on the way are called ``part``. Here are the operators
with weights, with windows, and those that move elements; ``pointwise`` has the others.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..ops import attributes
from . import index, moves, pointwise, recurrent, resize, windows  # noqa: F401  register their operators
from .build import Builder, OnnxNode, operator

Shape = tuple[int, ...]

# ---- layers with weights ----


def _zeros(g: Builder, n: OnnxNode, count: int) -> str:
    return g.keep(np.zeros(count, np.float32), g.fresh(f"{n.outputs[0]}/bias"))


@operator("Gemm", "alpha beta broadcast transA transB", "rows times a constant matrix plus a constant row")
def _gemm(g: Builder, n: OnnxNode) -> None:
    """alpha A B + beta C"""
    x, weight = g.x(n), g.floats(n, 1)
    rows = g.shape(x)[::-1] if n.get("transA", int, 0) else g.shape(x)
    if len(rows) != 2 or weight.ndim != 2:
        n.fail(f"expected rows times a matrix, got {rows} and {weight.shape}")
    alpha, beta = n.get("alpha", float, 1.0), n.get("beta", float, 1.0)
    weight = weight if n.get("transB", int, 0) else weight.T
    weight = weight if alpha == 1 else weight * alpha
    count = len(weight)
    bias = g.floats(n, 2) if g.has(n, 2) else None
    if bias is not None and bias.shape not in ((count,), (1, count), (1, 1), (1,), ()):
        n.fail(f"bias {bias.shape} does not fit {count} outputs")
    if bias is None or beta == 0:
        bias_name = _zeros(g, n, count)
    elif bias.shape == (count,) and beta == 1:
        bias_name = g.weight(n, 2)
    else:
        bias_name = g.keep(np.broadcast_to(bias * beta, (1, count))[0], n.inputs[2])
    if n.get("transA", int, 0):
        row = rows[0] == 1
        x = g.reshape(n, x, rows, part="A") if row else g.emit(n, "transpose", [x], part="A", perm=(1, 0))
    _product(g, n, x, weight, bias_name)


@operator("MatMul", limits="rows times a constant matrix")
def _matmul(g: Builder, n: OnnxNode) -> None:
    x, weight = g.x(n), g.floats(n, 1)
    shape = g.shape(x)
    if weight.ndim != 2 or shape[-1] != len(weight):
        n.fail(f"expected rows times a matrix, got {shape} and {weight.shape}")
    _product(g, n, x, weight.T, _zeros(g, n, weight.shape[1]))


def _product(g: Builder, n: OnnxNode, x: str, matrix: np.ndarray, bias: str) -> None:
    """The rows of x times a (out, in) matrix: one as a fully connected layer, several as the pixels of a 1 x 1
    convolution."""
    shape = g.shape(x)
    out = (*shape[:-1], len(matrix))
    if prod(shape[:-1]) == 1:
        part = "row" if len(out) != 2 else ""
        row = g.emit(n, "fc", [x, g.keep(matrix, n.inputs[1]), bias], part=part)
        if part:
            g.reshape(n, row, out)
    else:
        kernel = g.keep(matrix[..., None, None], n.inputs[1])
        _rows(g, n, g.emit(n, "conv", [_pixels(g, n, x), kernel, bias], part="product"), out)


def _pixels(g: Builder, n: OnnxNode, x: str) -> str:
    """The rows (all axes but the last) as the pixels of an image, their elements as its channels."""
    shape = g.shape(x)
    if len(shape) == 4:
        return g.emit(n, "transpose", [x], part="pixels", perm=(0, 3, 1, 2))
    x = g.reshape(n, x, (prod(shape[:-1]), shape[-1]), part="rows")
    x = g.emit(n, "transpose", [x], part="channels", perm=(1, 0))
    return g.reshape(n, x, (1, shape[-1], prod(shape[:-1]), 1), part="pixels")


def _rows(g: Builder, n: OnnxNode, image: str, shape: Shape) -> None:
    """The reverse, as the result of the node."""
    if len(shape) == 4:
        g.emit(n, "transpose", [image], perm=(0, 2, 3, 1))
        return
    x = g.reshape(n, image, (shape[-1], prod(shape[:-1])), part="flat")
    x = g.emit(n, "transpose", [x], part="" if len(shape) == 2 else "back", perm=(1, 0))
    if len(shape) != 2:
        g.reshape(n, x, shape)


@operator("LayerNormalization", "axis epsilon stash_type", "over the last axis; constant scale and bias; one result")
def _layer_norm(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    shape = g.shape(x)
    if n.axis(n.get("axis", int, -1), len(shape)) != len(shape) - 1:
        n.fail(f"only the last axis of {shape} is supported, got axis {n.get('axis', int)}")
    epsilon = n.get("epsilon", float, attributes("layernorm")["epsilon"])
    image = g.emit(n, "layernorm", [_pixels(g, n, x)], part="normal", epsilon=epsilon)
    for i, op in ((1, "mul"), (2, "add")):
        if g.has(n, i):
            operand = g.floats(n, i)
            if operand.size not in (1, shape[-1]):
                n.fail(f"scale and bias must have the {shape[-1]} elements of a row, got {operand.shape}")
            constant = g.keep(operand.reshape(1, -1, 1, 1), n.inputs[i])
            image = g.emit(n, op, [image, constant], part=op)
    _rows(g, n, image, shape)


@operator(
    "BatchNormalization",
    "epsilon is_test momentum spatial training_mode",
    "inference; of images and rows; constants per channel",
)
def _batch_norm(g: Builder, n: OnnxNode) -> None:
    """x * scale + shift per channel; ``rewrite`` folds both into the convolution before it, where there is one."""
    x = g.x(n)
    shape = g.shape(x)
    training = n.get("training_mode", int, 0) or (n.opset < 7 and not n.get("is_test", int, 0))
    if training or not n.get("spatial", int, 1):
        n.fail("only inference with one mean and variance per channel is supported")
    gamma, beta, mean, variance = (g.floats(n, i).astype(np.float64) for i in range(1, 5))
    if len(shape) not in (2, 4):
        n.fail(f"only images and rows are supported, got {shape}")
    if {array.shape for array in (gamma, beta, mean, variance)} != {shape[1:2]}:
        n.fail(f"scale, bias, mean and variance must have the {shape[1:2]} channels of {shape}")
    spread = variance + n.get("epsilon", float, 1e-5)
    if not spread.min() > 0:
        n.fail("variance + epsilon must be positive")
    scale = gamma / np.sqrt(spread)
    per_channel = (1, -1) + (1,) * (len(shape) - 2)
    factor = g.keep(scale.reshape(per_channel), n.inputs[1])
    shift = g.keep((beta - mean * scale).reshape(per_channel), n.inputs[2])
    scaled = g.emit(n, "mul", [x, factor], part="scaled")
    g.emit(n, "add", [scaled, shift])


# ---- windows ----


@operator("GlobalMaxPool GlobalAveragePool", limits="2-D images")
def _global_pool(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    _whole(g, n, "maxpool" if n.op == "GlobalMaxPool" else "avgpool", x, g.shape(x)[2:])


def _whole(g: Builder, n: OnnxNode, op: str, x: str, kernel: tuple[int, ...], part: str = "") -> str:
    """Pooling with one window per channel, or per row or column of it."""
    return g.emit(n, op, [x], part=part, kernel=kernel)


@operator(
    "ReduceMean", "axes keepdims noop_with_empty_axes", "over height and width of rank 4, over the last axis of rank 3"
)
def _reduce_mean(g: Builder, n: OnnxNode) -> None:
    """Over height, width or both: average pooling; a tensor of rank 3 counts as an image one pixel wide."""
    x = g.x(n)
    shape, axes = g.shape(x), g.attr_or_ints(n, "axes", 1)
    if not axes and n.get("noop_with_empty_axes", int, 0):
        g.bind(n, x)
        return
    reduced = {n.axis(axis, len(shape)) for axis in axes or range(len(shape))}
    if len(shape) not in (3, 4) or not reduced <= {2, 3}:
        n.fail(f"only means over height and width are supported, got axes {sorted(reduced)} of {shape}")
    image = shape + (1,) * (4 - len(shape))
    kept = tuple(1 if axis in reduced else size for axis, size in enumerate(shape))
    if not n.get("keepdims", int, 1):
        kept = tuple(size for axis, size in enumerate(shape) if axis not in reduced)
    kernel = tuple(image[axis] if axis in reduced else 1 for axis in (2, 3))
    pooled = tuple(1 if axis in reduced else size for axis, size in enumerate(image))
    x = g.reshape(n, x, image, part="image")
    y = _whole(g, n, "avgpool", x, kernel, "" if kept == pooled else "mean")
    if kept != pooled:
        g.reshape(n, y, kept)


@operator("LRN", "alpha beta bias size", "images")
def _lrn(g: Builder, n: OnnxNode) -> None:
    numbers = {name: n.get(name, float, default) for name, default in attributes("lrn").items()}
    g.emit(n, "lrn", [g.x(n)], size=n.get("size", int), **numbers)


# ---- moving elements ----


@operator("Cast", "round_mode saturate to", "to float32")
def _cast(g: Builder, n: OnnxNode) -> None:
    if n.get("to", int) != 1:
        n.fail("activations stay float32")
    g.bind(n, g.x(n))
