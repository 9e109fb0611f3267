"""What the arguments of a Pipeline must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..errors import ArgumentError, DeviceError
from ..graph.ir import Graph
from .boards.board import Board
from .boards.twin import Twin
from .planning.names import component_name, parse_unit
from .planning.plan import Plan
from .planning.profile import Profile
from .planning.rings import MAX_SLOTS
from .rebalance import Drift


def check_options(slots: int, trace: bool | str | Path) -> None:
    if not isinstance(slots, int) or not 1 <= slots <= MAX_SLOTS:
        raise ArgumentError(f"slots: expected 1 to {MAX_SLOTS}, got {slots!r}")
    if not isinstance(trace, bool) and not (isinstance(trace, (str, Path)) and Path(trace).parent.is_dir()):
        raise ArgumentError(f"trace: expected True, False or a path in a folder that exists, got {trace!r}")


def check_depth(depth: int | None, slots: int, plan: Plan) -> None:
    room = slots * (max(map(len, plan.lanes)) + 1)
    if depth is not None and (not isinstance(depth, int) or not 1 <= depth <= room):
        raise ArgumentError(f"depth: expected 1 to {room}, as many as {slots} slots a ring hold, got {depth!r}")


def check_pace(pace: bool, board: Board) -> None:
    if pace and board.model is None:
        raise DeviceError("pace: expected a model of a board, such as Board.load('a311d'), got a real one")
    if not pace and board.model is not None:
        raise DeviceError(f"board {board.model.name} is a model: expected pace=True to run at its pace here")


def drift_of(graph: Graph, plan: Plan, board: Board, twin: Twin | None, rebalance: bool | Profile) -> Drift | None:
    """What watches the plan; of the profile's units those that are real, or that the plan names."""
    if rebalance is False:
        return None
    profile = twin.profile if twin and rebalance is True else rebalance
    if not isinstance(profile, Profile):
        raise ArgumentError(f"rebalance: expected a Profile of {graph.name} on this board, got {rebalance!r}")
    real = {component.name for component in board.components.values() if not component.stand_in}
    here = {unit: times for unit, times in profile.units.items() if parse_unit(unit)[0] in real | {*plan.components}}
    return Drift(graph, replace(profile, units=here), plan)


def limited(plan: Plan, threads: Mapping[str, int]) -> Plan:
    """The plan with these numbers of cores for the components that it takes whole."""
    limits = {component_name(key): count for key, count in threads.items()}
    whole = {stage.component for lane in plan.lanes for stage in lane if stage.cores is None}
    if unknown := limits.keys() - whole:
        raise ArgumentError(f"threads: expected whole components of plan {plan}, got {', '.join(sorted(unknown))}")
    lanes = (
        tuple(replace(stage, cores=stage.cores or limits.get(stage.component)) for stage in lane) for lane in plan.lanes
    )
    return replace(plan, lanes=tuple(lanes))
