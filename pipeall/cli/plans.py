"""Plans, units and profiles by what is named on the command line; and where times are from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import click
from rich.progress import Progress

from ..errors import ArgumentError
from ..files import checkpoint
from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.boards.default_plan import NAMED, default_plan, named_plan, plan_for_one
from ..pipeline.boards.models.price_list import PriceList
from ..pipeline.boards.models.regression import Regression
from ..pipeline.devices.timings import export_times
from ..pipeline.measuring import profiler
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.profile import Profile, disturbed
from ..pipeline.planning.uncertainty import Interval
from ..pipeline.planning.units import Unit
from . import complete
from .output import tracked
from .tables import print_text


def plan_option(help: str) -> click.Option:
    return click.option("--plan", shell_complete=complete.plans, help=help)


def chosen_plan(
    graph: Graph, board: Board, plan: str | None, frames: int | None = None, *, copies: bool = True
) -> Plan:
    """The plan of ``--plan``, or the board's default for this network and so many frames; ``copies`` as for that."""
    if plan is not None:
        return read_plan(plan, graph, board)
    return plan_for_one(graph, board) if frames == 1 else default_plan(graph, board, copies=copies)[0]


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


BUSY = (
    "BUSY: while {what}, other programs took the time of up to {cores:.1f} cores; "
    "times are longer than the machine alone would take."
)

SLOW = "Clocks were below their top: {clocks}; the board can do better."

SHORT = "To be done in about a minute some parts of the profile ran {shortest:.2g} s; --seconds 1 gives each as much."


def load_board(name: str | None) -> Board:
    """This machine, or the model of another board."""
    return Board.load(name) if name is not None else Board.detect()


def measured(
    graph: Graph,
    board: Board,
    units: Sequence[str] | None,
    seconds: float | None,
    bar: Progress,
    kept: Profile | None = None,
    path: Path | None = None,
) -> Profile:
    """The profile of a network; with a bar while it is measured, and saved at ``path`` after each part."""
    with tracked(bar, graph.name) as show:
        return profiler.profile(
            graph,
            board,
            units,
            seconds=seconds,
            kept=kept,
            checkpoint=lambda so_far: checkpoint(lambda: so_far.save(path)) if path else None,
            progress=show,
        )


def write_tuning(path: str, quiet: bool) -> None:
    """Writes the timings of kernels that are kept on this machine."""
    shapes = export_times(path)
    if not quiet:
        print_text(f"{path}: timings of {shapes} shapes")


def times_lines(profile: Profile, board: Board | None = None) -> list[str]:
    """Lines that say where modelled times are from, and how far off they may be; of measured ones that other programs
    disturbed, how much, where parts were shortened, and where clocks were low."""
    if not profile.modelled:
        others, shortest = profile.about.get("others_cores"), profile.about.get("shortest_s")
        lines = [] if shortest is None else [SHORT.format(shortest=shortest)]
        lines += [SLOW.format(clocks=profile.slow_clocks)] if profile.slow_clocks else []
        return lines + ([BUSY.format(what="the profile was measured", cores=others)] if disturbed(others) else [])
    line = f"times of {profile.about.get('board')}: {profile.about.get('times')}"
    if board and board.model and profile.about.get("times") in (Regression.source, PriceList.source):
        errors = {
            unit: fmean(map(abs, row.values()))
            for unit, row in board.model.errors.items()
            if row and unit in profile.units
        }
        if errors:
            shares = ", ".join(f"{unit} {error:.0%}" for unit, error in errors.items())
            line += f"; off by {shares} on average for networks left out of its fit"
    lines = [line]
    if whole := profile.about.get("whole_network_published"):
        told = ", ".join(f"{unit} of {network}" for unit, network in whole.items())
        lines.append(f"whole network published: {told}; what a part of it takes is a guess")
    if profile.error:
        shares = ", ".join(f"{unit} {error:.0%}" for unit, error in profile.error.items())
        lines.append(f"in four of five cases these times are not further off than {shares}")
    return lines


def fps_text(known: Interval) -> str:
    return f"{known.fps[0]:.1f} to {known.fps[1]:.1f}"
