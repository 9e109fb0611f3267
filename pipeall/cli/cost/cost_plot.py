"""What a network costs, drawn: MACs, weights and activations of each layer, and the layers under a roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..figures import blank, save

INCHES = (12.0, 9.0)
BARS = (("macs", 1e6, "million MACs"), ("weight_bytes", 1e6, "weights, MB"), ("written_bytes", 1e6, "activations, MB"))


def draw_cost(
    path: str | Path,
    rows: Sequence[Mapping[str, Any]],
    title: str,
    peaks: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> None:
    """Writes PNG. ``rows`` as ``size_report.layer_rows``; ``peaks``: component -> FLOP/s and bytes/s it can do.

    Raises ArgumentError naming the file where it cannot be written.
    """
    rows = [row for row in rows if row["macs"] or row["weight_bytes"]]
    drawn = blank(title, INCHES)
    panels = drawn.subplots(len(BARS) + 1, 1, height_ratios=[1, 1, 1, 2.2])
    for axes, (key, unit, label) in zip(panels, BARS, strict=False):
        axes.bar(range(len(rows)), [row[key] / unit for row in rows], color="#2f6f9f")
        axes.set_ylabel(label, fontsize=8)
        axes.set_xticks([])
        axes.spines[["top", "right"]].set_visible(False)
    panels[len(BARS) - 1].set_xlabel(f"{len(rows)} layers with weights, in order", fontsize=8)
    _roofline(panels[-1], [row for row in rows if row["macs"]], peaks)
    save(drawn, path)


def _roofline(axes: Any, rows: Sequence[Mapping[str, Any]], peaks: Mapping[str, tuple[float, float]]) -> None:
    """Each layer as high as its intensity lets it come on each component; at its intensity alone without components."""
    intensities = [row["intensity"] for row in rows]
    sizes = [4 + 60 * row["macs"] / max(row["macs"] for row in rows) for row in rows]
    axes.set_xscale("log")
    axes.set_xlabel("FLOP for each byte of weights and activations (area of a dot: its MACs)", fontsize=8)
    for name, (flops, bandwidth) in peaks.items():
        lowest, highest = min(intensities), max(*intensities, 2 * flops / bandwidth)
        ridge = flops / bandwidth
        line = axes.plot([lowest, ridge, highest], [lowest * bandwidth / 1e9, flops / 1e9, flops / 1e9], label=name)
        reached = [min(flops, value * bandwidth) / 1e9 for value in intensities]
        axes.scatter(intensities, reached, sizes, color=line[0].get_color(), alpha=0.6)
    if peaks:
        axes.set_yscale("log")
        axes.set_ylabel("GFLOP/s at most", fontsize=8)
        axes.legend(frameon=False, fontsize=8)
    else:
        axes.scatter(intensities, [row["macs"] / 1e6 for row in rows], sizes)
        axes.set_ylabel("million MACs", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
