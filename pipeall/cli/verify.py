"""Predicted plans run for real, with a bar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.progress import Progress

from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.measuring.trial import Trial, compare
from ..pipeline.measuring.verify import TURNS, Verified, run_choices
from ..pipeline.planning.candidates import PredictedPlan


def verify(
    graph: Graph,
    board: Board,
    choices: Sequence[PredictedPlan],
    seconds: float,
    bar: Progress,
    queue: bool = True,
) -> tuple[list[Verified], dict[str, str]]:
    """``measuring.verify.run_choices`` with a bar: ``seconds`` each, ``queue`` as for ``trial.compare``."""
    return run_choices(choices, lambda plans: side_by_side(graph, board, plans, seconds, bar, "verifying", queue))


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
