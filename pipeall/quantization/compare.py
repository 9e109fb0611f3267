"""How near a quantised network's answers are to those of the floats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..graph.ir import Graph
from .judge import Judge
from .photos import Arrays


@dataclass(frozen=True)
class Compared:
    """Over some photos.

    errors     by output: root mean square of the difference, over that of the output
    agreement  share of the classes, boxes or pixels that are the same; None where a network has none, or the photos
    """

    errors: dict[str, float]
    agreement: float | None

    @property
    def vector(self) -> np.ndarray:
        """All of it in numbers; -1 for an agreement of None."""
        return np.array([-1.0 if self.agreement is None else self.agreement, *self.errors.values()])

    @staticmethod
    def size(graph: Graph) -> int:
        """Of ``vector``."""
        return 1 + len(_outputs(graph))

    @classmethod
    def of(cls, graph: Graph, vector: np.ndarray) -> Compared:
        """The reverse, of a network's outputs."""
        agreement, *errors = vector.tolist()
        return cls(dict(zip(_outputs(graph), errors, strict=True)), None if agreement < 0 else agreement)

    @property
    def error(self) -> float:
        """The mean of all outputs' errors."""
        return float(np.mean(list(self.errors.values())))

    @property
    def drop(self) -> float:
        """What a budget limits: the share of classes, boxes or pixels that change, else the error."""
        return self.error if self.agreement is None else 1 - self.agreement


def compare(graph: Graph, expected: Iterable[Arrays], found: Iterable[Arrays], judge: Judge | None = None) -> Compared:
    """Outputs of a network, photo by photo."""
    names = _outputs(graph)
    off, size = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    same = total = 0
    for one, other in zip(expected, found, strict=True):
        for name in names:
            y, z = _aligned(one[name].astype(np.float64), other[name])
            off[name] += float(np.square(z - y).sum())
            size[name] += float(np.square(y).sum())
        if judge is not None:
            alike, of = judge.count(one, other)
            same, total = same + alike, total + of
    errors = {name: (off[name] / size[name]) ** 0.5 if size[name] else off[name] ** 0.5 for name in names}
    return Compared(errors, same / total if total else None)


def _aligned(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arrays of one shape: where sizes depend on data, zeros are behind the shorter."""
    if y.shape == z.shape:
        return y, z
    shape = tuple(map(max, y.shape, z.shape))
    y, z = (np.pad(a, [(0, most - size) for most, size in zip(shape, a.shape, strict=True)]) for a in (y, z))
    return y, z


def _outputs(graph: Graph) -> list[str]:
    return [tensor.name for tensor in graph.outputs if tensor.dtype == "float32"]
