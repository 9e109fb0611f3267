"""What ``pipeall search`` prints for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from ...pipeline.boards.board import Board
from ...pipeline.boards.profile_cache import measured_on
from ...pipeline.measuring.precision import Allowed
from ...pipeline.measuring.search_run import Outcome, Request
from ...pipeline.measuring.verify import Verified, given_up, tied
from ...pipeline.planning.operating_points import clocks_text
from ...pipeline.planning.plan import Plan
from ...pipeline.planning.plan_table import PredictedPlan
from ...pipeline.planning.profile import Profile, disturbed
from ...pipeline.planning.uncertainty import interval
from ..plans import BUSY, fps_text, times_lines
from ..tables import print_table, print_text

PREDICTED = ["plan", ">period ms", ">predicted FPS", ">latency ms", ">alone ms"]
ENERGY = ">predicted mJ a frame"
LIKELY = ">FPS in 4 of 5 cases"
BETTER = {"throughput": "faster", "latency": "sooner done", "energy": "thriftier"}
SURE = (
    "In {share:.0%} of the cases that the error of these times allows, {best} is {better} than {simpler}, "
    "the best plan of fewer stages."
)
TIED = (
    "{first} comes first: {best} measured better, but within the spread of both, and has more stages or takes longer. "
    "That gives up {measured:.1%} as measured, {predicted:.1%} as predicted."
)
SIMPLER = "{first} comes first: it is simpler or delivers sooner, and gives up {share:.1%} of the simulated throughput."
PARALLEL = "All independently, {plan}: {figures}. Take {more} for throughput alone."
BOUND = "No plan of up to {stages} stages a lane does more than {fps:.1f} FPS, {gap:.1%} more than the first."
DELIVERED = [">simulated FPS", ">delivered ms, p50", ">p99"]
MEMORY = ">MB"
CLOCKS = "MHz"


def show(outcome: Outcome, asked: Request, board: Board) -> None:
    """The plans, what ran, the Pareto front, and the reason for the best; then what is to be said of it."""
    profile, result = outcome.profile, outcome.result
    count = sum(result.evaluated.values()) + sum(result.covered.values())
    rate = f" at {asked.goal.rate:g} FPS" if asked.goal.rate else ""
    title = f"{profile.network}: best of {count:,} plans for {asked.goal.objective}{rate}, predicted"
    _show_predicted(title, result.ranked[: asked.top], profile, asked.goal.rate)
    if result.bound_ms:
        print_text(
            BOUND.format(stages=asked.stages, fps=1000 / result.bound_ms, gap=max(0.0, 1 / (1 - result.gap) - 1))
        )
    if result.given_up:
        print_text(SIMPLER.format(first=result.best, share=result.given_up))
    if result.sure is not None:
        better, simpler = BETTER[asked.goal.objective], result.simpler.plan
        print_text(SURE.format(share=result.sure, best=result.best, better=better, simpler=simpler))
    if outcome.checked:
        _show_checked(outcome.checked, asked)
        if others := [row.trial.others_cores for row in outcome.checked if disturbed(row.trial.others_cores)]:
            print_text(BUSY.format(what="these plans ran", cores=max(others)))
    if result.parallel:
        print_text(_parallel_line(outcome))
    front = result.pareto[: asked.top] if asked.clocks else result.pareto
    more = f"; the fastest {len(front)} of {len(result.pareto)}" if len(front) < len(result.pareto) else ""
    title = f"Pareto front, each at its own rate: no other plan is better in all of these{more}"
    _show_predicted(title, front, profile)
    print_text("Why, as predicted:")
    for line in outcome.explanation.lines():
        print_text(line, hang=4)
    if ran := outcome.verification:
        for plan, reason in ran.refused.items():
            print_text(f"{plan} refused: {reason}")
    if ran and not ran.within_limits:
        kept = next(f"--{key.replace('_', '-')} {value:g}" for key, value in asked.goal.limits.items() if value)
        print_text(f"none of the {len(outcome.checked)} plans that ran keeps {kept}")
    for line in (*times_lines(profile, board), *_clocks_lines(outcome)):
        print_text(line)
    if not measured_on(profile, board):
        print_text("Not run here: the times are another machine's.")
    if outcome.every:
        _show_every(outcome.every, outcome.best.plan)


def result_line(outcome: Outcome, asked: Request) -> str:
    """The answer: the plan, and what it measured or is predicted to do."""
    prediction = outcome.best.prediction
    energy, rate = outcome.best.energy_mj, asked.goal.rate
    figures = {
        "throughput": f"{prediction.fps:.1f} FPS",
        "latency": f"latency {outcome.best.latency_ms:.2f} ms",
        "energy": energy and f"{energy:.0f} mJ a frame{f' at {rate:g} FPS' if rate else ''}",
    }
    text = f"{figures[asked.goal.objective]} predicted"
    if outcome.checked and asked.goal.objective == "throughput":
        text = f"{outcome.checked[0].fps:.1f} FPS measured ({prediction.fps:.1f} predicted)"
    if outcome.checked and asked.goal.objective == "latency":
        text = f"latency {outcome.checked[0].latency_ms:.2f} ms measured ({outcome.best.latency_ms:.2f} predicted)"
    clocks = outcome.best.plan.clocks
    return f"{outcome.best.plan}{f' at {clocks_text(clocks)}' if clocks else ''}: {text}"


def _clocks_lines(outcome: Outcome) -> list[str]:
    """Where what clocks change is from, and how far off the best plan's energy may be."""
    if not outcome.best.plan.clocks:
        return []
    least, most = interval(outcome.profile, outcome.best.plan).energy_mj
    sources = outcome.profile.about.get("sources", {}).get("operating_points", ())
    lines = ["; ".join(["clocks: " + sources[0], *sources[1:]])] if sources else []
    return [*lines, f"in four of five cases the best plan takes {least:.0f} to {most:.0f} mJ a frame at its full rate"]


