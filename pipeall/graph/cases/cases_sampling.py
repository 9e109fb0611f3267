"""Cases of resizing, of sampling along grids and in regions, of the ways back from windows, and of pictures."""

from __future__ import annotations

from math import floor

from ...picture import CHANNELS, FILTERS, FITS, SHAPES, WORDS, YUV, Picture
from ..ops import attributes
from .case import Case, Shape

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")


def _resize(x: Shape, *factors: float, types=("float32",), note="", **attrs):
    """``factors`` of the last axes; the sizes follow from them."""
    scales = (1.0,) * (len(x) - len(factors)) + tuple(map(float, factors))
    sizes = tuple(floor(size * scale + 1e-6) for size, scale in zip(x, scales, strict=True))
    return Case("resize", attributes("resize", sizes=sizes, scales=scales, **attrs), (x,), types=types, note=note)


IMAGE = (1, 17, 6, 7)
RESIZE = (
    *(_resize((1, c, 5, 6), 2, 2, coordinates="asymmetric", rounding="floor") for c in (1, 3, 8, 16, 33)),
    *(_resize((1, c, 5, 6), 2, 2, mode="linear") for c in (1, 3, 8, 16, 33)),
    *(_resize((1, c, 5, 6), 2, 2, mode="cubic") for c in (1, 8, 33)),
    *(_resize(IMAGE, 1.5, 0.6, coordinates=how, mode=mode) for how in COORDINATES for mode in ("linear", "cubic")),
    *(_resize(IMAGE, 1.5, 0.65, coordinates=how) for how in COORDINATES),
    *(
        _resize(IMAGE, 1.3, 0.5, coordinates="asymmetric", rounding=rounding)
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    ),
    *(
        _resize((1, 9, 13, 11), 0.4, 0.3, mode=mode, antialias=True, exclude_outside=outside)
        for mode in ("linear", "cubic")
        for outside in (False, True)
    ),
    _resize(IMAGE, 2, 0.5, mode="cubic", cubic_a=-0.5, exclude_outside=True),
    _resize(IMAGE, 1, 3, mode="linear", note="width only"),
    _resize(IMAGE, 4, 1, mode="linear", note="height only"),
    _resize((2, 8, 4, 4), 2, 2, mode="linear", note="batch"),
    _resize((1, 6, 3, 5), 2, 1, 1, mode="linear", note="channels"),
    _resize((1, 4, 9), 2, mode="linear", note="rank 3"),
    _resize((1, 2, 3, 4, 5), 2, 2, 2, mode="linear", note="rank 5"),
    _resize((1, 3, 1, 1), 8, 8, mode="linear", note="of one pixel"),
    _resize((1, 3, 8, 8), 1 / 8, 1 / 8, mode="linear", coordinates="pytorch_half_pixel", note="to one pixel"),
    _resize(IMAGE, 2, 2, types=("uint8",)),
    _resize(IMAGE, 2, 0.5, types=("int64",)),
)

GRID_SAMPLE = (
    *(
        Case(
            "grid_sample",
            dict(mode=mode, padding=padding, align_corners=corners),
            ((1, 9, 5, 6), (1, 7, 4, 2)),
        )
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    ),
    Case("grid_sample", attributes("grid_sample"), ((3, 2, 5, 6), (3, 4, 3, 2)), note="batch"),
    Case("grid_sample", attributes("grid_sample", padding="reflection"), ((1, 3, 1, 1), (1, 4, 3, 2)), note="a pixel"),
)


def _roi(images: int, regions: int, size: Shape, **attrs):
    shapes = ((images, 9, 8, 7), (regions, 4), (regions,))
    types = ("float32", "float32", "int64")
    return Case("roi_align", attributes("roi_align", size=size, **attrs), shapes, types=types, draws=(0, images))


ROI_ALIGN = (
    *(_roi(2, 5, (3, 2), mode=mode, half_pixel=half) for mode in ("avg", "max") for half in (False, True)),
    *(_roi(1, 4, (2, 3), sampling_ratio=2, half_pixel=half, spatial_scale=2.5) for half in (False, True)),
)


def _nms(images: int, classes: int, boxes: int, **attrs):
    return Case("nms", attributes("nms", **attrs), ((images, boxes, 4), (images, classes, boxes)))


NMS = (
    _nms(1, 1, 20, max_output=5, iou=0.3),
    _nms(2, 3, 33, max_output=7, iou=0.2, score=0.1),
    _nms(1, 2, 33, max_output=100, iou=0.5, score=1.0),
    _nms(1, 2, 33, max_output=4, iou=0.2, center_box=True),
    _nms(1, 1, 9, max_output=9, iou=0.5, score=50.0),
)


def _indices(hw: Shape, kernel: Shape, **attrs):
    return Case("maxpool_indices", attributes("maxpool_indices", kernel=kernel, **attrs), ((2, 3, *hw),))


MAXPOOL_INDICES = (
    _indices((7, 6), (2, 2), strides=(2, 2)),
    _indices((7, 6), (2, 2), strides=(2, 2), column_major=True),
    _indices((7, 9), (3, 3), strides=(2, 1), pads=(1, 1, 1, 1)),
    _indices((9, 8), (3, 2), strides=(2, 2), ceil=True, dilations=(2, 1)),
)
MAX_UNPOOL = tuple(
    Case("max_unpool", dict(shape=shape), (x, x), types=("float32", "int64"), draws=(0, end))
    for x, shape, end in (
        ((1, 2, 3, 4), (1, 2, 6, 8), 96),
        ((2, 3, 5), (2, 3, 10), 60),
        ((1, 1, 2, 2), (1, 1, 5, 5), 25),
    )
)


def _col2im(x: Shape, image: Shape, block: Shape, strides: Shape, dilations: Shape, pads: Shape):
    attrs = dict(image=image, block=block, strides=strides, dilations=dilations, pads=pads)
    return Case("col2im", attrs, (x,))


COL2IM = (
    _col2im((1, 4, 20), (5, 6), (2, 2), (1, 1), (1, 1), (0, 0, 0, 0)),
    _col2im((2, 12, 9), (6, 6), (2, 2), (2, 2), (1, 1), (0, 0, 0, 0)),
    _col2im((1, 9, 20), (5, 6), (3, 3), (1, 1), (1, 1), (1, 0, 0, 1)),
    _col2im((1, 4, 9), (5, 5), (2, 2), (1, 1), (2, 2), (0, 0, 0, 0)),
    _col2im((1, 8, 12), (3, 4, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), (0,) * 6),
)

SAMPLING = (RESIZE, GRID_SAMPLE, ROI_ALIGN, NMS, MAXPOOL_INDICES, MAX_UNPOOL, COL2IM)

# ---- pictures into a network's input ----

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
