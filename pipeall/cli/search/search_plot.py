"""The plans of a search, drawn: latency against throughput, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...pipeline.planning.plan_table import PredictedPlan
from ..figures import blank, finish, save

COLOURS = {"ranked": "#9aa5b1", "front": "#2f6f9f", "measured": "#e0a458"}


def draw_plans(
    path: str | Path,
    title: str,
    ranked: Sequence[PredictedPlan],
    front: Sequence[PredictedPlan],
    measured: Sequence[tuple[str, float, float]],
) -> None:
    """Writes PNG. ``measured``: plan, FPS and ms. Raises ArgumentError where the file cannot be written."""
    drawn = blank(title, (8.0, 5.2))
    axes = drawn.subplots()
    axes.plot(*_points(ranked), "o", color=COLOURS["ranked"], label="best plans, predicted")
    axes.plot(*_points(front), "o", color=COLOURS["front"], label="Pareto front of throughput, latency and energy")
    if measured:
        axes.plot(*zip(*(row[1:] for row in measured), strict=True), "x", color=COLOURS["measured"], label="measured")
    for choice in front:
        point = choice.prediction.fps, choice.prediction.latency_ms
        axes.annotate(str(choice.plan), point, (4, 4), textcoords="offset points", fontsize=6, parse_math=False)
    axes.margins(x=0.2, y=0.1)
    finish(axes, "throughput, frames per second", "latency without queueing, ms")
    save(drawn, path)


def _points(plans: Sequence[PredictedPlan]) -> tuple[list[float], list[float]]:
    predictions = [choice.prediction for choice in plans]
    return [one.fps for one in predictions], [one.latency_ms for one in predictions]
