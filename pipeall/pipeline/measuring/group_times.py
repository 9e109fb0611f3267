"""How long each group took, from the trace of a stage."""

from __future__ import annotations

import numpy as np

from ...graph.ir import Graph
from ..trace import StageTrace


def group_ms(graph: Graph, trace: StageTrace, rows: np.ndarray) -> np.ndarray:
    """(frames, groups of the graph): time in the steps of each group; zeros for groups of other stages.

    A step that bears no node's or tensor's name counts with the one before it.
    """
    nodes = [(node, index) for index, group in enumerate(graph.groups) for node in group.nodes]
    group = dict.fromkeys((tensor.name for tensor in graph.inputs), 0)
    group |= {node.output: index for node, index in nodes}
    group |= {node.name: index for node, index in nodes}  # a tensor's name may be that of another node
    ms = np.zeros((len(rows), len(graph.groups)))
    index = trace.groups[0]
    for step, (_, name) in enumerate(trace.labels):
        index = max(group.get(name, index), trace.groups[0])
        ms[:, index] += (rows[:, trace.GIVEN + step + 1] - rows[:, trace.GIVEN + step]) / 1e6
    return ms
