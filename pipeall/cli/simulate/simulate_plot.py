"""Simulated plans, drawn: throughput, latency, and what each stage spends a frame's time on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..figures import blank, finish, save

TEXTS = {"busy": "busy", "handover": "hand-over", "wait_in": "waits for a frame", "wait_out": "waits for a slot"}
SPENT = {"busy": "#2f6f9f", "handover": "#6f9f2f", "wait_in": "#d5dae0", "wait_out": "#e0a458"}  # ms of a stage


def draw_simulation(path: str | Path, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes PNG; ``rows`` as ``simulate --json`` has its runs. Raises ArgumentError where it cannot be written."""
    drawn = blank(title, (12.0, 4.2))
    left, middle, right = drawn.subplots(1, 3, width_ratios=[1, 1, 1.6])
    plans = [row["plan"] for row in rows]
    left.bar_label(left.bar(plans, [row["fps"] for row in rows], color=SPENT["busy"]), fmt="%.3g", fontsize=6)
    for percentile, colour in (("p99", SPENT["wait_out"]), ("p95", "#9aa5b1"), ("p50", SPENT["busy"])):
        middle.bar(plans, [row[f"latency_{percentile}_ms"] for row in rows], color=colour, label=percentile)
    stages = [(row["plan"], stage) for row in rows for stage in row["stages"]]
    base = [0.0] * len(stages)
    for key, colour in SPENT.items():
        widths = [stage[f"{key}_ms"] for _, stage in stages]
        right.barh(
            range(len(stages)),
            widths,
            left=base,
            color=colour,
            label=TEXTS[key],
        )
        base = [before + width for before, width in zip(base, widths, strict=True)]
    names = [f"{plan}: {stage['unit']}" for plan, stage in stages]
    right.set_yticks(range(len(stages)), names, fontsize=6, parse_math=False)
    right.invert_yaxis()
    for axes in (left, middle):
        axes.set_xticks(range(len(plans)), plans, fontsize=6, rotation=20, parse_math=False)
    finish(left, up="frames per second")
    finish(middle, up="latency, ms")
    finish(right, "mean ms a frame of each stage")
    save(drawn, path)
