"""The paper's figure 4: seconds of an iteration by working ranks, as printed, by the model, and measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...mlp.traffic import Scaled
from ..figures import blank, save


def draw_scaling(path: str | Path, modelled: Mapping[str, Sequence[Scaled]], measured: Sequence[Any]) -> None:
    """Writes PNG; ``measured`` as ``train_scaling.report`` has it. Raises ArgumentError where it cannot be written."""
    drawn = blank("An iteration of one sample (paper 002, figure 4)", (12.0, 4.2))
    for axes, (model, rows) in zip(drawn.subplots(1, len(modelled)), modelled.items(), strict=True):
        printed = [row for row in rows if row.printed is not None]
        workers = [row.workers for row in rows]
        label = "paper (ghost), Blue Gene/Q"
        axes.loglog([row.workers for row in printed], [row.printed for row in printed], "o-", c="#9aa5b1", label=label)
        axes.loglog(workers, [row.ghost for row in rows], "--", c="#e0a458", label="ghost, modelled")
        axes.loglog(workers, [row.full for row in rows], "--", c="#2f6f9f", label="full, modelled")
        for mode, mark, colour in (("full", "s", "#b23a48"), ("ghost", "^", "#e0a458")):
            here = [
                (row["ranks"], row["best_seconds"])
                for row in measured
                if (row["model"], row["mode"], row["batch"], row["engine"]) == (model, mode, 1, "pipeall")
            ]
            if here:
                axes.loglog(*zip(*here, strict=True), mark, c=colour, label=f"{mode}, measured here")
        axes.set_title(model, fontsize=10)
        axes.set_xlabel("working ranks", fontsize=8)
        axes.legend(fontsize=6, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    drawn.axes[0].set_ylabel("seconds an iteration", fontsize=8)
    save(drawn, path)
