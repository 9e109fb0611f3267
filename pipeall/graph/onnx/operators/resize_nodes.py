"""Resize and Upsample, opsets 7 to 28, in canonical ops (``convert`` says how)."""

from __future__ import annotations

import numpy as np

from ...ops import attributes
from ..read.build import Builder, OnnxNode, operator

Scales = list[np.float32]


def _scales(g: Builder, n: OnnxNode, count: int, i: int) -> Scales:
    """Factors per axis, positive and finite."""
    values = n.get("scales", list) if "scales" in n.attrs else g.floats(n, i).reshape(-1).tolist()
    scales = [np.float32(value) for value in values]
    if len(scales) != count or not all(0 < scale < np.inf for scale in scales):
        n.fail(f"expected {count} positive scales, got {values!s:.60}")
    return scales


def _scaled(n: OnnxNode, shape: tuple[int, ...], scales: Scales) -> list[int]:
    """Sizes, rounded down after a product of float32 as ONNX defines it."""
    with np.errstate(over="ignore"):
        sizes = [np.floor(np.float32(size) * scale) for size, scale in zip(shape, scales, strict=True)]
    if not np.isfinite(sizes).all():
        n.fail(f"expected finite sizes, got {list(shape)} times {list(map(float, scales))!s:.60}")
    return [int(size) for size in sizes]


def _emit(g: Builder, n: OnnxNode, x: str, sizes: list[int], scales: Scales, part: str = "", **attrs) -> str:
    if tuple(sizes) == g.shape(x):  # whatever part of a pixel the scales leave: as in onnxruntime
        if not part:
            g.bind(n, x)
        return x
    sized = {"sizes": tuple(sizes), "scales": tuple(map(float, scales)), **attrs}
    kind = g.dtype(x)
    if kind == "float32" or attrs["mode"] == "nearest":
        return g.emit(n, "resize", [x], part=part, **sized)
    floats = g.cast(n, x, "float32", f"{part}floats")
    if attrs.get("antialias"):
        return g.cast(n, _by_axis(g, n, floats, sized, kind), kind, part)
    return g.cast(n, g.emit(n, "resize", [floats], part=f"{part}resized", **sized), kind, part)  # rounded towards 0


def _by_axis(g: Builder, n: OnnxNode, x: str, sized: dict, kind: str) -> str:
    """As Pillow and onnxruntime smooth levels: rows, then columns, each rounded to levels."""
    half = g.new_constant(n, np.full((1,) * len(sized["sizes"]), 0.5, np.float32), "half")
    lowest, highest = np.iinfo(kind).min, np.iinfo(kind).max
    for axis in reversed(range(len(sized["sizes"]))):
        shape = g.shape(x)
        if sized["sizes"][axis] == shape[axis]:
            continue
        alone = tuple(size if i != axis else sized["sizes"][axis] for i, size in enumerate(shape))
        scales = tuple(1.0 if i != axis else scale for i, scale in enumerate(sized["scales"]))
        x = g.emit(n, "resize", [x], part=f"resized{axis}", **{**sized, "sizes": alone, "scales": scales})
        x = g.emit(n, "floor", [g.emit(n, "add", [x, half], part=f"raised{axis}")], part=f"rounded{axis}")
        x = g.emit(n, "clip", [x], part=f"levels{axis}", lo=float(lowest), hi=float(highest))
    return x


def _plain(g: Builder, n: OnnxNode, i: int) -> None:
    """Before opset 11: pixels are points, nearest rounds down where an axis grows and up where it shrinks."""
    x = g.x(n)
    shape = g.shape(x)
    mode = {"nearest": "nearest", "linear": "linear", "bilinear": "linear"}.get(n.get("mode", str, "nearest"))
    if mode is None:
        n.fail(f"unknown mode {n.get('mode', str)!r}")
    scales = _scales(g, n, len(shape), i)
    shrinking = [min(scale, np.float32(1)) for scale in scales]
    if mode == "nearest" and any(scale < 1 for scale in scales):
        growing = [max(scale, np.float32(1)) for scale in scales]
        both = any(scale > 1 for scale in scales)
        sizes = [size if scale == 1 else out for size, scale, out in
                 zip(shape, shrinking, _scaled(n, shape, scales), strict=True)]  # fmt: skip
        x = _emit(g, n, x, sizes, shrinking, "shrunk" * both, mode=mode, coordinates="asymmetric", rounding="ceil")
        if not both:
            return
        scales = growing
    sizes = _scaled(n, g.shape(x), scales)
    _emit(g, n, x, sizes, scales, mode=mode, coordinates="asymmetric", rounding="floor")


