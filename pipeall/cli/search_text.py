"""What ``pipeall search`` prints for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..pipeline.boards.board import Board
from ..pipeline.boards.kept import measured_on
from ..pipeline.measuring.neighbours import disturbed
from ..pipeline.measuring.precision import Allowed
from ..pipeline.measuring.verify import Verified
from ..pipeline.planning.candidates import PredictedPlan
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.profile import Profile
from ..pipeline.planning.uncertain import interval
from .profiles import BUSY, fps_text, times_lines
from .search_run import Outcome, Request
from .tables import print_table, print_text

PREDICTED = ["plan", ">period ms", ">FPS", ">latency ms", ">predicted mJ a frame"]
LIKELY = ">FPS in 4 of 5 cases"
SIMPLER = (
    "{best} comes first: by the error of these times {faster}, predicted faster, is not surely so, and has more stages."
)


def show(outcome: Outcome, asked: Request, board: Board) -> None:
    """The plans, what ran, the Pareto front, and the reason for the best; then what is to be said of it."""
    profile, found = outcome.profile, outcome.found
    count = sum(found.evaluated.values()) + sum(found.covered.values())
    rate = f" at {asked.min_fps:g} FPS" if asked.objective == "energy" and asked.min_fps else ""
    title = f"{profile.network}: best of {count:,} plans for {asked.objective}{rate}, predicted"
    likely = [LIKELY] if profile.error else []
    print_table(title, [*PREDICTED, *likely], (_cells(choice, profile) for choice in found.ranked[: asked.top]))
    faster = max(found.ranked, key=lambda choice: choice.prediction.fps)
    if profile.error and asked.objective == "throughput" and faster.plan != found.best:
        print_text(SIMPLER.format(best=found.best, faster=faster.plan))
    if outcome.checked:
        _show_checked(outcome.checked, asked.queue)
        if others := [row.trial.others_cores for row in outcome.checked if disturbed(row.trial.others_cores)]:
            print_text(BUSY.format(what="these plans ran", cores=max(others)))
    print_table(
        "Pareto front, each at its own rate: no other plan is better in all of these",
        [*PREDICTED, *likely],
        (_cells(choice, profile) for choice in found.pareto),
    )
    for line in outcome.explanation.lines():
        print_text(line, hang=4)
    for plan, reason in outcome.refused.items():
        print_text(f"{plan} refused: {reason}")
    if not outcome.within_limits:
        kept = next(f"--{key.replace('_', '-')} {value:g}" for key, value in asked.limits.items() if value)
        print_text(f"none of the {len(outcome.checked)} plans that ran keeps {kept}")
    for line in times_lines(profile, board):
        print_text(line)
    if not measured_on(profile, board):
        print_text("Not run here: the times are another machine's.")
    if outcome.every:
        _show_every(outcome.every, outcome.best.plan)


def _show_checked(checked: Sequence[Verified], queue: bool) -> None:
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
    headings = ["plan", ">predicted ms", ">measured ms", ">error %", ">FPS", ">spread %", ">latency p50 ms"]
    load = "at full load" if queue else "without queueing"
    print_table(f"Run for real {load}, best first: period and latency", headings, rows)


def _show_every(every: Mapping[str, Any], best: Plan) -> None:
    rows = [(row["plan"], f"{1000 / row['fps']:.2f}", f"{row['fps']:.2f}") for row in every["finalists"]]
    print_text()
    title = f"Every configuration: {every['measured']} of {every['configurations']} ran; the fastest once more"
    print_table(title, ["plan", ">period ms", ">FPS"], rows)
    print_text(f"{best} is {every['behind_percent']:.1f} % behind the fastest of all.")


def _cells(choice: PredictedPlan, profile: Profile) -> tuple[object, ...]:
    prediction = choice.prediction
    energy = None if prediction.energy_mj is None else f"{prediction.energy_mj:.1f}"
    likely = interval(profile, choice.plan)
    figures = (f"{value:.2f}" for value in (prediction.period_ms, prediction.fps, prediction.latency_ms))
    return choice.plan, *figures, energy, *([fps_text(likely)] if likely else [])


def precision_lines(choice: Allowed) -> list[str]:
    """What each precision does to the network, of those that may be taken, and which may not."""
    kept = [f"{unit}: error {error:.2g}" for unit, error in choice.errors.items() if unit not in choice.refused]
    return [*kept, *(f"{unit} left out: {reason}" for unit, reason in choice.refused.items())]
