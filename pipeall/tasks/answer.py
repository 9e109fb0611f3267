"""What a network says of one picture: classes, boxes, masks, points, text or a vector, in the picture's own pixels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..arguments import a, optional, whole

Point = tuple[float, float, float]  # x, y, score
PIXEL_DIGITS, SCORE_DIGITS = 3, 5  # after the point, in JSON


@dataclass(frozen=True, eq=False, repr=False)
class Mask:
    """Classes of the pixels of a picture.

    values   what the network computed, (rows, columns): the index of each cell's class (integers), or the probability
             that it is foreground (float32)
    region   left, top, right, bottom of what these cells cover, in pixels of the picture
    size     height and width of the picture
    names    of the classes
    least    probability from which on a cell is foreground
    """

    values: np.ndarray
    region: tuple[float, float, float, float]
    size: tuple[int, int]
    names: tuple[str, ...] = ()
    least: float = 0.5

    def __repr__(self) -> str:
        return f"<Mask {self.size[1]}x{self.size[0]} of {self.values.shape[1]}x{self.values.shape[0]} cells>"

    @cached_property
    def alpha(self) -> np.ndarray:
        """(height, width) float32: the probability of foreground of each pixel, bilinear; 0 where nothing was seen."""
        values = self.values if self.values.dtype.kind == "f" else (self.values > 0).astype(np.float32)
        (rows, seen_y), (columns, seen_x) = self._cells()
        top, low, down = _between(rows, values.shape[0])
        left, right, across = _between(columns, values.shape[1])
        lines = values[:, left] * (1 - across) + values[:, right] * across
        pixels = lines[top] * (1 - down[:, None]) + lines[low] * down[:, None]
        pixels[~seen_y], pixels[:, ~seen_x] = 0, 0
        return pixels

    @cached_property
    def pixels(self) -> np.ndarray:
        """(height, width) uint8 or larger: the class of each pixel, the nearest cell's; or whether it is foreground."""
        if self.values.dtype.kind == "f":
            return (self.alpha >= self.least).astype(np.uint8)
        (rows, seen_y), (columns, seen_x) = self._cells()
        middles = zip((rows, columns), self.values.shape, strict=True)
        down, across = (np.clip(np.floor(at + 0.5), 0, n - 1).astype(np.intp) for at, n in middles)
        pixels = self.values.take(across, 1).take(down, 0)
        pixels[~seen_y], pixels[:, ~seen_x] = 0, 0
        return pixels

    def _cells(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For rows and columns of the picture: where their middles lie, in cells, and whether that is inside."""
        left, top, right, bottom = self.region
        pairs = []
        for length, begin, end, cells in zip(self.size, (top, left), (bottom, right), self.values.shape, strict=True):
            middle = np.arange(length) + 0.5
            at = (middle - begin) * (cells / (end - begin)) - 0.5
            pairs.append((at, (middle >= begin) & (middle <= end)))
        return pairs

    def to_dict(self) -> list[dict[str, Any]]:
        """One entry for each class but the first, the background: its number, name, area and COCO's run lengths."""
        pixels = self.pixels
        counts = np.bincount(pixels.ravel())
        names = self.names or ("",) * len(counts)
        return [
            {
                "category_id": index,
                "category": names[index] if index < len(names) else str(index),
                "area": int(counts[index]),
                "segmentation": run_lengths(pixels == index),
            }
            for index in np.flatnonzero(counts).tolist()
            if index
        ]


def _between(at: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two cells around each position, and how near it is to the second, 0 to 1."""
    at = np.clip(at, 0, cells - 1)
    first = at.astype(np.intp)
    return first, np.minimum(first + 1, cells - 1), (at - first).astype(np.float32)


def run_lengths(mask: np.ndarray) -> dict[str, list[int]]:
    """(height, width) as COCO's uncompressed run lengths: of zeros, ones, zeros ..., column by column."""
    flat = mask.ravel(order="F")
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    ends = [*([0] if flat[0] else []), *changes.tolist(), flat.size]
    return {"size": [int(n) for n in mask.shape], "counts": np.diff(ends, prepend=0).tolist()}


def _rounded(numbers: Iterable[float]) -> list[float]:
    return [round(number, PIXEL_DIGITS) for number in numbers]


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the whole picture: its score, its number and its name."""

    score: float
    label: int
    name: str

    def to_dict(self) -> dict[str, Any]:
        return {"category_id": self.label, "category": self.name, "score": round(self.score, SCORE_DIGITS)}


@dataclass(frozen=True, slots=True)
class Box:
    """A thing in the picture: its edges in pixels, its score and its class.

    points   its key points: x, y and score of each
    mask     which pixels are the thing's, or None
    """

    left: float
    top: float
    right: float
    bottom: float
    score: float
    label: int
    name: str
    points: tuple[Point, ...] = ()
    mask: Mask | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """As COCO writes a result: bbox is left, top, width, height; keypoints are x, y, score in one list."""
        content: dict[str, Any] = {
            "bbox": _rounded((self.left, self.top, self.right - self.left, self.bottom - self.top)),
            "category_id": self.label,
            "category": self.name,
            "score": round(self.score, SCORE_DIGITS),
        }
        if self.points:
            content["keypoints"] = _rounded(number for point in self.points for number in point)
        if self.mask is not None:
            content["segmentation"] = run_lengths(self.mask.pixels > 0)
        return content


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text.

    text     what it says; empty where the network only finds lines
    score    how sure the network is
    corners  x, y of its corners, clockwise from above and left; empty where the picture is the line
    """

    text: str
    score: float
    corners: tuple[tuple[float, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        corners = [_rounded(corner) for corner in self.corners]
        return {"text": self.text, "score": round(self.score, SCORE_DIGITS), "corners": corners}


@dataclass(frozen=True, eq=False)
class Answer:
    """The results of one picture. Fields that the task does not give are empty.

    task         classify, detect, segment, points, text or embed
    size         height and width of the picture
    classes      of the whole picture, the likeliest first
    boxes        things, the surest first
    point_names  of the points that each box has
    mask         classes of the pixels
    texts        lines of text, from above to below
    vector       what stands for the picture: its length is 1, the product of two is how alike they are
    """

    task: str
    size: tuple[int, int]
    classes: tuple[Class, ...] = ()
    boxes: tuple[Box, ...] = ()
    point_names: tuple[str, ...] = ()
    mask: Mask | None = None
    texts: tuple[Text, ...] = ()
    vector: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields that are not empty, for JSON. Boxes are as in COCO's files of results."""
        content: dict[str, Any] = {"task": self.task, "size": list(self.size)}
        for name in ("classes", "boxes", "texts"):
            if parts := getattr(self, name):
                content[name] = [part.to_dict() for part in parts]
        if self.point_names:
            content["point_names"] = list(self.point_names)
        if self.mask is not None:
            content["mask"] = self.mask.to_dict()
        if self.vector is not None:
            content["vector"] = self.vector.tolist()
        return content

    def to_json(self) -> str:
        """``to_dict`` in one line."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def to_coco(self, image_id: int, categories: Mapping[int, int] | None = None) -> list[dict[str, Any]]:
        """Boxes as entries of COCO's file of results; ``categories``: its number of each class, as ``COCO_IDS`` has."""
        optional(a(Mapping, "a dict of numbers by class"))("categories", categories)
        image_id = whole(0)("image_id", image_id)
        entries = [{"image_id": image_id, **box.to_dict()} for box in self.boxes]
        for entry in entries if categories else ():
            entry["category_id"] = categories[entry["category_id"]]
        return entries
