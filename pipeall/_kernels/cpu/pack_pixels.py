"""Convolutions of few output channels: several pixels of a row computed as one, whose channels fill a vector.

The micro-kernels have output channels in the lanes of their vectors. P pixels of C channels, side by side, are one
pixel of P * C channels. Its kernel is as wide as their P windows together; each pixel's filters are zero outside of its
own window. That multiplies by zeros, and NaN and infinity spread over the P pixels, as in Winograd's tiles. It pays off
where lanes would be empty: 16 pixels of 1 channel by a kernel of 3 take 18 columns of 16 lanes, and not 48.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from platform import machine

import numpy as np

from ...steps import Step, View

LANES = 16  # of the narrowest tile of the GEMM kernels: 8 where that is all they have
ROWS = 12  # of the tallest tile: with fewer pixels than that, vectors would wait for their own multiply-adds
# Products that the GEMM adds in one block of a sum. A longer sum is left alone: here it would be one block, which would
# change its last bits. On NEON 192 x 8 floats are 6 KB of B beside three tiles of A, 18 KB, in an L1 of 32 KB; on x86
# 640 x 16 are 40 KB of B, from L2: half would fit L1, but C is read and written for each block.
KC = 192 if machine() == "aarch64" else 640
PIXEL = 8  # k that a pixel costs on top of its own: its pointers, its bias and its store (Zen 5)


def fold(step: Step, nr: int) -> int:
    """How many pixels a convolution computes as one: a divisor of its rows, 1 where it does not pay off.

    nr  columns of a GEMM panel
    """
    step, lanes = flat(step), min(nr, LANES)
    y = step.dst
    if step.params["groups"] > 1 or any(view.stride != y.c for view in (y, *step.src[1:])):
        return 1
    if prod(step.params["kernel"]) * step.src[0].c > KC:
        return 1
    fitting = [n for n in range(1, lanes // y.c + 1) if y.w % n == 0 and y.h * y.w >= n * ROWS]
    return min(fitting, key=lambda n: (cost(step, n, lanes), n), default=1)


def cost(step: Step, pixels: int, lanes: int) -> float:
    """Multiply-adds of vectors for each output pixel."""
    taps = step.params["kernel"][0] * width(step, pixels)
    return (taps * step.src[0].c + PIXEL) * -(-pixels * step.dst.c // lanes) / pixels


def width(step: Step, pixels: int) -> int:
    """Columns under the windows of so many neighbours."""
    p = step.params
    return (pixels - 1) * p["strides"][1] + (p["kernel"][1] - 1) * p["dilations"][1] + 1


def flat(step: Step) -> Step:
    """The same step; one that computes each pixel from one pixel has them all in a row."""
    x, y, p = step.src[0], step.dst, step.params
    if (*p["kernel"], *p["strides"]) != (1, 1, 1, 1) or any(p["pads"]) or (x.h, x.w) != (y.h, y.w):
        return step
    return replace(step, src=tuple(map(in_a_row, step.src)), dst=in_a_row(step.dst))


def in_a_row(view: View) -> View:
    return replace(view, h=1, w=view.h * view.w)


def folded(step: Step, pixels: int) -> Step:
    """The step that computes so many pixels as one, without weights."""
    step = flat(step)
    p = step.params
    (kh, _), (sy, sx), (dy, _) = p["kernel"], p["strides"], p["dilations"]
    window = {"kernel": (kh, width(step, pixels)), "strides": (sy, pixels * sx), "dilations": (dy, 1)}

    def joined(view: View) -> View:
        return replace(view, w=view.w // pixels, c=view.c * pixels, stride=view.stride * pixels)

    src = (step.src[0], *map(joined, step.src[1:]))
    return replace(step, src=src, dst=joined(step.dst), params={**p, **window}, weight=None, bias=None)


def folded_weights(step: Step, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """Its weights and bias."""
    outputs, inputs, kh, kw = step.weight.shape
    stride, dilation = step.params["strides"][1], step.params["dilations"][1]
    wide = np.zeros((pixels, outputs, inputs, kh, width(step, pixels)), np.float32)
    for i in range(pixels):
        wide[i, ..., i * stride : i * stride + (kw - 1) * dilation + 1 : dilation] = step.weight
    return wide.reshape(pixels * outputs, *wide.shape[2:]), np.tile(step.bias, pixels)
