"""The plans of a search, drawn: latency against throughput, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...pipeline.planning.plan_table import PredictedPlan
from ..figures import blank, save

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
        x, y = choice.prediction.fps, choice.prediction.latency_ms
        _name(axes, str(choice.plan), x, y)
    axes.set_xlabel("throughput, frames per second", fontsize=8)
    axes.set_ylabel("latency without queueing, ms", fontsize=8)
    axes.margins(x=0.2, y=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    save(drawn, path)


def _points(plans: Sequence[PredictedPlan]) -> tuple[list[float], list[float]]:
    predictions = [choice.prediction for choice in plans]
    return [one.fps for one in predictions], [one.latency_ms for one in predictions]


def _name(axes: Any, text: str, x: float, y: float) -> None:
    axes.annotate(text, (x, y), (4, 4), textcoords="offset points", fontsize=6, parse_math=False)
