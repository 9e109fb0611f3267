"""``pipeall search``: the best plans for a network, predicted from its profile, then run to make sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import click

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...graph.onnx.read.inputs import Shapes
from ...pipeline.boards import machine
from ...pipeline.boards.board import Board
from ...pipeline.boards.default_units import real_components, units_to_search
from ...pipeline.measuring.comparison import likely
from ...pipeline.measuring.exhaustive import open_measurements
from ...pipeline.measuring.precision import Allowed, allowed_precisions
from ...pipeline.measuring.search_run import Outcome, Request, half_precision, run_search
from ...pipeline.measuring.trial import random_frame
from ...pipeline.measuring.verify import VERIFIED, Verified
from ...pipeline.planning.plan import Goal
from ...pipeline.planning.profile import Profile
from ...pipeline.planning.search import MAX_STAGES_GIVEN, PLANS
from ...pipeline.planning.unit_set import MAX_STAGES
from ..model_argument import Finer, load_model
from ..options import (
    Command,
    Precisions,
    board_option,
    file_option,
    json_option,
    model_argument,
    model_options,
    positive_option,
    profile_option,
    profile_seconds_option,
    units_option,
)
from ..output import print_json, progress, tracked
from ..plans import load_board, measured, unit_names
from ..tables import print_text
from .search_text import halves_lines, precision_lines, result_line, show

PLAN_S = 1.0  # that each plan runs, unless it is said


@click.command(cls=Command)
@model_argument
@file_option("-o", "--output", help="Write the best plan, for --plan.")
@board_option
@profile_option("Plan from this profile; default: measure one now.")
@units_option
@click.option(
    "--objective",
    type=click.Choice(["throughput", "latency", "energy"]),
    default="throughput",
    show_default=True,
    help="latency: of one frame at a time.",
)
@click.option("--precisions", type=Precisions(), help="Run each stage in the fastest of: fp32,fp16,bf16,int8,mixed.")
@click.option("--max-error", type=click.FloatRange(0), help="With --precisions: relative error of the outputs.")
@click.option(
    "--clocks", is_flag=True, help="With energy: choose the components' clocks too, of a model that has them."
)
@positive_option("--max-latency-ms", help="With throughput or energy: of one frame.")
@positive_option("--min-fps", help="With latency or energy: the rate of frames.")
@positive_option("--max-memory-mb", help="That a plan takes: weights, arenas, rings.")
@click.option(
    "--plans",
    type=click.Choice(PLANS),
    default="all",
    show_default=True,
    help="all: components in several stages, lanes. pipelines: one stage each.",
)
@click.option("--floating/--no-floating", default=None, help="Cuts that float; default with all, for throughput.")
@click.option(
    "--stages",
    type=click.IntRange(1, MAX_STAGES_GIVEN),
    default=MAX_STAGES,
    show_default=True,
    help="The most in a lane where components come several times.",
)
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="How many plans to show.")
@click.option(
    "--verify",
    "verified",
    type=click.IntRange(0),
    help=f"How many to run, beside the best of fewer stages; default {VERIFIED}, of a model 0.",
)
@profile_seconds_option
@file_option("--plot", help="Draw latency against throughput as PNG.")
@file_option("--measure-all", "all_path", help="Run every configuration of the units, keep what was measured here.")
@model_options
@json_option
def search(
    model: str,
    output: str | None,
    board: str | None,
    profile_path: str | None,
    units: str | None,
    objective: str,
    precisions: tuple[str, ...] | None,
    max_error: float | None,
    clocks: bool,
    max_latency_ms: float | None,
    min_fps: float | None,
    max_memory_mb: float | None,
    plans: str,
    floating: bool | None,
    stages: int,
    top: int,
    verified: int | None,
    seconds: float | None,
    plot: str | None,
    all_path: str | None,
    input_shape: Shapes | None,
    finer: Finer,
    as_json: bool,
) -> None:
    """Find the best plans for a network, and run them to make sure.

    \b
    pipeall search squeezenet -o plan.json
    pipeall search googlenet --board a311d --plans pipelines --floating
    pipeall search net.onnx --profile net.json --max-latency-ms 50
    pipeall search resnet50 --board a311d --objective energy --min-fps 5 --clocks
    pipeall search squeezenet --units big,little --measure-all every.json

    Plans are predicted from a profile; the best few run for real and are ranked by that.
    """
    if plot:
        from .search_plot import draw_plans  # before anything is measured in vain
    goal = Goal(objective, max_latency_ms, min_fps)
    _check_goal(goal, floating, all_path is not None)
    _check_board(board, profile_path, precisions, max_error)
    graph, there = load_model(model, input_shape, finer), load_board(board)
    given = Profile.load(profile_path) if profile_path else None
    every = open_measurements(all_path, graph, there) if all_path else None
    names, searched = unit_names(units), _searched(there, objective, precisions)
    choice = _allowed(graph, there, names or searched, precisions, max_error) if precisions else None
    names, plan_s = list(choice.units) if choice else names, seconds or PLAN_S
    asked = Request(goal, max_memory_mb, names, plans, floating, stages, top, verified, every, plan_s, clocks)
    with progress() as bar:
        profile = given or measured(graph, there, names or searched, seconds, bar)
        with tracked(bar, graph.name) as show_progress:
            outcome = run_search(graph, there, profile, asked, show_progress)
    with ExitStack() as files:  # what is printed is not lost where they cannot be written, nor they where it cannot
        if output:
            files.callback(outcome.best.plan.save, output, graph, _about(asked, outcome, machine.describe(there)))
        if every:
            files.callback(every.check)
        if plot:
            files.callback(draw_plans, plot, *_drawn(graph, asked, outcome))
        _print(graph, there, asked, outcome, choice, as_json)


def _searched(board: Board, objective: str, precisions: Sequence[str] | None) -> Sequence[str] | None:
    """The units of the board that are searched unless it is said, None for the default ones."""
    some = objective != "energy" and len(precisions or ()) < 2  # no power is known of cores, and precisions are many
    return units_to_search(board) if some else None


def _check_board(
    board: str | None, profile_path: str | None, precisions: Sequence[str] | None, max_error: float | None
) -> None:
    """Raises ArgumentError for options that do not go together."""
    if profile_path is not None and board is not None:
        raise ArgumentError("--profile: expected no --board beside it, the profile has the times")
    if max_error is not None and (precisions is None or board is not None):
        raise ArgumentError("--max-error: expected --precisions beside it and no --board: a model computes nothing")


def _check_goal(goal: Goal, floating: bool | None, every: bool) -> None:
    """Raises ArgumentError for cuts that are to float, or a run of every plan, with a goal that has none."""
    if floating and goal.objective != "throughput":
        raise ArgumentError(f"--floating: expected objective throughput, got {goal.objective}")
    if every and (goal.objective, goal.max_latency_ms) != ("throughput", None):
        raise ArgumentError("--measure-all: expected objective throughput without a limit, it looks for the fastest")


def _print(graph: Graph, board: Board, asked: Request, outcome: Outcome, choice: Allowed | None, as_json: bool) -> None:
    if as_json:
        print_json("search", **_content(graph, board, asked, outcome), precisions=choice and asdict(choice))
        return
    show(outcome, asked, board)
    for line in precision_lines(choice) if choice else halves_lines(half_precision(graph, board, outcome, asked)):
        print_text(line, hang=4)
    print_text(result_line(outcome, asked))


def _drawn(graph: Graph, asked: Request, outcome: Outcome) -> tuple[Any, ...]:
    """What ``draw_plans`` takes: the title, the best plans, the front, and those that ran."""
    ran = [(str(row.choice.plan), row.fps, row.latency_ms) for row in outcome.checked]
    title = f"{graph.name}: plans on {', '.join(outcome.profile.units)}"
    return title, outcome.result.ranked[: asked.top], outcome.result.pareto, ran


def _allowed(
    graph: Graph, board: Board, units: list[str] | None, precisions: Sequence[str], max_error: float | None
) -> Allowed:
    """The units in these precisions, as they do on one frame of noise."""
    return allowed_precisions(graph, units or real_components(board), precisions, board, frames=[random_frame(graph)],
                   max_error=max_error)  # fmt: skip


def _content(graph: Graph, board: Board, asked: Request, outcome: Outcome) -> dict[str, Any]:
    profile, result, ran = outcome.profile, outcome.result, outcome.verification
    parallel = ran and ran.parallel
    return {
        "network": graph.name,
        **asdict(asked.goal),
        "within_limit": ran is None or ran.within_limits,
        "machine": machine.describe(board),
        "profile": {"modelled": profile.modelled, "about": dict(profile.about)},
        "evaluated": result.evaluated,
        "covered": result.covered,
        "best": str(outcome.best.plan),
        "ranked": [choice.to_dict() | likely(profile, choice.plan) for choice in result.ranked[: asked.top]],
        "pareto": [choice.to_dict() | likely(profile, choice.plan) for choice in result.pareto],
        "simpler": result.simpler and result.simpler.to_dict(),
        "sure": result.sure,
        "parallel": result.parallel and result.parallel.to_dict(),
        "given_up": result.given_up,
        "bound_ms": result.bound_ms,
        "gap": result.gap,
        "parallel_verified": parallel.to_dict() if isinstance(parallel, Verified) else parallel,
        "verified": [row.to_dict() for row in outcome.checked],
        "refused": dict(ran.refused) if ran else {},
        "queue": asked.goal.queue,
        "explanation": outcome.explanation.to_dict(),
        "measure_all": outcome.every,
        "before": outcome.before,
        "after": outcome.after,
    }


def _about(asked: Request, outcome: Outcome, about: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan file says beside the plan: rounded, for a diff; latency only where it has no waiting in it."""
    keys = ["period_ms", "fps", "fps_spread", *([] if asked.goal.queue else ["latency_p50_ms", "latency_p95_ms"])]
    predicted = {key: round(value, 4) for key, value in outcome.best.to_dict().items() if isinstance(value, float)}
    content = {"objective": asked.goal.objective, **asked.goal.limits, "predicted": predicted}
    if outcome.checked:
        row = outcome.checked[0].to_dict()
        content["measured"] = {key: round(row[key], 4) for key in keys} | {"date": about["date"], "machine": about}
    return content
