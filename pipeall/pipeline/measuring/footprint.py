"""Memory that a plan takes when it runs, before it does: packed weights, arenas, scratch and ring slots.

A stage is priced by the device it would run on (``footprint`` of its device), so that lowering, arena, algorithms and
packing are those of the runtime, as far as nothing is timed. An OpenCL stage is counted by its weights and arena. The
stages of a unit share the largest arena that one of them needs, which counts there; packed weights that lanes share
count in the first.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...graph.ir import Graph
from ..boards.board import Board
from ..devices.device import Component
from ..lane import block_bytes, lowered_stages, ring_ends
from ..planning.plan import Plan, StagePlan
from ..planning.rings import slots_behind, under_way

STAGE_BYTES = 300_000  # stacks and tables of a stage's threads, counters and Python objects: measured, one small layer


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Bytes of one stage. ``weights``: whole pages; ``rings``: the slots after it, and before it if it is the first;
    with them what a block of each frame under way has for outputs that leave early here."""

    unit: str
    groups: tuple[int, int]
    weights: int
    arena: int
    scratch: int
    rings: int
    overhead: int = STAGE_BYTES

    @property
    def total(self) -> int:
        return self.weights + self.arena + self.scratch + self.rings + self.overhead


def footprint(
    graph: Graph, plan: Plan | str, board: Board | None = None, slots: int = 2, depth: int | None = None
) -> list[StageMemory]:
    """What ``Pipeline`` of the same arguments takes beyond the graph, by stage, all lanes one after the other.

    Parameters
    ----------
    graph, plan
        What runs, and how.
    board
        Default ``Board.detect()``.
    slots
        Of each ring.
    depth
        Frames under way in a lane; default one more than it has stages and floating cuts. 0: as many as it has units.

    Returns
    -------
    list of StageMemory
        Bytes of each stage; on a modelled board as this machine's kernels pack and compute it.

    Raises
    ------
    ArgumentError
        For a plan that does not fit the network.
    DeviceError
        For a component that the board lacks.
    """
    board = board or Board.detect()
    plan = Plan.parse(plan) if isinstance(plan, str) else plan
    memories: list[StageMemory] = []
    packed: dict[Any, Any] = {}
    for stages, parts in zip(plan.lanes, board.units(plan), strict=True):
        lane = _lane(graph, stages, parts, slots, under_way(stages, depth), packed)
        numbers = plan.unit_of[len(memories) : len(memories) + len(lane)]
        memories += _with_shared_arenas(lane, numbers)
    return memories


def _with_shared_arenas(lane: Sequence[StageMemory], unit_of: Sequence[int]) -> list[StageMemory]:
    """The arena of each unit counts in the first of its stages that needs the most."""
    largest: dict[int, int] = {}
    for index, stage in enumerate(lane):
        best = largest.setdefault(unit_of[index], index)
        if stage.arena > lane[best].arena:
            largest[unit_of[index]] = index
    return [stage if index in largest.values() else replace(stage, arena=0) for index, stage in enumerate(lane)]


def _lane(
    graph: Graph,
    stages: Sequence[StagePlan],
    parts: Sequence[Component],
    slots: int,
    depth: int,
    packed: MutableMapping[Any, Any],
) -> list[StageMemory]:
    memories = []
    lowered = lowered_stages(graph, stages, parts)
    ends = ring_ends(stages, lowered)
    for index, (stage, part, unit) in enumerate(zip(stages, lowered, parts, strict=True)):
        rings = slots_behind(stages, index, slots) * sum(ring.nbytes for ring in ends if ring.sender == index)
        if index == 0:
            rings += max(slots, depth) * part.slot_in_bytes
        rings += depth * block_bytes(part)
        shared = {"packed": packed} if unit.device.shares else {}
        together = {"batch": stage.unit.batch} if stage.unit.batch > 1 else {}
        sizes = unit.device.footprint(part, **shared, **together)
        page = unit.device.page_bytes
        weights = -(-sizes["weights"] // page) * page
        groups = stage.first, len(graph.groups) if stage.last is None else stage.last
        memories.append(StageMemory(unit.name, groups, weights, sizes["arena"], sizes["scratch"], rings))
    return memories
