"""Which plan a command runs: from its options or a file, balanced where they leave the cuts open, or the default."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.boards.default_plan import default_plan
from ..pipeline.planning.plan import Plan
from . import complete
from .options import Numbers


def plan_options(command: Callable) -> Callable:
    """--plan, or --order with --cuts, or the paper's --partition-point and --partition-point2; see ``chosen_plan``."""
    for option in (
        click.option("--partition-point2", type=int, hidden=True),
        click.option("--partition-point", type=int, hidden=True),
        click.option(
            "--cuts",
            type=Numbers(int, "3,5"),
            help="Cumulative group counts, or the paper's --partition-point and --partition-point2; "
            "default about equal MACs.",
        ),
        click.option(
            "--order",
            shell_complete=complete.orders,
            help="Components in order, such as G-B-L; default the board's, no stand-in.",
        ),
        click.option(
            "--plan",
            shell_complete=complete.plans,
            help="All in one: G-B-L:3,5 or G-B-L:3~4,6, one component, B+L+G, or a plan's .json.",
        ),
    ):
        command = option(command)
    return command


def chosen_plan(
    graph: Graph,
    board: Board,
    plan: str | None,
    order: str | None,
    cuts: Sequence[int] | None,
    partition_point: int | None,
    partition_point2: int | None,
) -> Plan:
    """The plan these options ask for; ArgumentError where they contradict each other."""
    points = [point for point in (partition_point, partition_point2) if point is not None]
    if plan is not None and (order is not None or cuts or points):
        raise ArgumentError("--plan: expected no --order, --cuts or --partition-point beside it")
    if cuts and points:
        raise ArgumentError("--cuts: expected no --partition-point beside it, they mean the same")
    if partition_point2 is not None and partition_point is None:
        raise ArgumentError("--partition-point2: expected --partition-point beside it")
    if plan is not None:
        return read_plan(plan, graph)
    if (cuts or points) and order is None:
        raise ArgumentError("cuts: expected --order beside them, such as --order G-B-L")
    if order is None:
        return default_plan(graph, board)[0]
    stages = order.split("-")
    return Plan.pipeline(stages, cuts or points) if cuts or points else Plan.balanced(stages, graph)


def read_plan(text: str, graph: Graph) -> Plan:
    """The plan of a .json file, or of its text. Raises ArgumentError where it is neither."""
    return Plan.load(text, graph) if text.lower().endswith(".json") else Plan.parse(text)


def unit_names(text: str | None) -> list[str] | None:
    """The units of "big,little,Bx3" by their names; ArgumentError for another word or a unit given twice."""
    if text is None:
        return None
    names = [Plan.single(word).units[0] for word in text.split(",")]
    if len(set(names)) != len(names):
        raise ArgumentError(f"units {text!r}: expected each once")
    return names