@operator("Upsample", "mode scales", "constant scales")
def _upsample(g: Builder, n: OnnxNode) -> None:
    _plain(g, n, 1)


@operator(
    "Resize",
    "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
    "keep_aspect_ratio_policy mode nearest_mode",
    "constant scales or sizes; not tf_crop_and_resize",
)
def _resize(g: Builder, n: OnnxNode) -> None:
    if n.opset < 11:
        _plain(g, n, 1)
        return
    x = g.x(n)
    coordinates, rounding = _places(n)
    mode = n.get("mode", str, "nearest")
    default = attributes("resize")
    sizes, scales = _target(g, n, g.shape(x))
    _emit(
        g,
        n,
        x,
        sizes,
        scales,
        mode=mode,
        coordinates=coordinates,
        rounding=rounding,
        cubic_a=n.get("cubic_coeff_a", float, default["cubic_a"]),
        exclude_outside=bool(n.get("exclude_outside", int, 0)),
        antialias=bool(n.get("antialias", int, 0)) and mode != "nearest",
    )


def _places(n: OnnxNode) -> tuple[str, str]:
    """Where outputs lie in the input, and how nearest rounds."""
    default = attributes("resize")
    coordinates = n.get("coordinate_transformation_mode", str, default["coordinates"])
    rounding = n.get("nearest_mode", str, default["rounding"])
    if coordinates == "tf_crop_and_resize":
        n.fail("tf_crop_and_resize is not supported: only whole tensors are resized, not a region (roi)")
    if coordinates == "tf_half_pixel_for_nn":  # half a pixel beyond half_pixel
        alike = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}
        if rounding not in alike or n.get("mode", str, "nearest") != "nearest":
            n.fail(f"tf_half_pixel_for_nn is supported for nearest with {' and '.join(alike)}, got {rounding!r}")
        return "half_pixel", alike[rounding]
    return coordinates, rounding


def _target(g: Builder, n: OnnxNode, shape: tuple[int, ...]) -> tuple[list[int], Scales]:
    """Size and factor of every axis, from scales or sizes of all axes or of those listed."""
    rank = len(shape)
    axes = [n.axis(axis, rank) for axis in n.get("axes", list, list(range(rank)))]
    if len(set(axes)) != len(axes):
        n.fail(f"axes repeat: {axes}")
    listed = tuple(shape[axis] for axis in axes)
    sizes, scales = list(shape), [np.float32(1)] * rank
    if g.has(n, 2) and g.floats(n, 2).size:
        given = _scales(g, n, len(axes), 2)
        wanted = _scaled(n, listed, given)
    elif g.has(n, 3):
        wanted = list(g.ints(n, 3))
        if len(wanted) != len(axes) or min(wanted, default=1) < 1:
            n.fail(f"expected {len(axes)} sizes of at least 1, got {wanted}")
        given = [np.float32(out) / np.float32(size) for out, size in zip(wanted, listed, strict=True)]
        policy = n.get("keep_aspect_ratio_policy", str, "stretch")
        if policy not in ("stretch", "not_larger", "not_smaller"):
            n.fail(f"unknown keep_aspect_ratio_policy {policy!r}")
        if policy != "stretch" and given:
            factor = min(given) if policy == "not_larger" else max(given)
            given = [factor] * len(axes)
            wanted = [int(np.floor(np.float32(size) * factor + np.float32(0.5))) for size in listed]
    else:
        n.fail("scales and sizes are missing")
    for axis, size, scale in zip(axes, wanted, given, strict=True):
        sizes[axis], scales[axis] = size, scale
    return sizes, scales
