"""Ops that read between the elements of a tensor: resizing, sampling along a grid, and regions of fixed size."""

from __future__ import annotations

from math import isfinite

import numpy as np

from .indexing_ops import inside
from .spec import (
    GIVEN,
    Attrs,
    Misfit,
    OpSpec,
    Shape,
    Trait,
    flags,
    floats,
    image,
    integer,
    ints,
    numbers,
    one_of,
    require,
    same,
)

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
PADDINGS = ("zeros", "border", "reflection")
MAX_TAPS = 2**22  # of one axis: what resizing reads for all its outputs; their tables take 40 bytes each
TIE = 1e-6  # of the middle between two elements is a place still there; onnxruntime's
FARTHEST = 1e9  # elements from the tensor; what a grid asks for beyond is as far

# ---- output shapes ----


def _resize_shape(attrs: Attrs, x: Shape) -> Shape:
    sizes, scales = ints(attrs, "sizes", len(x), 1), attrs["scales"]
    fits = isinstance(scales, tuple) and len(scales) == len(x)
    fits = fits and all(isinstance(scale, int | float) and isfinite(scale) and scale > 0 for scale in scales)
    require(fits, f"scales must be {len(x)} positive numbers, got {scales!r}")
    for name, known in (("mode", MODES), ("coordinates", COORDINATES), ("rounding", ROUNDINGS)):
        one_of(attrs, name, known)
    numbers(attrs, "cubic_a")
    flags(attrs, "exclude_outside", "antialias")
    for axis, (size, scale, out) in enumerate(zip(x, scales, sizes, strict=True)):
        exact = size * scale
        require(exact >= 0.4 and abs(out - exact) < 1.01 + 1e-5 * out, f"size {out} is not {scale} times {size}")
        require(out * _reach(attrs, scale) * 2 <= MAX_TAPS, f"resizing {size} to {out} reads too many elements")
        if attrs["exclude_outside"]:
            taps(attrs, axis, size)  # refuses outputs that read nothing
    return sizes


def _resize_types(attrs: Attrs, x: str) -> str:
    return same(attrs, x) if attrs["mode"] == "nearest" else floats(attrs, x)


def _grid_sample_shape(attrs: Attrs, x: Shape, grid: Shape) -> Shape:
    image(x)
    require(len(grid) == 4 and grid[0] == x[0] and grid[3] == 2, f"grid must be ({x[0]}, H, W, 2), got {grid}")
    one_of(attrs, "mode", MODES)
    one_of(attrs, "padding", PADDINGS)
    flags(attrs, "align_corners")
    return (*x[:2], *grid[1:3])


def _roi_align_shape(attrs: Attrs, x: Shape, rois: Shape, batch: Shape) -> Shape:
    image(x)
    require(len(rois) == 2 and rois[1] == 4, f"rois must be (R, 4), got {rois}")
    require(batch == rois[:1], f"batch indices must be {rois[:1]}, got {batch}")
    one_of(attrs, "mode", ("avg", "max"))
    numbers(attrs, "spatial_scale")
    flags(attrs, "half_pixel")
    integer(attrs, "sampling_ratio", 0, 2**10)
    return (rois[0], x[1], *ints(attrs, "size", 2, 1))


def _roi_align_types(attrs: Attrs, x: str, rois: str, batch: str) -> str:
    require(batch in ("int32", "int64"), f"batch indices must be int32 or int64, got {batch}")
    return floats(attrs, x, rois)


# ---- resizing ----


