"""Which tensors of rank 4 are images: those that ops on pixels read or write, and what computes in their layout.

A tensor of rank 4 that never meets such an op, as heads of attention or windows of tokens, lies better in row-major
order.
"""

from __future__ import annotations

from .ir import Graph, Node
from .ops import Trait, has


def image_names(graph: Graph) -> frozenset[str]:
    """The tensors that should lie as pixels do."""
    on_pixels: set[str] = set()
    passed: set[str] = set()  # outputs of nodes that have been looked at
    nodes_of: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in (*node.inputs, node.output):
            nodes_of.setdefault(name, []).append(node)
    met = [name for node in graph.nodes if has(node.op, Trait.IMAGES) for name in (node.inputs[0], node.output)]
    while met:
        name = met.pop()
        if name in on_pixels or name not in graph.tensors or len(graph.tensors[name].shape) != 4:
            continue
        on_pixels.add(name)
        for node in nodes_of[name]:
            if not has(node.op, Trait.REORDERS) and node.output not in passed:
                passed.add(node.output)
                met += (*node.inputs, node.output)
    return frozenset(on_pixels)
