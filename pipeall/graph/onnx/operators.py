"""What each ONNX operator means in canonical ops: one function per operator, opsets 6 to 28.

A function reads its node through the builder, which checks what it hands out, and emits one or several canonical
nodes; the last of them makes the ONNX node's own output, those on the way are called ``part``. Here are the operators
with weights, with windows, and those that move elements; ``pointwise`` has the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..ops import attributes
from . import pointwise  # noqa: F401  registers its operators
from .build import Builder, OnnxNode, operator
from .fold import RESHAPE, parts, permutation, shape_of, slices

Shape = tuple[int, ...]


WINDOW = "auto_pad dilations kernel_shape pads strides"

# ---- layers with weights ----


@operator("Conv", f"{WINDOW} group", "2-D images; constant weight and bias")
def _conv(g: Builder, n: OnnxNode) -> None:
    x, weight = g.x(n), g.weight(n, 1)
    if len(g.shape(x)) != 4 or len(g.shape(weight)) != 4:
        n.fail(f"only 2-D images are supported, got input {g.shape(x)} and weight {g.shape(weight)}")
    c_out, _, *kernel = g.shape(weight)
    if n.ints("kernel_shape", 2, kernel) != tuple(kernel):
        n.fail(f"kernel_shape {n.ints('kernel_shape', 2)} differs from the weight {g.shape(weight)}")
    bias = g.weight(n, 2) if g.has(n, 2) else _zeros(g, n, c_out)
    window = _window(n, g.shape(x), kernel)
    g.emit(n, "conv", [x, weight, bias], **window, groups=n.get("group", int, attributes("conv")["groups"]))


def _zeros(g: Builder, n: OnnxNode, count: int) -> str:
    return g.keep(np.zeros(count, np.float32), g.fresh(f"{n.outputs[0]}/bias"))


def _window(n: OnnxNode, x: Shape, kernel: Sequence[int]) -> dict[str, Any]:
    """strides, dilations and pads of a convolution or pooling; auto_pad (deprecated, still written) becomes pads."""
    if len(x) != 4:
        n.fail(f"only 2-D images are supported, got input {x}")
    default = attributes("conv")
    strides, dilations = n.ints("strides", 2, default["strides"]), n.ints("dilations", 2, default["dilations"])
    pads = n.ints("pads", 4, default["pads"])
    mode = n.get("auto_pad", str, "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        if min(strides) < 1:
            n.fail(f"strides must be at least 1, got {strides}")
        before, after = [], []
        for size, k, stride, dilation in zip(x[2:], kernel, strides, dilations, strict=True):
            total = max(0, (-(-size // stride) - 1) * stride + dilation * (k - 1) + 1 - size)
            before.append(total // 2 if mode == "SAME_UPPER" else total - total // 2)
            after.append(total - before[-1])
        pads = (*before, *after)
    elif mode == "VALID":
        pads = default["pads"]
    elif mode != "NOTSET":
        n.fail(f"unknown auto_pad {mode!r}")
    return {"strides": strides, "dilations": dilations, "pads": pads}


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


@operator("MaxPool", f"{WINDOW} ceil_mode storage_order", "2-D images; without Indices")
@operator("AveragePool", f"{WINDOW} ceil_mode count_include_pad", "2-D images; not dilated")
def _pool(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    kernel = n.ints("kernel_shape", 2 if len(g.shape(x)) == 4 else len(n.get("kernel_shape", list)))
    window = _window(n, g.shape(x), kernel)
    attrs = dict(window, kernel=kernel, ceil=bool(n.get("ceil_mode", int, 0)))
    if n.op == "MaxPool":
        g.emit(n, "maxpool", [x], **attrs)
        return
    if attrs.pop("dilations") != (1, 1):
        n.fail("dilated average pooling is not supported")
    g.emit(n, "avgpool", [x], **attrs, count_include_pad=bool(n.get("count_include_pad", int, 0)))


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


@operator("Reshape", "allowzero", "constant shape")
@operator("Flatten", "axis")
@operator("Squeeze Unsqueeze", "axes", "constant axes")
@operator("Identity")
@operator("Dropout", "is_test ratio seed", "inference")
def _reshape(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    g.reshape(n, x, RESHAPE[n.op](g, n, g.shape(x)))


@operator("Shape", "end start")
def _shape(g: Builder, n: OnnxNode) -> None:
    g.bind(n, shape_of(n, g.shape(g.x(n))))


@operator("Size")
def _size(g: Builder, n: OnnxNode) -> None:
    g.bind(n, np.array(prod(g.shape(g.x(n)))))


@operator("Cast", "round_mode saturate to", "to float32")
def _cast(g: Builder, n: OnnxNode) -> None:
    if n.get("to", int) != 1:
        n.fail("activations stay float32")
    g.bind(n, g.x(n))


@operator("Concat", "axis", "all operands are computed")
def _concat(g: Builder, n: OnnxNode) -> None:
    inputs = [g.x(n, i) for i in range(len(n.inputs))]
    g.emit(n, "concat", inputs, axis=n.axis(n.get("axis", int), len(g.shape(inputs[0]))))


@operator("Transpose", "perm")
def _transpose(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    g.emit(n, "transpose", [x], perm=permutation(n, len(g.shape(x))))


@operator("Slice", "axes ends starts", "steps of 1")
def _slice(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    cuts = []
    for axis, cut in slices(g, n, len(g.shape(x))):
        if cut.step != 1:
            n.fail(f"only steps of 1 are supported, got {cut.step}")
        size = g.shape(x)[axis]
        start, stop, _ = cut.indices(size)
        if (start, stop) != (0, size):
            cuts.append((axis, start, stop))
    for i, (axis, start, stop) in enumerate(cuts, 1):
        x = g.emit(n, "slice", [x], part="" if i == len(cuts) else f"axis{axis}", axis=axis, start=start, stop=stop)
    if not cuts:
        g.bind(n, x)


@operator("Gather", "axis", "one constant index")
def _gather(g: Builder, n: OnnxNode) -> None:
    """A slice of size 1, which stays an axis if the index has one."""
    x, index = g.x(n), g.constant(n, 1)
    shape = g.shape(x)
    axis = n.axis(n.get("axis", int, 0), len(shape))
    if index.size != 1 or index.ndim > 1 or index.dtype.kind not in "iu":
        n.fail(f"indices must be one integer, got {index.dtype} {index.shape}")
    start = n.axis(index.item(), shape[axis])
    kept = (*shape[:axis], *index.shape, *shape[axis + 1 :])
    y = g.emit(n, "slice", [x], part="" if index.ndim else "at", axis=axis, start=start, stop=start + 1)
    if not index.ndim:
        g.reshape(n, y, kept)


@operator("Split", "axis num_outputs split")
def _split(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    for i, (axis, start, stop) in enumerate(parts(g, n, g.shape(x))):
        if n.outputs[i]:
            g.emit(n, "slice", [x], output=i, axis=axis, start=start, stop=stop)


@operator("Pad", "mode pads value", "constant mode")
def _pad(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    rank = len(g.shape(x))
    mode = n.get("mode", str, "constant")
    if mode != "constant":
        n.fail(f"only constant padding is supported, got mode {mode!r}")
    pads = g.attr_or_ints(n, "pads", 1) or n.fail("pads are missing")
    axes = g.ints(n, 3) if g.has(n, 3) else tuple(range(rank))
    value = n.get("value", float, 0.0)
    if g.has(n, 2):
        value = g.floats(n, 2)
        value = value.item() if value.size == 1 else n.fail(f"value must be one number, got {value.shape}")
    if len(pads) != 2 * len(axes):
        n.fail(f"expected two pads per axis, got {len(pads)} for {len(axes)} axes")
    begin, end = [0] * rank, [0] * rank
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        begin[n.axis(axis, rank)], end[n.axis(axis, rank)] = before, after
    g.emit(n, "pad", [x], pads_begin=tuple(begin), pads_end=tuple(end), value=value)
