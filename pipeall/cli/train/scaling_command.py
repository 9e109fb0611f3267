"""``pipeall train scaling``: paper 002's tables beside a model of its machine, and strong scaling measured here."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import click

from ...errors import ArgumentError
from ...mlp import traffic
from ...mlp.scaling import in_turns, measured_rows, planned
from ...mlp.traffic import PAPER
from ...pipeline.boards import machine
from ...pipeline.measuring.background_load import BackgroundLoad
from ...pipeline.measuring.threads import one_cluster
from ...pipeline.planning.profile import disturbed
from ..options import Command, Numbers, file_option, json_option, positive_option
from ..output import print_json, progress
from ..tables import print_table, print_text

LOOK_S = 2.0  # how long others are watched before anything is measured


@click.command(cls=Command)
@click.option("--models", default="S,M", show_default=True, help="Of the paper's networks S, M and L; L needs 2 GB.")
@click.option("--ranks", type=Numbers(int, "1,2"), default="1,2", show_default=True, help="Numbers of processes.")
@click.option("--batch", type=Numbers(int, "1,32"), default="1,32", show_default=True, help="Samples of an iteration.")
@click.option(
    "--node-ranks",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="Ranks of a modelled node; the paper has 32.",
)
@positive_option("--seconds", default=0.5, help="Of iterations in each turn.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Turns of everything.")
@file_option("--plot", help="Draw the paper's figure 4 and what was measured to this .png file.")
@json_option
def scaling(
    models: str,
    ranks: tuple[int, ...],
    batch: tuple[int, ...],
    node_ranks: int,
    seconds: float,
    rounds: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """Show how training scales: the paper's tables, and here.

    \b
    pipeall train scaling
    pipeall train scaling --models S,M,L --ranks 1,2,4 --plot scaling.png

    Several ranks are started by mpirun. They take turns with one rank and with NumPy on one core. What other programs
    take of the cores is watched before and meanwhile: beside a busy program no figure says how training scales.
    """
    if plot:
        from .train_plot import draw_scaling  # before anything is measured in vain
    names = _names(models)
    if min(*ranks, *batch) < 1:
        raise ArgumentError("--ranks, --batch: expected numbers of at least 1")
    setups = planned(names, sorted(set(ranks)), sorted(set(batch)))
    with BackgroundLoad() as before:
        time.sleep(LOOK_S)
    with progress() as bar, BackgroundLoad() as during:
        task = bar.add_task("turns", total=rounds * len(setups))
        turns = in_turns(setups, rounds, seconds, lambda setup: bar.advance(task))
    content = {
        "measured": measured_rows(turns),
        "others_cores": {"before": before.cores, "during": during.cores},
        "disturbed": disturbed(before.cores) or disturbed(during.cores),
        "usable_cores": len(os.sched_getaffinity(0)),
    }
    modelled = {model: traffic.scaled(model, traffic.blue_gene_q(node_ranks)) for model in PAPER}
    with ExitStack() as files:
        if plot:
            files.callback(draw_scaling, plot, modelled, content["measured"])
        if as_json:
            rows = [asdict(row) for of in modelled.values() for row in of]
            about = machine.describe(one_cluster())
            print_json(
                "scaling", **about, **content, paper=rows, communication=traffic.communication_rows(modelled["L"])
            )
            return
        show_paper(modelled)
        show_measured(content)


def _names(models: str) -> list[str]:
    names = models.split(",")
    if wrong := [name for name in names if name not in PAPER]:
        raise ArgumentError(f"--models: expected some of {', '.join(PAPER)} with commas, got {wrong[0]!r}")
    return list(dict.fromkeys(names))


def show_paper(modelled: Mapping[str, Sequence[traffic.Scaled]]) -> None:
    headings = [
        ">workers",
        ">paper s",
        ">paper x",
        ">weights %",
        ">work x",
        ">ghost s",
        ">of paper",
        ">full s",
        ">full x",
    ]
    for model, of in modelled.items():
        cells = [
            (
                row.workers,
                None if row.printed is None else f"{row.printed:g}",
                None if row.printed_gain is None else f"{row.printed_gain:.4g}",
                f"{100 * row.kept:.1f}",
                f"{row.work:.1f}",
                f"{row.ghost:.3g}",
                None if row.printed is None else f"1 / {row.printed / row.ghost:,.0f}",
                f"{row.full:.3g}",
                f"{row.full_gain:.1f}",
            )
            for row in of
        ]
        table = "II" if model == "S" else "III"
        print_table(f"Table {table}, {model}: an iteration of a sample on Blue Gene/Q", headings, cells)
    print_text(
        "paper: as printed, of its fewest workers. weights: what its ghost networks keep of the dense network's; work: "
        "how much less a worker does, which is another function and no speed-up. ghost, full: by a model of the "
        "machine's memory and network; full is the dense network at any number of workers."
    )
    print_text()
    headings = [">workers", ">paper max s", ">mean s", ">%", ">ghost us", ">%", ">full us", ">%"]
    cells = [
        (
            row["workers"],
            row["paper_max_s"],
            row["paper_mean_s"],
            f"{100 * row['paper_share']:.3f}",
            f"{1e6 * row['ghost_s']:.0f}",
            f"{100 * row['ghost_share']:.2f}",
            f"{1e6 * row['full_s']:.0f}",
            f"{100 * row['full_share']:.2f}",
        )
        for row in traffic.communication_rows(modelled["L"])
    ]
    print_table("Table IV, L: messages of an iteration, the paper's and by the model", headings, cells)


def show_measured(content: Mapping[str, Any]) -> None:
    headings = [
        "mode", ">ranks", ">batch", ">median ms", ">fastest ms", ">of 1 rank", ">max us", ">mean us", ">%", ">overlap",
    ]  # fmt: skip
    for model in dict.fromkeys(row["model"] for row in content["measured"]):
        rows = [row for row in content["measured"] if row["model"] == model]
        print_table(f"{model} here: an iteration, and its messages", headings, map(_cells, rows))
    print_text(
        "of 1 rank: by the fastest iterations. max, mean: how long messages are under way, of the ranks; %: max by the "
        "mean iteration. overlap: the share of the mean in which a rank computed; one sample has next to none, as "
        "its gradients and update are one pass over the weights."
    )
    for line in verdict(content):
        print_text(line)


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    gain, alone = row["gain_of_bests"], row["ranks"] == 1
    messages = (
        f"{1e6 * row['way_max_seconds']:.0f}",
        f"{1e6 * row['way_mean_seconds']:.0f}",
        f"{100 * row['share']:.0f}",
        None if row["overlap"] is None else f"{100 * row['overlap']:.0f} %",
    )
    return (
        "NumPy" if row["engine"] == "numpy" else row["mode"],
        row["ranks"],
        row["batch"],
        f"{1e3 * row['median_seconds']:.3f}",
        f"{1e3 * row['best_seconds']:.3f}",
        None if gain is None else f"{gain:.2f}",
        *((None,) * len(messages) if alone else messages),
    )


def verdict(content: Mapping[str, Any]) -> list[str]:
    """What strong scaling of one sample came to, and whether the cores were free for it."""
    rows = {(row["model"], row["ranks"]): row for row in content["measured"] if row["batch"] == 1 and row["gain"]}
    one = {"mode": "full", "ranks": 1, "batch": 1, "engine": "pipeall"}
    alone = {row["model"]: row for row in content["measured"] if row.items() >= one.items()}
    busy = content["disturbed"] or content["usable_cores"] < max(row["ranks"] for row in content["measured"])
    lines = []
    for (model, ranks), row in rows.items():
        memory = row["memory_rate"] / alone[model]["memory_rate"]
        lines.append(
            f"{model} on {ranks} ranks: {row['gain_of_bests']:.2f} x one rank by the fastest iterations, "
            f"{row['gain']:.2f} x by medians. {ranks} ranks read memory {memory:.2f} x as fast as one."
        )
    others = content["others_cores"]
    before, during = ("-" if others[key] is None else f"{others[key]:.2f}" for key in ("before", "during"))
    lines.append(f"Other programs took {before} of {content['usable_cores']} cores before and {during} meanwhile.")
    if busy:
        lines.append("NOT FREE: beside other programs these figures do not say how training scales. Try again later.")
    return lines
