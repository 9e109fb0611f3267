"""AffineGrid and GridSample: where each pixel of a result is read, and what lies there.

No kernel knows windows of volumes: they are the elements around each place, times their share. The volume is a table
with one row of channels for each of its elements, and a place a row number.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from ..read.build import Builder, OnnxNode, operator


@operator("AffineGrid", "align_corners", "constant size")
def _affine_grid(g: Builder, n: OnnxNode) -> None:
    """Coordinates from -1 to 1, of corners or of the middles of pixels, times theta (N, D, D + 1) transposed."""
    theta, size = g.shape_of(g.value(n, 0)), g.ints(n, 1)
    places, dims = size[2:], len(size) - 2
    if dims not in (2, 3) or min(size) < 1 or theta != (size[0], dims, dims + 1):
        n.fail(f"expected theta (N, D, D + 1) for a size (N, C, places of D axes), got {theta} and {size}")
    g.afford(n, int(np.prod(places)) * (dims + 1))
    corners = n.get("align_corners", int, 0)
    axes = [_coordinates(count, bool(corners)) for count in places]
    points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(places)], -1)  # x before y before z
    base = g.named(n, points.reshape(1, -1, dims + 1).astype(np.float32), "points")
    turned = g.apply(n, "Transpose", [n.inputs[0]], "turned", perm=[0, 2, 1])
    rows = g.apply(n, "MatMul", [base, turned], "rows")
    shape = g.named(n, np.array([size[0], *places, dims]), "shape")
    g.apply(n, "Reshape", [rows, shape])


def _coordinates(count: int, corners: bool) -> np.ndarray:
    if corners:
        return np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
    return (2 * np.arange(count) + 1) / count - 1


@operator("GridSample", "align_corners mode padding_mode", "images and volumes")
def _grid_sample(g: Builder, n: OnnxNode) -> None:
    mode = n.get("mode", str, "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    padding, corners = n.get("padding_mode", str, "zeros"), bool(n.get("align_corners", int, 0))
    shape = g.shape_of(g.value(n, 0))
    if len(shape) == 5:
        _sample_volume(g, n, mode, padding, corners)
        return
    x, grid = g.operand(n, 0), g.operand(n, 1)
    if len(shape) != 4:
        n.fail(f"only images and volumes are supported, got {shape}")
    g.emit(n, "grid_sample", [x, grid], mode=mode, padding=padding, align_corners=corners)


# ---- volumes ----

Axis = list[tuple[str, str]]  # the elements around the places along one axis: their numbers, their share ("" for all)


def _sample_volume(g: Builder, n: OnnxNode, mode: str, padding: str, corners: bool) -> None:
    """What lies at the places (samples, *sizes, 3), each (x, y, z) from -1 to 1, of (samples, channels, z, y, x)."""
    shape, places = g.shape_of(g.value(n, 0)), g.shape_of(g.value(n, 1))
    if len(places) != 5 or places[0] != shape[0] or places[4] != 3:
        n.fail(f"grid must be ({shape[0]}, D, H, W, 3), got {places}")
    if mode not in ("linear", "nearest") or padding not in ("zeros", "border", "reflection"):
        n.fail(f"volumes are sampled linear or nearest, with zeros, border or reflection, got {mode}, {padding}")
    (samples, channels, *sizes), count = shape, prod(places[:4])
    x = g.apply(n, "Transpose", n.inputs[:1], "last", perm=[0, 2, 3, 4, 1])
    table = g.apply(n, "Reshape", [x, g.named(n, np.array([-1, channels]), "table/shape")], "table")
    at = g.apply(n, "Reshape", [n.inputs[1], g.named(n, np.array([count, 3]), "places/shape")], "places")
    at = _placed(g, n, at, np.array([sizes[::-1]], np.float32), mode, padding, corners)
    axes = [_axis(g, n, at, 2 - i, size, mode, padding) for i, size in enumerate(sizes)]
    start = np.repeat(np.arange(samples), count // samples)[:, None] * prod(sizes)
    total = ""
    for corner, elements in enumerate(product(*axes)):
        part = f"corner{corner}"
        rows = g.named(n, start, f"{part}/start")
        step = prod(sizes)
        for i, (place, _) in enumerate(elements):
            step //= sizes[i]
            far = g.apply(n, "Mul", [place, g.named(n, np.array(step), f"{part}/step{i}")], f"{part}/far{i}")
            rows = g.apply(n, "Add", [rows, far], f"{part}/rows{i}")
        rows = g.apply(n, "Squeeze", [rows, g.named(n, np.array([1]), f"{part}/axis")], f"{part}/rows")
        rows_read = g.apply(n, "Gather", [table, rows], f"{part}/found", axis=0)
        for i, (_, share) in enumerate(elements):
            rows_read = g.apply(n, "Mul", [rows_read, share], f"{part}/share{i}") if share else rows_read
        total = g.apply(n, "Add", [total, rows_read], f"{part}/sum") if total else rows_read
    whole = g.named(n, np.array([*places[:4], channels]), "whole/shape")
    g.apply(n, "Transpose", [g.apply(n, "Reshape", [total, whole], "whole")], perm=[0, 4, 1, 2, 3])


def _placed(g: Builder, n: OnnxNode, at: str, sizes: np.ndarray, mode: str, padding: str, corners: bool) -> str:
    """Places in elements: x, y and z, in the tensor or, for zeros, one element beside it."""

    def step(op: str, operand: np.ndarray, part: str) -> str:
        return g.apply(n, op, [at, g.named(n, operand.astype(np.float32), f"{part}/number")], part)

    one, half = np.ones((1, 1)), np.full((1, 1), 0.5)
    at = step("Add", one, "from0")
    if corners:
        at = step("Mul", half, "halved")
        at = step("Mul", sizes - 1, "elements")
    else:
        at = step("Mul", sizes, "twice")
        at = step("Sub", one, "inner")
        at = step("Mul", half, "elements")
    if mode == "nearest":
        at = g.apply(n, "Round", [at], "nearest")
    if padding == "reflection":  # a wave between the borders
        low, reach = (0, np.maximum(sizes - 1, 1)) if corners else (-0.5, sizes)
        at = step("Sub", np.full((1, 1), low), "wave/from")
        at = g.apply(n, "Abs", [at], "wave/beyond")
        turns = g.apply(n, "Floor", [step("Div", 2 * reach, "wave/share")], "wave/turns")
        far = g.apply(n, "Mul", [turns, g.named(n, (2 * reach).astype(np.float32), "wave/whole")], "wave/far")
        at = g.apply(n, "Sub", [at, far], "wave/rest")
        at = step("Sub", reach, "wave/turned")
        at = g.apply(n, "Abs", [at], "wave/height")
        at = g.apply(n, "Neg", [at], "wave/down")
        at = step("Add", reach + low, "wave")
    beside = float(padding == "zeros")
    at = step("Max", np.full((1, 1), -beside), "above")
    return step("Min", sizes - 1 + beside, "within")


def _axis(g: Builder, n: OnnxNode, at: str, column: int, size: int, mode: str, padding: str) -> Axis:
    part = "xyz"[column]
    cut = [g.named(n, np.array([v]), f"{part}/{k}") for k, v in (("from", column), ("to", column + 1), ("axis", 1))]
    place = g.apply(n, "Slice", [at, *cut], part)
    if mode == "nearest":
        return [_element(g, n, place, "", size, padding, f"{part}/near")]
    low = g.apply(n, "Floor", [place], f"{part}/floor")
    one = g.named(n, 1.0)
    after = g.apply(n, "Sub", [place, low], f"{part}/after")
    before = g.apply(n, "Sub", [one, after], f"{part}/before")
    high = g.apply(n, "Add", [low, one], f"{part}/next")
    return [
        _element(g, n, low, before, size, padding, f"{part}/low"),
        _element(g, n, high, after, size, padding, f"{part}/high"),
    ]


def _element(g: Builder, n: OnnxNode, at: str, share: str, size: int, padding: str, part: str) -> tuple[str, str]:
    """Numbers of elements, and their share: nothing beside the tensor where that is zeros."""
    inside = g.apply(n, "Clip", [at, g.named(n, 0.0), g.named(n, size - 1.0)], part)
    if padding == "zeros":
        known = g.apply(n, "Cast", [g.apply(n, "Equal", [at, inside], f"{part}/same")], f"{part}/known", to=1)
        share = g.apply(n, "Mul", [share, known], f"{part}/share") if share else known
    return g.apply(n, "Cast", [inside], f"{part}/number", to=7), share
