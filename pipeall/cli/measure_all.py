"""Every configuration run for real, as the paper's authors did to find the best, but in one process; resumable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

from rich.progress import Progress

from ..errors import ArgumentError, PipeallError
from ..files import JsonReader, checkpoint, read_json, write_json
from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.boards.machine import describe
from ..pipeline.measuring.trial import compare
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.profile import crossing_bytes
from ..pipeline.planning.teams import teams
from .verify import side_by_side

FINALISTS = 5  # of the fastest, measured once more
LEAST_MS = 1e-6  # a nanosecond
TURNS = 3  # of each configuration, and of the reference beside it


def configurations(groups: int, units: Sequence[str], cores: Mapping[str, int]) -> list[Plan]:
    """Every order and cut of all sets of the units that can run at once, fewer stages first."""
    return [
        Plan.pipeline(order, cuts)
        for team in teams(units, groups, cores)
        for order in sorted(set(permutations(team)))
        for cuts in combinations(range(1, groups), len(team) - 1)
    ]


def measure_all(
    found: Measurements,
    units: Sequence[str],
    cores: Mapping[str, int],
    seconds: float,
    best: Plan,
    bar: Progress,
) -> dict[str, Any]:
    """Measures what is not found yet, keeping it after each; then the fastest beside ``best``.

    Each takes turns with a reference, the first ``best`` there was, and is ranked by its share of the reference's
    period: the machine may be slower an hour later. Returns how many were measured or refused, the final comparison
    with the fastest first, and by how many percent ``best`` is behind it.
    """
    graph, board = found.graph, found.board
    plans = {str(plan): plan for plan in configurations(len(graph.groups), units, cores)}
    found.reference = found.reference or best
    todo = [plan for text, plan in plans.items() if text not in found.rows]
    for plan in bar.track(todo, description=f"{graph.name}: every configuration"):
        try:
            trial, reference = compare(graph, [plan, found.reference], board, turns=TURNS, seconds=seconds / TURNS)
            row = {"period_ms": trial.period_ms, "reference_ms": reference.period_ms}
        except PipeallError as error:
            row = {"refused": str(error)}
        found.rows[str(plan)] = row
        checkpoint(found.save)
    refused = {text: found.rows[text]["refused"] for text in plans if "refused" in found.rows[text]}
    ran = [text for text in plans if text not in refused]
    fastest = sorted(ran, key=lambda text: found.rows[text]["period_ms"] / found.rows[text]["reference_ms"])
    finalists = dict.fromkeys([str(best), *fastest[:FINALISTS]])
    trials = side_by_side(graph, board, [Plan.parse(text) for text in finalists], seconds, bar, "the best of all")
    return {
        "configurations": len(plans),
        "measured": len(ran),
        "measured_now": len(todo),
        "refused": refused,
        "finalists": [trial.to_dict() for trial in sorted(trials, key=lambda trial: trial.period_ms)],
        "behind_percent": 100 * (1 - min(trial.period_ms for trial in trials) / trials[0].period_ms),
    }


@dataclass
class Measurements:
    """Those of a network on a board that a file keeps; ``rows``: plan -> its period and the reference's beside it, or
    why it was refused."""

    path: str
    graph: Graph
    board: Board
    reference: Plan | None = None
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)

    def save(self) -> None:
        plans = [{"plan": text, **row} for text, row in self.rows.items()]
        found = {"reference": str(self.reference), "plans": plans}
        write_json(self.path, "measurements", {**describe(self.board), **_about(self.graph, self.board), **found})

    @classmethod
    def open(cls, path: str, graph: Graph, board: Board) -> Measurements:
        """What the file has, if there is one. Raises ArgumentError for one of another network or machine."""
        if not Path(path).exists():
            return cls(path, graph, board)
        content = read_json(path, "measurements")
        for key, expected in _about(graph, board).items():
            if content.get(key) != expected:
                raise ArgumentError(f"{path}: expected measurements of {graph.name} on this machine, got another {key}")
        read = JsonReader(content, path)
        rows = {}
        for row in read.rows("plans"):
            if "refused" in row.content:
                figures = {"refused": row.word("refused")}
            else:
                figures = {key: row.number(key, low=LEAST_MS) for key in ("period_ms", "reference_ms")}
            rows[row.word("plan")] = figures
        return cls(path, graph, board, Plan.parse(read.word("reference")), rows)


def _about(graph: Graph, board: Board) -> dict[str, Any]:
    """What has to be the same when it goes on."""
    return {
        "network": graph.name,
        "crossing_bytes": list(crossing_bytes(graph)),
        "components": describe(board)["components"],
    }
