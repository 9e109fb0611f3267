"""How much of what a network says of photos another one says too: classes, boxes or pixels, as its task has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ..errors import ModelError
from ..graph.ir import Graph
from ..tasks import Answer, Box, Task, task
from ..tasks.boxes import overlaps
from .photos import Arrays

CLEAR = 0.25  # of the way from the least score that the task shows to 1: from there on it is no matter of chance
SAME = 0.5  # overlap (intersection over union) from which on two boxes of a class show one thing


@dataclass(frozen=True)
class Judge:
    """
    what   is counted: classes, boxes or pixels
    count  outputs of both networks for one photo -> how many agree, of how many
    """

    what: str
    count: Callable[[Arrays, Arrays], tuple[int, int]]


def judge_of(graph: Graph, given: Task | None = None) -> Judge | None:
    """By a task, the one given or recognised; a row of numbers is a classifier's. None for other networks."""
    shape = graph.outputs[0].shape
    if given is None and len(graph.outputs) == 1 and prod(shape) == max(shape, default=0) > 1:
        return Judge("classes", _classes)
    read = given or _recognised(graph)
    kind = None if read is None else read.decoder.task
    if kind == "classify":
        return Judge("classes", _classes)
    if kind not in ("detect", "points", "segment"):
        return None
    placed = read.picture.placed(read.size, read.size)

    def count(one: Arrays, other: Arrays) -> tuple[int, int]:
        answers = read(one, placed), read(other, placed)
        return _pixels(*answers) if kind == "segment" else _boxes(*answers, read.threshold)

    return Judge("pixels" if kind == "segment" else "boxes", count)


def _recognised(graph: Graph) -> Task | None:
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
    """Clear boxes of either network, and those of them that the other one has too, however surely."""
    clear = threshold + CLEAR * (1 - threshold)
    kept = total = 0
    for boxes, others in ((one.boxes, other.boxes), (other.boxes, one.boxes)):
        sure = [box for box in boxes if box.score >= clear]
        alike = (overlaps(_edges(sure), _edges(others)) >= SAME) & (_labels(sure)[:, None] == _labels(others))
        kept, total = kept + int(alike.any(1).sum()), total + len(sure)
    return kept, total


def _edges(boxes: Sequence[Box]) -> np.ndarray:
    return np.array([(box.left, box.top, box.right, box.bottom) for box in boxes]).reshape(-1, 4)


def _labels(boxes: Sequence[Box]) -> np.ndarray:
    return np.array([box.label for box in boxes], int)
