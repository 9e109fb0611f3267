"""Convolutions and fully connected layers as steps, with the SiLU and the sum behind them."""

from __future__ import annotations

from math import prod

from ...steps import View
from ..ir import Node
from ..ops import attributes, unclamped
from . import lower_int8
from .lowering import Lowering, attrs_of
from .strides import images, pixels, place, rows


def conv(to: Lowering, node: Node) -> None:
    src = [to.pixels(node, index) for index in (0, *range(3, len(node.inputs)))]
    last, more = node, lower_int8.qparams(to, node)
    if to.tensor(node.output).quantization is not None:
        last, added, fused = lower_int8.absorbed(to, node)
        src, more = [*src, *(to.pixels(last, last.inputs.index(name)) for name in added)], more | fused
    elif silu := _silu_behind(to, node):
        last, residual = _sum_behind(to, silu)
        src, more = [*src, *residual], {"silu": True}
    out, weight, count = pixels(to.target(last)), to.constant(node, 1), to.shape(node.output)[0]
    attrs = attrs_of(node, "strides", "pads", "dilations", "groups", "lo", "hi")
    if 1 < attrs["groups"] == src[0].c < len(weight) and src[0].dtype == "int8":  # several filters for each channel
        src[0], attrs["groups"] = _repeated_channels(to, node, src[0], len(weight)), len(weight)
    params = {"kernel": weight.shape[2:], **attrs, **more}
    together = params["kernel"] == params["strides"] == (1, 1) and not any(params["pads"])
    for *given, made in zip(*(images(view, 1 if together else count) for view in (*src, out)), strict=True):
        to.step("conv", node, given, made, params, weight, to.constant(node, 2))


def _silu_behind(to: Lowering, node: Node) -> Node | None:
    """The SiLU that alone reads what a convolution of floats without a residual makes, where the device fuses it."""
    consumers = to.only_consumers(node.output)
    floats = to.type_of(node.inputs[0]) == to.type_of(node.output)
    if not to.silu or not floats or len(node.inputs) > 3 or [other.op for other in consumers] != ["swish"]:
        return None
    (silu,) = consumers
    if silu.attrs["alpha"] != 1 or not to.lies_as_pixels(silu):
        return None
    to.done.add(silu.output)
    return silu


def _sum_behind(to: Lowering, node: Node) -> tuple[Node, list[View]]:
    """The sum that alone reads a node's output, whose other operand is an image that is there, and this; else the node
    alone."""
    consumers = to.only_consumers(node.output)
    if [other.op for other in consumers] != ["add"] or not unclamped(consumers[0]):
        return node, []
    (total,) = consumers
    others = [name for name in total.inputs if name != node.output]
    if len(others) != 1 or others[0] not in to.done or to.shape(others[0]) != to.shape(node.output):
        return node, []
    if not to.lies_as_pixels(total) or pixels(to.places[others[0]]) is None:
        return node, []
    to.done.add(total.output)
    return total, [to.pixels(total, total.inputs.index(others[0]))]


def _repeated_channels(to: Lowering, node: Node, x: View, channels: int) -> View:
    """The image with every channel as often as it has filters, for depthwise kernels of integers."""
    times = channels // x.c
    made = to.storage((1, channels, x.h, x.w), x.dtype)
    dims = (x.h * x.w, x.c, times)
    source = place(x.base, x.offset, dims, (x.stride, 1, 0), x.dtype)
    to.copy(node.name, source, place(made.base, made.offset, dims, (made.stride, times, 1), made.dtype))
    return made


def fc(to: Lowering, node: Node) -> None:
    """Rows times a matrix, as a 1 x 1 convolution; the rows of images, as one whose kernel covers an image."""
    name, axis, weight = to.activation(node), node.attrs["axis"], to.constant(node, 1)
    out = rows(to.target(node, range(len(to.shape(node.output)))), len(to.shape(node.output)) - 1)
    x, kernel, view = to.places[name], (1, 1), rows(to.places[name], axis)
    attrs = attributes("conv", **attrs_of(node, "lo", "hi"))
    if view is None and axis == 1 and len(x.shape) == 4:
        view, count = to.pixels(node), x.shape[0]
        kernel = (view.h // count, view.w)
        attrs["strides"] = (kernel[0], 1)
    elif view is None:
        view = rows(to.contiguous(name), axis)
    channels = weight.shape[1] // prod(kernel)
    params = {"kernel": kernel, **attrs, **lower_int8.qparams(to, node)}
    to.step("conv", node, (view,), out, params, weight.reshape(-1, channels, *kernel), to.constant(node, 2))
