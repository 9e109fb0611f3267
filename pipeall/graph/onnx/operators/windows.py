"""ONNX operators with windows that slide over 1, 2 or 3 axes, in canonical ops on images (``convert`` says how).

Sequences (N, C, L) are images one pixel high. The windows of volumes (N, C, D, H, W) are taken apart: maxima and sums
go along the depth first and over height and width then; a convolution adds up one 2-D convolution per tap of depth,
with the slices of the volume as a batch of images. By a computed weight, or with offsets (DeformConv), all that the
windows meet becomes the rows of a matrix, one for each channel and place in the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from .movement import padded
from .pointwise_nodes import aligned, binary
from .products import zeros

Shape = tuple[int, ...]
WINDOW = "auto_pad dilations kernel_shape pads strides"


@dataclass(frozen=True)
class Window:
    """A window and how it slides, one number per axis; pads are those before and those after."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    before: Shape
    after: Shape

    @property
    def reach(self) -> Shape:
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def at(self, *axes: int | None) -> Window:
        """The window along some of its axes; None is an axis along which it has one element."""

        def pick(values: Shape, none: int) -> Shape:
            return tuple(none if axis is None else values[axis] for axis in axes)

        return Window(
            pick(self.kernel, 1), pick(self.strides, 1), pick(self.dilations, 1),
            pick(self.before, 0), pick(self.after, 0),
        )  # fmt: skip

    def attrs(self) -> dict[str, Any]:
        return dict(strides=self.strides, dilations=self.dilations, pads=(*self.before, *self.after))


