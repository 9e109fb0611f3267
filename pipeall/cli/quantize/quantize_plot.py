"""What each layer of a quantized network costs in accuracy, and what it gains in time, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...quantization.quantize_report import LayerRow, Report
from ..figures import blank, save

WIDTH, LAYER, REST = 11.0, 0.17, 1.6  # inches: of the figure, of a layer's line, of what is around the lines
HIGHEST = 200.0  # inches; matplotlib draws no more than 2^16 pixels
NAME = 32  # letters of a layer's name
FLOATS, INTEGERS = "#9aa5b1", "#2f6f9f"


def draw_layers(path: str | Path, report: Report) -> None:
    """Writes PNG, a line for each layer, the first on top. Raises ArgumentError where it cannot be written."""
    rows = report.layers
    title = (
        f"{report.network}: error of the outputs {report.error:.4f}; {report.floats_ms:.2f} ms in floats, "
        f"{report.quantized_ms:.2f} ms quantized"
    )
    drawn = blank(title, (WIDTH, min(REST + LAYER * max(len(rows), 8), HIGHEST)))
    left, right = drawn.subplots(1, 2, sharey=True)
    _errors(left, rows)
    _times(right, rows)
    left.set_ylim(len(rows) - 0.4, -0.6)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="x", labelsize=8)
        axes.tick_params(axis="y", length=0)
    save(drawn, path)


def _errors(axes: Any, rows: Sequence[LayerRow]) -> None:
    places = range(len(rows))
    colours = [FLOATS if row.floats else INTEGERS for row in rows]
    axes.barh(places, [row.error or 0 for row in rows], color=colours)
    names = [row.name if len(row.name) <= NAME else f"...{row.name[3 - NAME :]}" for row in rows]
    axes.set_yticks(places, names, fontsize=6, parse_math=False)
    axes.set_title("Error of the outputs where a layer alone is quantized", fontsize=9)
    axes.set_xlabel("relative error (grey: the layer stays floats)", fontsize=8)


def _times(axes: Any, rows: Sequence[LayerRow]) -> None:
    for key, colour, label, shift in (
        ("floats_ms", FLOATS, "in floats", -0.2),
        ("quantized_ms", INTEGERS, "quantized", 0.2),
    ):
        places = [place + shift for place in range(len(rows))]
        axes.barh(places, [getattr(row, key) or 0 for row in rows], 0.4, color=colour, label=label)
    for place, row in enumerate(rows):
        if row.gain is not None:
            axes.text(max(row.floats_ms, row.quantized_ms), place, f" {row.gain:.2f}x", fontsize=6, va="center")
    axes.margins(x=0.12)  # room for the gains behind the bars
    axes.set_title("Time with its activation, and gain", fontsize=9)
    axes.set_xlabel("ms", fontsize=8)
    handles, labels = axes.get_legend_handles_labels()
    axes.figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
