"""What a network costs, drawn: its layers, the roofline, and throughput by number of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...sizing.scalability import Law
from ..figures import blank, finish, save

INCHES = (12.0, 9.0)
BARS = (("macs", 1e6, "million MACs"), ("weight_bytes", 1e6, "weights, MB"), ("written_bytes", 1e6, "activations, MB"))


def draw_cost(
    path: str | Path,
    rows: Sequence[Mapping[str, Any]],
    title: str,
    peaks: Mapping[str, tuple[float, float]] = MappingProxyType({}),
    measured: Mapping[str, Sequence[tuple[float, float]]] = MappingProxyType({}),
) -> None:
    """Writes PNG. ``rows`` as ``size_report.layer_rows``; ``peaks``: component -> FLOP/s and bytes/s it can do.

    ``measured``: unit -> FLOP for each byte, and FLOP/s, of groups in a profile.

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
    _roofline(panels[-1], [row for row in rows if row["macs"]], peaks, measured)
    save(drawn, path)


def _roofline(
    axes: Any,
    rows: Sequence[Mapping[str, Any]],
    peaks: Mapping[str, tuple[float, float]],
    measured: Mapping[str, Sequence[tuple[float, float]]],
) -> None:
    """Each layer as high as its intensity lets it come on each component; at its intensity alone without components.

    Beside them groups, as high as they were measured.
    """
    intensities = [row["intensity"] for row in rows]
    sizes = [4 + 60 * row["macs"] / max(row["macs"] for row in rows) for row in rows]
    axes.set_xscale("log")
    up = "GFLOP/s of direct convolutions; layers at most" if peaks else "million MACs"
    for name, (flops, bandwidth) in peaks.items():
        lowest, highest = min(intensities), max(*intensities, 2 * flops / bandwidth)
        ridge = flops / bandwidth
        line = axes.plot([lowest, ridge, highest], [lowest * bandwidth / 1e9, flops / 1e9, flops / 1e9], label=name)
        reached = [min(flops, value * bandwidth) / 1e9 for value in intensities]
        axes.scatter(intensities, reached, sizes, color=line[0].get_color(), alpha=0.6)
    for unit, points in measured.items():
        x, flops = zip(*points, strict=True)
        axes.scatter(x, [rate / 1e9 for rate in flops], 24, marker="x", label=f"{unit}: groups as measured")
    if peaks:
        axes.set_yscale("log")
    else:
        axes.scatter(intensities, [row["macs"] / 1e6 for row in rows], sizes)
    finish(axes, "FLOP for each byte of weights and activations (area of a dot: its MACs)", up)


def draw_threads(path: str | Path, networks: Sequence[Mapping[str, Any]], title: str, unit: str = "FPS") -> None:
    """Writes PNG; ``networks`` as ``threads_report`` gives them. Raises ArgumentError where it cannot be written."""
    drawn = blank(title)
    for axes, network in zip(drawn.subplots(1, len(networks), squeeze=False)[0], networks, strict=True):
        rows, law = network["rows"], network["law"]
        counts, alone = [row["threads"] for row in rows], rows[0]["fps"]
        axes.plot(counts, [row["fps"] for row in rows], "o", color="#2f6f9f", label="measured")
        axes.plot(counts, [alone * count for count in counts], ":", color="#9aa5b1", label="in proportion")
        if law:
            fitted = Law(alone, law["serial"], law["crosstalk"])
            axes.plot(counts, [fitted.throughput(count) for count in counts], color="#e0a458", label="fitted law")
        axes.axvline(network["best_threads"], color="#9aa5b1", linewidth=0.8)
        axes.set_xticks(counts if len(counts) <= 16 else counts[:: len(counts) // 8])
        axes.set_ylim(bottom=0)
        finish(axes, "threads", unit, f"{network['network']}: {network['best_threads']} best")
    save(drawn, path)
