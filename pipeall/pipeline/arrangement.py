"""What runs, of a pipeline's arguments: the network with its picture's step, the plan, the times that are known."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..graph.passes.picture_input import with_picture
from ..picture import Picture
from .boards.board import Board
from .boards.default_plan import default_plan
from .boards.emulator import Emulator
from .planning.plan import Plan
from .planning.predict import with_shares
from .planning.profile import Profile


class Arrangement(NamedTuple):
    """A network as it runs (``divided``: as cached profiles know it), its plan and why, its times where known."""

    graph: Graph
    divided: Graph
    plan: Plan
    choice: str
    profile: Profile | None
    emulator: Emulator | None


def arranged(
    graph: Graph,
    plan: Plan | None,
    profile: Profile | None,
    input: Picture | None,
    *,
    board: Board,
    time_scale: float,
    slots: int,
    depth: int | None,
    fault: tuple[int, int] | None,
    copies: bool,
) -> Arrangement:
    """What runs a network. Arguments as for ``Pipeline``; raises ArgumentError for those that do not go together.

    copies: a plan that nobody gives may be of several lanes, as for ``default_plan``.
    """
    pictured = graph if input is None else with_picture(graph, input)
    divided = divided_graph(graph, input)
    choice = "given"
    if plan is None:
        plan, choice = default_plan(divided, board, profile, copies=copies)
    else:
        plan.check_network(divided)
    _check(plan, board, slots, depth, time_scale, fault)
    emulator = None if board.model is None else Emulator(pictured, board, time_scale)
    known = profile or (emulator and emulator.profile)
    if known and plan.lacks_shares:
        plan = with_shares(known, plan)
    return Arrangement(pictured, divided, plan, choice, known, emulator)


def divided_graph(graph: Graph, input: Picture | None) -> Graph:
    """A network as plans divide it: with its picture's step where that is a group of its own."""
    return with_picture(graph, input) if input and input.apart else graph


def _check(
    plan: Plan, board: Board, slots: int, depth: int | None, time_scale: float, fault: tuple[int, int] | None
) -> None:
    """Raises ArgumentError for arguments that do not go together."""
    room = slots * (max(map(len, plan.lanes)) + 1)
    if depth is not None and depth > room:
        raise ArgumentError(f"depth: expected 0 to {room}, as many as {slots} slots a ring hold, got {depth!r}")
    if fault and all(fault[0] >= len(lane) for lane in plan.lanes):
        raise ArgumentError(f"PIPEALL_FAULT: expected a stage of plan {plan} (from 0), got {fault[0]}")
    if time_scale != 1 and board.model is None:
        raise ArgumentError(f"time_scale: expected an emulated board, such as Board.load('a311d'), for {time_scale!r}")
