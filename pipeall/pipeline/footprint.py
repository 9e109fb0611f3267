"""Memory that a plan takes when it runs, before it does: packed weights, arenas, scratch and ring slots.

A CPU stage is compiled as it would be to run, only that its weights are not written (``device_cpu.footprint``), so that
lowering, arena, algorithms and packing are those of the runtime. An OpenCL stage is counted by its weights and arena.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .._kernels.memory import mapped_page_bytes
from ..errors import ArgumentError
from ..graph.ir import Graph
from ..graph.lower import lower
from ..graph.partition import subgraph
from ..graph.steps import Lowered
from . import device_cpu
from .board import Board, Component
from .plan import Plan
from .units import units

FLOAT_BYTES = 4
STAGE_BYTES = 300_000  # stacks and tables of a stage's threads, counters and Python objects: measured, one small layer


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Bytes of one stage. ``weights``: whole pages; ``rings``: the slots after it, and before it if it is the first."""

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

    Raises ArgumentError for a plan that does not fit the network, DeviceError for a component that the board lacks.
    """
    board = board or Board.detect()
    plan = Plan.parse(plan) if isinstance(plan, str) else plan
    found = []
    for stages, parts in zip(plan.lanes, units(plan, board), strict=True):
        ranges = [(stage.first, len(graph.groups) if stage.last is None else stage.last) for stage in stages]
        if ranges[-1][1] > len(graph.groups):
            raise ArgumentError(f"plan {plan}: expected cuts below {len(graph.groups)} for {graph.name}")
        lowered = [lower(subgraph(graph, first, last)) for first, last in ranges]
        first_ring = max(slots, len(ranges) + 1 if depth is None else depth)
        found += _lane(lowered, ranges, parts, slots, first_ring)
    return found


def _lane(
    lowered: Sequence[Lowered],
    ranges: Sequence[tuple[int, int]],
    parts: Sequence[Component],
    slots: int,
    first_ring: int,
) -> list[StageMemory]:
    found = []
    for index, (part, groups, unit) in enumerate(zip(lowered, ranges, parts, strict=True)):
        rings = FLOAT_BYTES * slots * part.slot_out_elements
        if index == 0:
            rings += FLOAT_BYTES * first_ring * part.slot_in_elements
        sizes = device_cpu.footprint(part, unit) if unit.cluster else _opencl(part)
        page = mapped_page_bytes() if unit.cluster else 1
        weights = -(-sizes["weights"] // page) * page
        found.append(StageMemory(unit.name, groups, weights, sizes["arena"], sizes["scratch"], rings))
    return found


def _opencl(part: Lowered) -> dict[str, int]:
    weights = sum(array.nbytes for step in part.steps for array in (step.weight, step.bias) if array is not None)
    return {"weights": weights, "arena": FLOAT_BYTES * part.arena_elements, "scratch": 0}
