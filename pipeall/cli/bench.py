"""``pipeall bench``: one component, all independently, and all as a pipeline, measured here or on a board's twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import click
from rich.progress import Progress

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..pipeline.boards import machine
from ..pipeline.boards.board import Board
from ..pipeline.boards.profile_cache import real_components
from ..pipeline.planning.lineup import lineup
from ..pipeline.planning.names import component_name, overlap
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.profile import Profile
from . import complete
from .bench_text import show
from .contest import averages, rows, settled
from .model import load_model
from .options import board_option, file_option, finer_option, floating_option, json_option, positive_option
from .output import print_json, progress
from .profiles import load_board, measured, times_lines
from .values import value_option
from .verify import side_by_side, verify

NETS = ("alexnet", "googlenet", "mobilenet", "resnet50-slim", "squeezenet")  # of paper 001
VERIFIED = 3  # best plans that are run to find Pipe-All's


@click.command()
@click.argument("nets", nargs=-1, shell_complete=complete.models)
@click.option("--components", shell_complete=complete.units, help="Such as B,L,G; default all real processors.")
@positive_option(
    "--seconds", help="How long each part of a profile, and each plan at each load, runs; default 2, with --board 4."
)
@click.option("--turns", type=click.IntRange(1), help="Of each plan, within --seconds; default 5, with --board 1.")
@floating_option
@board_option
@positive_option("--time-scale", help="With --board: run so many times as slow; default 1.")
@file_option("--plot", help="Draw throughput and latency as PNG.")
@file_option("--trace", help="Of one network's Pipe-All: what each stage did; open it at ui.perfetto.dev.")
@finer_option
@value_option
@json_option
def bench(
    nets: tuple[str, ...],
    components: str | None,
    seconds: float | None,
    turns: int | None,
    floating: bool,
    board: str | None,
    time_scale: float | None,
    plot: str | None,
    trace: str | None,
    finer: int | None,
    as_json: bool,
) -> None:
    """Compare one processor, all independently and all as a pipeline.

    \b
    pipeall bench
    pipeall bench squeezenet net.onnx --components B,L --seconds 1
    pipeall bench --board a311d --plot fig7.png

    Networks are the zoo's five unless some are named. Peak is the fastest single component; where all cores are equal,
    cpu is one too: all of them at once. Parallel runs the network on every component independently. Pipe-All is the
    best plan of a search, the best three run to make sure; it may leave components out. The plans of a network take
    turns. FPS and stage times are wall clock at full load. Latency is from submit to result with as many frames under
    way as there are stages; its worst lane is Parallel's slowest component, which is the paper's figure.

    With --board the runtime runs here at the pace of a model, as the board's twin; times are the board's.
    """
    if time_scale and not board:
        raise ArgumentError("--time-scale: expected --board beside it, this machine has a pace of its own")
    if plot:
        from .plot import draw  # before anything is measured in vain
    graphs = {net: load_model(net, finer=finer) for net in nets or NETS}
    if trace and len(graphs) != 1:
        raise ArgumentError(f"--trace: expected one network, got {len(graphs)}")
    there = load_board(board)
    names = _components(there, components)
    if board:
        time_scale = time_scale or 1.0
    seconds, turns = seconds or (4.0 if board else 2.0), turns or (1 if board else 5)
    host = Board.detect() if board else there
    about = machine.describe(host) | {"before": machine.state(host)}
    found, notes = _compared(graphs, there, names, floating, seconds, turns, time_scale)
    about |= {"after": machine.state(host), "seconds": seconds, "turns": turns}
    about |= {"board": there.model.name if board else None, "time_scale": time_scale}
    with ExitStack() as files:  # after what is printed, which is not lost where they cannot be written
        if plot:
            where = f"{about['board']}, twin" if board else about["model"] or "unknown CPU"
            files.callback(draw, plot, found, f"{where}: {', '.join(names)}")
        if trace:
            files.callback(_trace, trace, list(graphs.values())[-1], there, found[-1]["plan"], seconds, time_scale)
        if as_json:
            valid, busy = all(row["valid"] for row in found), any(row["disturbed"] for row in found)
            about["components"] = [row for row in there.describe() if row["component"] in names]
            print_json("bench", **about, valid=valid, disturbed=busy, runs=found, notes=notes, averages=averages(found))
        else:
            show(about, there, names, found, notes)


def _compared(
    graphs: Mapping[str, Graph],
    board: Board,
    names: list[str],
    floating: bool,
    seconds: float,
    turns: int,
    time_scale: float | None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of all networks, and notes; with ``time_scale`` at the pace of the board's model."""
    pace = _pace(time_scale)
    found: list[dict[str, Any]] = []
    notes: list[str] = []
    with progress() as bar:
        overall = bar.add_task("networks", total=len(graphs))
        for net, graph in graphs.items():
            profile = measured(graph, board, names, seconds, bar)
            entries, refused = _entries(graph, board, profile, names, floating, seconds, bar)
            plans = list(dict.fromkeys(plan for _, plan in entries))
            full, single = (
                side_by_side(graph, board, plans, seconds, bar, load, queue, turns, **pace)
                for load, queue in (("full load", True), ("latency", False))
            )
            loaded, unloaded = (dict(zip(plans, done, strict=True)) for done in (full, single))
            entries, slower = settled(net, entries, loaded)
            found += rows(net, profile, entries, loaded, unloaded, time_scale)
            notes += slower
            notes += plan_notes(net, names, entries)
            notes += [f"{net}: {plan} refused: {reason}" for plan, reason in refused.items()]
            notes += [f"{net}: {line}" for line in times_lines(profile, board)]
            bar.advance(overall)
    return found, notes


