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
from .build import Builder, OnnxNode, operator
from .fold import RESHAPE, parts, permutation, shape_of, slices
from .products import zeros

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
    bias = g.weight(n, 2) if g.has(n, 2) else zeros(g, n, c_out)
    window = _window(n, g.shape(x), kernel)
    g.emit(n, "conv", [x, weight, bias], **window, groups=n.get("group", int, attributes("conv")["groups"]))


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
