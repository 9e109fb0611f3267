"""What layers read in a dense network and in a pruned one, as mean products over samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..graph.builder import GraphBuilder
from ..graph.ir import Graph, Node
from ..progress import silent
from ..quantization.calibrate import Arrays, outputs_of
from ..quantization.gptq import rows
from .blocks import Moments


def ahead_of(graph: Graph, names: Sequence[str]) -> Graph:
    """What of a network computes these tensors."""
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        builder.copy(node)
    return builder.graph(names)


def read_by(graph: Graph, nodes: Sequence[Node], samples: Sequence[Arrays]) -> Iterator[Arrays]:
    """For each sample what each of these layers reads, (rows, channels + 1) with a 1 behind, by the layer's name."""
    inputs = {tensor.name for tensor in graph.inputs}
    watched = list(dict.fromkeys(node.inputs[0] for node in nodes if node.inputs[0] not in inputs))
    run = outputs_of(ahead_of(graph, watched), samples, "", silent) if watched else ({} for _ in samples)
    for sample, outputs in zip(samples, run, strict=True):
        values = sample | outputs
        yield {node.name: _with_one(rows(graph, node, values[node.inputs[0]])[0]) for node in nodes}


def _with_one(x: np.ndarray) -> np.ndarray:
    return np.column_stack((x, np.ones(len(x), np.float32)))


def moments_of(dense: Graph, pruned: Graph, nodes: Sequence[Node], samples: Sequence[Arrays]) -> dict[str, Moments]:
    """Of each of these layers; both networks are the same where nothing is pruned yet."""
    totals: dict[str, Moments] = {}
    own = read_by(pruned, nodes, samples)
    both = ((x, x) for x in own) if dense is pruned else zip(read_by(dense, nodes, samples), own, strict=True)
    for before, after in both:
        for node in nodes:
            z, x = before[node.name], after[node.name]
            total = totals.setdefault(node.name, Moments(*np.zeros((2, x.shape[1], x.shape[1]))))
            square = x.T @ x / (len(x) * len(samples))
            total.own += square
            total.cross += square if z is x else z.T @ x / (len(x) * len(samples))
    return totals
