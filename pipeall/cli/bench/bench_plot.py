"""The paper's Fig. 7, with more plans: throughput and latency of each mode, a group of bars per network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...pipeline.measuring.comparison import MODES
from ..figures import Figure, blank, patches, save

COLOURS = {  # by mode
    "peak": "#9aa5b1",
    "parallel": "#e0a458",
    "pipe-all": "#2f6f9f",
    "floating": "#7fb0d3",
    "best": "#4f9d69",
}
PANELS = (
    ("fps", "Throughput", "frames per second"),
    ("latency_worst_ms", "Latency", "ms (Parallel: its slowest component)"),
)
MARKS = {  # entry of a row -> hatch, the value that needs none, and what the hatch means
    "valid": ("xx", True, "INVALID: the emulated board was late"),
    "disturbed": ("//", False, "BUSY: other programs ran"),
}


def figure(rows: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """``rows``: one per network and mode, with "net", "mode", "fps", "latency_worst_ms", "valid" and "disturbed"."""
    nets = list(dict.fromkeys(row["net"] for row in rows))
    modes = [mode for mode in COLOURS if any(row["mode"] == mode for row in rows)]
    width = 0.8 / len(modes)
    drawn = blank(title)
    for axes, (key, heading, unit) in zip(drawn.subplots(1, len(PANELS)), PANELS, strict=True):
        for place, mode in enumerate(modes):
            heights = {row["net"]: row[key] for row in rows if row["mode"] == mode}
            x = [nets.index(net) + (place - (len(modes) - 1) / 2) * width for net in heights]
            bars = axes.bar(x, list(heights.values()), width, label=MODES[mode], color=COLOURS[mode])
            axes.bar_label(bars, fmt="%.3g", fontsize=6, padding=1)
            _mark(bars, [row for row in rows if row["mode"] == mode])
        axes.set_title(heading, fontsize=10)
        axes.set_ylabel(unit)
        axes.set_xticks(range(len(nets)), [Path(net).stem for net in nets], fontsize=8, parse_math=False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(y=0.1)  # room for the figures above the bars
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    for key, (hatch, _, text) in MARKS.items():
        if any(_marked(row, key) for row in rows):
            handles.append(patches.Patch(facecolor="white", edgecolor="black", hatch=hatch))
            labels.append(text)
    drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return drawn


def _marked(row: Mapping[str, Any], key: str) -> bool:
    return bool(row[key]) != MARKS[key][1]


def _mark(bars: Sequence[patches.Rectangle], rows: Sequence[Mapping[str, Any]]) -> None:
    """Bars of figures that do not count are hatched, and pale."""
    for bar, row in zip(bars, {row["net"]: row for row in rows}.values(), strict=True):
        if hatches := "".join(hatch for key, (hatch, _, _) in MARKS.items() if _marked(row, key)):
            bar.set_hatch(hatches)
            bar.set_alpha(0.4)


def draw(path: str | Path, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Writes the figure as PNG. Raises ArgumentError naming the file where it cannot be written."""
    save(figure(rows, title), path)
