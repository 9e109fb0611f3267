"""Cases of pictures into a network's input: every pixel format, filter, fit and YUV, odd sizes, both layouts."""

from __future__ import annotations

from ...picture import CHANNELS, FILTERS, FITS, SHAPES, WORDS, YUV, Picture
from .case import Case

SIZES = ((18, 24), (64, 64), (240, 30), (100, 342), (2, 2))  # of the picture; even, as all formats may have them
ODD = ((17, 23), (101, 343), (1, 1), (5, 900))


def _case(size: tuple[int, int], layout: str, number: int, **picture: str | bool) -> Case:
    made = Picture(**picture, value=114, mean=7.5, std=2.5 + number, scale=1.5, centered=number % 2 == 0)
    factors, offsets = made.affine
    attrs = dict(picture=made, factors=factors, offsets=offsets, size=(37, 53), layout=layout, example=size)
    # All words 0: the example is read
    return Case("picture", attrs, ((WORDS,),), types=("int64",), draws=(0, 1))


def _cases() -> tuple[Case, ...]:
    cases = []
    for number, frames in enumerate(SHAPES):
        for channels in CHANNELS:
            for kind in FILTERS:
                fit, sizes = FITS[len(cases) % 3], SIZES if frames in ("NV12", "I420", "YUYV") else SIZES + ODD
                size, layout = sizes[len(cases) % len(sizes)], ("NCHW", "NHWC")[len(cases) % 2]
                yuv, full_range = tuple(YUV)[len(cases) % 3], len(cases) % 4 > 1
                cases.append(
                    _case(size, layout, number, frames=frames, channels=channels, filter=kind, fit=fit, yuv=yuv,
                          full_range=full_range)
                )  # fmt: skip
    return tuple(cases)


PICTURE = _cases()
