"""A search drawn: its generations, how far its networks are off (paper 003, figs. 5 and 6), speed against error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ...nas.search.archive import Archive
from ...nas.search.evolve import Generation
from ...nas.training.evaluation import Training
from ...nas.training.fitness import Baseline, deviations
from ...nas.training.training_loop import predict
from ..figures import blank, save

INCHES = (13.0, 4.6)
MEAN = "mean absolute error per output"
SMALL = 8  # of ticks, labels and legends, in points
COLOURS = {"best": "#2f6f9f", "mean": "#9aa5b1", "other": "#e0a458"}


def draw_search(
    path: str | Path,
    training: Training,
    archive: Archive,
    generations: Sequence[Generation],
    beside: Mapping[str, Baseline],
) -> None:
    """Writes PNG. Raises ArgumentError naming the file where it cannot be written."""
    drawn = blank(f"search for {training.load().name}: {len(archive.members)} networks trained", INCHES)
    drawn.get_layout_engine().set(wspace=0.06)
    left, middle, right = drawn.subplots(1, 3)
    _generations(left, generations)
    data = training.load()
    shown = {"winner": archive.best.candidate, "best of generation 0": generations[0].best.candidate}
    outputs = {title: predict(training.result(candidate), data.test.x) for title, candidate in shown.items()}
    curves = {title: deviations(data, output, data.test.y) for title, output in outputs.items()}
    draw_deviations(middle, curves, "1 - mAP of a picture" if data.targets == "boxes" else MEAN)
    _trade(right, archive, beside)
    save(drawn, path)


def draw_deviations(axes: Any, curves: Mapping[str, np.ndarray], unit: str = MEAN) -> None:
    """Sorted deviations of samples from the truth, one curve for each network."""
    for title, values in curves.items():
        axes.plot(np.linspace(0, 1, len(values)), np.sort(values), label=title)
    _label(axes, "Deviation from the truth (figs. 5, 6)", "share of the test samples", unit)
    _legend(axes)


def _generations(axes: Any, generations: Sequence[Generation]) -> None:
    evolved = [generation for generation in generations if generation.phase == "evolution"]
    numbers = [generation.number for generation in evolved]
    axes.plot(
        [g.number for g in generations],
        [g.best.score.fitness for g in generations],
        color=COLOURS["best"],
        label="best F",
    )
    means = [generation.mean if isfinite(generation.mean) else np.nan for generation in evolved]
    axes.plot(numbers, means, color=COLOURS["mean"], label="mean F")
    other = axes.twinx()
    other.plot(
        numbers, [generation.diversity for generation in evolved], ":", color=COLOURS["other"], label="diversity"
    )
    other.set_ylim(0, 1)
    end = evolved[0].predicted
    axes.axvspan(end.expected, end.by, color=COLOURS["mean"], alpha=0.2, linewidth=0, label="predicted end")
    _label(other, "", "", "diversity of the population")
    _label(axes, "Generations", "generation", "fitness F (less is better)")
    _legend(axes, other)


def _trade(axes: Any, archive: Archive, beside: Mapping[str, Baseline]) -> None:
    """Error against speed on the board, or against weights without one; the Pareto front as a line, and the errors of
    what is no network."""
    scores = [member.score for member in archive.members if isfinite(member.score.fitness)]
    on_board = any(score.fps for score in scores)
    costs = [1000 / score.fps if on_board else score.weights for score in scores]
    axes.scatter(costs, [score.error for score in scores], 8, color=COLOURS["mean"], label="trained networks")
    front, least = [], np.inf
    for cost, error in sorted(zip(costs, (score.error for score in scores), strict=True)):
        if error < least:
            front.append((cost, error))
            least = error
    axes.plot(*zip(*front, strict=True), "o-", markersize=4, color=COLOURS["best"], label="Pareto front")
    for (name, figures), dash in zip(beside.items(), ("--", ":"), strict=False):
        axes.axhline(figures.error, linestyle=dash, color=COLOURS["other"], label=name)
    _label(
        axes,
        "Error and cost",
        "ms a frame, predicted" if on_board else "number of weights",
        "error on the validation samples",
    )
    _legend(axes)


def _label(axes: Any, title: str, across: str, up: str) -> None:
    """Few and small ticks, so that the figures of neighbouring panels keep apart."""
    axes.set_title(title, fontsize=SMALL + 1)
    axes.set_xlabel(across, fontsize=SMALL)
    axes.set_ylabel(up, fontsize=SMALL)
    axes.tick_params(labelsize=SMALL)
    axes.locator_params(nbins=5)


def _legend(axes: Any, *others: Any) -> None:
    """Below the panel, where it hides no curve."""
    labelled = [panel.get_legend_handles_labels() for panel in (axes, *others)]
    handles, labels = (sum(lists, []) for lists in zip(*labelled, strict=True))
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2}
    axes.legend(handles, labels, frameon=False, fontsize=SMALL, **place)
