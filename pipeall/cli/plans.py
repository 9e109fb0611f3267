"""Which plan a command runs: the one that is named, or the board's default; and the units that are named."""

from __future__ import annotations

import click

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.boards.default_plan import NAMED, default_plan, named_plan
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.profile import Profile
from ..pipeline.planning.units import Unit
from . import complete


def plan_option(help: str) -> click.Option:
    return click.option("--plan", shell_complete=complete.plans, help=help)


def chosen_plan(graph: Graph, board: Board, plan: str | None) -> Plan:
    """The plan of ``--plan``, or the board's default for this network."""
    return default_plan(graph, board)[0] if plan is None else read_plan(plan, graph, board)


def read_plan(text: str, graph: Graph, board: Board, profile: Profile | None = None) -> Plan:
    """The plan of a .json file, of a name ("peak", "parallel"), or of its text.

    Components in order without cuts share the MACs. Raises ArgumentError where it is none of these.
    """
    if text in NAMED:
        return named_plan(text, graph, board, profile)
    if text.lower().endswith(".json"):
        return Plan.load(text, graph)
    if "-" in text and not set(text) & set(":+*()"):
        return Plan.balanced(text.split("-"), graph)
    return Plan.parse(text)


def unit_names(text: str | None) -> list[Unit] | None:
    """The units of "big,little,Bx3" by their names; ArgumentError for another word or a unit given twice."""
    if text is None:
        return None
    names = [Unit.parse(word) for word in text.split(",")]
    if len(set(names)) != len(names):
        raise ArgumentError(f"units {text!r}: expected each once")
    return names
