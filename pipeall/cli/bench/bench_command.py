"""``pipeall bench``: one component, all independently, pipelines and the best plan, here or on an emulated board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...pipeline.boards import machine
from ...pipeline.boards.board import Board
from ...pipeline.boards.default_units import default_units, with_some_cores
from ...pipeline.lease import WRONG, leased
from ...pipeline.measuring.card import card as card_of
from ...pipeline.measuring.comparison import averages, compare_modes
from ...pipeline.measuring.trial import compare
from ...pipeline.planning.plan import Plan
from ...pipeline.planning.units import Unit, overlap
from .. import complete
from ..model_argument import Finer, load_model
from ..options import (
    Command,
    board_option,
    cores_option,
    file_option,
    finer_option,
    json_option,
    positive_option,
    value_option,
)
from ..output import print_json, progress, tracked
from ..plans import load_board, measured, times_lines
from .bench_text import show
from .card_text import markdown

NETS = ("alexnet", "googlenet", "mobilenet", "resnet50-slim", "squeezenet")  # of paper 001
COMPARING = ("board", "time_scale", "turns", "plot", "trace", "finer")  # options that a card has no use for


@click.command(cls=Command)
@click.argument("nets", nargs=-1, shell_complete=complete.models)
@click.option("--components", shell_complete=complete.units, help="Such as B,L,G; default all real processors.")
@positive_option(
    "--seconds", help="How long each part of a profile, and each plan at each load, runs; default 2, with --board 4."
)
@click.option("--turns", type=click.IntRange(1), help="Of each plan, within --seconds; default 5, with --board 1.")
@cores_option("share", "refuse")
@board_option
@positive_option("--time-scale", help="With --board: run so many times as slow; default 1.")
@file_option("--plot", help="Draw throughput and latency as PNG.")
@file_option("--trace", help="Of one network's Best: what each stage did; open it at ui.perfetto.dev.")
@click.option("--card", is_flag=True, help="Of one .onnx file: its figures per precision and threads, as Markdown.")
@click.option(
    "--data",
    metavar="FILE",
    shell_complete=complete.files(".npz"),
    help="With --card: .npz of inputs x and classes y, for the accuracy.",
)
@finer_option
@value_option
@json_option
def bench(
    nets: tuple[str, ...],
    components: str | None,
    seconds: float | None,
    turns: int | None,
    cores: str,
    board: str | None,
    time_scale: float | None,
    plot: str | None,
    trace: str | None,
    card: bool,
    data: str | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Compare one processor, all at once, pipelines and the best plan.

    \b
    pipeall bench
    pipeall bench squeezenet net.onnx --components B,L --seconds 1
    pipeall bench --board a311d --plot fig7.png

    Networks are the zoo's five unless some are named. Peak is the fastest single component; where all cores are equal,
    cpu is one too: all of them at once. Parallel runs the network on every component independently. Pipe-All is the
    best pipeline in which each has one stage or none; Floating may have cuts that float; Best may be any plan:
    components that come several times, lanes, single cores where all are equal. Of each search the best three run to
    make sure. The plans of a network take turns. FPS and stage times are wall clock at full load. Latency is from
    submit to when a frame is delivered in its turn, with as many frames under way as there are units; its worst lane is
    Parallel's slowest component, which is the paper's figure.

    With --board the runtime runs here at the pace of the board's model; times are the board's.
    """
    if card:
        _card(nets, components, seconds or 2.0, data, as_json)
        return
    _check(data, time_scale, board)
    if plot:
        from .bench_plot import draw  # before anything is measured in vain
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
    with leased(there, names, ", ".join(graphs), cores, WRONG):
        runs, notes = compared(graphs, there, names, seconds, turns, time_scale)
    about |= {"after": machine.state(host), "seconds": seconds, "turns": turns}
    about |= {"board": there.model.name if board else None, "time_scale": time_scale}
    with ExitStack() as files:  # after what is printed, which is not lost where they cannot be written
        if plot:
            where = f"{about['board']}, emulated" if board else about["model"] or "unknown CPU"
            files.callback(draw, plot, runs, f"{where}: {', '.join(names)}")
        if trace:
            files.callback(_trace, trace, list(graphs.values())[-1], there, runs[-1]["plan"], seconds, time_scale)
        if as_json:
            valid, busy = all(row["valid"] for row in runs), any(row["disturbed"] for row in runs)
            about["components"] = [row for row in there.describe() if row["component"] in names]
            print_json("bench", **about, valid=valid, disturbed=busy, runs=runs, notes=notes, averages=averages(runs))
        else:
            show(about, there, names, runs, notes)