def _pace(time_scale: float | None) -> dict[str, Any]:
    return {"pace": True, "time_scale": time_scale} if time_scale else {}


def _trace(path: str, graph: Graph, board: Board, plan: str, seconds: float, time_scale: float | None) -> None:
    with progress() as bar:
        plans = [Plan.parse(plan)]
        side_by_side(graph, board, plans, seconds, bar, "trace", turns=1, trace=path, **_pace(time_scale))


def _components(board: Board, text: str | None) -> list[str]:
    """Those that are named, else all real ones; and where their cores are equal "cpu", which is all cores at once."""
    if text is None:
        real, whole = real_components(board), board.default_component
        return [*real, whole] if sum(overlap(name, whole) for name in real) > 1 else real
    names = [component_name(word) for word in text.split(",")]
    if len(set(names)) != len(names):
        raise ArgumentError(f"--components {text}: expected distinct components")
    for name in names:
        board.component(name)
    return names


def _entries(
    graph: Graph, board: Board, profile: Profile, names: list[str], floating: bool, seconds: float, bar: Progress
) -> tuple[list[tuple[str, Plan]], dict[str, str]]:
    """Mode and plan of what runs against each other, Pipe-All last, where there are several components; and plans
    that did not run, with the reason."""
    found = lineup(graph, profile, names, VERIFIED, floating)
    entries = [("alone", plan) for plan in found.alone]
    if len(names) == 1:
        return entries, {}
    best, refused = found.pipelines[0], {}
    if board.model is None:
        ran, refused = verify(graph, board, found.pipelines, seconds, bar)
        best = ran[0].choice
    parallel = [("parallel", found.parallel)] if found.parallel else []
    return [*entries, *parallel, ("pipe-all", best.plan)], refused


def plan_notes(net: str, names: Sequence[str], entries: Sequence[tuple[str, Plan]]) -> list[str]:
    """Which components are missing, and where."""
    able = {plan.components[0] for mode, plan in entries if mode == "alone"}
    unable = [
        f"{net}: {name} cannot run all of it, so it is in no more than Pipe-All" for name in names if name not in able
    ]
    mode, plan = entries[-1]
    busy = {name for name in names for part in plan.components if name == part or overlap(name, part)}
    idle = [name for name in names if mode == "pipe-all" and name not in busy]
    return unable + ([f"{net}: the best plan, {plan}, leaves out {', '.join(idle)}"] if idle else [])
