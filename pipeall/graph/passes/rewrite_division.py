"""Divisions by constants as products, which processors compute several times as fast.

A product with the reciprocal may differ from the quotient in the last bit: 41 * (1 / 41) is below 1. So a division
stays where something tells the two apart: behind it values are rounded, compared, ordered or cast, and no sum over
many of them comes before that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..builder import fresh, with_nodes
from ..ir import Graph, Node
from ..ops import Trait, has

SMALLEST = float(np.finfo(np.float32).tiny)
FLOATS = ("float16", "float32")


def multiplied(graph: Graph) -> Graph:
    """The graph with products in place of divisions by constants, where nothing tells them apart."""
    if not any(node.op == "div" for node in graph.nodes):
        return graph
    decided: set[str] = set()  # tensors whose last bit may decide
    nodes, constants = list(graph.nodes), dict(graph.constants)
    for i, node in reversed(list(enumerate(graph.nodes))):
        if _decides(node) or (node.output in decided and not has(node.op, Trait.SUMS)):
            decided.update(node.inputs)
        divisor = constants.get(node.inputs[1]) if node.op == "div" and not node.attrs["swapped"] else None
        if divisor is None or divisor.dtype.kind != "f" or not _has_reciprocal(divisor):
            continue
        if node.output in decided and not _is_exact(divisor):
            continue
        name = fresh(f"{node.output}/factor", constants, graph.tensors)
        constants[name] = 1 / divisor
        nodes[i] = replace(node, op="mul", inputs=(node.inputs[0], name))
    return with_nodes(graph, nodes, graph.tensors, constants, graph.qparams)


def _decides(node: Node) -> bool:
    return has(node.op, Trait.JUMPS) or (node.op == "cast" and node.attrs["to"] not in FLOATS)


def _has_reciprocal(divisor: np.ndarray) -> bool:
    """Whether the divisor and its reciprocal are of normal size."""
    sizes = np.abs(divisor)
    return sizes.min() >= SMALLEST and sizes.max() <= 1 / SMALLEST


def _is_exact(divisor: np.ndarray) -> bool:
    """Whether the divisor is a power of 2, so that the product is the quotient."""
    return bool((np.abs(np.frexp(divisor)[0]) == 0.5).all())
