"""``pipeall search``: the best plans for a network, predicted from its profile, then run to make sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from ..errors import ArgumentError
from ..pipeline.boards import machine
from ..pipeline.boards.board import Board
from ..pipeline.planning.candidates import PredictedPlan
from ..pipeline.planning.explain import Explanation, explain
from ..pipeline.planning.names import traits_of
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.profile import Profile
from ..pipeline.planning.search import Found
from ..pipeline.planning.search import search as find
from .measure_all import measure_all
from .model import load_model, model_argument
from .output import file_option, json_option, positive_option, print_json, print_table, progress
from .plans import floating_option, unit_names
from .profile import board_option, load_board, measured, measured_on, seconds_option, times_lines, units_option
from .verify import Verified, verify

VERIFIED = 5  # unless --verify says otherwise
OTHERS = 3  # of the next best plans in an explanation


@click.command()
@model_argument
@click.option("--profile", "profile_path", metavar="FILE", help="Plan from this profile; default: measure one now.")
@board_option
@units_option
@click.option(
    "--objective", type=click.Choice(["throughput", "latency", "energy"]), default="throughput", show_default=True
)
@floating_option
@positive_option("--max-latency-ms", help="With throughput: of one frame.")
@positive_option("--min-fps", help="With latency or energy.")
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="How many plans to show.")
@click.option(
    "--verify", "verified", type=click.IntRange(0), help=f"How many of them to run; default {VERIFIED}, of a model 0."
)
@seconds_option
@file_option("--measure-all", "all_path", help="Run every configuration of the units, keep what was measured here.")
@file_option("-o", "--output", help="Write the best plan, for --plan.")
@json_option
def search(
    model: str,
    input_shape: tuple[int, ...] | None,
    finer: int | None,
    profile_path: str | None,
    board: str | None,
    units: str | None,
    objective: str,
    floating: bool,
    max_latency_ms: float | None,
    min_fps: float | None,
    top: int,
    verified: int | None,
    seconds: float,
    all_path: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Find the best plans for a network: predicted from a profile, the best few run for real and ranked by that.

    \b
    pipeall search squeezenet -o plan.json
    pipeall search googlenet --board a311d --floating
    pipeall search net.onnx --profile net.json --max-latency-ms 50
    pipeall search resnet50 --board a311d --objective energy --min-fps 5
    pipeall search squeezenet --units big,little --measure-all every.json
    """
    if profile_path is not None and board is not None:
        raise ArgumentError("--profile: expected no --board beside it, the profile has the times")
    if floating and objective != "throughput":
        raise ArgumentError(f"--floating: expected objective throughput, got {objective}")
    if all_path and (objective, max_latency_ms) != ("throughput", None):
        raise ArgumentError("--measure-all: expected objective throughput without a limit, it looks for the fastest")
    graph = load_model(model, input_shape, finer)
    names = unit_names(units)
    there = load_board(board)
    with progress() as bar:
        profile = Profile.load(profile_path) if profile_path else measured(graph, there, names, seconds, bar)
        here = measured_on(profile, there)
        if not here and (verified or all_path):
            raise ArgumentError("--verify, --measure-all: expected a profile measured on this machine, or a new one")
        cores = _cores(there) if here or there.model else {}
        found = find(
            graph,
            profile,
            objective,
            max_latency_ms=max_latency_ms,
            min_fps=min_fps,
            units=names,
            cores=cores,
            top=max(top, verified or VERIFIED),
            floating=floating,
        )
        if objective == "energy" and min_fps:
            found = replace(found, ranked=tuple(_at_rate(choice, profile, min_fps) for choice in found.ranked))
        before = machine.state(there) if here else None
        checked: list[Verified] = []
        refused: dict[str, str] = {}
        queue = objective != "latency" and max_latency_ms is None  # waiting would count as latency
        if count := (VERIFIED if verified is None else verified) if here else 0:
            checked, refused = verify(graph, there, found.ranked[:count], seconds, bar, queue)
            checked.sort(key=lambda row: _rank(row, objective, max_latency_ms, min_fps))
        limits = {"max_latency_ms": max_latency_ms, "min_fps": min_fps}
        within = not checked or not _rank(checked[0], objective, **limits)[0]
        best = checked[0].choice if checked else found.ranked[0]
        every = None
        if all_path:
            every = measure_all(graph, there, names or list(profile.units), cores, all_path, seconds, best.plan, bar)
    explanation = explain(profile, best.plan, found.ranked[: OTHERS + 1])
    if objective == "energy" and min_fps:
        moves = tuple(_at_rate(choice, profile, min_fps) for choice in explanation.moves)
        explanation = replace(explanation, prediction=best.prediction, moves=moves)
    if output:
        best.plan.save(output, graph, _about(objective, limits, best, checked, queue, machine.describe(there)))
    if not as_json:
        _show(profile, found, found.ranked[:top], checked, queue, explanation, min_fps)
        for plan, reason in refused.items():
            click.echo(f"{plan} refused: {reason}")
        if not within:
            kept = next(f"--{key.replace('_', '-')} {value:g}" for key, value in limits.items() if value)
            click.echo(f"none of the {len(checked)} plans that ran keeps {kept}")
        for line in times_lines(profile, there):
            click.echo(line)
        if not here:
            click.echo("Not run here: the times are another machine's.")
        if every:
            _show_every(every, best.plan)
        return
    print_json(
        "search",
        network=graph.name,
        objective=objective,
        **limits,
        within_limit=within,
        machine=machine.describe(there),
        profile={"modelled": profile.modelled, "about": dict(profile.about)},
        evaluated=found.evaluated,
        covered=found.covered,
        best=str(best.plan),
        ranked=[_choice(choice) for choice in found.ranked[:top]],
        pareto=[_choice(choice) for choice in found.pareto],
        verified=[row.to_dict() for row in checked],
        refused=refused,
        queue=queue,
        explanation=explanation.to_dict(),
        measure_all=every,
        before=before,
        after=machine.state(there) if here else None,
    )


