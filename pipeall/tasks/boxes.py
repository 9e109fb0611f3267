"""Boxes: which scores count, which boxes are of one thing, and where they lie in the picture.

Boxes are rows of left, top, right, bottom. Few of thousands have a score: decoders choose rows first and compute then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, log

import numpy as np

from .answer import Box, Mask, Point
from .decoder import Scene

BLOCK = 128  # boxes that are compared with each other at once
MOST = 4096  # boxes that may come to the comparison, the surest


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) in float64, without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(x, np.float64)))


def logit(p: float) -> float:
    """Where the sigmoid has this value: infinite at 0 and 1."""
    return -np.inf if p <= 0 else np.inf if p >= 1 else log(p / (1 - p))


def above(scores: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Of (rows, classes): which rows have a score of at least ``least``, and the class that has the highest there."""
    flat = np.flatnonzero(scores.reshape(-1) >= least)  # one quick pass; few are left
    rows = flat // scores.shape[1]
    rows = rows[np.concatenate(([True], rows[1:] != rows[:-1]))] if len(rows) else rows
    return rows, scores[rows].argmax(1)


def corners(x: np.ndarray, y: np.ndarray, w: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Boxes of middles and sizes."""
    return np.stack((x - w / 2, y - h / 2, x + w / 2, y + h / 2), -1)


def overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of each of (n, 4) with each of (m, 4)."""
    low, high = np.maximum(a[:, None, :2], b[:, :2]), np.minimum(a[:, None, 2:], b[:, 2:])
    sides = np.maximum(high - low, 0)
    common = sides[..., 0] * sides[..., 1]
    areas = [(each[:, 2] - each[:, 0]) * (each[:, 3] - each[:, 1]) for each in (a, b)]
    return common / np.maximum(areas[0][:, None] + areas[1] - common, 1e-12)


def suppressed(boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray, iou: float, most: int) -> np.ndarray:
    """Which boxes are left, the surest first, at most ``most``.

    A box goes if a surer one of its class, itself left, overlaps it by more than ``iou``.
    """
    order = np.argsort(-scores, kind="stable")[:MOST]
    boxes, labels = boxes[order], labels[order]
    rest, kept = np.arange(len(order)), []
    while len(rest) and len(kept) < most:
        block, rest = rest[:BLOCK], rest[BLOCK:]
        same = (overlaps(boxes[block], boxes[block]) > iou) & (labels[block][:, None] == labels[block])
        left = np.ones(len(block), bool)
        for i in range(len(block)):
            if left[i]:
                left[i + 1 :] &= ~same[i, i + 1 :]
        block = block[left]
        kept.extend(block.tolist())
        if len(rest):
            same = (overlaps(boxes[block], boxes[rest]) > iou) & (labels[block][:, None] == labels[rest])
            rest = rest[~same.any(0)]
    return order[kept[:most]]


def select_boxes(
    scene: Scene, boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray, points: np.ndarray | None = None
) -> tuple[np.ndarray, tuple[Box, ...]]:
    """Boxes of the network's input in the picture, one for each thing; and their rows.

    ``points``: (rows, points, 2 or 3), x, y and score. Boxes end at the picture's edges, and go if they lie beyond.
    """
    if not len(scores):
        return np.zeros(0, int), ()
    kept = suppressed(boxes, scores, labels, scene.iou, scene.most)
    return placed(scene, kept, boxes, scores, labels, points)


def placed(
    scene: Scene, kept: np.ndarray, boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray, points: np.ndarray | None
) -> tuple[np.ndarray, tuple[Box, ...]]:
    """The rows ``kept`` in the picture, and which of them lie in it."""
    height, width = scene.placed.size
    edges = scene.placed.to_picture(boxes[kept].reshape(-1, 2, 2))
    edges = np.clip(edges, 0, (width, height)).reshape(-1, 4)
    inside = (edges[:, 2] > edges[:, 0]) & (edges[:, 3] > edges[:, 1])
    kept, edges = kept[inside], edges[inside]
    at = placed_points(scene, points[kept]) if points is not None else ((),) * len(kept)
    rows = zip(edges.tolist(), scores[kept].tolist(), labels[kept].tolist(), at, strict=True)
    return kept, tuple(Box(*edge, score, label, scene.name(label), point) for edge, score, label, point in rows)


def placed_points(scene: Scene, points: np.ndarray) -> list[tuple[Point, ...]]:
    """(things, points, 2 or 3) of the network's input, x, y and score, in the picture."""
    spots = scene.placed.to_picture(points[..., :2])
    scores = points[..., 2] if points.shape[2] > 2 else np.ones(points.shape[:2])
    columns = (spots[..., 0].tolist(), spots[..., 1].tolist(), scores.tolist())
    return [tuple(zip(*thing, strict=True)) for thing in zip(*columns, strict=True)]


def extent(scene: Scene, points: Sequence[Point]) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the part of the picture that points span."""
    height, width = scene.placed.size
    xs, ys, _ = zip(*points, strict=True)
    left, right = (min(max(x, 0.0), float(width)) for x in (min(xs), max(xs)))
    top, bottom = (min(max(y, 0.0), float(height)) for y in (min(ys), max(ys)))
    return left, top, right, bottom


def region(
    scene: Scene, left: float = 0, top: float = 0, right: float = 1, bottom: float = 1
) -> tuple[float, float, float, float]:
    """A part of the network's input, as fractions of its sides, in pixels of the picture."""
    h, w = scene.size
    corners = scene.placed.to_picture(np.array([[left * w, top * h], [right * w, bottom * h]]))
    left, top, right, bottom = corners.ravel().tolist()
    return left, top, right, bottom


def mask(scene: Scene, values: np.ndarray, names: tuple[str, ...] = ()) -> Mask:
    """Values of the whole input."""
    return Mask(values, region(scene), scene.placed.size, names)


def fields(size: tuple[int, int], strides: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Rows and columns of the maps of a network whose cells are so many pixels wide."""
    return tuple((ceil(size[0] / stride), ceil(size[1] / stride)) for stride in strides)


def cells(size: tuple[int, int], strides: tuple[int, ...]) -> int:
    return sum(rows * columns for rows, columns in fields(size, strides))


@lru_cache(maxsize=32)
def grid(size: tuple[int, int], strides: tuple[int, ...]) -> np.ndarray:
    """(cells, 3) column, row and stride of every cell, map by map and row by row."""
    parts = []
    for stride, (rows, columns) in zip(strides, fields(size, strides), strict=True):
        y, x = np.divmod(np.arange(rows * columns), columns)
        parts.append(np.stack((x, y, np.full_like(x, stride)), 1))
    points = np.concatenate(parts).astype(np.float64)
    points.setflags(write=False)
    return points
