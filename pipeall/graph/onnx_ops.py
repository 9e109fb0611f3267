"""What each ONNX operator means in canonical ops: one function of ``CONVERT`` per operator, opsets 7 to 21.

A function reads its node through the builder, which checks what it hands out, and emits one or several canonical
nodes; the last of them makes the ONNX node's own output, those on the way are called ``part``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any

import numpy as np

from .onnx_build import Builder, OnnxNode
from .onnx_fold import FOLD, RESHAPE, fold, parts, permutation, shape_of, slices

Shape = tuple[int, ...]

FREE = {"lo": -inf, "hi": inf}  # no clamp
FLOAT_MAX = float(np.finfo(np.float32).max)

CONVERT: dict[str, Callable[[Builder, OnnxNode], Any]] = {}


def _operator(*names: str) -> Callable:
    def register(function: Callable[[Builder, OnnxNode], Any]) -> Callable[[Builder, OnnxNode], Any]:
        CONVERT.update(dict.fromkeys(names, function))
        return function

    return register


def convert(g: Builder, n: OnnxNode) -> None:
    """Fold a node whose inputs are all constant, else add its canonical nodes; ModelError where neither can be."""
    constant = all(isinstance(g.values[name], np.ndarray) for name in n.inputs if name)
    if constant and (n.op in FOLD or n.op in RESHAPE):
        fold(g, n)
    elif n.op in RESHAPE:
        x = g.x(n)
        g.reshape(n, x, RESHAPE[n.op](g, n, g.shape(x)))
    elif n.op in CONVERT:
        with np.errstate(over="ignore", invalid="ignore"):  # the builder refuses constants that are not finite
            CONVERT[n.op](g, n)
    else:
        only = "operator supported on constants only" if n.op in FOLD else "operator not supported"
        n.fail(f"{only}; supported are {', '.join(sorted({*RESHAPE, *CONVERT}))}")


# ---- layers with weights ----


@_operator("Conv")
def _conv(g: Builder, n: OnnxNode) -> None:
    x, weight = g.x(n), g.weight(n, 1)
    if len(g.shape(x)) != 4 or len(g.shape(weight)) != 4:
        n.fail(f"only 2-D images are supported, got input {g.shape(x)} and weight {g.shape(weight)}")
    c_out, _, *kernel = g.shape(weight)
    if n.ints("kernel_shape", 2, kernel) != tuple(kernel):
        n.fail(f"kernel_shape {n.ints('kernel_shape', 2)} differs from the weight {g.shape(weight)}")
    bias = g.weight(n, 2) if g.has(n, 2) else _zeros(g, n, c_out)
    window = _window(n, g.shape(x), kernel)
    g.emit(n, "conv", [x, weight, bias], **window, groups=n.get("group", int, 1), **FREE)


def _zeros(g: Builder, n: OnnxNode, count: int) -> str:
    return g.keep(np.zeros(count, np.float32), g.fresh(f"{n.outputs[0]}/bias"))


def _window(n: OnnxNode, x: Shape, kernel: Sequence[int]) -> dict[str, Any]:
    """strides, dilations and pads of a convolution or pooling; auto_pad (deprecated, still written) becomes pads."""
    if len(x) != 4:
        n.fail(f"only 2-D images are supported, got input {x}")
    strides, dilations = n.ints("strides", 2, (1, 1)), n.ints("dilations", 2, (1, 1))
    pads = n.ints("pads", 4, (0, 0, 0, 0))
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
        pads = (0, 0, 0, 0)
    elif mode != "NOTSET":
        n.fail(f"unknown auto_pad {mode!r}")
    return {"strides": strides, "dilations": dilations, "pads": pads}


@_operator("Gemm")
def _gemm(g: Builder, n: OnnxNode) -> None:
    """alpha A B + beta C, with A one row."""
    x, weight = g.x(n), g.floats(n, 1)
    rows = g.shape(x)[::-1] if n.get("transA", int, 0) else g.shape(x)
    if len(rows) != 2 or rows[0] != 1 or weight.ndim != 2:
        n.fail(f"expected one row times a matrix, got {rows} and {weight.shape}")
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
    g.emit(n, "fc", [x, g.keep(weight, n.inputs[1]), bias_name], **FREE)


@_operator("MatMul")
def _matmul(g: Builder, n: OnnxNode) -> None:
    x, weight = g.x(n), g.floats(n, 1)
    shape = g.shape(x)
    if weight.ndim != 2 or shape[-1] != len(weight) or prod(shape[:-1]) != 1:
        n.fail(f"expected one row times a matrix, got {shape} and {weight.shape}")
    out = (*shape[:-1], weight.shape[1])
    part = "row" if len(out) != 2 else ""
    row = g.emit(n, "fc", [x, g.keep(weight.T, n.inputs[1]), _zeros(g, n, out[-1])], part=part, **FREE)
    if part:
        g.reshape(n, row, out)


# ---- arithmetic ----


@_operator("BatchNormalization")
def _batch_norm(g: Builder, n: OnnxNode) -> None:
    """x * scale + shift per channel; ``rewrite`` folds both into the convolution before it, where there is one."""
    x = g.x(n)
    shape = g.shape(x)
    if n.get("training_mode", int, 0) or not n.get("spatial", int, 1):
        n.fail("only inference with one mean and variance per channel is supported")
    gamma, beta, mean, variance = (g.floats(n, i).astype(np.float64) for i in range(1, 5))
    if len(shape) < 2 or {array.shape for array in (gamma, beta, mean, variance)} != {shape[1:2]}:
        n.fail(f"scale, bias, mean and variance must have the {shape[1:2]} channels of {shape}")
    spread = variance + n.get("epsilon", float, 1e-5)
    if not spread.min() > 0:
        n.fail("variance + epsilon must be positive")
    scale = gamma / np.sqrt(spread)
    per_channel = (1, -1) + (1,) * (len(shape) - 2)
    factor = g.keep(scale.reshape(per_channel), n.inputs[1])
    shift = g.keep((beta - mean * scale).reshape(per_channel), n.inputs[2])
    scaled = g.emit(n, "mul", [x, factor], part="scaled", swapped=False, **FREE)
    g.emit(n, "add", [scaled, shift], swapped=False, **FREE)


@_operator("Add", "Sub", "Mul", "Div", "Sum")
def _arithmetic(g: Builder, n: OnnxNode) -> None:
    values = [g.value(n, i) for i in range(len(n.inputs))]
    op = {"Div": "mul", "Sum": "add"}.get(n.op, n.op.lower())
    if n.op == "Div":
        g.x(n, 0)
        divisor = g.floats(n, 1)
        if not divisor.all():
            n.fail("division by zero")
        values[1] = np.asarray(1 / divisor)
    total = values[0]
    for i in range(1, len(values)):
        total = _binary(g, n, op, total, values[i], "" if i == len(values) - 1 else f"sum{i}")
    if len(values) == 1:
        g.bind(n, total)


def _binary(g: Builder, n: OnnxNode, op: str, a: np.ndarray | str, b: np.ndarray | str, part: str) -> str:
    """a op b, where the canonical node's first operand is the activation that has the shape of the result."""
    shapes = [value.shape if isinstance(value, np.ndarray) else g.shape(value) for value in (a, b)]
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
    return g.emit(n, op, operands, part=part, swapped=swapped and op == "sub", **FREE)


