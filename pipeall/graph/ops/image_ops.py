"""Ops on images (N, C, H, W): convolution, transposed convolution, pooling and what goes across channels.

Windows are walked tap by tap (kh x kw steps on whole arrays), so nothing larger than the tensors themselves is
allocated and a network of 4 GMAC takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from .spec import (
    FREE,
    GIVEN,
    Attrs,
    OpSpec,
    Shape,
    Trait,
    clamp,
    flags,
    image,
    integer,
    ints,
    numbers,
    require,
    same,
    window,
)

# ---- output shapes ----


def window_count(size: int, before: int, after: int, reach: int, stride: int, ceil: bool) -> int:
    """Number of windows of ``reach`` elements along an axis of ``size`` padded by ``before`` and ``after``.

    With ``ceil`` a last window may hang over the end (ONNX MaxPool-22), unless it would start beyond the input.
    """
    spare = size + before + after - reach
    count = spare // stride + 1
    return count + bool(ceil and spare % stride and count * stride < size + before)


def _windows(attrs: Attrs, x: Shape, kernel: tuple[int, int], dilations: tuple[int, int], ceil: bool) -> Shape:
    """Output height and width of windows sliding over x."""
    strides, pads = window(attrs, "strides"), window(attrs, "pads", 4, 0)
    sizes = []
    for axis, side in enumerate(("height", "width")):
        size, before, after = x[2 + axis], pads[axis], pads[axis + 2]
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        padded = size + before + after
        require(reach <= padded, f"kernel {side} {reach} (dilated) exceeds the padded input {padded}")
        sizes.append(window_count(size, before, after, reach, strides[axis], ceil))
    return tuple(sizes)


def _conv_shape(attrs: Attrs, x: Shape, weight: Shape, bias: Shape, residual: Shape | None = None) -> Shape:
    image(x)
    require(len(weight) == 4, f"weight must be (Cout, Cin/groups, kh, kw), got {weight}")
    groups = integer(attrs, "groups", 1, x[1])
    require(x[1] % groups == 0 and weight[0] % groups == 0, f"{groups} groups do not divide {x[1]} and {weight[0]}")
    require(weight[1] == x[1] // groups, f"weight {weight} needs {weight[1] * groups} input channels, got {x[1]}")
    require(bias == weight[:1], f"bias must be {weight[:1]}, got {bias}")
    clamp(attrs)
    out = (x[0], weight[0], *_windows(attrs, x, weight[2:], window(attrs, "dilations"), ceil=False))
    require(residual in (None, out), f"residual must be {out}, got {residual}")
    return out


def _deconv_shape(attrs: Attrs, x: Shape, weight: Shape, bias: Shape) -> Shape:
    image(x)
    require(len(weight) == 4, f"weight must be (Cin, Cout/groups, kh, kw), got {weight}")
    groups = integer(attrs, "groups", 1, x[1])
    require(x[1] % groups == 0, f"{groups} groups do not divide {x[1]}")
    require(weight[0] == x[1], f"weight {weight} needs {weight[0]} input channels, got {x[1]}")
    require(bias == (weight[1] * groups,), f"bias must be {(weight[1] * groups,)}, got {bias}")
    clamp(attrs)
    strides, dilations = window(attrs, "strides"), window(attrs, "dilations")
    pads, extra = window(attrs, "pads", 4, 0), ints(attrs, "output_padding", 2, 0)
    require(all(e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)),
            f"output_padding {extra} must be smaller than strides {strides} or dilations {dilations}")  # fmt: skip
    sizes = tuple(
        strides[a] * (x[2 + a] - 1) + dilations[a] * (weight[2 + a] - 1) + 1 + extra[a] - pads[a] - pads[a + 2]
        for a in (0, 1)
    )
    require(min(sizes) >= 1, f"pads {pads} leave nothing of the output")
    return (x[0], bias[0], *sizes)


def _pool(attrs: Attrs, x: Shape, dilations: tuple[int, int]) -> Shape:
    image(x)
    kernel = window(attrs, "kernel")
    flags(attrs, "ceil")
    out = _windows(attrs, x, kernel, dilations, attrs["ceil"])
    for axis in (0, 1):  # together: no window lies in the padding alone
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        widest = max(attrs["pads"][axis::2])
        require(widest < reach, f"padding {widest} must be smaller than the kernel {reach} (dilated)")
        require(kernel[axis] == 1 or dilations[axis] <= x[2 + axis], f"dilation {dilations[axis]} exceeds the input")
    return (*x[:2], *out)


def _maxpool_shape(attrs: Attrs, x: Shape) -> Shape:
    return _pool(attrs, x, window(attrs, "dilations"))


def _avgpool_shape(attrs: Attrs, x: Shape) -> Shape:
    flags(attrs, "count_include_pad")
    return _pool(attrs, x, (1, 1))


def _lrn_shape(attrs: Attrs, x: Shape) -> Shape:
    image(x)
    integer(attrs, "size", 1, 2**15)
    numbers(attrs, "alpha", "beta", "bias")
    return x


def _shuffle_shape(attrs: Attrs, x: Shape) -> Shape:
    image(x)
    groups = integer(attrs, "groups", 1, x[1])
    require(x[1] % groups == 0, f"{groups} groups do not divide {x[1]} channels")
    return x


# ---- references ----


def clamped(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.clip(x, attrs["lo"], attrs["hi"])


def window_taps(
    x: np.ndarray, out_hw: tuple[int, int], kernel: tuple[int, int], attrs: Attrs, fill: float
) -> Iterator[tuple[int, int, np.ndarray]]:
    """For each kernel position (i, j): i, j and the (N, C, out_h, out_w) elements it meets; ``fill`` is the padding."""
    (sh, sw), (dh, dw), (top, left, _, _) = attrs["strides"], attrs.get("dilations", (1, 1)), attrs["pads"]
    span_h, span_w = (out_hw[0] - 1) * sh + 1, (out_hw[1] - 1) * sw + 1
    below = max(0, span_h + (kernel[0] - 1) * dh - top - x.shape[2])
    right = max(0, span_w + (kernel[1] - 1) * dw - left - x.shape[3])
    padded = np.pad(x, ((0, 0), (0, 0), (top, below), (left, right)), constant_values=fill)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            yield i, j, padded[:, :, i * dh :, j * dw :][:, :, :span_h:sh, :span_w:sw]


def _conv(
    attrs: Attrs, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, residual: np.ndarray | None = None
) -> np.ndarray:
    groups, kernel, images = attrs["groups"], weight.shape[2:], len(x)
    out_h, out_w = _conv_shape(attrs, x.shape, weight.shape, bias.shape)[2:]
    grouped = weight.reshape(groups, -1, *weight.shape[1:])  # (g, Cout/g, Cin/g, kh, kw)
    out = np.zeros((images, groups, grouped.shape[1], out_h * out_w), x.dtype)
    for i, j, pixels in window_taps(x, (out_h, out_w), kernel, attrs, 0):
        out += grouped[..., i, j] @ pixels.reshape(images, groups, x.shape[1] // groups, -1)
    out = out.reshape(images, -1, out_h, out_w) + bias[:, None, None]
    return clamped(attrs, out if residual is None else out + residual)


def _deconv(attrs: Attrs, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Every input pixel adds its taps to the output, which is then cropped by the pads."""
    groups, (n, c, h, w), (kh, kw) = attrs["groups"], x.shape, weight.shape[2:]
    (sh, sw), (dh, dw), (top, left, _, _) = attrs["strides"], attrs["dilations"], attrs["pads"]
    out_h, out_w = _deconv_shape(attrs, x.shape, weight.shape, bias.shape)[2:]
    grouped = weight.reshape(groups, c // groups, -1, kh, kw)
    pixels = x.reshape(n, groups, c // groups, h * w)
    reach_h, reach_w = (kh - 1) * dh + (h - 1) * sh + 1, (kw - 1) * dw + (w - 1) * sw + 1
    whole = np.zeros((n, len(bias), max(reach_h, top + out_h), max(reach_w, left + out_w)), x.dtype)
    for i in range(kh):
        for j in range(kw):
            tap = np.einsum("gcop,ngcx->ngox", grouped[..., i, j][..., None], pixels).reshape(n, -1, h, w)
            whole[:, :, i * dh : i * dh + (h - 1) * sh + 1 : sh, j * dw : j * dw + (w - 1) * sw + 1 : sw] += tap
    return clamped(attrs, whole[:, :, top : top + out_h, left : left + out_w] + bias[:, None, None])


def _maxpool(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    out_hw = _maxpool_shape(attrs, x.shape)[2:]
    out = np.full((*x.shape[:2], *out_hw), -np.inf, x.dtype)
    for _, _, pixels in window_taps(x, out_hw, attrs["kernel"], attrs, -np.inf):
        np.maximum(out, pixels, out=out)
    return out


def _avgpool(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    out_hw = _avgpool_shape(attrs, x.shape)[2:]
    out = np.zeros((*x.shape[:2], *out_hw), x.dtype)
    for _, _, pixels in window_taps(x, out_hw, attrs["kernel"], attrs, 0):
        out += pixels
    divisors = []
    for axis in (0, 1):
        before, after = attrs["pads"][axis], attrs["pads"][axis + 2]
        size, start = x.shape[2 + axis], np.arange(out_hw[axis]) * attrs["strides"][axis] - before
        first, last = (-before, size + after) if attrs["count_include_pad"] else (0, size)
        divisors.append(np.minimum(start + attrs["kernel"][axis], last) - np.maximum(start, first))
    return out / np.multiply.outer(*divisors).astype(x.dtype)


def _lrn(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    size = attrs["size"]
    before = (size - 1) // 2
    squares = np.pad(x * x, ((0, 0), (before, size - 1 - before), (0, 0), (0, 0)))
    total = sum(squares[:, k : k + x.shape[1]] for k in range(size))
    return x * (attrs["bias"] + attrs["alpha"] / size * total) ** -attrs["beta"]


def _shuffle(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    """Channel c = i * (C / groups) + j moves to j * groups + i (ShuffleNet)."""
    images, channels, height, width = x.shape
    split = x.reshape(images, attrs["groups"], channels // attrs["groups"], height, width)
    return split.swapaxes(1, 2).reshape(x.shape)


def _conv_macs(out: Shape, x: Shape, weight: Shape, *_: Shape) -> int:
    return prod(out) * prod(weight[1:])


def _deconv_macs(out: Shape, x: Shape, weight: Shape, *_: Shape) -> int:
    return prod(x) * prod(weight[1:])


_WINDOW = {"strides": (1, 1), "pads": (0, 0, 0, 0)}
_DILATED = _WINDOW | {"dilations": (1, 1)}
_POOL = {"kernel": GIVEN, "ceil": False}
_AVGPOOL_ATTRS = _POOL | _WINDOW | {"count_include_pad": False}
_LRN_ATTRS = {"size": GIVEN, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
_CONV_ATTRS = _DILATED | {"groups": 1} | FREE
_DECONV_ATTRS = _CONV_ATTRS | {"output_padding": (0, 0)}
_LAYER, _POOLS = Trait.IMAGES | Trait.WEIGHTS | Trait.SUMS, Trait.IMAGES | Trait.POOLS
_SHUFFLE = Trait.IMAGES | Trait.SELECTS

OPS: dict[str, OpSpec] = {
    "conv": OpSpec((3, 4), _CONV_ATTRS, _conv_shape, _conv, _conv_macs, traits=_LAYER | Trait.INT8_WEIGHTS),
    "deconv": OpSpec((3, 3), _DECONV_ATTRS, _deconv_shape, _deconv, _deconv_macs, traits=_LAYER),
    "maxpool": OpSpec((1, 1), _POOL | _DILATED, _maxpool_shape, _maxpool, traits=_POOLS | Trait.SELECTS),
    "avgpool": OpSpec((1, 1), _AVGPOOL_ATTRS, _avgpool_shape, _avgpool, traits=_POOLS | Trait.SUMS),
    "lrn": OpSpec((1, 1), _LRN_ATTRS, _lrn_shape, _lrn, traits=Trait.IMAGES | Trait.SUMS),
    "shuffle": OpSpec((1, 1), {"groups": GIVEN}, _shuffle_shape, _shuffle, types=same, traits=_SHUFFLE),
}
