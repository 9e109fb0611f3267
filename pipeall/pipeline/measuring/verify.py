"""The best plans of a search run for real: a prediction is a model, and the machine decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from ...arguments import a, checked, function, number, whole
from ...errors import ArgumentError, PipeallError
from ...graph.ir import Graph
from ...notebook import html_table
from ...progress import Progress, silent
from ..boards.board import Board, board_of
from ..boards.profile_cache import measured_on
from ..planning.plan import Goal, Plan
from ..planning.plan_table import PredictedPlan
from ..planning.search import SearchResult
from ..planning.ties import Contender, behind, simplest
from .profiler import MAX_SECONDS
from .trial import Trial, compare

VERIFIED = 5  # plans that run unless it is said
TURNS = 5  # that each has: what disturbs the machine disturbs all


@dataclass(frozen=True, slots=True)
class Verified:
    """A plan, what was predicted of it and what it did."""

    choice: PredictedPlan
    trial: Trial

    def __repr__(self) -> str:
        return f"<Verified {self.choice}; measured {self.fps:.1f} FPS>"

    @property
    def plan(self) -> Plan:
        return self.trial.plan

    @property
    def fps(self) -> float:
        """Measured, the median over its turns."""
        return self.trial.median("fps")

    @property
    def latency_ms(self) -> float:
        """Measured, the median over its turns of the median over frames."""
        return self.trial.median("latency_p50_ms")

    @property
    def error(self) -> float:
        """How far the predicted period is off, as a share of the measured one."""
        return self.choice.period_ms / self.trial.period_ms - 1

    def to_dict(self) -> dict[str, Any]:
        predicted = {"predicted_period_ms": self.choice.period_ms, "error_percent": 100 * self.error}
        return self.trial.to_dict() | {"period_ms": self.trial.period_ms} | predicted


def ranked(goal: Goal, rows: Sequence[Verified]) -> list[Verified]:
    """By what was measured; what breaks a limit comes last. Energy is not measured: there the prediction counts.

    For throughput and latency the simplest that is not surely behind the best comes first (``ties.py``). See ``tied``.
    """
    in_order = sorted(rows, key=lambda row: _order(goal, row))
    kept = [row for row in in_order if keeps(goal, row)]
    if goal.objective == "energy" or not kept:
        return in_order
    first, _ = simplest([_contender(goal, row) for row in kept])
    return sorted(in_order, key=lambda row: row.plan != first.plan)


def tied(goal: Goal, rows: Sequence[Verified]) -> Verified | None:
    """Of ``ranked`` rows the one that measured best where a simpler plan, within the spread of both, is before it."""
    best = min(rows, key=lambda row: _order(goal, row))
    return None if _order(goal, best) == _order(goal, rows[0]) else best


def given_up(goal: Goal, row: Verified, best: Verified) -> tuple[float, float]:
    """By what share a plan is worse than another by the objective, as measured and as predicted; negative: better."""
    one, other = _contender(Goal(goal.objective), row), _contender(Goal(goal.objective), best)
    return behind(one.value, other.value), behind(one.predicted, other.predicted)


def _contender(goal: Goal, row: Verified) -> Contender:
    said = row.choice.prediction
    predicted = Goal(goal.objective).value(said.period_ms, said.latency_ms, said.energy_mj)
    return Contender(row.plan, _value(goal, row), row.trial.spread, predicted, row.latency_ms)


def keeps(goal: Goal, row: Verified) -> bool:
    """Whether a plan kept the limits when it ran."""
    return _value(goal, row) < inf


def _value(goal: Goal, row: Verified) -> float:
    return goal.value(row.trial.period_ms, row.latency_ms, row.choice.energy_mj)


def _order(goal: Goal, row: Verified) -> tuple[bool, float]:
    """What breaks a limit last, then by the objective."""
    return not keeps(goal, row), _value(Goal(goal.objective), row)


@dataclass(frozen=True, slots=True)
class Verification:
    """What plans of a search did when they ran.

    Attributes
    ----------
    network : str
        Its name.
    rows : tuple of Verified
        The ranked plans that ran, best first by the search's objective. A plan that broke its limit comes last.
    refused : mapping of str to str
        Ranked plans that did not run, and why.
    within_limits : bool
        Whether the best kept the search's limits when it ran.
    parallel : Verified, str or None
        What the search's Parallel did beside them, or why it did not run; None where the search has none.
    """

    network: str
    rows: tuple[Verified, ...]
    refused: Mapping[str, str]
    within_limits: bool
    parallel: Verified | str | None = None

    @property
    def best(self) -> Plan:
        return self.rows[0].choice.plan

    def __repr__(self) -> str:
        first, others = self.rows[0], len(self.rows) - 1
        refused = f", {len(self.refused)} refused" if self.refused else ""
        limits = "" if self.within_limits else ", not within the limits"
        return (
            f"<Verification of {self.network}, best {self.best}: {first.fps:.1f} FPS, latency {first.latency_ms:.2f} ms"
            f"{limits}; {others} others{refused}>"
        )

    def _repr_html_(self) -> str:
        head = ("plan", "FPS", "predicted FPS", "latency ms")
        rows = [(str(row.plan), row.fps, row.choice.prediction.fps, row.latency_ms) for row in self.rows]
        return html_table(repr(self)[1:-1], head, rows)


@checked(
    result=a(SearchResult, "what pipeall.search found"),
    board=board_of,
    top=whole(1),
    seconds=number(0, MAX_SECONDS),
    progress=function,
)
def verify(
    result: SearchResult,
    board: Board | str | Path | None = None,
    *,
    top: int = VERIFIED,
    seconds: float = 2.0,
    progress: Progress = silent,
) -> Verification:
    """Runs the best plans of a search side by side on this machine, and beside them the best of fewer stages than the
    first has, and all components independently. That is one of the plans where the search was among lanes too.

    Parameters
    ----------
    result
        From ``search``, in a profile of this machine.
    board
        Default ``Board.detect()``.
    top
        How many of ``result.ranked`` run, beside ``result.simpler``.
    seconds
        That each runs, in five turns.
    progress
        Called after each turn with what runs, how many turns are done, and how many there are.

    Returns
    -------
    Verification
        The plans, ranked by what they did.

    Raises
    ------
    ArgumentError
        Where the profile of the search is not of this machine.
    PipeallError
        Of the last plan, where none of them ran.
    """
    if board.model is not None or not measured_on(result.profile, board):
        raise ArgumentError("verify: expected a search in a profile that was measured on this machine")
    goal = result.goal
    among = result.parallel if result.kind and result.kind.lanes else None
    choices = {choice.plan: choice for choice in (*result.ranked[:top], result.simpler, among) if choice}
    plans = list(choices)
    if result.parallel:
        choices.setdefault(result.parallel.plan, result.parallel)
    ran, refused = run_choices(
        result.graph, list(choices.values()), board, seconds=seconds, queue=goal.queue, progress=progress
    )
    rows = [row for row in ran if row.plan in plans]
    if not rows:
        raise PipeallError(refused[str(result.best)])
    rows = ranked(goal, rows)
    parallel = None
    if result.parallel:
        parallel = next((row for row in ran if row.plan == result.parallel.plan), None)
        if not parallel:
            parallel = refused[str(result.parallel.plan)]
            if result.parallel.plan not in plans:
                del refused[str(result.parallel.plan)]
    return Verification(result.graph.name, tuple(rows), refused, keeps(goal, rows[0]), parallel)


def run_choices(
    graph: Graph,
    choices: Sequence[PredictedPlan],
    board: Board,
    *,
    seconds: float,
    queue: bool = True,
    progress: Progress = silent,
) -> tuple[list[Verified], dict[str, str]]:
    """Runs them side by side, or each by itself if that fails; fastest first. ``queue`` as for ``compare``.

    Also returns the plans that did not run, with the reason; where none did, the last one's PipeallError is raised.
    """

    def run(some: Sequence[PredictedPlan]) -> list[Verified]:
        plans, share = [choice.plan for choice in some], seconds / TURNS
        trials = compare(
            graph,
            plans,
            board,
            turns=TURNS,
            seconds=share,
            queue=queue,
            singly=[choice.plan for choice in some if choice.plan.goal.in_turn(choice.prediction.alone_ms)],
            what="verifying",
            progress=progress,
        )
        return [Verified(choice, trial) for choice, trial in zip(some, trials, strict=True)]

    refused: dict[str, str] = {}
    try:
        rows = run(choices)
    except PipeallError:
        rows = []
        for choice in choices:
            try:
                rows += run([choice])
            except PipeallError as error:
                refused[str(choice.plan)] = str(error)
                if len(refused) == len(choices):
                    raise
    return sorted(rows, key=lambda row: row.trial.period_ms), refused
