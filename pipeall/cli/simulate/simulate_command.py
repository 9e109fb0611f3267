"""``pipeall simulate``: what plans would do, frame by frame, on a board that need not be at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import click

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...graph.onnx.read.inputs import Shapes
from ...pipeline.measuring.comparison import MODES, baselines, likely
from ...pipeline.planning.plan import Plan
from ...pipeline.planning.profile import Profile
from ...pipeline.planning.rings import MAX_DEPTH, MAX_SLOTS
from ...pipeline.planning.simulate import MAX_FRAMES
from ...pipeline.planning.simulate import simulate as run
from ..model_argument import Finer, load_model
from ..options import (
    Command,
    board_option,
    file_option,
    json_option,
    model_argument,
    model_options,
    positive_option,
    profile_option,
    seed_option,
)
from ..output import print_json, progress
from ..plans import load_board, plan_option, read_plan, times_lines
from ..tables import print_table, print_text


@click.command(cls=Command)
@model_argument
@board_option
@profile_option("Of your own board, in place of --board.")
@plan_option("Such as G-B-L:3,5, peak, parallel or a .json; default these two and the best.")
@click.option("--frames", type=click.IntRange(1, MAX_FRAMES), default=1000, show_default=True)
@positive_option("--period-ms", help="Between two frames of a camera; default: one is always ready.")
@click.option("--slots", type=click.IntRange(1, MAX_SLOTS), default=2, show_default=True, help="Per hand-over.")
@click.option(
    "--depth", type=click.IntRange(1, MAX_DEPTH), help="Frames under way in a lane; default one more than stages."
)
@file_option("--plot", help="Draw throughput, latency and the time of each stage as PNG.")
@seed_option
@model_options
@json_option
def simulate(
    model: str,
    board: str | None,
    profile_path: str | None,
    plan: str | None,
    frames: int,
    period_ms: float | None,
    slots: int,
    depth: int | None,
    plot: str | None,
    seed: int,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Simulate plans on a board that need not be at hand.

    \b
    pipeall simulate resnet50 --board a311d
    pipeall simulate net.onnx --board rk3399pro --plan G-B-L:4,8 --period-ms 100
    pipeall simulate net.onnx --profile net.json --plan plan.json

    Shows throughput, latency, use of each unit and energy. Latency is with as many frames under way as there are
    units, unless --depth or --period-ms says otherwise.
    """
    if plot:
        from .simulate_plot import draw_simulation  # before anything is simulated in vain
    if (board is None) == (profile_path is None):
        raise ArgumentError("simulate: expected either --board NAME or --profile FILE, for the times")
    graph = load_model(model, input_shape, finer)
    profile, there = Profile.load(profile_path) if profile_path is not None else None, load_board(board)
    if profile is not None:
        profile.check_network(graph)
    chosen = read_plan(plan, graph, there, profile) if plan is not None else None
    profile = profile or there.model.profile(graph, chosen and list(dict.fromkeys(chosen.units)))
    plans = {"plan": chosen} if chosen else _contest(graph, profile)
    options = {"slots": slots, "depth": depth, "period_ms": period_ms, "seed": seed}
    queue = depth is not None or period_ms is not None
    with progress() as bar:
        rows = [
            {"mode": mode, "plan": str(each)} | _simulated(profile, each, frames, options, queue)
            for mode, each in bar.track(plans.items(), description=f"{graph.name}: simulated plans")
        ]
    with ExitStack() as files:  # after what is printed, which is not lost where it cannot be written
        if plot:
            files.callback(draw_simulation, plot, f"{graph.name}, simulated", rows)
        if as_json:
            print_json("simulation", network=graph.name, **options, queue=queue, about=dict(profile.about), runs=rows)
            return
        _show(graph, rows, queue)
        for line in times_lines(profile, there):
            print_text(line)


def _simulated(profile: Profile, plan: Plan, frames: int, options: Mapping[str, Any], queue: bool) -> dict[str, Any]:
    """A run at full load; latency unless ``queue`` from another one, with as many frames under way as units."""
    period_ms = options["period_ms"] or 0.0
    row = run(profile, plan, frames, options["slots"], options["depth"], period_ms, seed=options["seed"]).to_dict()
    row |= likely(profile, plan)
    if not queue:
        single = run(profile, plan, frames, options["slots"], 0, seed=options["seed"]).to_dict()
        row |= {key: value for key, value in single.items() if key.startswith("latency")}
    return row


def _contest(graph: Graph, profile: Profile) -> dict[str, Plan]:
    compared = baselines(graph, profile, [unit for unit in profile.units if unit.cores is None])
    parallel = {"parallel": compared.parallel} if compared.parallel else {}
    chosen = {mode: choices[0].plan for mode, choices in compared.searched.items()}
    return {"peak": compared.single[0], **parallel, **chosen}


def _show(graph: Graph, rows: Sequence[dict[str, Any]], queue: bool) -> None:
    cells = [
        (
            MODES.get(row["mode"], ""),
            row["plan"],
            f"{row['fps']:.2f}",
            *(f"{row[f'latency_{p}_ms']:.1f}" for p in ("p50", "p95", "p99")),
            None if row["energy_mj"] is None else f"{row['energy_mj']:.1f}",
            *(["{:.1f} to {:.1f}".format(*row["likely_fps"])] if "likely_fps" in row else []),
        )
        for row in rows
    ]
    load = "with what waits in the rings" if queue else "without queueing"
    headings = ["mode", "plan", ">FPS", ">p50 ms", ">p95 ms", ">p99 ms", ">mJ a frame"]
    headings += [">predicted FPS in 4 of 5 cases"] if "likely_fps" in rows[0] else []
    print_table(f"{graph.name}, simulated: {rows[0]['frames']} frames; latency {load}", headings, cells)
    for row in rows:
        stages = [
            (
                stage["unit"],
                f"{stage['groups'][0] + 1} to {stage['groups'][1]}",
                *(f"{stage[f'{key}_ms']:.2f}" for key in ("busy", "wait_in", "wait_out", "handover")),
                f"{100 * stage['use']:.0f}",
            )
            for stage in row["stages"]
        ]
        headings = ["unit", "groups", ">busy", ">wait in", ">wait out", ">hand-over", ">use %"]
        print_table(f"{row['plan']}: mean ms a frame", headings, stages)
