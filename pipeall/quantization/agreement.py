"""How much the answers of two networks agree: in classes, boxes or pixels, whichever the task has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ..errors import ModelError
from ..graph.ir import Graph
from ..tasks import Answer, Box, Task, task
from ..tasks.boxes import overlaps
from .samples import Arrays

CLEAR = 0.25  # of the way from the task's threshold to 1: boxes with a greater score are compared
SAME = 0.5  # least overlap (intersection over union) of two boxes of a class that show one thing


@dataclass(frozen=True)
class Agreement:
    """
    what   is counted: classes, boxes or pixels
    count  outputs of both networks for one sample -> how many agree, of how many
    """

    what: str
    count: Callable[[Arrays, Arrays], tuple[int, int]]


def agreement_of(graph: Graph, given: Task | None = None) -> Agreement | None:
    """By the task given or recognized; a row of numbers is a classifier's. None for other networks."""
    shape = graph.outputs[0].shape
    if given is None and len(graph.outputs) == 1 and prod(shape) == max(shape, default=0) > 1:
        return Agreement("classes", _classes)
    decode = given or _recognized(graph)
    kind = None if decode is None else decode.decoder.task
    if kind == "classify":
        return Agreement("classes", _classes)
    if kind not in ("detect", "points", "segment"):
        return None
    placed = decode.picture.placed(decode.size, decode.size)

    def count(one: Arrays, other: Arrays) -> tuple[int, int]:
        answers = decode(one, placed), decode(other, placed)
        return _pixels(*answers) if kind == "segment" else _boxes(*answers, decode.threshold)

    return Agreement("pixels" if kind == "segment" else "boxes", count)


def _recognized(graph: Graph) -> Task | None:
    try:
        return task(graph)
    except ModelError:
        return None


def _classes(one: Arrays, other: Arrays) -> tuple[int, int]:
    a, b = (next(iter(outputs.values())) for outputs in (one, other))
    return int(a.argmax() == b.argmax()), 1


def _pixels(one: Answer, other: Answer) -> tuple[int, int]:
    return int((one.mask.pixels == other.mask.pixels).sum()), one.mask.pixels.size


def _boxes(one: Answer, other: Answer, threshold: float) -> tuple[int, int]:
    """How many clear boxes of either network the other one has too, with any score; and how many there are."""
    least = threshold + CLEAR * (1 - threshold)
    same = total = 0
    for boxes, others in ((one.boxes, other.boxes), (other.boxes, one.boxes)):
        clear = [box for box in boxes if box.score >= least]
        alike = (overlaps(_edges(clear), _edges(others)) >= SAME) & (_labels(clear)[:, None] == _labels(others))
        same, total = same + int(alike.any(1).sum()), total + len(clear)
    return same, total


def _edges(boxes: Sequence[Box]) -> np.ndarray:
    return np.array([(box.left, box.top, box.right, box.bottom) for box in boxes]).reshape(-1, 4)


def _labels(boxes: Sequence[Box]) -> np.ndarray:
    return np.array([box.label for box in boxes], int)
