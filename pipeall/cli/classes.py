"""What a classifier's output says: the best classes with their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..graph.ir import Graph

SYNSET = re.compile(r"n\d{8}\s+")  # WordNet id at the start of a line of synset_words.txt


@dataclass(frozen=True, slots=True)
class Classes:
    """Output ``first + i`` is class i, called ``labels[i]``; outputs before ``first`` are left out.

    ``score`` is "probability", or "score" where the network does not end in a softmax.
    """

    first: int
    labels: tuple[str, ...] | None
    score: str

    @classmethod
    def of(cls, graph: Graph, labels: str | None, first: int) -> Classes:
        """For a network with one output; ArgumentError where it, ``first`` and the labels' file do not fit together."""
        if len(graph.outputs) != 1:
            names = ", ".join(tensor.name for tensor in graph.outputs)
            raise ArgumentError(f"{graph.name}: expected one output to read classes from, got {names}")
        count = graph.outputs[0].elements - first
        if first < 0 or count < 1:
            raise ArgumentError(f"--first-class: expected 0 to {graph.outputs[0].elements - 1}, got {first}")
        names = None if labels is None else _read(Path(labels))
        if names is not None and len(names) != count:
            raise ArgumentError(f"labels {labels}: expected {count} lines, one per class, got {len(names)}")
        return cls(first, names, "probability" if _ends_in_softmax(graph) else "score")

    def top(self, output: np.ndarray, count: int) -> list[dict[str, Any]]:
        """The best ``count`` classes of an output, best first: class, label (None without labels), and the score.

        Raises ArgumentError for an output with a NaN or an infinity.
        """
        values = output.reshape(-1)[self.first :]
        if not np.isfinite(values).all():
            raise ArgumentError("output of the network: expected finite numbers, got NaN or infinity")
        best = np.argsort(-values, kind="stable")[:count]
        return [{"class": int(i), "label": self.labels and self.labels[i], self.score: float(values[i])} for i in best]


def _read(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"labels {path}: expected a text file with one class per line, got {error}") from error
    return tuple(SYNSET.sub("", line.strip()) for line in lines if line.strip())


def _ends_in_softmax(graph: Graph) -> bool:
    makers = {node.output: node for node in graph.nodes}
    node = makers.get(graph.outputs[0].name)
    while node is not None and node.op in ("reshape", "transpose"):
        node = makers.get(node.inputs[0])
    return node is not None and node.op == "softmax"