def _check(data: str | None, time_scale: float | None, board: str | None) -> None:
    if time_scale and not board:
        raise ArgumentError("--time-scale: expected --board beside it, this machine has a pace of its own")
    if data:
        raise ArgumentError("--data: expected --card beside it")


def _card(nets: tuple[str, ...], components: str | None, seconds: float, data: str | None, as_json: bool) -> None:
    """Prints the card of one file."""
    options = click.get_current_context().params
    if others := [name for name in COMPARING if options[name]]:
        raise ArgumentError(f"--{others[0].replace('_', '-')}: expected no --card beside it")
    if len(nets) != 1 or not nets[0].lower().endswith(".onnx"):
        raise ArgumentError(f"--card: expected one .onnx file, got {', '.join(nets) or 'none'}")
    host = Board.detect()
    names = _components(host, components) if components else [host.default_component]
    about = machine.describe(host) | {"seconds": seconds}
    with progress() as bar, tracked(bar, nets[0]) as show_progress:
        rows = card_of(nets[0], names, host, seconds=seconds, data=data, progress=show_progress)
    if as_json:
        print_json("card", network=nets[0], **about, rows=rows)
    else:
        click.echo(markdown(Path(nets[0]).stem, about, rows))


def compared(
    graphs: Mapping[str, Graph],
    board: Board,
    names: list[str],
    seconds: float,
    turns: int,
    time_scale: float | None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of all networks, and notes; with ``time_scale`` at the pace of the board's model."""
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    units = default_units(board)
    if board.model and len(names) == 1:  # with several components the best plans of single cores are late
        units = with_some_cores(board, list(map(Unit.parse, names)))
    some = [unit for unit in units if unit.cores and unit.whole in names]
    with progress() as bar:
        overall = bar.add_task("networks", total=len(graphs))
        for net, graph in graphs.items():
            profile = measured(graph, board, [*names, *some], seconds, bar)
            with tracked(bar, net) as show_progress:
                modes = compare_modes(
                    graph, board, profile, names,
                    seconds=seconds, turns=turns, time_scale=time_scale, progress=show_progress,
                )  # fmt: skip
            rows += [row | {"net": net} for row in modes.rows]
            lines = [*modes.slower, *plan_notes(names, modes.rows)]
            lines += [f"{plan} refused: {reason}" for plan, reason in modes.refused.items()]
            notes += [f"{net}: {line}" for line in (*lines, *times_lines(profile, board))]
            bar.advance(overall)
    return rows, notes


def _trace(path: str, graph: Graph, board: Board, plan: str, seconds: float, time_scale: float | None) -> None:
    with progress() as bar, tracked(bar, graph.name) as show_progress:
        compare(graph, [Plan.parse(plan)], board, turns=1, seconds=seconds, what="trace", progress=show_progress,
                trace=path, time_scale=time_scale or 1.0)  # fmt: skip


def _components(board: Board, text: str | None) -> list[str]:
    """Those that are named, else the whole ones of ``default_units``."""
    if text is None:
        return [unit for unit in default_units(board) if unit.cores is None]
    names = [Unit.parse_whole(word) for word in text.split(",")]
    if len(set(names)) != len(names):
        raise ArgumentError(f"--components {text}: expected distinct components")
    for name in names:
        board.component(name)
    return names


def plan_notes(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which components are missing, and where."""
    able = {Plan.parse(row["plan"]).components[0] for row in rows if row["mode"] in ("single", "peak")}
    unable = [f"{name} cannot run all of it, so it has no more than a stage" for name in names if name not in able]
    mode, plan = rows[-1]["mode"], Plan.parse(rows[-1]["plan"])
    busy = {name for name in names for part in plan.components if name == part or overlap(name, part)}
    idle = [name for name in names if mode == "best" and name not in busy]
    return unable + ([f"the best plan, {plan}, leaves out {', '.join(idle)}"] if idle else [])