def _cores(board: Board) -> dict[str, int]:
    """Of every component that has cores to choose from."""
    found = {}
    for component in board.components.values():
        if traits_of(component.name).cores:
            found[component.name] = component.device.width
    return found


def _rank(row: Verified, objective: str, max_latency_ms: float | None, min_fps: float | None) -> tuple[bool, float]:
    """By what was measured; what breaks the limit comes last. Energy was not measured: there the prediction counts."""
    fps, latency_ms = row.trial.median("fps"), row.trial.median("latency_p50_ms")
    breaks = (max_latency_ms is not None and latency_ms > max_latency_ms) or (min_fps is not None and fps < min_fps)
    if objective == "energy":
        return breaks, row.choice.prediction.energy_mj
    return breaks, latency_ms if objective == "latency" else row.trial.period_ms


def _at_rate(choice: PredictedPlan, profile: Profile, fps: float) -> PredictedPlan:
    """With the energy of a frame where they come at this rate, the board idle in between; no faster than it can."""
    prediction = choice.prediction
    energy_mj = prediction.energy_mj + profile.idle_w * max(0.0, 1000 / fps - prediction.period_ms)
    return PredictedPlan(choice.plan, replace(prediction, energy_mj=energy_mj))


def _choice(choice: PredictedPlan) -> dict[str, Any]:
    prediction = choice.prediction
    return {
        "plan": str(choice.plan),
        "period_ms": prediction.period_ms,
        "fps": prediction.fps,
        "latency_ms": prediction.latency_ms,
        "energy_mj": prediction.energy_mj,
        "stage_ms": list(prediction.stage_ms[0]),
    }


def _about(
    objective: str,
    limits: Mapping[str, float | None],
    best: PredictedPlan,
    checked: Sequence[Verified],
    queue: bool,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """What a plan file says beside the plan: rounded, for a diff; latency only where it has no waiting in it."""
    keys = ["period_ms", "fps", "fps_spread", *([] if queue else ["latency_p50_ms", "latency_p95_ms"])]
    predicted = {key: round(value, 4) for key, value in _choice(best).items() if isinstance(value, float)}
    given = {key: value for key, value in limits.items() if value is not None}
    content = {"objective": objective, **given, "predicted": predicted}
    if checked:
        figures = {key: round(checked[0].to_dict()[key], 4) for key in keys}
        content["measured"] = figures | {"date": about["date"], "machine": about}
    return content


def _show(
    profile: Profile,
    found: Found,
    ranked: Sequence[PredictedPlan],
    checked: Sequence[Verified],
    queue: bool,
    explanation: Explanation,
    min_fps: float | None,
) -> None:
    count = sum(found.evaluated.values()) + sum(found.covered.values())
    headings = ["plan", ">period ms", ">FPS", ">latency ms", ">predicted mJ a frame"]
    rate = f" at {min_fps:g} FPS" if found.objective == "energy" and min_fps else ""
    title = f"{profile.network}: best of {count:,} plans for {found.objective}{rate}, predicted"
    print_table(title, headings, map(_cells, ranked))
    if checked:
        rows = [
            (
                row.choice.plan,
                f"{row.choice.prediction.period_ms:.2f}",
                f"{row.trial.period_ms:.2f}",
                f"{100 * row.error:+.1f}",
                f"{row.trial.median('fps'):.2f}",
                f"{100 * row.trial.spread:.1f}",
                f"{row.trial.median('latency_p50_ms'):.2f}",
            )
            for row in checked
        ]
        columns = ["plan", ">predicted ms", ">measured ms", ">error %", ">FPS", ">spread %", ">latency p50 ms"]
        load = "at full load" if queue else "without queueing"
        print_table(f"Run for real {load}, best first: period and latency", columns, rows)
    print_table(
        "Pareto front, each at its own rate: no other plan is better in all of these",
        headings,
        map(_cells, found.pareto),
    )
    click.echo("\n".join(explanation.lines()))


def _show_every(every: Mapping[str, Any], best: Plan) -> None:
    rows = [(row["plan"], f"{1000 / row['fps']:.2f}", f"{row['fps']:.2f}") for row in every["finalists"]]
    title = f"\nEvery configuration: {every['measured']} of {every['configurations']} ran; the fastest once more"
    print_table(title, ["plan", ">period ms", ">FPS"], rows)
    click.echo(f"{best} is {every['behind_percent']:.1f} % behind the fastest of all.")


def _cells(choice: PredictedPlan) -> tuple[object, ...]:
    prediction = choice.prediction
    energy = None if prediction.energy_mj is None else f"{prediction.energy_mj:.1f}"
    return choice.plan, f"{prediction.period_ms:.2f}", f"{prediction.fps:.2f}", f"{prediction.latency_ms:.2f}", energy
