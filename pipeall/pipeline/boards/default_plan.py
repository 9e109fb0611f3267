"""The plan of a pipeline without one."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from math import inf

from ...errors import ArgumentError
from ...graph.ir import Graph
from ..planning.plan import Plan
from ..planning.plan_table import PredictedPlan
from ..planning.predict import predict
from ..planning.profile import Profile
from ..planning.search import search, singles
from ..planning.units import Unit
from .board import Board
from .default_units import cores_of, default_units, real_components
from .profile_cache import cached

BUSY = (
    "{network}: its plan is by a profile that was measured while other programs took {cores:.1f} cores; "
    "pipeall profile measures it anew, best while nothing else runs"
)

EVEN = 1.25  # times as long as on the fastest of equal units a frame may take on the slowest
NAMED = ("peak", "parallel")  # plans that a board gives

log = logging.getLogger(__name__)


def default_plan(
    graph: Graph, board: Board, profile: Profile | None = None, *, copies: bool = True
) -> tuple[Plan, str]:
    """A plan for a network, and why it is this one, in words.

    The best for throughput of pipelines and, with ``copies``, of copies on equal units, in ``profile``, in what the
    board's model says, or in the cached profile of this network (``profile_cache.py``); a warning says where other
    programs disturbed that one. Without any: all real components in the board's order with about equal MACs each, no
    more stages than the network has groups; how fast each component is does not count then.
    """
    found = profile or known_times(graph, board)
    if found and not profile and found.disturbed:
        warnings.warn(BUSY.format(network=graph.name, cores=found.about["others_cores"]), RuntimeWarning, stacklevel=2)
    plan, why = (found and _best(graph, board, found, copies)) or (
        balanced(graph, board),
        "with equal MACs: no profile is kept",
    )
    log.debug("default plan of %s: %s %s", graph.name, plan, why)
    return plan, why


def named_plan(name: str, graph: Graph, board: Board, profile: Profile | None = None) -> Plan:
    """ "parallel": the network on every real component independently; "peak": on the fastest one alone.

    Where all cores are equal, all of them at once are one of the components that may be the fastest. It is the fastest
    in ``profile``, in what the board's model says, or in the cached profile of this network. Raises ArgumentError where
    there is none of them.
    """
    if name == "parallel":
        return Plan.parallel(real_components(board))
    times = profile or known_times(graph, board)
    if times is None:
        raise ArgumentError(f"plan peak: expected times of {graph.name} to choose by: pipeall profile measures them")
    return singles(times, [unit for unit in default_units(board) if unit in times.units])[0]


def plan_for_one(graph: Graph, board: Board) -> Plan:
    """The plan for a frame with no other under way: on one unit, which is the fastest where that is known."""
    times = known_times(graph, board)
    return named_plan("peak", graph, board, times) if times else Plan.single(board.default_component)


def balanced(graph: Graph, board: Board) -> Plan:
    """All real components in the board's order with about equal MACs each."""
    return Plan.balanced(real_components(board)[: len(graph.groups)], graph)


def known_times(graph: Graph, board: Board) -> Profile | None:
    """The times of a network on a board: of its model, or the cached profile; None where there are none."""
    return board.model.profile(graph) if board.model else cached(graph, board)


def _best(graph: Graph, board: Board, profile: Profile, copies: bool) -> tuple[Plan, str] | None:
    """The best plan of the units that are here and real; None where the profile has none for them."""
    here = {unit.component for unit in default_units(board)}
    units = [unit for unit in profile.units if unit.component in here]
    others = equal_copies(board, units) if copies else []
    try:
        pipeline = search(graph, profile, units=units, cores=cores_of(board), top=1, plans="pipelines").ranked[0]
        choices = [pipeline, *filter(_even, (PredictedPlan(plan, predict(profile, plan)) for plan in others))]
    except ArgumentError as error:
        log.debug("no default plan of %s from its profile: %s", graph.name, error)
        return None
    best = min(choices, key=lambda choice: choice.prediction.period_ms)
    origin = "modelled" if profile.modelled else "measured"
    where = profile.about.get("board") if profile.modelled else profile.about.get("date")
    why = f"by its profile, {origin} {where}: {best.prediction.fps:.1f} FPS predicted"
    return best.plan.made_for(graph), why


def equal_copies(board: Board, units: Sequence[Unit]) -> list[Plan]:
    """The network on each of equal units, as many as there are cores for.

    Copies on unequal ones are left out: a frame would take as long as the slowest of them does.
    """
    cores = cores_of(board)
    sets = [[unit] * (cores[unit.component] // unit.cores) for unit in units if unit.cores]
    if board.all_cores:
        sets.append([unit for unit in units if unit in board.components and unit in cores])
    return [Plan.parallel(equal) for equal in sets if len(equal) > 1]


def _even(copies: PredictedPlan) -> bool:
    """Whether a frame takes about as long on each copy."""
    ms = [sum(lane) for lane in copies.prediction.stage_ms]
    return max(ms) <= EVEN * min(ms) < inf
