"""Memory of inference: the arena that the runtime plans for a graph, and two sizes to compare it with."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph.ir import Graph
from ..graph.lower.lower import storages
from ..graph.memory import live_bytes, padded, plan_arena, slot_layout


@dataclass(frozen=True, slots=True)
class Arena:
    """Bytes of the activations of one frame.

    naive    every storage in memory of its own
    planned  as the runtime lays them out (``memory.plan_arena``)
    least    the most that live at one step: no plan is smaller
    """

    naive: int
    planned: int
    least: int


def arena(graph: Graph) -> Arena:
    """The arena of a graph or sub-graph, lowered as for a device. What lies in ring slots is not part of it."""
    sizes, lifetimes = storages(graph)
    naive = sum(padded(sizes[number]) for number in lifetimes)
    return Arena(naive, plan_arena(sizes, lifetimes)[1], live_bytes(sizes, lifetimes))


def slot_bytes(graph: Graph) -> tuple[int, int]:
    """Bytes of a slot of the ring before a sub-graph, and of one of the ring after it."""
    before = slot_layout(graph.inputs, graph.receives)[1]
    after = slot_layout(graph.leaves, False, slot_layout(graph.leaving, graph.transmits)[1])[1]
    return before, after
