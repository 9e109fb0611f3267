"""Every configuration run for real, as the papers' authors did to find the best, but in one process; resumable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

from ...errors import PipeallError
from ...files import JsonReader
from ...graph.ir import Graph
from ...journal import Journal
from ...progress import Progress, silent
from ..boards.board import Board
from ..boards.default_units import cores_of
from ..boards.machine import describe
from ..planning.plan import Plan, borders
from ..planning.profile import crossing_bytes
from ..planning.units import Unit, unit_sets
from .trial import compare
from .verify import TURNS

FINALISTS = 5  # of the fastest, measured once more
LEAST_MS = 1e-6  # a nanosecond
PAIR_TURNS = 3  # of each configuration, and of the reference beside it


def configurations(groups: int, units: Sequence[str], cores: Mapping[str, int]) -> list[Plan]:
    """Every order and cut of all sets of the units that can run at once, fewer stages first."""
    return [
        Plan.pipeline(order, cuts)
        for team in unit_sets(units, groups, cores)
        for order in sorted(set(permutations(team)))
        for cuts in combinations(range(1, groups), len(team) - 1)
    ]


def offered(graph: Graph, board: Board, units: Sequence[str]) -> list[Plan]:
    """Those whose stages units may have that have ranges compiled ahead."""
    every = configurations(len(graph.groups), units, cores_of(board))
    known = {unit: board.component(Unit.parse(unit).whole).device.ranges(graph) for unit in units}
    fixed = {Unit.parse(unit): ranges for unit, ranges in known.items() if ranges is not None}

    def may_be(plan: Plan) -> bool:
        (lane,) = plan.lanes
        ends = borders(lane, len(graph.groups), graph.name)
        return all(fixed[stage.unit].may_be(one) for stage, one in zip(lane, ends, strict=True) if stage.unit in fixed)

    return list(filter(may_be, every)) if fixed else every


def open_measurements(path: str | Path, graph: Graph, board: Board) -> Journal:
    """The journal of ``measure_all``. Raises ArgumentError for one of another network or machine, or a damaged one."""
    about = {"network": graph.name, "crossing_bytes": list(crossing_bytes(graph))}
    journal = Journal(path, "measurements", {**about, "components": describe(board)["components"]})
    _known(journal)
    return journal


def measure_all(
    graph: Graph,
    board: Board,
    units: Sequence[str],
    best: Plan,
    *,
    seconds: float = 2.0,
    journal: Journal | str | Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measures every configuration of the units, then the fastest beside ``best``.

    Each takes turns with a reference, the first ``best`` that the journal had, and is ranked by its share of the
    reference's period: the machine may be slower an hour later.

    Parameters
    ----------
    graph, board
        The network, and this machine.
    units
        Components, or some of their cores.
    best
        The plan that the fastest of all is compared with, such as the best of a search.
    seconds
        That each configuration runs.
    journal
        A file that keeps every measurement, or from ``open_measurements``. What it has is not measured again.
    progress
        Called with what is measured, how much of it is done, and how much there is.

    Returns
    -------
    dict
        How many were measured or refused, the final comparison with the fastest first, and by how many percent ``best``
        is behind it. Ready for JSON.

    Raises
    ------
    ArgumentError
        For a file of another network or machine, or a damaged one.
    PipeallError
        As ``compare``.
    """
    if isinstance(journal, str | Path):
        journal = open_measurements(journal, graph, board)
    plans = {str(plan): plan for plan in offered(graph, board, units)}
    known, rows = _known(journal)
    reference = known or best
    if journal and not known:
        journal.add({"reference": str(reference), **describe(board)})
    missing = [plan for text, plan in plans.items() if text not in rows]
    for done, plan in enumerate(missing):
        progress("every configuration", done, len(missing))
        rows[str(plan)] = row = _row(graph, board, plan, reference, seconds)
        if journal:
            journal.add({"plan": str(plan), **row})
    refused = {text: rows[text]["refused"] for text in plans if "refused" in rows[text]}
    ran = [text for text in plans if text not in refused]
    fastest = sorted(ran, key=lambda text: rows[text]["period_ms"] / rows[text]["reference_ms"])
    finalists = [Plan.parse(text) for text in dict.fromkeys([str(best), *fastest[:FINALISTS]])]
    trials = compare(
        graph, finalists, board, turns=TURNS, seconds=seconds / TURNS, what="the best of all", progress=progress
    )
    return {
        "configurations": len(plans),
        "measured": len(ran),
        "measured_now": len(missing),
        "refused": refused,
        "finalists": [trial.to_dict() for trial in sorted(trials, key=lambda trial: trial.period_ms)],
        "behind_percent": 100 * (1 - min(trial.period_ms for trial in trials) / trials[0].period_ms),
    }


def _row(graph: Graph, board: Board, plan: Plan, reference: Plan, seconds: float) -> dict[str, Any]:
    """The periods of a plan and of the reference beside it, or why the plan was refused."""
    try:
        trial, beside = compare(graph, [plan, reference], board, turns=PAIR_TURNS, seconds=seconds / PAIR_TURNS)
    except PipeallError as error:
        return {"refused": str(error)}
    return {"period_ms": trial.period_ms, "reference_ms": beside.period_ms}


def _known(journal: Journal | None) -> tuple[Plan | None, dict[str, dict[str, Any]]]:
    """The reference and the rows of a journal; None and none where it has no entry. Raises ArgumentError."""
    if journal is None or not journal.entries:
        return None, {}
    first, *others = (JsonReader(entry, f"{journal.path}: line {i}") for i, entry in enumerate(journal.entries, 2))
    rows = {}
    for read in others:
        if "refused" in read.content:
            rows[read.word("plan")] = {"refused": read.word("refused")}
        else:
            rows[read.word("plan")] = {key: read.number(key, low=LEAST_MS) for key in ("period_ms", "reference_ms")}
    return Plan.parse(first.word("reference")), rows
