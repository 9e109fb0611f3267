"""What every op computes, in NumPy: the yardstick of all kernels.

Functions take (attrs, *arrays), NCHW with batch 1, and work in the float type of the arrays: float64 as the truth in
tests, float32 to compare whole networks. Windows are walked tap by tap (kh x kw steps on whole arrays), so nothing
larger than the tensors themselves is allocated and a network of 4 GMAC takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from .pointwise import Binary, Unary

Attrs = Mapping[str, Any]


def _clamped(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return np.clip(x, attrs["lo"], attrs["hi"])


def _taps(
    x: np.ndarray, out_hw: tuple[int, int], kernel: tuple[int, int], attrs: Attrs, fill: float
) -> Iterator[tuple[int, int, np.ndarray]]:
    """For each kernel position (i, j): i, j and the (1, C, out_h, out_w) elements it meets; ``fill`` is the padding."""
    (sh, sw), (dh, dw), (top, left, _, _) = attrs["strides"], attrs.get("dilations", (1, 1)), attrs["pads"]
    span_h, span_w = (out_hw[0] - 1) * sh + 1, (out_hw[1] - 1) * sw + 1
    below = max(0, span_h + (kernel[0] - 1) * dh - top - x.shape[2])
    right = max(0, span_w + (kernel[1] - 1) * dw - left - x.shape[3])
    padded = np.pad(x, ((0, 0), (0, 0), (top, below), (left, right)), constant_values=fill)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            yield i, j, padded[:, :, i * dh :, j * dw :][:, :, :span_h:sh, :span_w:sw]


def window_count(size: int, before: int, after: int, reach: int, stride: int, ceil: bool) -> int:
    """Number of windows of ``reach`` elements along an axis of ``size`` padded by ``before`` and ``after``.

    With ``ceil`` a last window may hang over the end (ONNX MaxPool-22), unless it would start beyond the input.
    """
    spare = size + before + after - reach
    count = spare // stride + 1
    return count + bool(ceil and spare % stride and count * stride < size + before)


def _out_hw(x: np.ndarray, kernel: tuple[int, int], attrs: Attrs) -> tuple[int, int]:
    dilations, ceil, pads = attrs.get("dilations", (1, 1)), attrs.get("ceil", False), attrs["pads"]
    height, width = (
        window_count(
            x.shape[2 + a], pads[a], pads[a + 2], dilations[a] * (kernel[a] - 1) + 1, attrs["strides"][a], ceil
        )
        for a in (0, 1)
    )
    return height, width


def conv(
    attrs: Attrs, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, residual: np.ndarray | None = None
) -> np.ndarray:
    groups, kernel = attrs["groups"], weight.shape[2:]
    out_h, out_w = _out_hw(x, kernel, attrs)
    grouped = weight.reshape(groups, -1, *weight.shape[1:])  # (g, Cout/g, Cin/g, kh, kw)
    out = np.zeros((groups, grouped.shape[1], out_h * out_w), x.dtype)
    for i, j, pixels in _taps(x, (out_h, out_w), kernel, attrs, 0):
        out += grouped[..., i, j] @ pixels.reshape(groups, x.shape[1] // groups, -1)
    out = out.reshape(1, -1, out_h, out_w) + bias[:, None, None]
    return _clamped(attrs, out if residual is None else out + residual)


def fc(attrs: Attrs, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return _clamped(attrs, (weight @ x.reshape(-1) + bias)[None])


def maxpool(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    out_hw = _out_hw(x, attrs["kernel"], attrs)
    out = np.full((*x.shape[:2], *out_hw), -np.inf, x.dtype)
    for _, _, pixels in _taps(x, out_hw, attrs["kernel"], attrs, -np.inf):
        np.maximum(out, pixels, out=out)
    return out


def avgpool(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    out_hw = _out_hw(x, attrs["kernel"], attrs)
    out = np.zeros((*x.shape[:2], *out_hw), x.dtype)
    for _, _, pixels in _taps(x, out_hw, attrs["kernel"], attrs, 0):
        out += pixels
    divisors = []
    for axis in (0, 1):
        before, after = attrs["pads"][axis], attrs["pads"][axis + 2]
        size, start = x.shape[2 + axis], np.arange(out_hw[axis]) * attrs["strides"][axis] - before
        first, last = (-before, size + after) if attrs["count_include_pad"] else (0, size)
        divisors.append(np.minimum(start + attrs["kernel"][axis], last) - np.maximum(start, first))
    return out / np.multiply.outer(*divisors).astype(x.dtype)


def lrn(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    size = attrs["size"]
    before = (size - 1) // 2
    squares = np.pad(x * x, ((0, 0), (before, size - 1 - before), (0, 0), (0, 0)))
    total = sum(squares[:, k : k + x.shape[1]] for k in range(size))
    return x * (attrs["bias"] + attrs["alpha"] / size * total) ** -attrs["beta"]


def softmax(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=attrs["axis"], keepdims=True))
    return powers / powers.sum(axis=attrs["axis"], keepdims=True)


def layernorm(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    """Over the channels of each pixel."""
    difference = x - x.mean(axis=1, keepdims=True)
    return difference / np.sqrt((difference**2).mean(axis=1, keepdims=True) + x.dtype.type(attrs["epsilon"]))


def unary(op: Unary) -> Callable[[Attrs, np.ndarray], np.ndarray]:
    return lambda attrs, x: op.compute(x, *(x.dtype.type(attrs[name]) for name in op.parameters))


def binary(op: Binary) -> Callable[[Attrs, np.ndarray, np.ndarray], np.ndarray]:
    return lambda attrs, a, b: _clamped(attrs, op.compute(b, a) if attrs["swapped"] else op.compute(a, b))


def concat(attrs: Attrs, *inputs: np.ndarray) -> np.ndarray:
    return np.concatenate(inputs, axis=attrs["axis"])


def reshape(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return x.reshape(attrs["shape"])


def transpose(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return x.transpose(attrs["perm"])


def slice_(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    return x[(slice(None),) * attrs["axis"] + (slice(attrs["start"], attrs["stop"]),)]


def pad(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    widths = list(zip(attrs["pads_begin"], attrs["pads_end"], strict=True))
    return np.pad(x, widths, constant_values=attrs["value"])


def shuffle(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    """Channel c = i * (C / groups) + j moves to j * groups + i (ShuffleNet)."""
    _, channels, height, width = x.shape
    split = x.reshape(1, attrs["groups"], channels // attrs["groups"], height, width)
    return split.swapaxes(1, 2).reshape(x.shape)
