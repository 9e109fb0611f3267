"""``--preprocess``: how a network wants its pixels, where the user knows better than its task."""

from __future__ import annotations

from typing import Any

import click

from ..errors import ArgumentError
from ..picture import FILTERS, FITS, Picture
from ..tasks.preset import PRESETS, preset_picture
from .options import KeyValues, Numbers

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


def preprocessing(size: tuple[int, int], own: Picture, grey: bool, given: dict[str, Any]) -> Picture:
    """What these keys of --preprocess say of an input of this height and width; fit and filter are those of ``own``.
    Raises ArgumentError where a number is out of range."""
    keys = dict(given)
    keys.pop("size", None)
    try:
        return preset_picture(size, keys.pop("head", "imagenet"), own, grey, **keys)
    except ArgumentError as error:
        raise ArgumentError(f"--preprocess {error}") from None