def halves_lines(best: PredictedPlan | None) -> list[str]:
    """``best``: the plan in half precision that is faster."""
    if best is None:
        return []
    precisions = ",".join(sorted({unit.precision or "fp32" for unit in best.plan.units}, reverse=True))
    return [f"In half precision: {best.plan}, {best.prediction.fps:.1f} FPS predicted; see --precisions {precisions}."]


def _show_predicted(title: str, choices: Sequence[PredictedPlan], profile: Profile, rate: float | None = None) -> None:
    """The table of predicted plans, with their energy at ``rate`` too; without columns of what is not known."""
    energy = any(choice.prediction.energy_mj is not None for choice in choices)
    energies = [ENERGY, *([f">mJ at {rate:g} FPS"] if rate else [])] if energy else []
    simulated = any(choice.delivered for choice in choices)
    memory = any(choice.memory_mb is not None for choice in choices)
    clocks = any(choice.plan.clocks for choice in choices)
    intervals = [interval(profile, choice.plan) for choice in choices]
    headings = [*PREDICTED[:1], *([CLOCKS] if clocks else []), *PREDICTED[1:], *energies]
    headings += [
        *([LIKELY] if any(intervals) else []),
        *(DELIVERED if simulated else []),
        *([MEMORY] if memory else []),
    ]
    rows = []
    for choice, likely in zip(choices, intervals, strict=True):
        prediction = choice.prediction
        times = prediction.period_ms, prediction.fps, prediction.latency_ms, prediction.alone_ms
        figures = [f"{value:.2f}" for value in times]
        if energy:
            mj = [prediction.energy_mj, *([choice.energy_mj] if rate else [])]
            figures += [None if value is None else f"{value:.1f}" for value in mj]
        if any(intervals):
            figures.append(likely and fps_text(likely))
        if simulated:
            done = astuple(choice.delivered) if choice.delivered else ()
            figures += [f"{value:.2f}" for value in done] or [None] * len(DELIVERED)
        if memory:
            figures.append(f"{choice.memory_mb:.0f}")
        at = [", ".join(f"{name} {mhz:.0f}" for name, mhz in choice.plan.clocks)] if clocks else []
        rows.append((choice.plan, *at, *figures))
    print_table(title, headings, rows)


def _parallel_line(outcome: Outcome) -> str:
    prediction, ran = outcome.result.parallel.prediction, outcome.verification and outcome.verification.parallel
    rate, best = prediction.fps, outcome.best.prediction.fps
    slowest = f"{prediction.latency_ms:.1f} ms predicted on its slowest component"
    figures = f"{rate:.1f} FPS predicted, {slowest}"
    if isinstance(ran, str):
        figures += f", refused here: {ran}"
    elif ran:
        rate, best = ran.fps, outcome.checked[0].fps
        figures = f"{rate:.1f} FPS measured ({prediction.fps:.1f} predicted), {slowest}"
    more = "it" if rate > best else str(outcome.best.plan)
    return PARALLEL.format(plan=outcome.result.parallel.plan, figures=figures, more=more)


def _show_checked(checked: Sequence[Verified], asked: Request) -> None:
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
    headings = ["plan", ">predicted ms", ">measured ms", ">error %", ">measured FPS", ">spread %", ">latency p50 ms"]
    load = "at full load" if asked.goal.queue else "without queueing"
    print_table(f"Run for real {load}, best first: period and latency", headings, rows)
    if best := tied(asked.goal, checked):
        measured, predicted = given_up(asked.goal, checked[0], best)
        print_text(TIED.format(first=checked[0].plan, best=best.plan, measured=measured, predicted=max(0.0, predicted)))


def _show_every(every: Mapping[str, Any], best: Plan) -> None:
    rows = [(row["plan"], f"{1000 / row['fps']:.2f}", f"{row['fps']:.2f}") for row in every["finalists"]]
    print_text()
    title = f"Every configuration: {every['measured']} of {every['configurations']} ran; the fastest once more"
    print_table(title, ["plan", ">period ms", ">measured FPS"], rows)
    print_text(f"{best} is {every['behind_percent']:.1f} % behind the fastest of all.")


def precision_lines(choice: Allowed) -> list[str]:
    """What each precision does to the network, of those that may be taken, and which may not."""
    kept = [f"{unit}: error {error:.2g}" for unit, error in choice.errors.items() if unit not in choice.refused]
    return [*kept, *(f"{unit} left out: {reason}" for unit, reason in choice.refused.items())]
