"""``pipeall bench``: one component, all independently, and all as a pipeline, measured here or on a board's twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.progress import Progress

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..pipeline.boards import machine
from ..pipeline.boards.board import Board
from ..pipeline.planning.lineup import lineup
from ..pipeline.planning.names import component_name
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.profile import Profile
from . import threads
from .contest import MAX_LATE, averages, rows
from .model import finer_option, load_model
from .output import MODES, component_text, file_option, json_option, positive_option, print_json, print_table, progress
from .plans import floating_option, real_components
from .profile import board_option, load_board, measured, times_lines
from .verify import side_by_side, verify

NETS = ("alexnet", "googlenet", "mobilenet", "resnet50-slim", "squeezenet")  # of paper 001
VERIFIED = 3  # best plans that are run to find Pipe-All's
NOTE = "gpu is a CPU stand-in: it shares the cores of the other components, and its figures say nothing about a GPU."
LATE = f"INVALID: over {MAX_LATE:.0%} of the frames took longer to compute here than the board takes; try --time-scale."
FIGURES = {
    "fps": "throughput",
    "latency_worst_ms": "latency, Parallel's of its worst lane",
    "latency_p50_ms": "latency, Parallel's p50",
}


@click.command()
@click.argument("nets", nargs=-1)
@finer_option
@positive_option(
    "--seconds", help="How long each part of a profile, and each plan at each load, runs; default 2, with --board 4."
)
@click.option("--turns", type=click.IntRange(1), help="Of each plan, within --seconds; default 5, with --board 1.")
@click.option("--components", help="Such as B,L,G; default all real processors.")
@floating_option
@board_option
@positive_option("--time-scale", help="With --board: run so many times as slow; default 1.")
@file_option("--plot", help="Draw throughput and latency as PNG.")
@file_option("--trace", help="Of one network's Pipe-All: what each stage did; open it at ui.perfetto.dev.")
@click.option(
    "--threads", "by_threads", is_flag=True, help="Latency and FPS over 1 to all cores, and which number pays."
)
@json_option
def bench(
    nets: tuple[str, ...],
    finer: int | None,
    seconds: float | None,
    turns: int | None,
    components: str | None,
    floating: bool,
    board: str | None,
    time_scale: float | None,
    plot: str | None,
    trace: str | None,
    by_threads: bool,
    as_json: bool,
) -> None:
    """Measure networks (default: the zoo's five) on each component alone, in parallel and as a pipeline.

    Peak is the fastest single component. Parallel runs the network on every component independently. Pipe-All is the
    best plan of a search, the best three run to make sure; it may leave components out. The plans of a network take
    turns. FPS and stage times are wall clock at full load. Latency is from submit to result with as many frames under
    way as there are stages; its worst lane is Parallel's slowest component, which is the paper's figure.

    With --board the runtime runs here at the pace of a model, as the board's twin; times are the board's.

    \b
    pipeall bench
    pipeall bench squeezenet net.onnx --components B,L --seconds 1
    pipeall bench --board a311d --plot fig7.png
    pipeall bench alexnet --threads --plot threads.png
    """
    if by_threads:
        if floating or any(value is not None for value in (turns, components, board, time_scale, trace)):
            raise ArgumentError("--threads: expected --seconds, --finer, --plot and --json alone beside it")
        _by_threads(nets or NETS, finer, seconds or 2.0, plot, as_json)
        return
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
    pace = {"pace": True, "time_scale": time_scale} if board else {}
    host = Board.detect() if board else there
    about = machine.describe(host) | {"before": machine.state(host)}
    found: list[dict[str, Any]] = []
    notes: list[str] = []
    with progress() as bar:
        overall = bar.add_task("networks", total=len(graphs))
        for net, graph in graphs.items():
            profile = measured(graph, there, names, seconds, bar)
            entries, refused = _entries(graph, there, profile, names, floating, seconds, bar)
            plans = list(dict.fromkeys(plan for _, plan in entries))
            full, single = (
                side_by_side(graph, there, plans, seconds, bar, load, queue, turns, **pace)
                for load, queue in (("full load", True), ("latency", False))
            )
            trials = (dict(zip(plans, done, strict=True)) for done in (full, single))
            found += rows(net, profile, entries, *trials, time_scale)
            notes += _notes(net, names, entries)
            notes += [f"{net}: {plan} refused: {reason}" for plan, reason in refused.items()]
            notes += [f"{net}: {line}" for line in times_lines(profile, there)]
            bar.advance(overall)
        if trace:
            side_by_side(graph, there, [entries[-1][1]], seconds, bar, "trace", turns=1, trace=trace, **pace)
    about |= {"after": machine.state(host), "seconds": seconds, "turns": turns}
    about |= {"board": there.model.name if board else None, "time_scale": time_scale}
    if plot:
        where = f"{about['board']}, twin" if board else about["model"] or "unknown CPU"
        draw(plot, found, f"{where}: {', '.join(names)}")
    if as_json:
        valid = all(row["valid"] for row in found)
        about["components"] = [row for row in there.describe() if row["component"] in names]
        print_json("bench", **about, valid=valid, runs=found, notes=notes, averages=averages(found))
    else:
        _show(about, there, names, found, notes)


def _by_threads(nets: Sequence[str], finer: int | None, seconds: float, plot: str | None, as_json: bool) -> None:
    if plot:
        from .plot_threads import draw_threads  # before anything is measured in vain
    board = threads.one_cluster()
    graphs = [load_model(net, finer=finer) for net in nets]
    about = machine.describe(board) | {"before": machine.state(board)}
    with progress() as bar:
        found = [threads.report(graph.name, threads.measure(graph, board, seconds, bar)) for graph in graphs]
    if plot:
        draw_threads(plot, found, f"Throughput by number of threads, {about['model'] or 'unknown CPU'}")
    if as_json:
        print_json("threads", **about, networks=found)
        return
    for network in found:
        threads.show(network)


def _components(board: Board, text: str | None) -> list[str]:
    names = [component_name(word) for word in text.split(",")] if text is not None else real_components(board)
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


def _notes(net: str, names: Sequence[str], entries: Sequence[tuple[str, Plan]]) -> list[str]:
    """Which components are missing, and where."""
    able = {plan.components[0] for mode, plan in entries if mode == "alone"}
    unable = [
        f"{net}: {name} cannot run all of it, so it is in no more than Pipe-All" for name in names if name not in able
    ]
    mode, plan = entries[-1]
    idle = [name for name in names if mode == "pipe-all" and name not in plan.components]
    return unable + ([f"{net}: the best plan, {plan}, leaves out {', '.join(idle)}"] if idle else [])


def _show(
    about: Mapping[str, Any], board: Board, names: Sequence[str], found: Sequence[dict[str, Any]], notes: Sequence[str]
) -> None:
    before, after = (about[key]["load"] for key in ("before", "after"))
    click.echo(
        f"{about['model'] or 'unknown CPU'}, {about['machine']}, {about['cores']} cores, "
        f"load {before:.1f} to {after:.1f}; pipeall {about['pipeall']}, {about['date']}"
    )
    if about["board"]:
        click.echo(f"Twin of {about['board']}, {about['time_scale']:g} times as slow, shown in the board's time:")
    for component in map(board.component, names):
        click.echo(f"{component_text(component)}: {component.description}")
    if any(board.component(name).stand_in for name in names):
        click.echo(NOTE)
    if len(names) == 1:
        click.echo("One component: neither Parallel nor Pipe-All.")
    twin, energy = (any(row.get(key) is not None for row in found) for key in ("simulated_fps", "energy_mj"))
    cells = [
        (
            row["net"],
            MODES[row["mode"]] + ("" if row["valid"] else " INVALID"),
            row["plan"],
            f"{row['fps']:.2f}",
            f"{row['fps_to_peak']:.2f}",
            f"{100 * row['fps_spread']:.1f}",
            *((f"{row['simulated_fps']:.2f}", f"{row['simulated_error_percent']:+.1f}") if twin else ()),
            *(f"{row[f'latency_{key}_ms']:.1f}" for key in ("p50", "p95", "p99", "worst")),
            f"{row['latency_to_peak']:.2f}",
            *((row["energy_mj"] and f"{row['energy_mj']:.0f}",) if energy else ()),
        )
        for row in found
    ]
    headings = ["network", "mode", "plan", ">FPS", ">x Peak", ">spread %"]
    headings += [">simulated", ">differs %"] if twin else []
    headings += [">p50 ms", ">p95 ms", ">p99 ms", ">worst lane", ">x Peak"]
    headings += [">predicted mJ a frame"] if energy else []
    print_table("\nThroughput at full load; latency without queueing", headings, cells)
    stages = [
        (
            row["net"],
            stage["unit"],
            f"{stage['groups'][0] + 1} to {stage['groups'][1]}",
            *(f"{stage[f'{key}_ms']:.2f}" for key in ("busy", "wait_in", "wait_out", "map", "copy")),
            f"{100 * stage['use']:.0f}",
        )
        for row in found
        if row["mode"] == "pipe-all"
        for stage in row["stages"]
    ]
    if stages:
        headings = ["network", "unit", "groups", ">busy", ">wait in", ">wait out", ">map", ">copy", ">use %"]
        print_table("Stages of Pipe-All at full load: mean ms a frame", headings, stages)
    means = [
        (
            FIGURES[row["figure"]],
            f"{MODES[row['mode']]} over {MODES[row['over']]}",
            f"{row['percent']:+.2f} %",
            row["paper_percent"] and f"{row['paper_percent']:+.2f} %",
        )
        for row in averages(found)
    ]
    if means:
        nets = averages(found)[0]["networks"]
        print_table(f"Averages of {nets} networks beside the paper's", ["", "", ">here", ">paper"], means)
    for line in [*notes, *([LATE] if not all(row["valid"] for row in found) else [])]:
        click.echo(line)