def _reach(attrs: Attrs, scale: float) -> int:
    """How many elements to either side of its place an output reads; antialiasing widens that where it shrinks."""
    width = {"nearest": 0.5, "linear": 1, "cubic": 2}[attrs["mode"]]
    if attrs["mode"] != "nearest" and attrs["antialias"] and scale < 1:
        require(scale > 1 / MAX_TAPS, f"scale {scale} is too small")
        width = width / scale
    return int(-(-width // 1))


def places(attrs: Attrs, axis: int, size: int) -> np.ndarray:
    """Where in the input each output of ``axis`` lies, in elements; float32, as ONNX's scales are."""
    out, scale, one = attrs["sizes"][axis], np.float32(attrs["scales"][axis]), np.float32(1)
    half, i = np.float32(0.5), np.arange(out, dtype=np.float32)
    coordinates = attrs["coordinates"]
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "align_corners":  # of the pixels that there are, as onnxruntime and PyTorch have it
        return i if out == 1 else i * np.float32(size - 1) / np.float32(out - 1)
    if coordinates == "pytorch_half_pixel" and out == 1:
        return np.zeros(1, np.float32)
    if coordinates == "half_pixel_symmetric":  # in double precision, which decides ties: as onnxruntime
        margin = np.float32(size) * half * (one - np.float32(out) / (scale * np.float32(size)))
        return ((np.arange(out) + 0.5) / float(scale) - 0.5 + float(margin)).astype(np.float32)
    return (i + half) / scale - half


def kernel_of(distance: np.ndarray, mode: str, a: float) -> np.ndarray:
    """Weight of an element at a distance in elements: a tent, or Keys' cubic with coefficient ``a``."""
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(1 - d, 0)
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def taps(attrs: Attrs, axis: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """What ``resize`` reads along an axis of ``size`` elements.

    Returns indices (outputs, k), int64, all inside the axis, and weights (outputs, k), float64, with sum 1.
    """
    place = places(attrs, axis, size).astype(np.float64)
    if attrs["mode"] == "nearest":
        down, up = np.floor(place), np.ceil(place)
        beyond = place - down - 0.5
        rounded = {
            "floor": down,
            "ceil": up,
            "round_prefer_floor": np.where(beyond < TIE, down, up),
            "round_prefer_ceil": np.where(beyond > -TIE, up, down),
        }[attrs["rounding"]]
        return np.clip(rounded, 0, size - 1).astype(np.int64)[:, None], np.ones((len(place), 1))
    scale = attrs["scales"][axis]
    shrink = min(scale, 1.0) if attrs["antialias"] else 1.0
    reach = _reach(attrs, scale)
    indices = np.floor(place)[:, None] + np.arange(1 - reach, reach + 1)
    weights = kernel_of((indices - place[:, None]) * shrink, attrs["mode"], attrs["cubic_a"])
    if attrs["exclude_outside"]:
        weights = weights * ((indices >= 0) & (indices < size))
    total = weights.sum(axis=1, keepdims=True)
    if not np.all(np.abs(total) > 1e-6):
        raise Misfit(f"axis {axis}: the weights of an output add up to 0")
    return np.clip(indices, 0, size - 1).astype(np.int64), weights / total


def _resize(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    for axis, size in enumerate(x.shape):
        if (size, attrs["scales"][axis]) == (attrs["sizes"][axis], 1):
            continue
        indices, weights = taps(attrs, axis, size)
        if indices.shape[1] == 1:
            x = np.take(x, indices[:, 0], axis)
            continue
        along = weights.astype(x.dtype).reshape(*weights.shape, *(1,) * (x.ndim - axis - 1))
        x = sum(np.take(x, indices[:, k], axis) * along[:, k] for k in range(indices.shape[1]))
    return x


# ---- sampling along a grid ----


def _reflected(i: np.ndarray, size: int, align_corners: bool) -> np.ndarray:
    """Integers mirrored at the first and last element (``align_corners``) or at the edges of these."""
    period = max(2 * (size - 1), 1) if align_corners else 2 * size
    i = np.mod(i, period)
    return np.minimum(i, period - i if align_corners else period - 1 - i)


def _grid_taps(attrs: Attrs, grid: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Indices and weights of the elements along an axis that every point of the grid reads; zeros have weight 0."""
    place = (grid + 1) / 2 * (size - 1) if attrs["align_corners"] else ((grid + 1) * size - 1) / 2
    place = np.clip(np.nan_to_num(place, nan=-FARTHEST, posinf=FARTHEST, neginf=-FARTHEST), -FARTHEST, FARTHEST)
    mode = attrs["mode"]
    first = np.rint(place) if mode == "nearest" else np.floor(place)
    taps = []
    for offset in {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[mode]:
        i = (first + offset).astype(np.int64)
        weight = np.ones_like(place) if mode == "nearest" else kernel_of(i - place, mode, -0.75)
        if attrs["padding"] == "zeros":
            weight = np.where((i >= 0) & (i < size), weight, 0)
        elif attrs["padding"] == "reflection":
            i = _reflected(i, size, attrs["align_corners"])
        taps.append((np.clip(i, 0, size - 1), weight.astype(grid.dtype)))
    return taps


def _grid_sample(attrs: Attrs, x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    out = np.zeros((*x.shape[:2], *grid.shape[1:3]), x.dtype)
    columns = _grid_taps(attrs, grid[..., 0], x.shape[3])
    for i, row_weight in _grid_taps(attrs, grid[..., 1], x.shape[2]):
        for j, weight in columns:
            for n in range(len(x)):
                out[n] += x[n][:, i[n], j[n]] * (row_weight[n] * weight[n])
    return out


# ---- regions ----


def _bins(start: float, extent: float, count: int, size: int, ratio: int) -> tuple[np.ndarray, ...]:
    """The samples of the bins along one side of a region: lower and upper element and their weights, (count, samples).

    Without a ratio there are as many as the bin has elements, at most those of the axis.
    """
    step = extent / count
    samples = ratio or int(np.clip(np.nan_to_num(np.ceil(step)), 0, size))
    place = start + (np.arange(count)[:, None] + (np.arange(samples) + 0.5) / max(samples, 1)) * step
    valid = (place >= -1) & (place <= size)
    place = np.clip(np.where(valid, place, 0), 0, size - 1)
    low = np.floor(place).astype(np.int64)
    upper = place - low
    return low, np.minimum(low + 1, size - 1), (1 - upper) * valid, upper * valid


def _roi_align(attrs: Attrs, x: np.ndarray, rois: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """A bin is the mean of its samples, or the largest of their weighted elements, as ONNX defines it."""
    (height, width), half = attrs["size"], 0.5 if attrs["half_pixel"] else 0.0
    out = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    for r, index in enumerate(inside(batch, len(x))):
        left, top, right, bottom = rois[r] * attrs["spatial_scale"] - half
        extent = np.array([bottom - top, right - left])
        if not attrs["half_pixel"]:
            extent = np.maximum(extent, 1)
        ratio = attrs["sampling_ratio"]
        low_i, high_i, *rows = _bins(top, extent[0], height, x.shape[2], ratio)
        low_j, high_j, *columns = _bins(left, extent[1], width, x.shape[3], ratio)
        if not low_i.size * low_j.size:
            continue
        parts = []  # (C, height, row samples, width, column samples) of each of the four elements around a sample
        for i, row in zip((low_i, high_i), rows, strict=True):
            for j, column in zip((low_j, high_j), columns, strict=True):
                parts.append(x[index][:, i[..., None, None], j] * (row[..., None, None] * column))
        out[r] = sum(parts).mean(axis=(2, 4)) if attrs["mode"] == "avg" else np.max(parts, axis=0).max(axis=(2, 4))
    return out


_RESIZE = {
    "sizes": GIVEN,
    "scales": GIVEN,
    "mode": "nearest",
    "coordinates": "half_pixel",
    "rounding": "round_prefer_floor",
    "cubic_a": -0.75,
    "exclude_outside": False,
    "antialias": False,
}
_GRID = {"mode": "linear", "padding": "zeros", "align_corners": False}
_ROI = {"mode": "avg", "size": (1, 1), "sampling_ratio": 0, "spatial_scale": 1.0, "half_pixel": True}

OPS: dict[str, OpSpec] = {
    "resize": OpSpec((1, 1), _RESIZE, _resize_shape, _resize, types=_resize_types),
    "grid_sample": OpSpec((2, 2), _GRID, _grid_sample_shape, _grid_sample, traits=Trait.JUMPS),
    "roi_align": OpSpec((3, 3), _ROI, _roi_align_shape, _roi_align, types=_roi_align_types, traits=Trait.JUMPS),
}
