"""Training, drawn: loss and accuracy (or error) by epoch; and seconds of an iteration by working ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...mlp.traffic import Scaled
from ...mlp.train import EpochResult, curves
from ..figures import blank, finish, save

COLOURS = {"training": "#2f6f9f", "validation": "#e0a458", "test": "#9aa5b1"}


def draw_training(path: str | Path, history: Sequence[EpochResult], title: str) -> None:
    """Writes PNG. Raises ArgumentError where it cannot be written."""
    drawn = blank(title)
    epochs = [epoch.epoch for epoch in history]
    for axes, (panel, of) in zip(drawn.subplots(1, 2), curves(history).items(), strict=True):
        for name, curve in of.items():
            axes.plot(epochs, curve, "-" if len(epochs) > 1 else "o", color=COLOURS[name], label=name)
        axes.xaxis.get_major_locator().set_params(integer=True)
        finish(axes, "epochs", title=panel.capitalize())
    save(drawn, path)


def draw_scaling(path: str | Path, modelled: Mapping[str, Sequence[Scaled]], measured: Sequence[Any]) -> None:
    """The paper's figure 4 as printed, by the model and ``measured``, of ``measured_rows``; as PNG.

    Raises ArgumentError where it cannot be written.
    """
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
        finish(axes, "working ranks", "seconds an iteration", model)
    save(drawn, path)
