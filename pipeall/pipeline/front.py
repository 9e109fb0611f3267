"""A stage in front of a lane: where the first unit has no kernel for pictures, a CPU makes the network's input of them.

It is no stage of the plan, whose groups keep their numbers: it has none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..errors import DeviceError
from ..graph.ir import Graph
from ..graph.lower.lower import lower
from ..graph.partition import subgraph
from ..graph.passes.picture_input import pictures_of
from .boards.board import Board, host_component
from .devices.device import Component
from .planning.plan import Plan, StagePlan
from .planning.schedule_plan import RealUnit
from .planning.units import Unit, overlap, traits_of
from .stats import NO_GROUPS


class Row(NamedTuple):
    """A lane's stages as they are compiled, their units, and the plan's groups [first, last) of each."""

    graph: Graph
    stages: tuple[StagePlan, ...]
    units: tuple[Component, ...]
    groups: tuple[tuple[int, int], ...]


def row_of(graph: Graph, stages: Sequence[StagePlan], units: Sequence[Component], spare: Component | None) -> Row:
    """The stages of a lane, with one in front on ``spare`` where the first unit cannot run a picture's step."""
    groups = tuple((stage.first, len(graph.groups) if stage.last is None else stage.last) for stage in stages)
    as_planned = Row(graph, tuple(stages), tuple(units), groups)
    if spare is None:
        return as_planned
    apart = _apart(graph)
    moved = len(apart.groups) - len(graph.groups)  # 0: the step is a group of the plan's own
    if (not moved and groups[0][1] == 1) or not _refuses(units[0], apart):
        return as_planned
    later = tuple(
        replace(stage, first=stage.first + moved, last=None if stage.last is None else stage.last + moved)
        for stage in stages
    )
    front = StagePlan(Unit.parse(spare.name), 0, 1)
    return Row(apart, (front, replace(later[0], first=1), *later[1:]), (spare, *units), (NO_GROUPS, *groups))


def spare_unit(graph: Graph, plan: Plan, board: Board) -> Component | None:
    """What a stage in front of a plan's lanes would run on: the slowest cluster that the plan leaves free, else a core
    of the slowest. None where no picture enters, or the board has no cluster."""
    if not pictures_of(graph):
        return None
    clusters = [part for part in board.components.values() if traits_of(part.name).cores]
    if not clusters:
        return None
    taken = {unit.component for unit in plan.units}
    free = [part for part in clusters if not any(part.name == name or overlap(part.name, name) for name in taken)]
    if board.model:
        return host_component(Unit((free or clusters)[-1].name))
    return free[-1] if free else clusters[-1].with_cores(Unit(clusters[-1].name, 1), clusters[-1].device.cores[-1:])


def front_unit(name: str) -> RealUnit:
    """The unit of a stage in front: a whole cluster, which plans may have too, or the last core of one."""
    unit = Unit.parse(name)
    return RealUnit(unit.component, 0 if unit.cores is None else -1, unit.cores)


def _apart(graph: Graph) -> Graph:
    """The network whose picture's step is a group of its own."""
    nodes = list(graph.nodes)
    for node in pictures_of(graph).values():
        picture = replace(node.attrs["picture"], apart=True)
        nodes[nodes.index(node)] = replace(node, attrs={**node.attrs, "picture": picture})
    return replace(graph, nodes=tuple(nodes))


def _refuses(unit: Component, apart: Graph) -> bool:
    """Whether a unit has no kernel for the first group; a device that finds out only when it compiles is tried."""
    if unit.device.cores is not None:
        return False
    device = unit.device
    step = lower(subgraph(apart, 0, 1), int8=device.int8, fp16=device.fp16, silu=device.silu)
    if device.unsupported(step):
        return True
    try:
        unit.device.compile(step, unit.name)
    except DeviceError:
        return True
    return False