def window(n: OnnxNode, spatial: Shape, kernel: Sequence[int], most: int = 3) -> Window:
    """The window of a convolution or pooling; auto_pad (deprecated, still written) becomes pads."""
    count = len(spatial)
    if not 1 <= count <= most:
        n.fail(f"windows over 1 to {most} axes are supported, got {count}")
    strides, dilations = n.ints("strides", count, (1,) * count), n.ints("dilations", count, (1,) * count)
    pads = n.ints("pads", 2 * count, (0,) * 2 * count)
    window = Window(tuple(kernel), strides, dilations, pads[:count], pads[count:])
    if min(*strides, *dilations, *kernel) < 1:
        n.fail(f"kernel, strides and dilations must be at least 1, got {kernel}, {strides}, {dilations}")
    mode = n.get("auto_pad", str, "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER") and n.op != "ConvTranspose":
        totals = [
            max(0, (-(-size // stride) - 1) * stride + reach - size)
            for size, stride, reach in zip(spatial, strides, window.reach, strict=True)
        ]
        return _padded(window, totals, mode == "SAME_UPPER")
    if mode == "VALID":
        return replace(window, before=(0,) * count, after=(0,) * count)
    if mode not in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        n.fail(f"unknown auto_pad {mode!r}")
    return window


def _padded(w: Window, totals: Sequence[int], upper: bool) -> Window:
    """``upper``: the odd element of padding comes last."""
    before = tuple(total // 2 if upper else total - total // 2 for total in totals)
    return replace(w, before=before, after=tuple(t - b for t, b in zip(totals, before, strict=True)))


# ---- convolution ----


def _constant_layer(g: Builder, n: OnnxNode) -> None:
    """Conv or ConvTranspose by a constant weight; a layer over one axis is one on images one pixel high."""
    if g.has(n, 2) and isinstance(g.value(n, 2), str):
        name = g.fresh(f"{n.outputs[0]}/sums")
        g.convert(replace(n, name=name, inputs=n.inputs[:2], outputs=(name,)))
        _biased(g, n, g.values[name], g.shape(g.values[name]), 2)
        return
    x, weight, op = g.x(n), g.floats(n, 1), "conv" if n.op == "Conv" else "deconv"
    (_, _, *spatial), (first, second, *kernel) = _shapes(g, n, x, weight.shape)
    w, group = window(n, tuple(spatial), kernel), n.get("group", int, 1)
    bias = g.weight(n, 2) if g.has(n, 2) else zeros(g, n, first if op == "conv" else second * group)
    extra: Shape = ()
    if op == "deconv":
        w, extra = deconv_window(n, tuple(spatial), w)
    if len(kernel) == 3:
        if op == "conv":
            _conv_3d(g, n, x, weight, bias, w, group)
        else:
            _deconv_3d(g, n, x, weight, bias, w, extra, group)
        return
    attrs = dict(groups=group, **({"output_padding": (0, *extra)[-2:]} if extra else {}))
    if len(kernel) == 2:
        g.emit(n, op, [x, g.weight(n, 1), bias], **w.attrs(), **attrs)
    else:
        operands = [as_image(g, n, x), g.keep(weight[:, :, None], n.inputs[1]), bias]
        as_sequence(g, n, g.emit(n, op, operands, part="image", **w.at(None, 0).attrs(), **attrs))


def as_image(g: Builder, n: OnnxNode, x: str) -> str:
    images, channels, length = g.shape(x)
    return g.reshape(n, x, (images, channels, 1, length), part="row")


def as_sequence(g: Builder, n: OnnxNode, y: str, output: int = 0) -> None:
    images, channels, _, length = g.shape(y)
    g.emit(n, "reshape", [y], output=output, shape=(images, channels, length))


def _slices(g: Builder, n: OnnxNode, x: str, before: int, after: int) -> str:
    """A volume as (N, D, C, H, W), with zeros at both ends of the depth."""
    x = g.emit(n, "transpose", [x], part="slices", perm=(0, 2, 1, 3, 4))
    if not before and not after:
        return x
    return g.emit(n, "pad", [x], part="deep", pads_begin=(0, before, 0, 0, 0), pads_end=(0, after, 0, 0, 0))


def _conv_3d(g: Builder, n: OnnxNode, x: str, weight: np.ndarray, bias: str, w: Window, group: int) -> None:
    (stride, dilation), plane = (w.strides[0], w.dilations[0]), w.at(1, 2).attrs()
    x = _slices(g, n, x, w.before[0], w.after[0])
    count, depth, channels, *size = g.shape(x)
    out = (depth - w.reach[0]) // stride + 1
    if out < 1:
        n.fail(f"kernel depth {w.reach[0]} (dilated) exceeds the padded input {depth}")
    total: list[str] = []
    for tap in range(w.kernel[0]):
        start = tap * dilation
        part = f"tap{tap}"
        stop = start + (out - 1) * stride + 1
        cut = g.emit(n, "slice", [x], part=f"{part}/cut", axis=1, start=start, stop=stop, step=min(stride, depth))
        cut = g.reshape(n, cut, (count * out, channels, *size), part=f"{part}/images")
        kernel = g.new_constant(n, np.ascontiguousarray(weight[:, :, tap]), f"{part}/weight")
        one = bias if tap == 0 else zeros(g, n, len(weight))
        total = [g.emit(n, "conv", [cut, kernel, one, *total], part=part, **plane, groups=group)]
    _volume(g, n, total[0], count)


def _volume(g: Builder, n: OnnxNode, y: str, count: int, part: str = "", output: int = 0) -> str:
    """A batch of slices (N D, C, H, W) as a volume (N, C, D, H, W)."""
    slices, *rest = g.shape(y)
    y = g.emit(n, "reshape", [y], part=f"{part}stack", shape=(count, slices // count, *rest))
    return g.emit(n, "transpose", [y], part=part, output=output, perm=(0, 2, 1, 3, 4))


# ---- transposed convolution ----


def deconv_window(n: OnnxNode, spatial: Shape, w: Window) -> tuple[Window, Shape]:
    """Pads and output padding of a transposed convolution, from a wanted output size where there is one."""
    extra = n.ints("output_padding", len(spatial), (0,) * len(spatial))
    mode = n.get("auto_pad", str, "NOTSET")
    wanted = n.get("output_shape", list, None) if "output_shape" in n.attrs else None
    if wanted is not None:
        wanted = wanted[-len(spatial) :]  # some files give batch and channels too
        if len(wanted) != len(spatial):
            n.fail(f"output_shape must have {len(spatial)} sizes, got {wanted}")
    elif mode.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(spatial, w.strides, strict=True)]
    if wanted is None:
        return w, extra
    totals = [
        stride * (size - 1) + more + reach - out
        for size, stride, more, reach, out in zip(spatial, w.strides, extra, w.reach, wanted, strict=True)
    ]
    extra = tuple(more + max(0, -total) for more, total in zip(extra, totals, strict=True))
    return _padded(w, [max(0, total) for total in totals], mode == "SAME_UPPER"), extra


def _deconv_3d(
    g: Builder, n: OnnxNode, x: str, weight: np.ndarray, bias: str, w: Window, extra: Shape, group: int
) -> None:
    """The slices that one tap of depth makes lie ``stride`` apart; those of all taps are added up, then cropped."""
    stride, plane = w.strides[0], w.at(1, 2).attrs()
    x = _slices(g, n, x, 0, 0)
    count, depth, channels, *size = g.shape(x)
    x = g.reshape(n, x, (count * depth, channels, *size), part="images")
    none, total = zeros(g, n, weight.shape[1] * group), ""
    spread = (depth - 1) * stride + 1
    whole = max(spread + w.reach[0] - 1, w.before[0]) + extra[0]
    for tap in range(w.kernel[0]):
        part, start = f"tap{tap}", tap * w.dilations[0]
        kernel = g.new_constant(n, np.ascontiguousarray(weight[:, :, tap]), f"{part}/weight")
        y = g.emit(n, "deconv", [x, kernel, none], part=part, **plane, groups=group, output_padding=extra[1:])
        rest = g.shape(y)[1:]
        y = g.emit(n, "reshape", [y], part=f"{part}/apart", shape=(count, depth, 1, *rest))
        after = (0, 0, stride - 1, 0, 0, 0)
        y = g.emit(n, "pad", [y], part=f"{part}/spread", pads_begin=(0,) * 6, pads_end=after)
        y = g.emit(n, "reshape", [y], part=f"{part}/whole", shape=(count, depth * stride, *rest))
        y = g.emit(n, "slice", [y], part=f"{part}/cut", axis=1, start=0, stop=spread)
        begin, end = (0, start, 0, 0, 0), (0, whole - spread - start, 0, 0, 0)
        y = g.emit(n, "pad", [y], part=f"{part}/placed", pads_begin=begin, pads_end=end)
        total = g.emit(n, "add", [total, y], part=f"{part}/sum") if total else y
    out = (depth - 1) * stride + w.reach[0] + extra[0] - w.before[0] - w.after[0]
    if out < 1:
        n.fail(f"pads {w.before[0]}, {w.after[0]} leave nothing of the output's depth")
    total = g.emit(n, "slice", [total], part="crop", axis=1, start=w.before[0], stop=w.before[0] + out)
    total = g.emit(n, "transpose", [total], part="volume", perm=(0, 2, 1, 3, 4))
    shift = g.new_constant(n, g.constants[bias].reshape(1, -1, 1, 1, 1), "shift")
    g.emit(n, "add", [total, shift])


# ---- by computed weights ----

Shape = tuple[int, ...]


def _counts(n: OnnxNode, spatial: Shape, w: Window) -> Shape:
    """How many windows there are along every axis."""
    rows = zip(spatial, w.before, w.after, w.reach, w.strides, strict=True)
    counts = tuple((size + before + after - reach) // stride + 1 for size, before, after, reach, stride in rows)
    return counts if min(counts) >= 1 else n.fail(f"the kernel {w.reach} (dilated) exceeds the padded input {spatial}")


def _starts(w: Window, counts: Shape) -> list[np.ndarray]:
    """Along every axis where in the padded input each place of each window lies: (places, windows)."""
    rows = zip(w.kernel, w.dilations, counts, w.strides, strict=True)
    return [np.arange(k)[:, None] * d + np.arange(count) * s for k, d, count, s in rows]


def _groups(n: OnnxNode, channels: int, outputs: int) -> int:
    group = n.get("group", int, 1)
    if group < 1 or channels % group or outputs % group:
        n.fail(f"{group} groups do not divide {channels} and {outputs} channels")
    return group


@operator("Conv", f"{WINDOW} group", "1 to 3 axes")
@operator("ConvTranspose", f"{WINDOW} group output_padding output_shape", "1 to 3 axes")
def _layer(g: Builder, n: OnnxNode) -> None:
    if isinstance(g.value(n, 1), np.ndarray):
        _constant_layer(g, n)
    else:
        (_convolve if n.op == "Conv" else _deconvolve)(g, n)


def _convolve(g: Builder, n: OnnxNode) -> None:
    """Conv over any number of axes by a weight that is computed."""
    x, weight = g.x(n), g.operand(n, 1)
    (count, channels, *_), (outputs, each, *kernel) = _shapes(g, n, x, g.shape(weight))
    group, w = _groups(n, channels, outputs), window(n, g.shape(x)[2:], kernel)
    if each * group != channels:
        n.fail(f"weight {g.shape(weight)} needs {each * group} channels, got {channels}")
    counts = _counts(n, g.shape(x)[2:], w)
    if any(w.before + w.after):
        x = padded(g, n, x, [0, 0, *w.before], [0, 0, *w.after], part="padded")
    size = g.shape(x)[2:]
    places = np.zeros((1,) * 2 * len(size), np.int64)
    for axis, starts in enumerate(_starts(w, counts)):
        shape = [1] * places.ndim
        shape[axis], shape[axis + len(size)] = starts.shape
        places = places * size[axis] + starts.reshape(shape)
    g.afford(n, places.size)
    flat = g.reshape(n, x, (count, channels, prod(size)), part="flat")
    indices = g.new_constant(n, places.reshape(-1), "places")
    met = g.emit(n, "gather", [flat, indices], part="met", axis=2)
    met = g.reshape(n, met, (count, group, each * prod(kernel), prod(counts)), part="rows")
    filters = g.reshape(n, weight, (1, group, outputs // group, each * prod(kernel)), part="filters")
    y = g.emit(n, "matmul", [filters, met], part="product")
    _biased(g, n, y, (count, outputs, *counts), 2)


def _deconvolve(g: Builder, n: OnnxNode) -> None:
    """ConvTranspose over any number of axes by a weight that is computed."""
    x, weight = g.x(n), g.operand(n, 1)
    (count, channels, *spatial), (inputs, each, *kernel) = _shapes(g, n, x, g.shape(weight))
    group = _groups(n, channels, channels)
    w, extra = deconv_window(n, tuple(spatial), window(n, tuple(spatial), kernel))
    if inputs != channels:
        n.fail(f"weight {g.shape(weight)} needs {inputs} channels, got {channels}")
    filters = g.reshape(n, weight, (1, group, channels // group, each * prod(kernel)), part="filters")
    filters = g.emit(n, "transpose", [filters], part="turned", perm=(0, 1, 3, 2))
    flat = g.reshape(n, x, (count, group, channels // group, prod(spatial)), part="flat")
    made = g.emit(n, "matmul", [filters, flat], part="product")
    made = g.reshape(n, made, (count, group * each * prod(kernel), prod(spatial)), part="blocks")
    rows = zip(spatial, w.strides, w.reach, extra, w.before, w.after, strict=True)
    image = tuple(s * (size - 1) + reach + more - before - after for size, s, reach, more, before, after in rows)
    attrs = dict(w.attrs(), image=image, block=w.kernel)
    _biased(g, n, g.emit(n, "col2im", [made], part="image", **attrs), (count, group * each, *image), 2)


def _shapes(g: Builder, n: OnnxNode, x: str, weight: Shape) -> tuple[Shape, Shape]:
    """The shapes of the input and of the weight, which fit."""
    shape, kernel = g.shape(x), weight[2:]
    if len(shape) < 3 or len(weight) != len(shape):
        n.fail(f"expected input (N, C, ...) and a weight of that rank, got {shape} and {weight}")
    if n.ints("kernel_shape", len(kernel), kernel) != kernel:
        n.fail(f"kernel_shape {n.ints('kernel_shape', len(kernel))} differs from the weight {weight}")
    return shape, weight


def _biased(g: Builder, n: OnnxNode, y: str, shape: Shape, bias: int) -> None:
    """``y`` in a shape, plus the bias in an input where it is there, as the node's output."""
    if not g.has(n, bias):
        g.reshape(n, y, shape)
        return
    y = g.reshape(n, y, shape, part="sums")
    value = g.operand(n, bias)
    if g.shape(value) != shape[1:2]:
        n.fail(f"bias must be {shape[1:2]}, got {g.shape(value)}")
    binary(g, n, "add", y, g.reshape(n, value, (1, shape[1], *(1,) * (len(shape) - 2)), part="bias"))


@operator("DeformConv", f"{WINDOW} group offset_group", "images; constant weight")
def _deform_conv(g: Builder, n: OnnxNode) -> None:
    """A sampling of the image at all places of all windows, times the mask, then a convolution by 1x1."""
    x, weight, offset = g.x(n), g.floats(n, 1), g.operand(n, 2)
    shape = g.shape(x)
    if len(shape) != 4 or weight.ndim != 4:
        n.fail(f"only images are supported, got {shape} and a weight {weight.shape}")
    count, channels, height, width = shape
    w, parts, group = window(n, shape[2:], weight.shape[2:]), n.get("offset_group", int, 1), n.get("group", int, 1)
    counts, taps = _counts(n, shape[2:], w), prod(w.kernel)
    if parts < 1 or channels % parts or g.shape(offset) != (count, parts * taps * 2, *counts):
        n.fail(f"offsets {g.shape(offset)} do not fit {parts} groups of {shape} and {counts} windows")
    where = np.zeros((w.kernel[0], w.kernel[1], *counts, 2))
    rows, columns = _starts(w, counts)
    where[..., 1] = rows[:, None, :, None] - w.before[0]
    where[..., 0] = columns[None, :, None, :] - w.before[1]
    sizes = np.array([width, height])
    split = g.reshape(n, offset, (count * parts, taps, 2, *counts), part="offsets")
    split = g.emit(n, "transpose", [split], part="pairs", perm=(0, 1, 3, 4, 2))
    swap = g.new_constant(n, np.array([1, 0]), "swap")
    split = g.emit(n, "gather", [split, swap], part="points", axis=4)  # x before y
    scaled = binary(g, n, "mul", split, (2 / sizes).astype(np.float32).reshape(1, 1, 1, 1, 2), "scaled")
    base = ((2 * where.reshape(taps, *counts, 2) + 1) / sizes - 1).astype(np.float32)
    points = binary(g, n, "add", scaled, base[None], "places")
    grid = g.reshape(n, points, (count * parts, taps * counts[0], counts[1], 2), part="grid")
    images = g.reshape(n, x, (count * parts, channels // parts, height, width), part="images")
    met = g.emit(n, "grid_sample", [images, grid], part="met")
    if g.has(n, 4):
        met = g.reshape(n, met, (count * parts, channels // parts, taps, *counts), part="taps")
        mask = g.reshape(n, g.operand(n, 4), (count * parts, 1, taps, *counts), part="mask")
        met = g.emit(n, "mul", aligned(g, n, (met, mask)), part="masked")
    met = g.reshape(n, met, (count, channels * taps, *counts), part="rows")
    kernel = g.keep(weight.reshape(len(weight), -1, 1, 1), n.inputs[1])
    bias = g.weight(n, 3) if g.has(n, 3) else zeros(g, n, len(weight))
    g.emit(n, "conv", [met, kernel, bias], groups=group)
