"""``pipeall cost threads``: how throughput and latency of networks go with the number of threads, measured here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import click

from ...errors import ArgumentError
from ...pipeline.boards import machine
from ...pipeline.measuring.background_load import BackgroundLoad
from ...pipeline.measuring.threads import engine_times, one_cluster, thread_times
from ...pipeline.planning.profile import disturbed
from ...progress import Progress
from ...sizing.size_report import threads_report
from .. import complete
from ..model_argument import Finer, load_model, read_network
from ..options import Command, file_option, finer_option, json_option, positive_option, value_option
from ..output import print_json, progress, tracked
from ..plans import BUSY
from ..tables import print_table, print_text


@click.command(cls=Command)
@click.argument("models", nargs=-1, required=True, shell_complete=complete.models)
@positive_option(
    "--seconds",
    default=2.0,
    help="How long a network is measured, all numbers of threads together; once each at least.",
)
@click.option("--training", type=click.IntRange(1), metavar="BATCH", help="PyTorch's steps on so many samples.")
@click.option("--samples", type=click.IntRange(1), help="With --training: of an epoch, whose time is told.")
@click.option("--no-library", is_flag=True, help="With --training: torch's own loops in place of oneDNN's.")
@file_option("--plot", help="Draw throughput by number of threads as PNG.")
@finer_option
@value_option
@json_option
def threads(
    models: tuple[str, ...],
    seconds: float,
    training: int | None,
    samples: int | None,
    no_library: bool,
    plot: str | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Measure a network on 1 to all cores, and say which number pays.

    \b
    pipeall cost threads alexnet --plot threads.png
    pipeall cost threads alexnet --training 32

    With --training it is a forward and a backward pass of PyTorch; without, a frame of pipeall's engine. From three
    numbers of threads on, the universal scalability law is fitted to the throughput.
    """
    if training is None and (samples or no_library):
        raise ArgumentError(f"--{'samples' if samples else 'no-library'}: expected --training beside it")
    if plot:
        from .cost_plot import draw_threads  # before anything is measured in vain
    board = one_cluster()
    about = machine.describe(board) | {"before": machine.state(board)}
    graphs = [] if training else [load_model(model, finer=finer) for model in models]
    with BackgroundLoad() as beside, progress() as bar, tracked(bar, "threads") as on_progress:
        if training:
            networks = _of_training(models, training, seconds, not no_library, on_progress)
            for network in networks if samples else ():
                network["epoch_s"] = samples / max(row["fps"] for row in network["rows"])
        else:
            networks = [
                threads_report(graph.name, engine_times(graph, board, seconds, on_progress)) for graph in graphs
            ]
    with ExitStack() as files:
        if plot:
            what, unit = ("Training", "samples") if training else ("Throughput", "frames")
            title = f"{what} by number of threads, {about['model'] or 'unknown CPU'}"
            files.callback(draw_threads, plot, networks, title, f"{unit} per second")
        if as_json:
            print_json("threads", **about, others_cores=beside.cores, training_batch=training, networks=networks)
            return
        for network in networks:
            show(network, training)
        if disturbed(beside.cores):
            print_text(BUSY.format(what="threads were measured", cores=beside.cores))


def _of_training(
    models: Sequence[str], batch: int, seconds: float, library: bool, progress: Progress
) -> list[dict[str, Any]]:
    from ...sizing.torch_network import training_step

    networks = [read_network(model)[0] for model in models]
    steps = [training_step(network, batch, library) for network in networks]
    counts = range(1, len(os.sched_getaffinity(0)) + 1)
    reports = []
    for network, step in zip(networks, steps, strict=True):
        times = thread_times(network.name, {count: partial(step, count) for count in counts}, seconds, progress)
        reports.append(threads_report(network.name, times, batch))
    return reports


def show(network: Mapping[str, Any], training: int | None) -> None:
    """``training``: samples of a step, None where frames were measured."""
    rows = network["rows"]
    cells = [
        (
            r["threads"],
            f"{r['median_ms']:.2f}",
            f"{r['least_ms']:.2f}",
            f"{r['fps']:.1f}",
            f"{r['fps'] / rows[0]['fps']:.2f}",
        )
        for r in rows
    ]
    headings = [">threads", ">median ms", ">fastest ms", ">samples/s" if training else ">FPS", ">speedup"]
    what = f", training steps of {training}" if training else ""
    print_table(f"{network['network']}{what} by number of threads", headings, cells)
    if "epoch_s" in network:
        print_text(f"An epoch takes {network['epoch_s']:,.3g} s by the fastest of these.")
    law = network["law"]
    if law is None:
        print_text(f"Best here: {network['best_threads']}; a law is fitted from three numbers of threads on.")
        print_text()
        return
    peak = "more always help" if law["peak_threads"] is None else f"most at {law['peak_threads']:.1f} threads"
    what = f"serial share {law['serial']:.3f}, crosstalk {law['crosstalk']:.4f}, {peak}"
    print_text(f"Universal scalability law: {what}. Best here: {network['best_threads']}.")
    print_text()
