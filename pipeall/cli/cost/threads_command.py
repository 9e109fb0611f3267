"""``pipeall cost threads``: how throughput and latency of networks go with the number of threads, measured here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from time import perf_counter
from typing import Any

import click
from rich.progress import Progress

from ...graph.ir import Graph
from ...pipeline.boards import machine
from ...pipeline.boards.board import Board
from ...pipeline.engine import Engine
from ...pipeline.measuring.background_load import BackgroundLoad
from ...pipeline.measuring.trial import random_frame
from ...pipeline.planning.profile import disturbed
from ...sizing.scalability import Law, fit
from .. import complete
from ..model_argument import load_model, read_network
from ..options import Command, file_option, finer_option, json_option, positive_option, value_option
from ..output import print_json, progress
from ..profiles import BUSY
from ..tables import print_table, print_text

TURNS = 3  # of every number of threads, one after the other: clocks and neighbours change


@click.command(cls=Command)
@click.argument("models", nargs=-1, required=True, shell_complete=complete.models)
@positive_option(
    "--seconds",
    default=2.0,
    help="How long a network is measured, all numbers of threads together; once each at least.",
)
@click.option("--training", type=click.IntRange(1), metavar="BATCH", help="PyTorch's steps on so many samples.")
@file_option("--plot", help="Draw throughput by number of threads as PNG.")
@finer_option
@value_option
@json_option
def threads(
    models: tuple[str, ...], seconds: float, training: int | None, plot: str | None, finer: int | None, as_json: bool
) -> None:
    """Measure a network on 1 to all cores, and say which number pays.

    \b
    pipeall cost threads alexnet --plot threads.png
    pipeall cost threads alexnet --training 32

    With --training it is a forward and a backward pass of PyTorch; without, a frame of pipeall's engine. From three
    numbers of threads on, the universal scalability law is fitted to the throughput.
    """
    if plot:
        from .threads_plot import draw_threads  # before anything is measured in vain
    board = one_cluster()
    about = machine.describe(board) | {"before": machine.state(board)}
    graphs = [] if training else [load_model(model, finer=finer) for model in models]
    with BackgroundLoad() as beside, progress() as bar:
        if training:
            found = _of_training(models, training, seconds, bar)
        else:
            found = [report(graph.name, of_engines(graph, board, seconds, bar)) for graph in graphs]
    with ExitStack() as files:
        if plot:
            what, unit = ("Training", "samples") if training else ("Throughput", "frames")
            title = f"{what} by number of threads, {about['model'] or 'unknown CPU'}"
            files.callback(draw_threads, plot, found, title, f"{unit} per second")
        if as_json:
            print_json("threads", **about, others_cores=beside.cores, training_batch=training, networks=found)
            return
        for network in found:
            show(network, training)
        if disturbed(beside.cores):
            print_text(BUSY.format(what="threads were measured", cores=beside.cores))


def _of_training(models: Sequence[str], batch: int, seconds: float, bar: Progress) -> list[dict[str, Any]]:
    from ...sizing.torch_network import training_step

    networks = [read_network(model)[0] for model in models]
    steps = [training_step(network, batch) for network in networks]
    counts = range(1, len(os.sched_getaffinity(0)) + 1)
    return [
        report(network.name, measure(network.name, {n: partial(step, n) for n in counts}, seconds, bar), batch)
        for network, step in zip(networks, steps, strict=True)
    ]


def one_cluster() -> Board:
    """All cores that this process may use as one component, whatever their kinds: its affinity and container count."""
    return Board.detect(clusters=[sorted(os.sched_getaffinity(0))], gpu=False)


def of_engines(graph: Graph, board: Board, seconds: float, bar: Progress) -> dict[int, list[float]]:
    """``measure`` of frames through an engine of each number of threads."""
    frame = random_frame(graph)
    with ExitStack() as stack:
        calls: dict[int, Callable[[], object]] = {}
        for count in range(1, len(board.component("big").device.cores) + 1):
            engine = Engine(graph, "big", board, count)
            stack.callback(engine.close)
            calls[count] = partial(engine, frame)
        return measure(graph.name, calls, seconds, bar)


def measure(
    name: str, calls: Mapping[int, Callable[[], object]], seconds: float, bar: Progress
) -> dict[int, list[float]]:
    """Number of threads -> ms of each call, one at a time, all numbers in turns of ``seconds`` together.

    Each number has one call at least, and one to warm up, however long they take.
    """
    times: dict[int, list[float]] = {}
    task = bar.add_task(f"{name} by threads", total=TURNS * len(calls))
    begin = perf_counter()
    for count, call in calls.items():
        call()  # warm
        times[count] = [_timed(call)]
    share = max(0.0, begin + seconds - perf_counter()) / (TURNS * len(calls))
    for _ in range(TURNS):
        for count, call in calls.items():
            end = perf_counter() + share
            while perf_counter() + times[count][-1] / 1e3 < end:
                times[count].append(_timed(call))
            bar.advance(task)
    return times


def _timed(call: Callable[[], object]) -> float:
    begin = perf_counter()
    call()
    return 1e3 * (perf_counter() - begin)


def report(network: str, times: Mapping[int, list[float]], samples: int = 1) -> dict[str, Any]:
    """Median and fastest latency, throughput by the median, and the law where there are three numbers of threads.

    ``samples`` of a call: "fps" is how many of them a second.
    """
    rows = [
        {"threads": count, "median_ms": _median(taken), "least_ms": min(taken), "fps": 1e3 * samples / _median(taken)}
        for count, taken in times.items()
    ]
    law = fit({row["threads"]: row["fps"] for row in rows}) if len(rows) >= 3 else None
    best = law.best(len(rows)) if law else max(rows, key=lambda row: row["fps"])["threads"]
    return {"network": network, "rows": rows, "law": _law(law), "best_threads": best}


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _law(law: Law | None) -> dict[str, float | None] | None:
    if law is None:
        return None
    peak = law.peak if law.crosstalk else None
    return {"serial": law.serial, "crosstalk": law.crosstalk, "peak_threads": peak}


def show(found: Mapping[str, Any], training: int | None) -> None:
    """``training``: samples of a step, None where frames were measured."""
    rows = found["rows"]
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
    print_table(f"{found['network']}{what} by number of threads", headings, cells)
    law = found["law"]
    if law is None:
        print_text(f"Best here: {found['best_threads']}; a law is fitted from three numbers of threads on.")
        print_text()
        return
    peak = "more always help" if law["peak_threads"] is None else f"most at {law['peak_threads']:.1f} threads"
    what = f"serial share {law['serial']:.3f}, crosstalk {law['crosstalk']:.4f}, {peak}"
    print_text(f"Universal scalability law: {what}. Best here: {found['best_threads']}.")
    print_text()
