"""``pipeall bench --threads``: how throughput and latency of one network go with the number of threads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import click
from rich.progress import Progress

from ..cost.scaling import Law, fit
from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.engine import Engine
from ..pipeline.measuring.trial import random_frame
from .output import print_table

LEAST = 3  # frames of a turn
TURNS = 3  # of every number of threads, one after the other: clocks and neighbours change


def one_cluster() -> Board:
    """All cores that this process may use as one component, whatever their kinds: its affinity and container count."""
    return Board.detect(clusters=[sorted(os.sched_getaffinity(0))], gpu=False)


def measure(graph: Graph, board: Board, seconds: float, bar: Progress) -> dict[int, list[float]]:
    """Number of threads -> ms of each frame, one at a time, all numbers in turns of ``seconds`` together."""
    cores = len(board.component("big").device.cores)
    frame = random_frame(graph)
    engines = {threads: Engine(graph, "big", board, threads) for threads in range(1, cores + 1)}
    times: dict[int, list[float]] = {threads: [] for threads in engines}
    task = bar.add_task(f"{graph.name} by threads", total=TURNS * cores)
    try:
        for _ in range(TURNS):
            for threads, engine in engines.items():
                engine(frame)  # warm
                taken: list[float] = []
                end = perf_counter() + seconds / TURNS
                while len(taken) < LEAST or perf_counter() < end:
                    begin = perf_counter()
                    engine(frame)
                    taken.append(1e3 * (perf_counter() - begin))
                times[threads] += taken
                bar.advance(task)
    finally:
        for engine in engines.values():
            engine.close()
    return times


def report(network: str, times: Mapping[int, list[float]]) -> dict[str, Any]:
    """Median and fastest latency, throughput by the median, and the law where there are three numbers of threads."""
    rows = [
        {"threads": threads, "median_ms": _median(taken), "least_ms": min(taken), "fps": 1e3 / _median(taken)}
        for threads, taken in times.items()
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
        click.echo(f"Best here: {found['best_threads']}; a law is fitted from three numbers of threads on.\n")
        return
    peak = "more always help" if law["peak_threads"] is None else f"most at {law['peak_threads']:.1f} threads"
    what = f"serial share {law['serial']:.3f}, crosstalk {law['crosstalk']:.4f}, {peak}"
    click.echo(f"Universal scalability law: {what}. Best here: {found['best_threads']}.\n")
