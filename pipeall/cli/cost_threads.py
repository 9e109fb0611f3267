"""``pipeall cost threads``: how throughput and latency of networks go with the number of threads, measured here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import click
from rich.progress import Progress

from ..cost.scaling import Law, fit
from ..graph.ir import Graph
from ..pipeline.boards import machine
from ..pipeline.boards.board import Board
from ..pipeline.engine import Engine
from ..pipeline.measuring.trial import random_frame
from . import complete
from .model import load_model
from .options import file_option, finer_option, json_option, positive_option
from .output import print_json, progress
from .tables import print_table, print_text

LEAST = 3  # frames of a turn
TURNS = 3  # of every number of threads, one after the other: clocks and neighbours change


@click.command()
@click.argument("models", nargs=-1, required=True, shell_complete=complete.models)
@positive_option("--seconds", default=2.0, help="How long all numbers of threads together are measured.")
@file_option("--plot", help="Draw throughput by number of threads as PNG.")
@finer_option
@json_option
def threads(models: tuple[str, ...], seconds: float, plot: str | None, finer: int | None, as_json: bool) -> None:
    """Measure a network on 1 to all cores, and say which number pays.

    \b
    pipeall cost threads alexnet --plot threads.png

    From three numbers of threads on, the universal scalability law is fitted to the throughput.
    """
    if plot:
        from .plot_threads import draw_threads  # before anything is measured in vain
    board = one_cluster()
    graphs = [load_model(model, finer=finer) for model in models]
    about = machine.describe(board) | {"before": machine.state(board)}
    with progress() as bar:
        found = [report(graph.name, measure(graph, board, seconds, bar)) for graph in graphs]
    if plot:
        draw_threads(plot, found, f"Throughput by number of threads, {about['model'] or 'unknown CPU'}")
    if as_json:
        print_json("threads", **about, networks=found)
        return
    for network in found:
        show(network)


def one_cluster() -> Board:
    """All cores that this process may use as one component, whatever their kinds: its affinity and container count."""
    return Board.detect(clusters=[sorted(os.sched_getaffinity(0))], gpu=False)


def measure(graph: Graph, board: Board, seconds: float, bar: Progress) -> dict[int, list[float]]:
    """Number of threads -> ms of each frame, one at a time, all numbers in turns of ``seconds`` together."""
    cores = len(board.component("big").device.cores)
    frame = random_frame(graph)
    engines = {count: Engine(graph, "big", board, count) for count in range(1, cores + 1)}
    times: dict[int, list[float]] = {count: [] for count in engines}
    task = bar.add_task(f"{graph.name} by threads", total=TURNS * cores)
    try:
        for _ in range(TURNS):
            for count, engine in engines.items():
                times[count] += _turn(engine, frame, seconds / TURNS)
                bar.advance(task)
    finally:
        for engine in engines.values():
            engine.close()
    return times


def _turn(engine: Engine, frame: Any, seconds: float) -> list[float]:
    engine(frame)  # warm
    taken: list[float] = []
    end = perf_counter() + seconds
    while len(taken) < LEAST or perf_counter() < end:
        begin = perf_counter()
        engine(frame)
        taken.append(1e3 * (perf_counter() - begin))
    return taken


def report(network: str, times: Mapping[int, list[float]]) -> dict[str, Any]:
    """Median and fastest latency, throughput by the median, and the law where there are three numbers of threads."""
    rows = [
        {"threads": count, "median_ms": _median(taken), "least_ms": min(taken), "fps": 1e3 / _median(taken)}
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


def show(found: Mapping[str, Any]) -> None:
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
    headings = [">threads", ">median ms", ">fastest ms", ">FPS", ">speedup"]
    print_table(f"{found['network']} by number of threads", headings, cells)
    law = found["law"]
    if law is None:
        print_text(f"Best here: {found['best_threads']}; a law is fitted from three numbers of threads on.")
        print_text()
        return
    peak = "more always help" if law["peak_threads"] is None else f"most at {law['peak_threads']:.1f} threads"
    what = f"serial share {law['serial']:.3f}, crosstalk {law['crosstalk']:.4f}, {peak}"
    print_text(f"Universal scalability law: {what}. Best here: {found['best_threads']}.")
    print_text()