# ---- activations ----


@_operator("Relu")
def _relu(g: Builder, n: OnnxNode) -> None:
    g.emit(n, "clip", [g.x(n)], lo=0.0, hi=inf)


@_operator("Clip")
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


@_operator("LeakyRelu")
def _leaky_relu(g: Builder, n: OnnxNode) -> None:
    g.emit(n, "leakyrelu", [g.x(n)], alpha=n.get("alpha", float, 0.01))


@_operator("Sigmoid")
def _sigmoid(g: Builder, n: OnnxNode) -> None:
    g.emit(n, "sigmoid", [g.x(n)])


@_operator("HardSigmoid")
def _hard_sigmoid(g: Builder, n: OnnxNode) -> None:
    g.emit(n, "hardsigmoid", [g.x(n)], alpha=n.get("alpha", float, 0.2), beta=n.get("beta", float, 0.5))


@_operator("HardSwish")
def _hard_swish(g: Builder, n: OnnxNode) -> None:
    g.emit(n, "hardswish", [g.x(n)])


@_operator("Softmax")
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
    view = (1, size) if outer == inner == 1 else (1, outer, size, inner)
    x = g.reshape(n, x, view, part="view")
    if outer == 1:
        y = g.emit(n, "softmax", [x], part="" if view == shape else "softmax", axis=1)
    else:
        x = g.emit(n, "transpose", [x], part="channels", perm=(0, 2, 1, 3))
        x = g.emit(n, "softmax", [x], part="softmax", axis=1)
        y = g.emit(n, "transpose", [x], part="" if view == shape else "back", perm=(0, 2, 1, 3))
    if view != shape:
        g.reshape(n, y, shape)


