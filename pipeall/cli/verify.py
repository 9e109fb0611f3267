"""Predicted plans run for real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.progress import Progress

from ..errors import PipeallError
from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.measuring.trial import Trial, compare
from ..pipeline.planning.candidates import PredictedPlan

TURNS = 5


@dataclass(frozen=True, slots=True)
class Verified:
    """A plan, what was predicted of it and what it did."""

    choice: PredictedPlan
    trial: Trial

    @property
    def error(self) -> float:
        """How far the predicted period is off, as a share of the measured one."""
        return self.choice.prediction.period_ms / self.trial.period_ms - 1

    def to_dict(self) -> dict[str, Any]:
        predicted = {"predicted_period_ms": self.choice.prediction.period_ms, "error_percent": 100 * self.error}
        return self.trial.to_dict() | {"period_ms": self.trial.period_ms} | predicted


def verify(
    graph: Graph,
    board: Board,
    choices: Sequence[PredictedPlan],
    seconds: float,
    bar: Progress,
    queue: bool = True,
) -> tuple[list[Verified], dict[str, str]]:
    """Runs them side by side, ``seconds`` each, ``queue`` as for ``trial.compare``; fastest first.

    If that fails, each runs by itself. Also returns the plans that did not run, with the reason; where none did, the
    last one's PipeallError is raised.
    """

    def ran(some: Sequence[PredictedPlan]) -> list[Verified]:
        trials = side_by_side(graph, board, [choice.plan for choice in some], seconds, bar, "verifying", queue)
        return [Verified(choice, trial) for choice, trial in zip(some, trials, strict=True)]

    refused: dict[str, str] = {}
    try:
        rows = ran(choices)
    except PipeallError:
        rows = []
        for choice in choices:
            try:
                rows += ran([choice])
            except PipeallError as error:
                refused[str(choice.plan)] = str(error)
                if len(refused) == len(choices):
                    raise
    return sorted(rows, key=lambda row: row.trial.period_ms), refused


def side_by_side(
    graph: Graph,
    board: Board,
    plans: Sequence,
    seconds: float,
    bar: Progress,
    what: str,
    queue: bool = True,
    turns: int = TURNS,
    **options: Any,
) -> list[Trial]:
    """``trial.compare`` with a bar: ``seconds`` for each plan, over all its turns."""
    task = bar.add_task(f"{graph.name}: {what}", total=turns * len(plans))
    try:
        return compare(
            graph,
            plans,
            board,
            turns=turns,
            seconds=seconds / turns,
            queue=queue,
            done=lambda: bar.advance(task),
            **options,
        )
    finally:
        bar.remove_task(task)
