"""What the arguments of a Pipeline must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from ..arguments import Rule, a, by_name, is_switch, number, optional, path, refused, switch, whole
from ..errors import ArgumentError, DeviceError
from ..graph.ir import Graph
from ..graph.onnx.read.given import network
from ..picture import Picture
from .boards.board import Board, board_of
from .boards.twin import Twin
from .planning.names import component_name, parse_unit
from .planning.plan import Plan, plan_of
from .planning.profile import Profile, profile_of
from .planning.rings import MAX_SLOTS
from .rebalance import Drift

FACTOR = number(0, 1e6, above=True)  # how many times as long something takes


def trace_of(name: str, value: Any) -> bool | Path:
    """A rule: True, False, or the path of a file that can be written."""
    if is_switch(value):
        return bool(value)
    if not isinstance(value, str | PathLike) or not (found := path(name, value)).parent.is_dir():
        raise refused(name, "True, False or a path in a folder that exists", value)
    return found


def switch_or_profile(name: str, value: Any) -> bool | Profile:
    """A rule: True, False, or a profile."""
    return bool(value) if is_switch(value) else profile_of(name, value)


RULES: dict[str, Rule] = {  # of the arguments, by name
    "graph": network,
    "plan": optional(plan_of),
    "board": board_of,
    "slots": whole(1, MAX_SLOTS),
    "threads": optional(by_name(whole(1), "a dict of numbers of cores by component")),
    "depth": optional(whole(1)),
    "trace": trace_of,
    "pace": switch,
    "time_scale": FACTOR,
    "rebalance": switch_or_profile,
    "input": optional(a(Picture, "a pipeall.Picture")),
}


def check_depth(depth: int | None, slots: int, plan: Plan) -> None:
    room = slots * (max(map(len, plan.lanes)) + 1)
    if depth is not None and depth > room:
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
