"""Fourier transforms of known lengths: a transform is a product with a constant matrix, one of frames a convolution."""

from __future__ import annotations

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from .products import zeros

LONGEST = 2**12  # of a transform: its matrix has up to four times the square of it


def _checked(g: Builder, n: OnnxNode, length: int, parts: int, expected: tuple[int, ...]) -> None:
    if not 1 <= length <= LONGEST:
        n.fail(f"expected a length of 1 to {LONGEST}, got {length}")
    if parts not in expected:
        n.fail(f"expected {' or '.join(map(str, expected))} on the last axis, real and imaginary parts, got {parts}")
    g.afford(n, 4 * length * length)


def _turned(length: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of so many of ``length`` parts of a turn, in float32."""
    angles, at = 2 * np.pi / length * np.arange(length), places % length
    return np.cos(angles).astype(np.float32)[at], np.sin(angles).astype(np.float32)[at]


def _matrix(g: Builder, n: OnnxNode, length: int, parts: int, onesided: bool, inverse: bool = False) -> np.ndarray:
    """(frequencies, 2, length, parts): real and imaginary parts of what a signal of real or complex numbers becomes."""
    _checked(g, n, length, parts, (1,) if onesided else (1, 2))
    places = np.outer(np.arange(length // 2 + 1 if onesided else length), np.arange(length))
    cos, sin = _turned(length, places if inverse else -places)
    made = np.empty((len(cos), 2, length, parts), np.float32)
    made[:, 0, :, 0], made[:, 1, :, 0] = cos, sin
    if parts == 2:
        made[:, 0, :, 1], made[:, 1, :, 1] = -sin, cos
    return made / length if inverse else made


def _back_to_reals(g: Builder, n: OnnxNode, length: int, parts: int) -> np.ndarray:
    """(length, 1, frequencies, 2): the signal of real numbers whose frequencies up to the half these are. Those beyond
    are their conjugates, and count with them."""
    _checked(g, n, length, parts, (2,))
    frequencies = np.arange(length // 2 + 1)
    cos, sin = _turned(length, np.outer(np.arange(length), frequencies))
    alone = (frequencies == 0) | (2 * frequencies == length)
    share = np.where(alone, 1, 2).astype(np.float32)[:, None] / length
    return (np.stack([cos, -sin], -1) * share)[:, None]


@operator("DFT", "axis inverse onesided", "constant length, up to 4096")
def _dft(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    shape, rank = g.shape(x), len(g.shape(x))
    if rank < 2:
        n.fail(f"expected a signal and its parts, got {shape}")
    *sizes, parts = shape
    axis = n.axis(g.scalar(n, 2, -2, "iu") if n.opset >= 20 else n.get("axis", int, 1), rank)
    if axis == rank - 1:
        n.fail("expected another axis than that of real and imaginary parts")
    inverse, onesided = (bool(n.get(name, int, 0)) for name in ("inverse", "onesided"))
    if inverse and onesided:
        matrix = _back_to_reals(g, n, g.scalar(n, 1, 2 * (shape[axis] - 1), "iu"), parts)
    else:
        matrix = _matrix(g, n, g.scalar(n, 1, shape[axis], "iu"), parts, onesided, inverse)
    matrix = matrix[:, :, : shape[axis]]
    count, made, met = matrix.shape[:3]  # what is beyond the signal is 0, what is beyond the length left out
    if met < shape[axis]:
        x = g.emit(n, "slice", [x], part="start", axis=axis, start=0, stop=met)
    others = [a for a in range(rank - 1) if a != axis]
    if axis != rank - 2:
        x = g.emit(n, "transpose", [x], part="last", perm=(*others, axis, rank - 1))
    rest = tuple(sizes[a] for a in others)
    x = g.reshape(n, x, (*rest, met * parts), part="numbers")
    weight = g.new_constant(n, matrix.reshape(count * made, -1), "transform")
    y = g.emit(n, "fc", [x, weight, zeros(g, n, count * made)], part="product", axis=len(rest))
    if axis == rank - 2:
        g.reshape(n, y, (*rest, count, made))
        return
    y = g.reshape(n, y, (*rest, count, made), part="parts")
    g.emit(n, "transpose", [y], perm=tuple(np.argsort([*others, axis, rank - 1]).tolist()))


@operator("STFT", "onesided", "constant step, window and length, up to 4096")
def _stft(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    if len(g.shape(x)) not in (2, 3):
        n.fail(f"expected signals (N, length, parts), got {g.shape(x)}")
    signals, length = g.shape(x)[:2]
    parts = 1 if len(g.shape(x)) == 2 else g.shape(x)[2]
    step, window = g.scalar(n, 1, 0, "iu"), g.floats(n, 2).reshape(-1) if g.has(n, 2) else None
    size = g.scalar(n, 3, length if window is None else len(window), "iu")
    if window is not None and len(window) != size:
        n.fail(f"expected a window of {size}, got {len(window)}")
    if step < 1 or not 1 <= size <= length:
        n.fail(f"expected frames of the {length} samples, got {size} of them every {step}")
    matrix = _matrix(g, n, size, parts, bool(n.get("onesided", int, 1)))
    if window is not None:
        matrix = matrix * window[:, None]
    count = len(matrix)
    x = g.reshape(n, x, (signals, length, parts), part="samples")
    x = g.emit(n, "transpose", [x], part="parts", perm=(0, 2, 1))
    x = g.reshape(n, x, (signals, parts, 1, length), part="row")
    weight = matrix.reshape(2 * count, size, parts).transpose(0, 2, 1)[:, :, None]
    operands = [x, g.new_constant(n, np.ascontiguousarray(weight), "transform"), zeros(g, n, 2 * count)]
    y = g.emit(n, "conv", operands, part="frames", strides=(1, step))
    y = g.reshape(n, y, (signals, count, 2, g.shape(y)[3]), part="frequencies")
    g.emit(n, "transpose", [y], perm=(0, 3, 1, 2))
