"""How throughput goes with the number of threads, drawn: measured, by the fitted law, and what all threads could do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...sizing.scalability import Law
from ..figures import blank, save


def draw_threads(path: str | Path, networks: Sequence[Mapping[str, Any]], title: str, unit: str = "FPS") -> None:
    """Writes PNG; ``networks`` as ``threads.report`` gives them. Raises ArgumentError where it cannot be written."""
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
        axes.set_title(f"{network['network']}: {network['best_threads']} best", fontsize=9, parse_math=False)
        axes.set_xlabel("threads", fontsize=8)
        axes.set_xticks(counts if len(counts) <= 16 else counts[:: len(counts) // 8])
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    drawn.axes[0].set_ylabel(unit)
    drawn.axes[0].legend(frameon=False, fontsize=8)
    save(drawn, path)