# ---- windows ----


@_operator("MaxPool", "AveragePool")
def _pool(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    kernel = n.ints("kernel_shape", 2)
    window = _window(n, g.shape(x), kernel)
    attrs = dict(window, kernel=kernel, ceil=bool(n.get("ceil_mode", int, 0)))
    if n.op == "MaxPool":
        g.emit(n, "maxpool", [x], **attrs)
        return
    if attrs.pop("dilations") != (1, 1):
        n.fail("dilated average pooling is not supported")
    g.emit(n, "avgpool", [x], **attrs, count_include_pad=bool(n.get("count_include_pad", int, 0)))


@_operator("GlobalMaxPool", "GlobalAveragePool")
def _global_pool(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    _whole(g, n, "maxpool" if n.op == "GlobalMaxPool" else "avgpool", x, g.shape(x)[2:])


def _whole(g: Builder, n: OnnxNode, op: str, x: str, kernel: tuple[int, ...], part: str = "") -> str:
    """Pooling with one window per channel, or per row or column of it."""
    extra = {"dilations": (1, 1)} if op == "maxpool" else {"count_include_pad": False}
    window = dict(kernel=kernel, strides=(1, 1), pads=(0, 0, 0, 0), ceil=False)
    return g.emit(n, op, [x], part=part, **window, **extra)


@_operator("ReduceMean")
def _reduce_mean(g: Builder, n: OnnxNode) -> None:
    """Over height, width or both: average pooling; a tensor of rank 3 counts as an image one pixel wide."""
    x = g.x(n)
    shape, axes = g.shape(x), g.attr_or_ints(n, "axes", 1)
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


@_operator("LRN")
def _lrn(g: Builder, n: OnnxNode) -> None:
    alpha, beta, bias = (n.get(k, float, v) for k, v in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    g.emit(n, "lrn", [g.x(n)], size=n.get("size", int), alpha=alpha, beta=beta, bias=bias)


# ---- moving elements ----


@_operator("Shape")
def _shape(g: Builder, n: OnnxNode) -> None:
    g.bind(n, shape_of(n, g.shape(g.x(n))))


@_operator("Size")
def _size(g: Builder, n: OnnxNode) -> None:
    g.bind(n, np.array(prod(g.shape(g.x(n)))))


@_operator("Cast")
def _cast(g: Builder, n: OnnxNode) -> None:
    if n.get("to", int) != 1:
        n.fail("activations stay float32")
    g.bind(n, g.x(n))


@_operator("Concat")
def _concat(g: Builder, n: OnnxNode) -> None:
    inputs = [g.x(n, i) for i in range(len(n.inputs))]
    g.emit(n, "concat", inputs, axis=n.axis(n.get("axis", int), len(g.shape(inputs[0]))))


@_operator("Transpose")
def _transpose(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    g.emit(n, "transpose", [x], perm=permutation(n, len(g.shape(x))))


@_operator("Slice")
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


@_operator("Split")
def _split(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    for i, (axis, start, stop) in enumerate(parts(g, n, g.shape(x))):
        if n.outputs[i]:
            g.emit(n, "slice", [x], output=i, axis=axis, start=start, stop=stop)


@_operator("Pad")
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


SUPPORTED = frozenset({*FOLD, *RESHAPE, *CONVERT})
