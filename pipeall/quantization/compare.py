"""How near the answers of a quantized network are to the answers of the floats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..graph.ir import Graph
from .agreement import Agreement
from .samples import Arrays


@dataclass(frozen=True)
class Comparison:
    """Over some samples.

    errors     by output: root mean square of the difference, over the root mean square of the output
    agreement  share of the classes, boxes or pixels that are the same; None where there are none
    """

    errors: dict[str, float]
    agreement: float | None

    @property
    def vector(self) -> np.ndarray:
        """As numbers; -1 for an agreement of None."""
        return np.array([-1.0 if self.agreement is None else self.agreement, *self.errors.values()])

    @staticmethod
    def size(graph: Graph) -> int:
        """Of ``vector``."""
        return 1 + len(_outputs(graph))

    @classmethod
    def of(cls, graph: Graph, vector: np.ndarray) -> Comparison:
        """The reverse of ``vector``."""
        agreement, *errors = vector.tolist()
        return cls(dict(zip(_outputs(graph), errors, strict=True)), None if agreement < 0 else agreement)

    @property
    def error(self) -> float:
        """The mean of all outputs' errors."""
        return float(np.mean(list(self.errors.values())))

    @property
    def drop(self) -> float:
        """The share of classes, boxes or pixels that change; where there are none, the error. A budget limits it."""
        return self.error if self.agreement is None else 1 - self.agreement


def compare(
    graph: Graph, expected: Iterable[Arrays], outputs: Iterable[Arrays], agreement: Agreement | None = None
) -> Comparison:
    """Outputs of two networks, sample by sample."""
    names = _outputs(graph)
    off, size = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    same = total = 0
    for one, other in zip(expected, outputs, strict=True):
        for name in names:
            y, z = _aligned(one[name].astype(np.float64), other[name])
            off[name] += float(np.square(z - y).sum())
            size[name] += float(np.square(y).sum())
        if agreement is not None:
            alike, of = agreement.count(one, other)
            same, total = same + alike, total + of
    errors = {name: (off[name] / size[name]) ** 0.5 if size[name] else off[name] ** 0.5 for name in names}
    return Comparison(errors, same / total if total else None)


def _aligned(y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arrays of one shape: where sizes depend on data, the shorter is padded with zeros."""
    if y.shape == z.shape:
        return y, z
    shape = tuple(map(max, y.shape, z.shape))
    y, z = (np.pad(a, [(0, most - size) for most, size in zip(shape, a.shape, strict=True)]) for a in (y, z))
    return y, z


def _outputs(graph: Graph) -> list[str]:
    return [tensor.name for tensor in graph.outputs if tensor.dtype == "float32"]
