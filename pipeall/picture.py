"""Pictures as input: how a frame of any size becomes what a network reads, and where its pixels lie there."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any

import numpy as np

from .errors import ArgumentError

FITS = ("stretch", "crop", "letterbox")
FILTERS = ("bilinear", "antialias", "area", "nearest")
CHANNELS = {"RGB": 3, "BGR": 3, "GRAY": 1}  # of the network's input
FORMATS = ("RGB", "BGR", "GRAY", "NV12", "I420", "YUYV")  # of frames
MAX_SIDE = 2**15  # pixels


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a picture lies in a network's input.

    size    height and width of the picture, in pixels
    window  top, left, height, width of what is read of it, in its pixels
    inner   top, left, height, width of where that lies in the input, in pixels of the input
    """

    size: tuple[int, int]
    window: tuple[float, float, float, float]
    inner: tuple[int, int, int, int]

    def to_picture(self, points: np.ndarray) -> np.ndarray:
        """(..., 2) x and y in pixels of the input -> in pixels of the picture, float64; corners of pixels are whole."""
        top, left, h, w = self.window
        y0, x0, rows, columns = self.inner
        points = np.asarray(points, np.float64)
        return (points - (x0, y0)) * (w / columns, h / rows) + (left, top)

    def to_input(self, points: np.ndarray) -> np.ndarray:
        """The way back of ``to_picture``."""
        top, left, h, w = self.window
        y0, x0, rows, columns = self.inner
        points = np.asarray(points, np.float64)
        return (points - (left, top)) * (columns / w, rows / h) + (x0, y0)


@dataclass(frozen=True, slots=True)
class Picture:
    """What becomes of a picture on its way into a network: fitted, resampled, normalised.

    fit       ``stretch`` to the input's size; ``crop`` the largest middle part of its proportions (or ``keep`` of it);
              ``letterbox``: all of the picture in its proportions, ``value`` beside it
    filter    ``bilinear`` of the nearest four pixels; ``antialias``: as wide as the shrinking asks, as Pillow does;
              ``area``: means of what each pixel covers; ``nearest``
    channels  what the network expects: RGB, BGR or GRAY
    scale     0 to 255 are divided by this,
    mean, std then mean is subtracted and the rest divided by std: a number, or one for each of ``channels``
    value     of the letterbox's border, 0 to 255
    centered  the letterbox's picture is in the middle; else above and left
    keep      of the largest crop: 0.875 is that of most classifiers
    frames    pixel format of the frames: RGB, BGR, GRAY as (H, W, 3) or (H, W); NV12 and I420 (3 H / 2, W);
              YUYV (H, W, 2). YUV is BT.601, limited range, as cameras give it
    apart     the step is a group of its own, so that a plan may cut behind it

    Raises ArgumentError for anything else.
    """

    fit: str = "stretch"
    filter: str = "bilinear"
    channels: str = "RGB"
    scale: float = 1.0
    mean: float | tuple[float, ...] = 0.0
    std: float | tuple[float, ...] = 1.0
    value: int = 0
    centered: bool = True
    keep: float = 1.0
    frames: str = "RGB"
    apart: bool = False

    def __post_init__(self) -> None:
        _one_of("fit", self.fit, FITS)
        _one_of("filter", self.filter, FILTERS)
        _one_of("channels", self.channels, tuple(CHANNELS))
        _one_of("frames", self.frames, FORMATS)
        for name in ("mean", "std"):
            object.__setattr__(self, name, self._per_channel(name, getattr(self, name)))
        _number("scale", self.scale, "above 0", self.scale > 0)
        _number("keep", self.keep, "above 0, at most 1", 0 < self.keep <= 1)
        _number("value", self.value, "0 to 255", 0 <= self.value <= 255)
        if min(map(abs, self.std)) == 0:
            raise ArgumentError(f"Picture: expected std other than 0, got {self.std}")

    def _per_channel(self, name: str, given: Any) -> tuple[float, ...]:
        count = CHANNELS[self.channels]
        values = (given,) * count if isinstance(given, Real) else tuple(given)
        if len(values) != count or not all(isinstance(v, Real) and -inf < v < inf for v in values):
            raise ArgumentError(f"Picture: expected {name} of one number or {count}, got {given!r:.100}")
        return tuple(map(float, values))

    @property
    def affine(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Factor and offset of each channel: grey level * factor + offset is what the network reads."""
        factors = tuple(1 / (self.scale * std) for std in self.std)
        return factors, tuple(-mean / std for mean, std in zip(self.mean, self.std, strict=True))

    def placed(self, picture: tuple[int, int], size: tuple[int, int]) -> Placed:
        """Where a picture of this height and width lies in an input of that height and width."""
        (h, w), (rows, columns) = picture, size
        if self.fit == "crop":
            shrink = max(rows / h, columns / w) / self.keep
            part_h, part_w = rows / shrink, columns / shrink
            return Placed((h, w), ((h - part_h) / 2, (w - part_w) / 2, part_h, part_w), (0, 0, rows, columns))
        if self.fit == "stretch":
            return Placed((h, w), (0.0, 0.0, h, w), (0, 0, rows, columns))
        shrink = min(rows / h, columns / w)
        inner_h, inner_w = (min(max(round(side * shrink), 1), most) for side, most in ((h, rows), (w, columns)))
        top, left = ((rows - inner_h) // 2, (columns - inner_w) // 2) if self.centered else (0, 0)
        return Placed((h, w), (0.0, 0.0, h, w), (top, left, inner_h, inner_w))


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ArgumentError(f"Picture: expected {name} of {', '.join(known)}, got {value!r:.100}")


def _number(name: str, value: Any, what: str, good: bool) -> None:
    if not isinstance(value, Real) or not good:
        raise ArgumentError(f"Picture: expected {name} {what}, got {value!r:.100}")
