"""The op that makes a network's input of a picture: fitted, resampled, normalized (``pipeall.picture``)."""

from __future__ import annotations

import ctypes
from math import isfinite

import numpy as np

from ...picture import CHANNELS, MAX_SIDE, PLANES, WORDS, YUV, Picture, Placed, example
from .spec import GIVEN, Attrs, OpSpec, Shape, ints, require

LUMA = (0.299, 0.587, 0.114)  # of R, G and B (BT.601)


def _shape(attrs: Attrs, words: Shape) -> Shape:
    picture = attrs["picture"]
    require(isinstance(picture, Picture), f"picture must be a Picture, got {picture!r:.60}")
    require(words == (WORDS,), f"input must be ({WORDS},), got {words}")
    require(attrs["layout"] in ("NCHW", "NHWC"), f"layout must be NCHW or NHWC, got {attrs['layout']!r}")
    count = CHANNELS[picture.channels]
    for name in ("factors", "offsets"):
        values = attrs[name]
        fits = isinstance(values, tuple) and len(values) == count and all(map(isfinite, values))
        require(fits, f"{name} must be {count} numbers, got {values!r:.60}")
    for name in ("size", "example"):
        require(max(ints(attrs, name, 2, 1)) <= MAX_SIDE, f"{name} must be at most {MAX_SIDE}, got {attrs[name]}")
    return (1, count, *attrs["size"]) if attrs["layout"] == "NCHW" else (1, *attrs["size"], count)


def _types(attrs: Attrs, words: str) -> str:
    require(words == "int64", f"expected what describes a frame, int64, got {words}")
    return "float32"


def _compute(attrs: Attrs, words: np.ndarray) -> np.ndarray:
    """In float64; the frame is read where the words say."""
    picture, size = attrs["picture"], attrs["size"]
    if words[0]:
        frame, placed, luma, full_range = _frame_at(words, picture.frames)
    else:
        frame, placed = example(picture.frames, attrs["example"]), picture.placed(attrs["example"], size)
        luma, full_range = YUV[picture.yuv], picture.full_range
    if picture.frames in (*PLANES, "YUYV"):
        frame = _rgb(frame, picture.frames, luma, full_range)
    made = levels(picture, frame, placed, size) * attrs["factors"] + attrs["offsets"]
    return (made.transpose(2, 0, 1) if attrs["layout"] == "NCHW" else made)[None].astype(np.float64)


def _frame_at(words: np.ndarray, frames: str) -> tuple[np.ndarray, Placed, tuple[float, float], bool]:
    address, h, w, stride = words[:4].tolist()
    count = {"RGB": 3, "BGR": 3, "YUYV": 2}.get(frames, 1)
    rows = h * 3 // 2 if frames in PLANES else h
    lines = [ctypes.string_at(address + y * stride, w * count) for y in range(rows)]
    frame = np.frombuffer(b"".join(lines), np.uint8).reshape((rows, w, count) if count > 1 else (rows, w))
    window, luma = (words[part].astype(np.int64).view(np.float64).tolist() for part in (slice(4, 8), slice(12, 14)))
    return frame, Placed((h, w), tuple(window), tuple(words[8:12].tolist())), tuple(luma), bool(words[14])


def levels(picture: Picture, frame: np.ndarray, placed: Placed, size: tuple[int, int]) -> np.ndarray:
    """The grey levels of a network's input of that height and width, (H, W, channels), float64, before normalizing.

    ``frame``: as RGB where its format is YUV.
    """
    pixels = _channels(picture, frame)
    (top, left, h, w), (y0, x0, rows, columns) = placed.window, placed.inner
    down, across = (
        weights(picture.filter, *axis)
        for axis in ((pixels.shape[0], top, h, rows), (pixels.shape[1], left, w, columns))
    )
    made = np.full((*size, pixels.shape[2]), float(picture.value))
    made[y0 : y0 + rows, x0 : x0 + columns] = np.einsum("yh,hwc,xw->yxc", down, pixels, across, optimize=True)
    return made


def weights(kind: str, size: int, start: float, length: float, outputs: int) -> np.ndarray:
    """What each output takes of each of ``size`` pixels, (outputs, size); all show ``length`` from ``start`` on."""
    step = length / outputs
    middle = start + (np.arange(outputs)[:, None] + 0.5) * step
    pixel = np.arange(size)[None] + 0.5
    if kind == "nearest":
        return (np.clip(np.floor(middle), 0, size - 1) == pixel - 0.5).astype(float)
    if kind == "area":
        covered = np.minimum(middle + step / 2, pixel + 0.5) - np.maximum(middle - step / 2, pixel - 0.5)
    elif kind == "antialias":
        covered = 1 - np.abs(pixel - middle) / max(step, 1)
    else:
        covered = 1 - np.abs(pixel - np.clip(middle, 0.5, size - 0.5))
    covered = np.maximum(covered, 0)
    return covered / covered.sum(1, keepdims=True)


def _channels(picture: Picture, frame: np.ndarray) -> np.ndarray:
    """The frame's pixels in the network's channels, float64."""
    order = picture.frames if picture.frames in CHANNELS else "RGB"
    pixels = frame.astype(np.float64).reshape(*frame.shape[:2], -1)
    if picture.channels == "GRAY":
        luma = LUMA if order == "RGB" else LUMA[::-1]
        return pixels if order == "GRAY" else (pixels @ np.array(luma))[..., None]
    if order == "GRAY":
        return np.repeat(pixels, 3, 2)
    return pixels if order == picture.channels else pixels[..., ::-1]


def _rgb(frame: np.ndarray, frames: str, luma: tuple[float, float], full_range: bool) -> np.ndarray:
    """Whole levels, as they are converted. ``luma``: what red and blue are of it."""
    if frames == "YUYV":
        y, u, v = frame[..., 0], *(np.repeat(frame[:, i::2, 1], 2, 1) for i in (0, 1))
    else:
        h, w = frame.shape[0] // 3 * 2, frame.shape[1]
        y, rest = frame[:h], frame[h:]
        planes = (
            rest.reshape(h // 2, w // 2, 2) if frames == "NV12" else rest.reshape(2, h // 2, w // 2).transpose(1, 2, 0)
        )
        u, v = np.repeat(np.repeat(planes, 2, 0), 2, 1).transpose(2, 0, 1)
    u, v = u - 128.0, v - 128.0
    if full_range:
        y = y.astype(np.float64)
    else:
        y, u, v = 255 / 219 * (y - 16.0), 255 / 224 * u, 255 / 224 * v
    of_red, of_blue = luma
    red, blue = y + 2 * (1 - of_red) * v, y + 2 * (1 - of_blue) * u
    green = (y - of_red * red - of_blue * blue) / (1 - of_red - of_blue)
    return np.clip(np.stack([red, green, blue], 2), 0, 255).round()


OPS = {
    "picture": OpSpec(
        (1, 1),
        dict(picture=GIVEN, factors=GIVEN, offsets=GIVEN, size=GIVEN, layout=GIVEN, example=GIVEN),
        _shape,
        _compute,
        types=_types,
    ),
}
