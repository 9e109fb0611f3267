"""Connected parts of a picture of zeros and ones, and the smallest rectangles around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows of pixels that are set: line, first pixel, pixel behind the last, and the number of the part they are of."""

    row: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    part: np.ndarray
    parts: int


def connected(pixels: np.ndarray) -> Runs:
    """The parts of (rows, columns) bool whose pixels touch, diagonally too, numbered from above to below."""
    rows, columns = pixels.shape
    wide = columns + 2  # so that runs of one line touch none of the next
    padded = np.zeros((rows, wide), bool)
    padded[:, 1:-1] = pixels
    flat = padded.reshape(-1)
    borders = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    begin, end = borders[::2], borders[1::2]
    first = np.searchsorted(end, begin - wide, "left")  # of the runs above that touch it
    count = np.maximum(np.searchsorted(begin, end - wide, "right") - first, 0)
    below = np.repeat(np.arange(len(begin)), count)
    above = np.arange(len(below)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    part = _joined(len(begin), above, below)
    names, part = np.unique(part, return_inverse=True)
    row = begin // wide
    return Runs(row, begin - row * wide - 1, end - row * wide - 1, part, len(names))


def _joined(count: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The least number that each of ``count`` is joined with by the pairs (a, b)."""
    root = np.arange(count)
    while True:
        low, high = np.minimum(root[a], root[b]), np.maximum(root[a], root[b])
        if np.array_equal(low, high):
            return root
        np.minimum.at(root, high, low)
        while not np.array_equal(root, shorter := root[root]):
            root = shorter


def hull(points: np.ndarray) -> np.ndarray:
    """The corners of the smallest convex polygon around (n, 2) points."""
    ordered = sorted(set(map(tuple, points.tolist())))
    halves = []
    for line in (ordered, ordered[::-1]):
        half: list[tuple[float, float]] = []
        for x, y in line:
            while len(half) > 1 and _turn(half[-2], half[-1], x, y) <= 0:
                half.pop()
            half.append((x, y))
        halves += half[:-1]
    return np.array(halves or ordered, np.float64)


def _turn(a: tuple[float, float], b: tuple[float, float], x: float, y: float) -> float:
    return (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0])


def rectangle(points: np.ndarray, beyond: float = 0.0) -> tuple[np.ndarray, float, float]:
    """The smallest rectangle around points, one of whose sides lies on their hull: its (4, 2) corners, and its sides.

    The corners go from above and left along the upper edge.
    """
    corners = hull(points)
    edges = np.roll(corners, -1, 0) - corners
    along = edges / np.maximum(np.hypot(*edges.T), 1e-12)[:, None]
    across = np.stack((-along[:, 1], along[:, 0]), 1)
    u, v = corners @ along.T, corners @ across.T
    best = int(((u.max(0) - u.min(0)) * (v.max(0) - v.min(0))).argmin())
    u, v, axes = u[:, best], v[:, best], np.stack((along[best], across[best]))
    found = np.array(
        [(a, b) for a, b in ((u.min(), v.min()), (u.max(), v.min()), (u.max(), v.max()), (u.min(), v.max()))]
    )
    return clockwise(found @ axes), float(np.ptp(u)), float(np.ptp(v))


def clockwise(corners: np.ndarray) -> np.ndarray:
    """Four corners of a rectangle from that above and left on, clockwise as one sees them."""
    around = corners - corners.mean(0)
    corners = corners[np.argsort(np.arctan2(around[:, 1], around[:, 0]), kind="stable")]
    return np.roll(corners, -int(corners.sum(1).argmin()), 0)


def grown(corners: np.ndarray, by: float) -> np.ndarray:
    """A rectangle with each side moved outwards."""
    along, across = corners[1] - corners[0], corners[3] - corners[0]
    along, across = (side / max(float(np.hypot(*side)), 1e-12) * by for side in (along, across))
    return corners + np.stack((-along - across, along - across, along + across, across - along))
