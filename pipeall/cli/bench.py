"""``pipeall bench``: one component, all independently, and all as a pipeline, measured on this machine."""

from __future__ import annotations

import os
import platform
import re
import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import repeat
from math import isfinite
from pathlib import Path
from typing import Any

import click
import numpy as np

from .. import __version__
from ..errors import ArgumentError
from ..graph.ir import Graph
from ..pipeline.board import Board, component_name
from ..pipeline.pipeline import Pipeline
from ..pipeline.plan import Plan, balanced_cuts
from ..pipeline.stats import StatsRecorder
from .model import load_model
from .output import component_text, json_option, print_json, print_table, progress
from .plans import real_components

NETS = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")  # of paper 001
MODES = {"alone": "alone", "peak": "Peak", "parallel": "Parallel", "pipe-all": "Pipe-All"}
WARM_UP = 2  # frames per stage that are not counted
NOTE = "gpu is a CPU stand-in: it shares the cores of the other components, and its figures say nothing about a GPU."


def _finite(context: click.Context, option: click.Parameter, value: float) -> float:
    """A range lets NaN and infinity through."""
    if not isfinite(value):
        raise click.BadParameter(f"expected a finite number, got {value}", context, option)
    return value


@click.command()
@click.argument("nets", nargs=-1)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    callback=_finite,
    default=5.0,
    show_default=True,
    help="Per mode.",
)
@click.option("--frames", type=click.IntRange(1), help="Frames per mode, instead of --seconds.")
@click.option("--components", help="Such as B,L,G; default all real processors.")
@click.option("--order", help="Of the pipeline, such as L-G-B; default as --components.")
@json_option
def bench(
    nets: tuple[str, ...],
    seconds: float,
    frames: int | None,
    components: str | None,
    order: str | None,
    as_json: bool,
) -> None:
    """Measure networks (default: the zoo's five) on each component alone, in parallel and as a pipeline.

    Peak is the best single component. Parallel runs the network on every component independently. Pipe-All is the
    pipeline; its cuts give each stage MACs according to the speed its component has shown alone. Wall-clock
    throughput at full load; latency is from submit to result, with the waiting at that load.

    \b
    pipeall bench
    pipeall bench squeezenet net.onnx --order L-B --seconds 2
    """
    board = Board.detect()
    names, stages = _components(board, components, order)
    graphs = {net: load_model(net) for net in nets or NETS}
    for graph in graphs.values():
        balanced_cuts(graph, [1.0] * len(stages))  # an error for one with too few groups, before any is measured
    date = datetime.now(timezone.utc).isoformat(timespec="seconds")
    about = {"pipeall": __version__, "date": date, "machine": _machine()}
    rows = []
    with progress() as bar:
        task = bar.add_task("", total=len(graphs) * (len(names) + 2 if len(names) > 1 else 1))
        for net, graph in graphs.items():
            measured = []
            for mode, plan in _modes(graph, names, stages, measured):
                bar.update(task, description=f"{net}: {plan}")
                measured.append(
                    {"net": net, "mode": mode, "plan": str(plan)} | _measure(graph, plan, board, seconds, frames)
                )
                bar.advance(task)
            rows += _compared(measured)
    parts = [row for row in board.describe() if row["component"] in names]
    if as_json:
        print_json("bench", **about, components=parts, runs=rows)
    else:
        _show(about, board, names, rows)


def _components(board: Board, components: str | None, order: str | None) -> tuple[list[str], list[str]]:
    """What to measure, and the same in the order of the pipeline."""
    stages = [component_name(word) for word in order.split("-")] if order is not None else None
    if components is not None:
        names = [component_name(word) for word in components.split(",")]
    else:
        names = stages or real_components(board)
    if len(set(names)) != len(names) or sorted(stages or names) != sorted(names):
        raise ArgumentError(
            f"--order {order}, --components {components}: expected the same distinct components in both"
        )
    for name in names:
        board.component(name)
    return names, stages or names


def _modes(graph: Graph, names: list[str], stages: list[str], measured: list[dict]) -> Iterator[tuple[str, Plan]]:
    """What to run next: ``measured`` has the rows of the plans given before, the components alone first."""
    for name in names:
        yield "alone", Plan.single(name)
    if len(names) > 1:
        yield "parallel", Plan.parallel(names)
        speeds = {row["plan"]: row["fps"] for row in measured}
        yield "pipe-all", Plan.pipeline(stages, balanced_cuts(graph, [speeds[name] for name in stages]))


def _measure(graph: Graph, plan: Plan, board: Board, seconds: float, frames: int | None) -> dict[str, Any]:
    """FPS and latency of ``frames`` frames, or of as many as are submitted in ``seconds``."""
    random = np.random.default_rng(0)
    frame = {tensor.name: random.standard_normal(tensor.shape, np.float32) for tensor in graph.inputs}
    warm_up = WARM_UP * len(plan.components)
    recorder = StatsRecorder()
    with Pipeline(graph, plan, board) as pipe:
        deque(pipe.map(repeat(frame, warm_up)), maxlen=0)
        deque(pipe.map(repeat(frame, frames) if frames else _for_seconds(frame, seconds)), maxlen=0)
        for times in pipe.times:
            if times.frame >= warm_up:
                recorder.add(times)
    figures = recorder.stats([]).to_dict()
    del figures["stages"]
    return figures


def _for_seconds(frame: dict[str, np.ndarray], seconds: float) -> Iterator[dict[str, np.ndarray]]:
    """The frame again and again, at least once."""
    end = time.monotonic() + seconds
    yield frame
    while time.monotonic() < end:
        yield frame


def _compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of one network with their ratios to the fastest single component, whose mode becomes "peak"."""
    peak = max((row for row in rows if row["mode"] == "alone"), key=lambda row: row["fps"])
    return [
        row
        | {"mode": "peak" if row is peak else row["mode"]}
        | {"fps_to_peak": row["fps"] / peak["fps"], "latency_to_peak": row["latency_p50_ms"] / peak["latency_p50_ms"]}
        for row in rows
    ]


def _machine() -> dict[str, Any]:
    """Board or CPU model (None where the kernel does not tell), architecture, cores, and what else was running."""
    board = Path("/proc/device-tree/model")
    if board.is_file():
        model = board.read_text(errors="replace").strip("\0\n")
    else:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(errors="replace"), re.MULTILINE)
        model = names[0] if names else None
    return {"model": model, "machine": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}


def _show(about: dict[str, Any], board: Board, names: list[str], rows: list[dict[str, Any]]) -> None:
    machine = about["machine"]
    click.echo(
        f"{machine['model'] or 'unknown CPU'}, {machine['machine']}, {machine['cores']} cores, "
        f"load {machine['load']:.1f}; pipeall {about['pipeall']}, {about['date']}"
    )
    for component in map(board.component, names):
        click.echo(f"{component_text(component)}: {component.description}")
    if any(board.component(name).stand_in for name in names):
        click.echo(NOTE)
    if len(names) == 1:
        click.echo("One component: neither Parallel nor Pipe-All.")
    cells = [
        (
            row["net"],
            MODES[row["mode"]],
            row["plan"],
            f"{row['fps']:.2f}",
            f"{row['fps_to_peak']:.2f}",
            *(f"{row[f'latency_{p}_ms']:.1f}" for p in ("p50", "p95", "p99")),
            f"{row['latency_to_peak']:.2f}",
        )
        for row in rows
    ]
    headings = ["network", "mode", "plan", ">FPS", ">x Peak", ">p50 ms", ">p95 ms", ">p99 ms", ">p50 x Peak"]
    print_table("\nThroughput and latency, wall clock", headings, cells)
