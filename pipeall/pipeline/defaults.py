"""What a Pipeline takes for granted: a plan is chosen."""

from __future__ import annotations

from ..graph.ir import Graph
from .boards.board import Board
from .boards.default_plan import default_plan
from .planning.plan import Plan
from .planning.profile import Profile


def chosen(graph: Graph, board: Board, plan: Plan | None, profile: bool | Profile) -> tuple[Plan, str]:
    """The plan, and who chose it, in words. Raises ArgumentError for one that was made for another network."""
    if plan is None:
        return default_plan(graph, board, profile if isinstance(profile, Profile) else None)
    plan.check_network(graph)
    return plan, "given"
