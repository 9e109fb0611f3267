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


def outline(row: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The corners of the smallest convex polygon around the runs of one part, which go down; pixels have area."""
    line = row - row[0]
    left, right = np.full(line[-1] + 2, np.inf), np.full(line[-1] + 2, -np.inf)  # of each edge between rows
    for edge in (line, line + 1):
        np.minimum.at(left, edge, begin)
        np.maximum.at(right, edge, end)
    sides = [_bent(side.tolist(), sign) for side, sign in ((left, 1), (right, -1))]
    corners = [(x, y + row[0]) for y, x in sides[0] + sides[1][::-1]]
    return np.array(corners, np.float64)


def _bent(side: list[float], sign: int) -> list[tuple[int, float]]:
    """(y, x) of where a side bends, seen from outside: the left one for sign 1, the right one for -1."""
    kept: list[tuple[int, float]] = []
    for y, x in enumerate(side):
        while len(kept) > 1:
            (y0, x0), (y1, x1) = kept[-2:]
            if sign * ((x1 - x0) * (y - y0) - (x - x0) * (y1 - y0)) < 0:
                break
            kept.pop()
        kept.append((y, x))
    return kept


def rectangle(corners: np.ndarray) -> tuple[np.ndarray, float, float]:
    """The smallest rectangle around a convex polygon, on one of its sides: its (4, 2) corners, and its sides.

    The corners go from above and left along the upper edge.
    """
    edges = np.roll(corners, -1, 0) - corners
    along = edges / np.maximum(np.hypot(*edges.T), 1e-12)[:, None]
    across = np.stack((-along[:, 1], along[:, 0]), 1)
    u, v = corners @ along.T, corners @ across.T
    u0, u1, v0, v1 = u.min(0), u.max(0), v.min(0), v.max(0)
    width, height = u1 - u0, v1 - v0
    best = int((width * height).argmin())
    (a0, a1, b0, b1), axes = (x[best] for x in (u0, u1, v0, v1)), np.stack((along[best], across[best]))
    box = np.array([(a0, b0), (a1, b0), (a1, b1), (a0, b1)])
    return clockwise(box @ axes), float(width[best]), float(height[best])


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
