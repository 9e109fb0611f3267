"""What ``pipeall nas`` prints for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from ..nas.archive import Member
from ..nas.baselines import Baseline
from ..nas.data import DataSet
from ..nas.evolve import Generation
from ..nas.fitness import printed_score
from ..nas.genome import Candidate
from ..nas.score import Score
from ..nas.search import Search, Winner
from .profiles import fps_text
from .tables import print_table, print_text


def show(
    said: list[Generation],
    found: Winner,
    beside: Mapping[str, Baseline],
    plan: str,
    data: DataSet,
    front: Sequence[Member],
    command: str | None,
) -> None:
    """How the search went beside what was predicted of it, the winner beside what is no network, the Pareto front, and
    how to run the winner."""
    print_text(_observed(said, found.member.score.fitness))
    _show_winner(found, plan, data)
    _show_beside(found, beside, data)
    if front:
        rows = [
            (m.candidate.code, f"{m.score.error:.4f}", f"{m.score.fps:.1f}", f"{m.score.memory_bytes:,}") for m in front
        ]
        print_table("Pareto front", ["candidate", ">error", ">FPS", ">bytes"], rows)
    if command:
        print_text(command)


def estimate(search: Search, workers: int) -> str:
    """What a search will take, said before it begins."""
    data = search.training.load()
    seconds = search.seconds_a_candidate() * search.candidates / workers
    long = f"{seconds / 3600:.1f} hours" if seconds > 5400 else f"{max(1, seconds / 60):.0f} minutes"
    passes = "/".join(map(str, search.training.levels.cycles))
    return (
        f"About {search.candidates} networks, {passes} passes over {len(data.fit.x):,} samples each: some {long} here. "
        "Fewer: --samples, --training cycles=..., --evolution budget=...; interrupted, the same command goes on."
    )


def trained(number: int, candidate: Candidate, score: Score) -> str:
    """A line for a network that was trained."""
    speed = "" if score.fps is None else f", {score.fps:.0f} FPS"
    what = f"error {score.error:.4f}, {score.weights:,} weights{speed}" if isfinite(score.fitness) else "not usable"
    return f"network {number} {candidate.code}: {what}"


def line(generation: Generation) -> str:
    best = generation.best.score
    speed = "" if best.fps is None else f", {best.fps:.0f} FPS"
    spread = ""
    if generation.phase == "evolution":
        spread = f", mean {generation.mean:.4f}, diversity {generation.diversity:.2f}, end by {generation.predicted.by}"
    return (
        f"{generation.phase} {generation.number}: F {best.fitness:.4f} (error {best.error:.4f}, "
        f"{best.weights:,} weights{speed}){spread}; {generation.evaluations} trained"
    )


def _observed(said: list[Generation], least: float) -> str:
    """The Markov chain's prediction from the first generation beside what happened; ``least``: the winner's fitness."""
    evolved = [generation for generation in said if generation.phase == "evolution"]
    first, last = evolved[0], evolved[-1]
    found = next(
        (generation.number for generation in said if generation.best.score.fitness == least), "the last, cut off"
    )
    fixed = next((g.number for g in evolved if g.diversity == 0), None)
    ended = (
        f"all bits fixed in {fixed}" if fixed is not None else f"diversity {last.diversity:.2f} left in {last.number}"
    )
    return (
        f"generations until selection and drift fix every bit: predicted {first.predicted.expected:.1f}, 95 % by "
        f"{first.predicted.by}; observed: {ended}, winner found in {found}"
    )


def _show_winner(found: Winner, plan: str, data: DataSet) -> None:
    score = found.member.score
    rows = [
        ("candidate", found.member.candidate.code),
        ("fitness, error", f"{score.fitness:.4f}, {score.error:.4f}"),
        ("weights, pruned", f"{found.network.parameters:,}, {100 * score.pruned:.0f} %"),
        ("plan", plan),
    ]
    if found.placed:
        prediction = found.placed.choice.prediction
        rows.append(
            ("predicted", f"{prediction.fps:.1f} FPS, {prediction.latency_ms:.2f} ms, {score.memory_bytes:,} bytes")
        )
        if found.placed.likely:
            rows.append(("FPS in 4 of 5 cases", fps_text(found.placed.likely)))
    print_table("Winner", ["", ">"], rows)


def _show_beside(found: Winner, beside: Mapping[str, Baseline], data: DataSet) -> None:
    """Of a constant guess F is the error alone: it has no weights and is not pruned."""
    what = "accuracy" if data.task == "classes" else "R2"
    rows = [("winner", found.member.score.fitness, found.judged, found.tested)]
    rows += [(name, figures.error, figures.judged, figures.tested) for name, figures in beside.items()]
    shown = [(name, f"{printed_score(f):.2f}", f"{100 * a:.2f} %", f"{100 * b:.2f} %") for name, f, a, b in rows]
    print_table("Beside", ["", ">100 (1 - F), as table II", f">{what} judged", ">tested"], shown)
