"""The plan of a pipeline without one."""

from __future__ import annotations

import logging
import warnings

from ...errors import ArgumentError
from ...graph.ir import Graph
from ..planning.plan import Plan
from ..planning.profile import Profile
from ..planning.search import search, singles
from ..planning.units import traits_of
from .board import Board
from .profile_cache import cached, real_components

BUSY = (
    "{network}: its plan is by a profile that was measured while other programs took {cores:.1f} cores; "
    "pipeall profile measures it anew, best while nothing else runs"
)

NAMED = ("peak", "parallel")  # plans that a board gives

log = logging.getLogger(__name__)


def default_plan(graph: Graph, board: Board, profile: Profile | None = None) -> tuple[Plan, str]:
    """A plan for a network, and why it is this one, in words.

    The best for throughput of a search in ``profile``, in what the board's model says, or in the cached profile of
    this network (``profile_cache.py``); a warning says where other programs disturbed that one. Without any: all real
    components in the board's order with about equal MACs each, no more stages than the network has groups; how fast
    each component is does not count then.
    """
    found = profile or (board.model.profile(graph) if board.model else cached(graph, board))
    if found and not profile and found.disturbed:
        warnings.warn(BUSY.format(network=graph.name, cores=found.about["others_cores"]), RuntimeWarning, stacklevel=2)
    plan, why = (found and _best(graph, board, found)) or (
        balanced(graph, board),
        "with equal MACs: no profile is kept",
    )
    log.debug("default plan of %s: %s %s", graph.name, plan, why)
    return plan, why


def named_plan(name: str, graph: Graph, board: Board, profile: Profile | None = None) -> Plan:
    """ "parallel": the network on every real component independently; "peak": on the fastest one alone.

    The fastest is so in ``profile``, in what the board's model says, or in the cached profile of this network. Raises
    ArgumentError where there is none of them.
    """
    real = real_components(board)
    if name == "parallel":
        return Plan.parallel(real)
    times = profile or (board.model.profile(graph) if board.model else cached(graph, board))
    if times is None:
        raise ArgumentError(f"plan peak: expected times of {graph.name} to choose by: pipeall profile measures them")
    return singles(times, [component for component in real if component in times.units])[0]


def balanced(graph: Graph, board: Board) -> Plan:
    """All real components in the board's order with about equal MACs each."""
    return Plan.balanced(real_components(board)[: len(graph.groups)], graph)


def cores_of(board: Board) -> dict[str, int]:
    """How many cores each component has, where it has cores to choose from."""
    found = {}
    for component in board.components.values():
        if traits_of(component.name).cores:
            found[component.name] = component.device.width
    return found


def _best(graph: Graph, board: Board, profile: Profile) -> tuple[Plan, str] | None:
    """The best plan of the units that are here and real; None where the profile has none for them."""
    real = real_components(board)
    units = [unit for unit in profile.units if unit.component in real]
    try:
        best = search(graph, profile, units=units, cores=cores_of(board), top=1, plans="pipelines").ranked[0]
    except ArgumentError as error:
        log.debug("no default plan of %s from its profile: %s", graph.name, error)
        return None
    origin = "modelled" if profile.modelled else "measured"
    where = profile.about.get("board") if profile.modelled else profile.about.get("date")
    return best.plan, f"by its profile, {origin} {where}: {best.prediction.fps:.1f} FPS predicted"
