"""ONNX operators that pool windows over any number of axes, and the ways back (``windows`` says how)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from ...ops import MAX_RANK
from ...ops import image_ops as images
from ..read.build import Builder, OnnxNode, operator
from .movement import padded
from .products import zeros
from .windows import WINDOW, Shape, Window, as_image, as_sequence, window

Pool = Callable[[str, Window, str], str]  # (image, window of two axes, part) -> image


def _pooled(g: Builder, n: OnnxNode, x: str, w: Window, pool: Pool, part: str = "") -> str:
    """What ``pool`` does to images, over any number of axes; it must not matter which come first."""
    count, channels, *size = g.shape(x)
    if len(size) == 2:
        return pool(x, w, part)
    if len(size) == 1:
        y = pool(as_image(g, n, x), w.at(None, 0), f"{part}image")
        return g.emit(n, "reshape", [y], part=part, shape=(count, channels, g.shape(y)[3]))
    x = g.reshape(n, x, (count, channels, size[0], prod(size[1:])), part=f"{part}columns")
    x = pool(x, w.at(0, None), f"{part}deep")
    depth = g.shape(x)[2]
    x = g.reshape(n, x, (count, channels * depth, *size[1:]), part=f"{part}slices")
    y = _pooled(g, n, x, w.at(*range(1, len(size))), pool, f"{part}flat")
    return g.reshape(n, y, (count, channels, depth, *g.shape(y)[2:]), part)


def _of_samples(convert: Callable[[Builder, OnnxNode], None]) -> Callable[[Builder, OnnxNode], None]:
    """A pool that also takes a tensor without samples, which PyTorch exports as it is: its windows have as many axes as
    are left without the channels."""

    def converted(g: Builder, n: OnnxNode) -> None:
        x = g.x(n)
        shape = g.shape(x)
        if len(n.get("kernel_shape", list)) != len(shape) - 1:
            convert(g, n)
            return
        sample = g.reshape(n, x, (1, *shape), part="sample")
        g.values[sample] = sample
        made = tuple(name and g.fresh(f"{name}/pooled") for name in n.outputs)
        convert(g, replace(n, inputs=(sample,), outputs=made))
        for output, name in enumerate(made):
            if name:
                g.emit(n, "reshape", [g.values[name]], output=output, shape=g.shape(g.values[name])[1:])

    return converted


def _pool_window(g: Builder, n: OnnxNode, x: str) -> Window:
    spatial = g.shape(x)[2:]
    covered = window(n, spatial, n.ints("kernel_shape", len(spatial)), MAX_RANK)
    return _within(covered, spatial) if n.get("ceil_mode", int, 0) else covered


def _within(w: Window, spatial: Shape) -> Window:
    """With ceil_mode a window may be longer than an axis with its padding, of which it then is the only one: what hangs
    over meets nothing."""
    kernel, strides = list(w.kernel), list(w.strides)
    for axis, size in enumerate(spatial):
        one = w.at(axis)
        whole = size + one.before[0] + one.after[0]
        if one.reach[0] > whole and _count(size, one, True) == 1:
            kernel[axis], strides[axis] = (whole - 1) // one.dilations[0] + 1, whole
    return replace(w, kernel=tuple(kernel), strides=tuple(strides))


@operator("MaxPool", f"{WINDOW} ceil_mode storage_order", "Indices of 1 or 2 axes")
@_of_samples
def _max_pool(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    w, ceil, dtype = _pool_window(g, n, x), bool(n.get("ceil_mode", int, 0)), g.dtype(x)
    if dtype in ("int8", "uint8"):
        x = g.cast(n, x, "float32", part="float")

    def pool(image: str, flat: Window, part: str) -> str:
        return g.emit(n, "maxpool", [image], part=part, kernel=flat.kernel, **flat.attrs(), ceil=ceil)

    if n.outputs[0]:
        y = _pooled(g, n, x, w, pool, "" if dtype == g.dtype(x) else "maximum")
        if dtype != g.dtype(x):
            g.cast(n, y, dtype)
    if 1 not in n.made:
        return
    if len(w.kernel) > 2:
        n.fail(f"Indices of windows over 1 or 2 axes are supported, got {len(w.kernel)}")
    attrs = dict(ceil=ceil, column_major=bool(n.get("storage_order", int, 0)))
    if len(w.kernel) == 2:
        g.emit(n, "maxpool_indices", [x], output=1, kernel=w.kernel, **w.attrs(), **attrs)
    else:
        w = w.at(None, 0)
        row = as_image(g, n, x)
        as_sequence(g, n, g.emit(n, "maxpool_indices", [row], part="where", kernel=w.kernel, **w.attrs(), **attrs), 1)


@operator("AveragePool", f"{WINDOW} ceil_mode count_include_pad")
@_of_samples
def _average_pool(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    ceil, padding = bool(n.get("ceil_mode", int, 0)), bool(n.get("count_include_pad", int, 0))

    def pool(image: str, flat: Window, part: str) -> str:
        if flat.dilations == (1, 1):
            attrs = dict(strides=flat.strides, pads=(*flat.before, *flat.after), ceil=ceil)
            return g.emit(n, "avgpool", [image], part=part, kernel=flat.kernel, **attrs, count_include_pad=padding)
        total = _sums(g, n, image, flat, ceil, f"{part}sums")
        counts = [_met(size, flat.at(axis), ceil, padding) for axis, size in enumerate(g.shape(image)[2:])]
        with np.errstate(divide="ignore"):
            share = 1 / np.multiply.outer(*counts).astype(np.float64)
        shares = g.new_constant(n, share[None, None], f"{part}shares")
        return g.emit(n, "mul", [total, shares], part=part)

    _pooled(g, n, x, _pool_window(g, n, x), pool)


def _count(size: int, w: Window, ceil: bool) -> int:
    return images.window_count(size, w.before[0], w.after[0], w.reach[0], w.strides[0], ceil)


def _met(size: int, w: Window, ceil: bool, padding: bool) -> np.ndarray:
    """How many elements of an axis, or of its padding too, every window meets."""
    first, last = (-w.before[0], size + w.after[0]) if padding else (0, size)
    starts = np.arange(_count(size, w, ceil)) * w.strides[0] - w.before[0]
    places = starts[:, None] + np.arange(w.kernel[0]) * w.dilations[0]
    return ((places >= first) & (places < last)).sum(1)


def _sums(g: Builder, n: OnnxNode, x: str, w: Window, ceil: bool, part: str) -> str:
    """Sums over windows: a convolution per channel with ones. Pads may be cut where no window reaches them."""
    channels, after = g.shape(x)[1], []
    for axis, size in enumerate(g.shape(x)[2:]):
        one = w.at(axis)
        last = (_count(size, one, ceil) - 1) * one.strides[0] + one.reach[0]
        after.append(max(0, last - size - one.before[0]))
    ones = g.new_constant(n, np.ones((channels, 1, *w.kernel), np.float32), f"{part}/ones")
    attrs = replace(w, after=tuple(after)).attrs()
    return g.emit(n, "conv", [x, ones, zeros(g, n, channels)], part=part, **attrs, groups=channels)


@operator("LpPool", f"{WINDOW} ceil_mode p")
@_of_samples
def _lp_pool(g: Builder, n: OnnxNode) -> None:
    """The p-th root of the sum of |x|^p."""
    x, p, ceil = g.x(n), n.get("p", int, 2), bool(n.get("ceil_mode", int, 0))
    if p < 1:
        n.fail(f"p must be at least 1, got {p}")

    if p == 2:
        powers = g.emit(n, "mul", [x, x], part="squares")
    else:
        powers = g.emit(n, "abs", [x], part="abs")
        powers = g.with_number(n, "pow", powers, float(p), "powers") if p > 1 else powers

    def pool(image: str, flat: Window, part: str) -> str:
        return _sums(g, n, image, flat, ceil, part)

    w = _pool_window(g, n, x)
    total = _pooled(g, n, powers, w, pool, "" if p == 1 else "sums")
    if p == 2:
        g.emit(n, "sqrt", [total])
    elif p > 1:
        g.with_number(n, "pow", total, 1 / p)


# ---- the ways back ----


@operator("MaxUnpool", "kernel_shape pads strides", "constant output shape")
def _max_unpool(g: Builder, n: OnnxNode) -> None:
    """An output of another size has more or less at the end of its axes."""
    x, indices = g.operand(n, 0), g.operand(n, 1)
    if len(g.shape(x)) < 3:
        n.fail(f"expected an input (N, C, ...), got {g.shape(x)}")
    count, channels, *spatial = g.shape(x)
    w = window(n, tuple(spatial), n.ints("kernel_shape", len(spatial)))
    sizes = tuple((size - 1) * w.strides[i] - w.before[i] - w.after[i] + w.kernel[i] for i, size in enumerate(spatial))
    shape = (count, channels, *sizes)
    wanted = g.ints(n, 2) if g.has(n, 2) else shape
    if len(wanted) != len(shape):
        n.fail(f"output_shape must have {len(shape)} sizes, got {wanted}")
    whole = g.emit(n, "max_unpool", [x, indices], part="" if wanted == shape else "unpooled", shape=shape)
    if wanted != shape:  # the indices count in the tensor that was pooled
        more = [out - size for out, size in zip(wanted, shape, strict=True)]
        padded(g, n, whole, [0] * len(shape), more)


@operator("Col2Im", "dilations pads strides", "constant sizes")
def _col2im(g: Builder, n: OnnxNode) -> None:
    image, block = g.ints(n, 1), g.ints(n, 2)
    rank = len(image)
    ones = (1,) * rank
    g.emit(
        n, "col2im", [g.operand(n, 0)], image=image, block=block, pads=n.ints("pads", 2 * rank, (0,) * 2 * rank),
        strides=n.ints("strides", rank, ones), dilations=n.ints("dilations", rank, ones),
    )  # fmt: skip
