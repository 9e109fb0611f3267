"""How near the answers of a quantized network are to the answers of the floats: by the error of the outputs, by how
many classes, boxes or pixels agree, and by how much boxes differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from math import prod

import numpy as np

from ..errors import ModelError
from ..graph.ir import Graph
from ..tasks import Answer, Box, Task, task
from ..tasks.boxes import overlaps
from .calibrate import Arrays

CLEAR = 0.25  # of the way from the task's threshold to 1: boxes with a greater score are compared
SAME = 0.5  # least overlap (intersection over union) of two boxes of a class that show one thing
FAINT = 0.5  # of the task's threshold: boxes with a greater score are compared by how much they differ
LITTLE = 0.02  # by which boxes may differ before that counts more than the error of the outputs


@dataclass(frozen=True)
class Agreement:
    """
    what    is counted: classes, boxes or pixels
    count   outputs of both networks for one sample -> how many agree, of how many
    differ  outputs of both networks for one sample -> ``Difference`` of their boxes; None where there are none
    """

    what: str
    count: Callable[[Arrays, Arrays], tuple[int, int]]
    differ: Callable[[Arrays, Arrays], Difference] | None = None


@dataclass(frozen=True)
class Difference:
    """Between the boxes of two networks, faint ones too. A sum is that of all samples.

    off     part of the boxes that no box of the other network covers as surely, weighed by scores
    scores  their sum, which ``off`` is at most
    lost    boxes above the task's threshold that the other network has not above it
    total   of these boxes, in both networks
    """

    off: float = 0.0
    scores: float = 0.0
    lost: int = 0
    total: int = 0

    def __add__(self, other: Difference) -> Difference:
        return Difference(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def share(self) -> float:
        return self.off / self.scores if self.scores else 0.0

    @property
    def drop(self) -> float:
        """The share of boxes that come or go."""
        return self.lost / self.total if self.total else 0.0


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

    if kind == "segment":
        return Agreement("pixels", count)
    faint = decode.with_threshold(FAINT * decode.threshold)

    def differ(one: Arrays, other: Arrays) -> Difference:
        return difference(faint(one, placed).boxes, faint(other, placed).boxes, decode.threshold)

    return Agreement("boxes", count, differ)


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


def difference(boxes: Sequence[Box], others: Sequence[Box], threshold: float) -> Difference:
    """Two boxes of a class have in common their overlap, times the ratio of the lower score to the higher."""
    one, other = _scores(boxes), _scores(others)
    overlap = overlaps(_edges(boxes), _edges(others)) * (_labels(boxes)[:, None] == _labels(others))
    common = overlap * np.minimum(one[:, None], other) / np.maximum(np.maximum(one[:, None], other), 1e-12)
    off = one @ (1 - common.max(1, initial=0)) + other @ (1 - common.max(0, initial=0))
    sure = overlap[one >= threshold][:, other >= threshold] >= SAME
    lost = sum(sure.shape) - sure.any(1).sum() - sure.any(0).sum()
    return Difference(float(off), float(one.sum() + other.sum()), int(lost), sum(sure.shape))


def _scores(boxes: Sequence[Box]) -> np.ndarray:
    return np.array([box.score for box in boxes], np.float64)


def _edges(boxes: Sequence[Box]) -> np.ndarray:
    return np.array([(box.left, box.top, box.right, box.bottom) for box in boxes]).reshape(-1, 4)


def _labels(boxes: Sequence[Box]) -> np.ndarray:
    return np.array([box.label for box in boxes], int)


@dataclass(frozen=True)
class Comparison:
    """Over some samples.

    errors     by output: root mean square of the difference, over the root mean square of the output
    agreement  share of the classes, boxes or pixels that are the same; None where there are none
    boxes      how they differ
    """

    errors: dict[str, float]
    agreement: float | None
    boxes: Difference = Difference()

    @property
    def vector(self) -> np.ndarray:
        """As numbers; -1 for an agreement of None."""
        return np.array([-1.0 if self.agreement is None else self.agreement, *self.errors.values()])

    @staticmethod
    def size(graph: Graph) -> int:
        """Of ``vector``."""
        return 1 + len(float_outputs(graph))

    @classmethod
    def of(cls, graph: Graph, vector: np.ndarray) -> Comparison:
        """The reverse of ``vector``; how boxes differ is not in it."""
        agreement, *errors = vector.tolist()
        return cls(dict(zip(float_outputs(graph), errors, strict=True)), None if agreement < 0 else agreement)

    @property
    def error(self) -> float:
        """The mean of all outputs' errors."""
        return float(np.mean(list(self.errors.values())))

    @property
    def loss(self) -> float:
        """By which configurations are chosen: the error, times the difference of the boxes."""
        return self.error * (LITTLE + self.boxes.share)

    @property
    def drop(self) -> float:
        """The share of classes, boxes or pixels that change; where there are none, the error. A budget limits it."""
        return self.error if self.agreement is None else 1 - self.agreement


def compare(
    names: Sequence[str], expected: Iterable[Arrays], outputs: Iterable[Arrays], agreement: Agreement | None = None
) -> Comparison:
    """Outputs of two networks, sample by sample; errors are of those with these names."""
    off, size = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    same = total = 0
    boxes = Difference()
    for one, other in zip(expected, outputs, strict=True):
        for name in names:
            y, z = _aligned(one[name].astype(np.float64), other[name])
            off[name] += float(np.square(z - y).sum())
            size[name] += float(np.square(y).sum())
        if agreement is not None:
            alike, of = agreement.count(one, other)
            same, total = same + alike, total + of
            if agreement.differ is not None:
                boxes += agreement.differ(one, other)
    errors = {name: (off[name] / size[name]) ** 0.5 if size[name] else off[name] ** 0.5 for name in names}
    return Comparison(errors, same / total if total else None, boxes)


def _aligned(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arrays of one shape: where sizes depend on data, the shorter is padded with zeros."""
    if y.shape == z.shape:
        return y, z
    shape = tuple(map(max, y.shape, z.shape))
    y, z = (np.pad(a, [(0, most - size) for most, size in zip(shape, a.shape, strict=True)]) for a in (y, z))
    return y, z


def float_outputs(graph: Graph) -> list[str]:
    return [tensor.name for tensor in graph.outputs if tensor.dtype == "float32"]
