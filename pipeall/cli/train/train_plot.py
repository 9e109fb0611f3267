"""How a training went, drawn: loss and accuracy (or error) by epoch, on training, validation and test samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...mlp.train import EpochResult, curves
from ..figures import blank, save

COLOURS = {"training": "#2f6f9f", "validation": "#e0a458", "test": "#9aa5b1"}


def draw_training(path: str | Path, history: Sequence[EpochResult], title: str) -> None:
    """Writes PNG. Raises ArgumentError where it cannot be written."""
    drawn = blank(title)
    epochs = [epoch.epoch for epoch in history]
    for axes, (panel, of) in zip(drawn.subplots(1, 2), curves(history).items(), strict=True):
        for name, curve in of.items():
            axes.plot(epochs, curve, "-" if len(epochs) > 1 else "o", color=COLOURS[name], label=name)
        axes.set_title(panel.capitalize(), fontsize=10)
        axes.set_xlabel("epochs", fontsize=8)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    save(drawn, path)
