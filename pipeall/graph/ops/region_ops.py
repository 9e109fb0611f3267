"""Ops whose result or operand is where elements lie: boxes that remain, maxima and the ways back from windows."""

from __future__ import annotations

from math import prod

import numpy as np

from . import image_ops as images
from .indexing_ops import inside
from .spec import GIVEN, Attrs, OpSpec, Shape, Trait, flags, floats_to_int64, indexed, integer, ints, numbers, require

MAX_SPATIAL = 6

# ---- output shapes ----


def _nms_shape(attrs: Attrs, boxes: Shape, scores: Shape) -> Shape:
    fits = len(boxes) == 3 and boxes[2] == 4 and len(scores) == 3
    fits = fits and (scores[0], scores[2]) == boxes[:2]
    require(fits, f"expected boxes (N, B, 4) and scores (N, C, B), got {boxes} and {scores}")
    numbers(attrs, "iou", "score")
    flags(attrs, "center_box")
    most = integer(attrs, "max_output", 1, 2**63 - 1)
    return (scores[0] * scores[1] * min(most, scores[2]), 3)


def _indices_shape(attrs: Attrs, x: Shape) -> Shape:
    flags(attrs, "column_major")
    return images.OPS["maxpool"].shape(attrs, x)


def _unpool_shape(attrs: Attrs, x: Shape, indices: Shape) -> Shape:
    require(indices == x, f"indices must be {x}, got {indices}")
    return ints(attrs, "shape", len(attrs["shape"]), 1)


def _col2im_shape(attrs: Attrs, x: Shape) -> Shape:
    require(len(x) == 3, f"input must be (N, C * block, positions), got {x}")
    image, block = (ints(attrs, name, len(attrs["image"]), 1) for name in ("image", "block"))
    require(1 <= len(image) <= MAX_SPATIAL, f"image must have 1 to {MAX_SPATIAL} sizes, got {image}")
    require(x[1] % prod(block) == 0, f"blocks of {prod(block)} do not divide {x[1]} channels")
    counts = _positions(attrs)
    require(min(counts) >= 1 and prod(counts) == x[2], f"blocks lie at {counts} positions, got {x[2]}")
    return (x[0], x[1] // prod(block), *image)


def _positions(attrs: Attrs) -> tuple[int, ...]:
    """How many blocks lie along every axis of the image."""
    count = len(attrs["image"])
    strides, dilations = ints(attrs, "strides", count, 1), ints(attrs, "dilations", count, 1)
    pads = ints(attrs, "pads", 2 * count, 0)
    rows = zip(attrs["image"], attrs["block"], strides, dilations, pads[:count], pads[count:], strict=True)
    return tuple((n + before + after - d * (k - 1) - 1) // s + 1 for n, k, s, d, before, after in rows)


# ---- references ----


def _corners(boxes: np.ndarray, center_box: bool) -> np.ndarray:
    """(B, 4) boxes as y0, x0, y1, x1 from the lower to the higher corner."""
    if center_box:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], 1)
    return np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], 1)


def _overlap(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of a box with others; 0 where one of the two has no area."""
    sides = np.maximum(np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]), 0)
    shared = sides.prod(1)
    union = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(1) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=(shared > 0) & (union > 0))


def _nms(attrs: Attrs, boxes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Rows (batch, class, box) of the boxes kept, the best of each class first; then rows of -1.

    Of equal scores the lower index comes first. A box stays while it overlaps none that was kept by more than ``iou``.
    """
    kept: list[tuple[int, int, int]] = []
    for n in range(len(boxes)):
        corners = _corners(boxes[n], attrs["center_box"])
        for c in range(scores.shape[1]):
            order = np.argsort(-scores[n, c], kind="stable")
            order = order[scores[n, c][order] > attrs["score"]]
            chosen: list[int] = []
            for b in order:
                if len(chosen) == min(attrs["max_output"], boxes.shape[1]):
                    break
                if not np.any(_overlap(corners[b], corners[chosen]) > attrs["iou"]):
                    chosen.append(int(b))
            kept += [(n, c, b) for b in chosen]
    out = np.full(_nms_shape(attrs, boxes.shape, scores.shape), -1, np.int64)
    out[: len(kept)] = np.array(kept, np.int64).reshape(-1, 3)
    return out


def _maxpool_indices(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    """Flat index, in the whole tensor, of the first largest element of every window; ``column_major`` counts the
    elements of a channel down its columns."""
    n, c, height, width = x.shape
    places = np.arange(height * width).reshape(1, 1, height, width)
    if attrs["column_major"]:
        places = places % width * height + places // width
    places = places + np.arange(n * c).reshape(n, c, 1, 1) * (height * width)
    out_hw = images.OPS["maxpool"].shape(attrs, x.shape)[2:]
    windows = images.window_taps(x, out_hw, attrs["kernel"], attrs, -np.inf)
    best, place = np.full((n, c, *out_hw), -np.inf, x.dtype), np.full((n, c, *out_hw), -1)
    for (_, _, pixels), (_, _, at) in zip(
        windows, images.window_taps(places, out_hw, attrs["kernel"], attrs, -1), strict=True
    ):
        better = (pixels > best) | ((place < 0) & (at >= 0))
        best, place = np.where(better, pixels, best), np.where(better, at, place)
    return place


def _max_unpool(attrs: Attrs, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Zeros, and every element of x at its flat index; where several meet, the last in order stays."""
    out = np.zeros(prod(attrs["shape"]), x.dtype)
    for index, value in zip(inside(indices, out.size).reshape(-1), x.reshape(-1), strict=True):
        out[index] = value
    return out.reshape(attrs["shape"])


def _col2im(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    """Blocks added where they lie in the image."""
    image, block, counts = attrs["image"], attrs["block"], _positions(attrs)
    rank = len(image)
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in
             zip(counts, attrs["strides"], block, attrs["dilations"], strict=True)]  # fmt: skip
    before = attrs["pads"][:rank]
    channels = x.shape[1] // prod(block)
    whole = np.zeros(
        (len(x), channels, *(max(r, b + n) for r, b, n in zip(reach, before, image, strict=True))), x.dtype
    )
    parts = x.reshape(len(x), channels, *block, *counts)
    for at in np.ndindex(*block):
        where = tuple(
            slice(i * d, i * d + (n - 1) * s + 1, s)
            for i, d, n, s in zip(at, attrs["dilations"], counts, attrs["strides"], strict=True)
        )
        whole[(slice(None), slice(None), *where)] += parts[(slice(None), slice(None), *at)]
    return whole[(slice(None), slice(None), *(slice(b, b + n) for b, n in zip(before, image, strict=True)))]


_NMS = {"max_output": GIVEN, "iou": 0.0, "score": -np.inf, "center_box": False}
_COL2IM = {"image": GIVEN, "block": GIVEN, "strides": GIVEN, "dilations": GIVEN, "pads": GIVEN}

OPS: dict[str, OpSpec] = {
    "nms": OpSpec((2, 2), _NMS, _nms_shape, _nms, types=floats_to_int64, traits=Trait.JUMPS),
    "maxpool_indices": OpSpec(
        (1, 1), images.OPS["maxpool"].attrs | {"column_major": False}, _indices_shape, _maxpool_indices,
        types=floats_to_int64, traits=Trait.JUMPS,
    ),
    "max_unpool": OpSpec((2, 2), {"shape": GIVEN}, _unpool_shape, _max_unpool, types=indexed),
    "col2im": OpSpec((1, 1), _COL2IM, _col2im_shape, _col2im),
}  # fmt: skip
