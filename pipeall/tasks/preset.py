"""How networks want their pixels, by the names of frameworks and data sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..picture import Picture
from .classify import IMAGENET

# channels, scale, mean, std
PRESETS = {
    "imagenet": ("RGB", 255.0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "caffe": ("BGR", 1.0, (104.0, 117.0, 123.0), (1.0, 1.0, 1.0)),
    "plain": ("RGB", 255.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "tf": ("RGB", 1.0, (127.5, 127.5, 127.5), (127.5, 127.5, 127.5)),
}


def preset_picture(
    size: tuple[int, int],
    preset: str,
    own: Picture = IMAGENET,
    grey: bool = False,
    resize: int | None = None,
    channels: str | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    scale: float | None = None,
    **fitting: Any,
) -> Picture:
    """A preset for an input of this height and width, with what is given replaced; fit and filter are those of ``own``.

    A network of one channel gets the brightness, and the mean of a preset's three means and of its stds. With
    ``resize`` the picture's short side becomes that, and the middle is cut out. Raises ArgumentError where a number
    is out of range.
    """
    known = PRESETS[preset]
    if grey:
        known = ("GRAY", known[1], *((sum(values) / 3,) for values in known[2:]))
        if channels is not None:
            raise ArgumentError(f"channels: expected none for a model of one channel, got {channels}")
    given = (channels, scale, mean, std)
    channels, scale, mean, std = (own if new is None else new for new, own in zip(given, known, strict=True))
    if len(mean) != len(known[2]) or len(std) != len(known[2]):
        count = "one number" if grey else "three numbers"
        raise ArgumentError(f"mean and std: expected {count} each, got {mean} and {std}")
    if not np.isfinite([scale, *mean, *std]).all() or scale <= 0 or 0 in std:
        raise ArgumentError(f"scale, mean, std: expected finite, no zero divisor, got {scale}, {mean}, {std}")
    if resize is not None:
        if resize < min(size):
            raise ArgumentError(f"resize: expected at least {min(size)}, the model's input, got {resize}")
        fitting = {"fit": "crop", "keep": min(size) / resize} | fitting
    return replace(own, channels=channels, scale=scale, mean=mean, std=std, **fitting)
