"""Convolutions whose weights are computed, as products; and those that read where offsets say (DeformConv).

All that the windows meet becomes the rows of a matrix, one for each channel and place in the window.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from .movement import padded
from .pointwise_nodes import aligned, binary
from .products import zeros
from .windows import WINDOW, Window, conv, deconv, deconv_window, window

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
def _conv(g: Builder, n: OnnxNode) -> None:
    (_convolve if isinstance(g.value(n, 1), str) else conv)(g, n)


@operator("ConvTranspose", f"{WINDOW} group output_padding output_shape", "1 to 3 axes")
def _deconv(g: Builder, n: OnnxNode) -> None:
    (_deconvolve if isinstance(g.value(n, 1), str) else deconv)(g, n)


def _convolve(g: Builder, n: OnnxNode) -> None:
    """Conv over any number of axes by a weight that is computed."""
    x, weight = g.x(n), g.operand(n, 1)
    (count, channels, *_), (outputs, each, *kernel) = _shapes(g, n, x, weight)
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
    indices = g.keep(places.reshape(-1), f"{n.outputs[0]}/places")
    met = g.emit(n, "gather", [flat, indices], part="met", axis=2)
    met = g.reshape(n, met, (count, group, each * prod(kernel), prod(counts)), part="rows")
    filters = g.reshape(n, weight, (1, group, outputs // group, each * prod(kernel)), part="filters")
    y = g.emit(n, "matmul", [filters, met], part="product")
    _biased(g, n, y, (count, outputs, *counts), 2)


def _deconvolve(g: Builder, n: OnnxNode) -> None:
    """ConvTranspose over any number of axes by a weight that is computed."""
    x, weight = g.x(n), g.operand(n, 1)
    (count, channels, *spatial), (inputs, each, *kernel) = _shapes(g, n, x, weight)
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


def _shapes(g: Builder, n: OnnxNode, x: str, weight: str) -> tuple[Shape, Shape]:
    shapes = g.shape(x), g.shape(weight)
    if len(shapes[0]) < 3 or len(shapes[1]) != len(shapes[0]):
        n.fail(f"expected input (N, C, ...) and a weight of that rank, got {shapes[0]} and {shapes[1]}")
    kernel = shapes[1][2:]
    if n.ints("kernel_shape", len(kernel), kernel) != kernel:
        n.fail(f"kernel_shape {n.ints('kernel_shape', len(kernel))} differs from the weight {shapes[1]}")
    return shapes


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
    swap = g.keep(np.array([1, 0]), f"{n.outputs[0]}/swap")
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
