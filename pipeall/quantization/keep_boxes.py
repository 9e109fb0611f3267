"""Which nodes of a detector stay floats so that its boxes stay: those that take most of the difference for the least
work.

The levels of a tensor change boxes by so much. What several tensors do is independent: the squares add. So each tensor
is quantized alone in the network of floats, and the difference of the boxes is its part of the whole. A tensor that
only nodes of floats read is not quantized, and its part goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from ..graph.ir import Graph, Node
from ..graph.ops import macs
from .calibration_run import CalibrationRun, Reference
from .config import QuantConfig
from .quantizable import Quantizable, integer_nodes, layers_with_activations, quantizable

FEW = 4  # samples, those with the most boxes, by which tensors are compared
NEAR = 0.05  # by which boxes may differ
SHARE = 0.1  # of the multiply-accumulates, that may be those of floats; half as much on top of what always is
TIME = 0.2  # of the multiply-accumulates, that new floats may cost, elements counted too
ELEMENT = 16  # multiply-accumulates that an element costs where a node has none
LOUDEST = 24  # tensors of which one is freed next
LITTLE = 0.002  # of what is left of the difference (squared): less is not worth a node of floats


def keep_boxes(config: QuantConfig, reference: Reference, run: CalibrationRun) -> QuantConfig:
    """The configuration itself, where it keeps the boxes; else one with nodes of floats, as few as are enough."""
    if run.box_difference(config.resolve().build(), reference) <= NEAR:
        return config
    choices = [config, *_with_floats(config, _parts(config, reference.busiest(FEW), run))]
    low, high = 0, len(choices) - 1
    while low < high:
        middle = (low + high) // 2
        enough = run.box_difference(choices[middle].resolve().build(), reference) <= NEAR
        low, high = (low, middle) if enough else (middle + 1, high)
    return choices[high]


def _parts(config: QuantConfig, reference: Reference, run: CalibrationRun) -> dict[str, float]:
    """Of every quantized tensor, the square of what it makes boxes differ by, with those that share its parameters."""
    resolved, parts = config.resolve(), {}
    for done, (root, names) in enumerate(resolved.quantizable.sources.items()):
        run.progress("tensors", done, len(resolved.qparams))
        parts |= dict.fromkeys(names, run.box_difference(resolved.alone(root), reference) ** 2)
    run.progress("tensors", len(resolved.qparams), len(resolved.qparams))
    return parts


@dataclass(frozen=True)
class _Step:
    """Names of nodes of floats, what they cost, what is quantized then, and its part of the difference."""

    floats: frozenset[str]
    cost: int
    of: Quantizable
    part: float


def _with_floats(config: QuantConfig, parts: Mapping[str, float]) -> Iterator[QuantConfig]:
    """The configuration with more and more nodes of floats, at each step those that take most for their cost."""
    graph = config.graph
    able, groups = integer_nodes(graph), layers_with_activations(graph)

    def step(floats: frozenset[str], cost: int) -> _Step:
        of = quantizable(graph, floats)
        return _Step(floats, cost, of, sum(max(parts[name] for name in names) for names in of.sources.values()))

    now = step(config.float_nodes, 0)
    every = _macs(graph.nodes, graph)
    least = min((1 - SHARE) * every, _macs(now.of.layers, graph) - SHARE / 2 * every)
    while True:
        readers = _readers(graph, now.of, able - now.floats)
        loudest = sorted(readers, key=lambda root: max(parts[name] for name in now.of.sources[root]))[-LOUDEST:]
        tried = [
            step(
                now.floats.union(*(groups.get(node.name, {node.name}) for node in readers[root])),
                now.cost + sum(_cost(node, graph) for node in readers[root]),
            )
            for root in loudest
        ]
        tried = [each for each in tried if each.cost <= TIME * every and _macs(each.of.layers, graph) >= least]
        tried = [each for each in tried if now.part - each.part > LITTLE * now.part]
        if not tried:
            return
        now = max(tried, key=lambda each: (now.part - each.part) / (each.cost - now.cost))
        yield replace(config, float_nodes=now.floats)


def _readers(graph: Graph, of: Quantizable, integer: set[str]) -> dict[str, list[Node]]:
    """The nodes of integers that read the tensors of each root, moved or not."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for root in {of.root[name] for name in node.inputs if name in of.root} if node.name in integer else ():
            readers.setdefault(root, []).append(node)
    return readers


def _macs(nodes: Iterable[Node], graph: Graph) -> int:
    return sum(macs(node, graph) for node in nodes)


def _cost(node: Node, graph: Graph) -> int:
    return macs(node, graph) or ELEMENT * prod(graph.tensors[node.output].shape)
