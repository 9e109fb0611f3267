"""The roofline of a unit, with the layers that were measured on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...pipeline.measuring.layers import LayerTimes
from ..figures import blank, finish, save


def draw_layers(path: str | Path, networks: Sequence[LayerTimes]) -> None:
    """Writes PNG, a panel for each network and unit. Raises ArgumentError where it cannot be written."""
    drawn = blank("Layers under the roofline (area of a dot: its share of the time)", (5.5 * len(networks), 4.8))
    for axes, times in zip(drawn.subplots(1, len(networks), squeeze=False)[0], networks, strict=True):
        _roofline(axes, times)
    save(drawn, path)


def _roofline(axes: Any, times: LayerTimes) -> None:
    rows = [row for row in times.rows() if row["gflops"]]
    whole = sum(times.ms)
    intensity = {id(row): 1e6 * row["gflops"] * row["ms"] / row["bytes"] for row in rows}
    ridge = times.peak_flops / times.peak_bytes
    ends = [min([ridge, *intensity.values()]) / 2, ridge, 2 * max([ridge, *intensity.values()])]
    axes.loglog(ends, [min(times.peak_flops, x * times.peak_bytes) / 1e9 for x in ends], color="#9aa5b1")
    for algorithm in dict.fromkeys(row["algorithm"] for row in rows):
        of = [row for row in rows if row["algorithm"] == algorithm]
        sizes = [8 + 400 * row["ms"] / whole for row in of]
        axes.scatter([intensity[id(row)] for row in of], [row["gflops"] for row in of], sizes, alpha=0.6,
                     label=algorithm)  # fmt: skip
    finish(axes, "FLOP for each byte", "GFLOP/s", f"{times.network} on {times.unit}")
