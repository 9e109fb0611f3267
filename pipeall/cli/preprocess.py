"""``--preprocess``: how a network wants its pixels, where the user knows better than its task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import numpy as np

from ..errors import ArgumentError
from ..picture import FILTERS, FITS, Picture
from .options import KeyValues, Numbers

# channels, scale, mean, std
PRESETS = {
    "imagenet": ("RGB", 255.0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "caffe": ("BGR", 1.0, (104.0, 117.0, 123.0), (1.0, 1.0, 1.0)),
    "plain": ("RGB", 255.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "tf": ("RGB", 1.0, (127.5, 127.5, 127.5), (127.5, 127.5, 127.5)),
}
CROP = Picture("crop", "antialias", keep=224 / 256)  # of a classifier

THREE = Numbers(float, "0.485/0.456/0.406")
PREPROCESS = KeyValues(
    click.Choice(list(PRESETS)),
    size=(click.IntRange(1), "side of the input"),
    resize=(click.IntRange(1), "short side before a crop (8/7 of size)"),
    fit=(click.Choice(FITS), f"{', '.join(FITS)}"),
    filter=(click.Choice(FILTERS), f"{', '.join(FILTERS)}"),
    channels=(click.Choice(["RGB", "BGR"]), "RGB or BGR; mean and std are in it too"),
    scale=(float, "0 to 255 are divided by this"),
    mean=(THREE, "then this is subtracted"),
    std=(THREE, "then they are divided by this"),
)


def preprocessing(
    size: tuple[int, int],
    preset: str,
    own: Picture = CROP,
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
            raise ArgumentError(f"--preprocess channels: expected none for a model of one channel, got {channels}")
    given = (channels, scale, mean, std)
    channels, scale, mean, std = (own if new is None else new for new, own in zip(given, known, strict=True))
    if len(mean) != len(known[2]) or len(std) != len(known[2]):
        count = "one number" if grey else "three numbers"
        raise ArgumentError(f"--preprocess mean and std: expected {count} each, got {mean} and {std}")
    if not np.isfinite([scale, *mean, *std]).all() or scale <= 0 or 0 in std:
        raise ArgumentError(
            f"--preprocess scale, mean, std: expected finite, no zero divisor, got {scale}, {mean}, {std}"
        )
    if resize is not None:
        if resize < min(size):
            raise ArgumentError(f"--preprocess resize: expected at least {min(size)}, the model's input, got {resize}")
        fitting = {"fit": "crop", "keep": min(size) / resize} | fitting
    return replace(own, channels=channels, scale=scale, mean=mean, std=std, **fitting)
