"""x[mask] = number, which exporters write as the places where the mask is set and a scatter of the number to them.

How many places there are depends on the data, so neither can be computed. Together they are a choice for each element.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..read.build import Builder, OnnxNode
from ..read.reader import has_subgraph

FILL = "x[mask]=number"  # no operator: x, mask and number; without spaces, as names of operators are
REPEATS = frozenset("Expand Identity Reshape Squeeze Unsqueeze".split())  # of one element


def with_fills(
    nodes: Sequence[OnnxNode], constants: Mapping[str, np.ndarray], results: Collection[str]
) -> list[OnnxNode]:
    """The nodes with FILL for such a scatter, and without those that only it needed; as they are where there are
    subgraphs, which read names without saying so."""
    if any(map(has_subgraph, nodes)):
        return list(nodes)
    producers = {name: node for node in nodes for name in node.outputs}
    filled = [_fill(node, producers, constants) or node for node in nodes]
    return list(nodes) if filled == list(nodes) else _needed(filled, results)


def _fill(node: OnnxNode, producers: Mapping[str, OnnxNode], constants: Mapping[str, np.ndarray]) -> OnnxNode | None:
    if node.op != "ScatterND" or len(node.inputs) != 3 or node.attrs.get("reduction", "none") != "none":
        return None
    x, places, number = node.inputs
    turned = producers.get(places)
    if turned is None or turned.op != "Transpose" or turned.attrs.get("perm", [1, 0]) != [1, 0]:
        return None
    nonzero = producers.get(turned.inputs[0])
    while number in producers and producers[number].op in REPEATS:
        number = producers[number].inputs[0]
    producer = producers.get(number)
    value = producer.attrs.get("value") if producer is not None and producer.op == "Constant" else constants.get(number)
    if nonzero is None or nonzero.op != "NonZero" or not isinstance(value, np.ndarray) or value.size != 1:
        return None
    return replace(node, op=FILL, inputs=(x, nonzero.inputs[0], number), attrs={})


def _needed(nodes: Sequence[OnnxNode], results: Collection[str]) -> list[OnnxNode]:
    needed, kept = set(results), []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return kept[::-1]


def fill(g: Builder, n: OnnxNode) -> None:
    x, mask, number = g.value(n, 0), g.value(n, 1), g.constant(n, 2).reshape(-1)[0]
    shape, of = g.shape_of(x), g.shape_of(mask)
    if of != shape[: len(of)]:
        n.fail(f"expected a mask of the first axes of {shape}, got {of}")
    places = of + (1,) * (len(shape) - len(of))
    if isinstance(mask, np.ndarray):
        chosen = (mask != 0).reshape(places)
        if isinstance(x, np.ndarray):
            g.bind(n, np.where(chosen, number.astype(x.dtype), x))
            return
        mask = g.new_constant(n, chosen, "places")
    else:
        mask = g.reshape(n, g.cast(n, mask, "bool", part="mask"), places, part="places")
    x = g.operand(n, 0)
    value = g.number(n, number, x)
    g.emit(n, "where", [mask, value, x])
