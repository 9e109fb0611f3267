"""BodyPix and PoseNet: people from heat maps of their key points, and the way from each point to the next.

Source: PersonLab, arXiv 1803.08225; the algorithm is from TensorFlow's posenet.
"""

from __future__ import annotations

from math import tanh

import numpy as np

from ..picture import Picture
from . import boxes
from .answer import Answer, Box, Point
from .boxes import logit, sigmoid
from .decoder import Outputs, Scene, Signature, decoder
from .labels import COCO_POINTS, PERSON

PARTS = len(COCO_POINTS)
EDGES = (
    (0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15), (0, 6), (6, 8), (8, 10),
    (6, 12), (12, 14), (14, 16),
)  # fmt: skip
OUTPUTS = ("heatmaps", "short_offsets", "displacement_fwd", "displacement_bwd", "segments")
NEAR = 20.0  # pixels of the input: two points of one part nearer than that are one
REFINED = 2  # times that a point is moved to where its cell says


def _is_bodypix(signature: Signature) -> bool:
    """Whether these outputs are there by name, (1, rows, columns, channels)."""
    shapes = {tensor.name: tensor.shape for tensor in signature.outputs}
    channels = (PARTS, 2 * PARTS, 2 * len(EDGES), 2 * len(EDGES), 1)
    field = shapes.get(OUTPUTS[0], ())[1:3]
    return all(shapes.get(name) == (1, *field, count) for name, count in zip(OUTPUTS, channels, strict=True))


@decoder(
    "bodypix",
    "points",
    "BodyPix: heat maps of 17 points, offsets, ways from point to point, a mask of people; outputs by name",
    Picture(mean=127.5, std=127.5),
    _is_bodypix,
    classes=lambda s: 1,
    threshold=0.5,
    labels=PERSON,
    order=OUTPUTS,
)
def bodypix(outputs: Outputs, scene: Scene) -> Answer:
    heat, offsets, forward, backward, segments = (y[0] for y in outputs)
    things = []
    for score, points in People(scene, heat, offsets, forward, backward).poses():
        (spots,) = boxes.placed_points(scene, np.array([points]) + (0.5, 0.5, 0))  # the middle of a pixel
        sure = [spot for spot in spots if spot[2] >= scene.threshold]
        things.append(Box(*boxes.extent(scene, sure), score, 0, scene.name(0), spots))
    values = sigmoid(segments[..., 0]).astype(np.float32)
    people = boxes.mask(scene, values, ("background", *PERSON))
    return scene.answer("points", boxes=tuple(things), point_names=COCO_POINTS, mask=people)


class People:
    """The people in one picture. Positions are (x, y) in pixels of the input, middles of pixels whole."""

    def __init__(
        self, scene: Scene, heat: np.ndarray, offsets: np.ndarray, forward: np.ndarray, backward: np.ndarray
    ) -> None:
        rows, columns, _ = heat.shape
        (h, w), self.heat, self.scene = scene.size, heat, scene
        self.last = (columns - 1, rows - 1)
        self.stride = (w - 1) / max(columns - 1, 1), (h - 1) / max(rows - 1, 1)
        self.offsets, self.ways = offsets, (forward, backward)  # all y, then all x

    def seeds(self) -> list[tuple[float, int, int, int]]:
        """Logit, row, column and part of every cell that is the highest of the nine around it, highest first."""
        least = max(logit(self.scene.threshold), -1e30)
        rows, columns, parts = np.nonzero(self.heat >= least)
        padded = np.pad(self.heat, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
        own = self.heat[rows, columns, parts]
        around = [padded[rows + i, columns + j, parts] for i in range(3) for j in range(3)]
        highest = np.flatnonzero(own >= np.max(around, 0)) if len(own) else np.array([], int)
        order = highest[np.argsort(-own[highest], kind="stable")]
        return list(zip(*(each[order].tolist() for each in (own, rows, columns, parts)), strict=True))

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Row and column of the cell nearest to a position."""
        column, row = round(x / self.stride[0]), round(y / self.stride[1])
        return min(max(row, 0), self.last[1]), min(max(column, 0), self.last[0])

    def settled(self, row: int, column: int, part: int) -> tuple[float, float]:
        """Where the cell says that a part is."""
        x, y = self.offsets.item(row, column, part + PARTS), self.offsets.item(row, column, part)
        return column * self.stride[0] + x, row * self.stride[1] + y

    def follow(self, pose: dict[int, Point], edge: int, back: bool) -> None:
        """Adds the part at the other end of an edge, if this end is known and that one is not."""
        begin, end = EDGES[edge][::-1] if back else EDGES[edge]
        if begin not in pose or end in pose:
            return
        x, y, _ = pose[begin]
        row, column = self.cell(x, y)
        x, y = x + self.ways[back].item(row, column, edge + len(EDGES)), y + self.ways[back].item(row, column, edge)
        for _ in range(REFINED):
            x, y = self.settled(*self.cell(x, y), end)
        pose[end] = (x, y, _sigmoid(self.heat.item(*self.cell(x, y), end)))

    def poses(self) -> list[tuple[float, list[Point]]]:
        """Score and points of each person, the surest first."""
        kept: list[tuple[float, list[Point]]] = []
        for value, row, column, part in self.seeds():
            x, y = self.settled(row, column, part)
            if len(kept) >= self.scene.most:
                break
            if any(_near(points[part], x, y) for _, points in kept):
                continue
            pose = {part: (x, y, _sigmoid(value))}
            for edge in reversed(range(len(EDGES))):
                self.follow(pose, edge, True)
            for edge in range(len(EDGES)):
                self.follow(pose, edge, False)
            points = [pose[number] for number in range(PARTS)]
            own = [p[2] for i, p in enumerate(points) if not any(_near(other[i], *p[:2]) for _, other in kept)]
            if (score := sum(own) / PARTS) >= self.scene.threshold / 2:
                kept.append((score, points))
        return sorted(kept, key=lambda pose: -pose[0])


def _near(a: Point, x: float, y: float) -> bool:
    return (a[0] - x) ** 2 + (a[1] - y) ** 2 <= NEAR**2


def _sigmoid(x: float) -> float:
    return 0.5 * (1 + tanh(0.5 * x))
