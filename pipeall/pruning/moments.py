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
    """For each sample what each of these layers reads, (groups, rows, weights of an output + 1) with a 1 behind, by the
    layer's name."""
    inputs = {tensor.name for tensor in graph.inputs}
    watched = list(dict.fromkeys(node.inputs[0] for node in nodes if node.inputs[0] not in inputs))
    run = outputs_of(ahead_of(graph, watched), samples, "", silent) if watched else ({} for _ in samples)
    for sample, outputs in zip(samples, run, strict=True):
        values = sample | outputs
        yield {node.name: _with_one(rows(graph, node, values[node.inputs[0]])) for node in nodes}


def _with_one(x: np.ndarray) -> np.ndarray:
    return np.concatenate((x, np.ones((*x.shape[:-1], 1), np.float32)), -1)


def moments(z: np.ndarray, x: np.ndarray) -> Moments:
    """Of rows, (rows, channels + 1): what the dense network reads, and the pruned one."""
    own = (x.T @ x).astype(np.float64) / len(x)
    return Moments(own, own.copy() if z is x else (z.T @ x).astype(np.float64) / len(x))


def moments_of(graph: Graph, nodes: Sequence[Node], samples: Sequence[Arrays]) -> dict[str, Moments]:
    """Of each of these layers, which are not pruned yet and have one group."""
    totals: dict[str, Moments] = {}
    for read in read_by(graph, nodes, samples):
        for name, (x,) in read.items():
            of_sample, total = moments(x, x), totals.setdefault(name, Moments(*np.zeros((2, x.shape[1], x.shape[1]))))
            total.own += of_sample.own / len(samples)
            total.cross += of_sample.cross / len(samples)
    return totals
