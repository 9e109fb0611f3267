"""A search and what it found: plans predicted from a profile, the best of them run to make sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.progress import Progress

from ..errors import ArgumentError, PipeallError
from ..graph.ir import Graph
from ..journal import Journal
from ..pipeline.boards import machine
from ..pipeline.boards.board import Board
from ..pipeline.boards.default_plan import cores_of
from ..pipeline.boards.profile_cache import measured_on
from ..pipeline.measuring.exhaustive import measure_all
from ..pipeline.measuring.verify import VERIFIED, Verified, keeps, ranked
from ..pipeline.planning.candidates import PredictedPlan
from ..pipeline.planning.explain import Explanation, explain
from ..pipeline.planning.goal import Goal
from ..pipeline.planning.profile import Profile
from ..pipeline.planning.search import Found
from ..pipeline.planning.search import search as find
from .output import tracked
from .verify import verify

OTHERS = 3  # of the next best plans in an explanation


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a search: what a plan is to be good at, its limits, what it may use, and what is run.

    units, floating  may be used: components or some of their cores, None for all; cuts that float
    top              how many plans to show; ``verified``: to run, None for ``VERIFIED`` where they can run here
    measurements     where every configuration is kept that is measured, None to measure none
    seconds          that each plan runs
    """

    objective: str
    max_latency_ms: float | None
    min_fps: float | None
    units: Sequence[str] | None
    floating: bool
    top: int
    verified: int | None
    measurements: Journal | None
    seconds: float

    @property
    def limits(self) -> dict[str, float | None]:
        return {"max_latency_ms": self.max_latency_ms, "min_fps": self.min_fps}

    @property
    def goal(self) -> Goal:
        return Goal(self.objective, self.max_latency_ms, self.min_fps)

    @property
    def rate(self) -> bool:
        """Whether energy counts at the rate of a slower source, not at each plan's own."""
        return self.objective == "energy" and self.min_fps is not None

    @property
    def queue(self) -> bool:
        """Whether frames may wait in a trial."""
        return self.goal.queue


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found: the best plan, with the explanation, and the plans that ran or were refused; ``parallel``
    how all components did independently beside them, why they did not run, or None.

    ``before`` and ``after`` are the states of the machine, None where nothing could run on it; ``every`` is what
    ``measure_all`` gave.
    """

    profile: Profile
    found: Found
    checked: Sequence[Verified]
    parallel: Verified | str | None
    refused: Mapping[str, str]
    best: PredictedPlan
    explanation: Explanation
    within_limits: bool
    every: Mapping[str, Any] | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


def run_search(graph: Graph, board: Board, profile: Profile, asked: Request, bar: Progress) -> Outcome:
    """Predicts plans and, where the profile is this machine's, runs the best of them or all configurations.

    Raises ArgumentError where something is to run that cannot, or no plan keeps the limits.
    """
    here = measured_on(profile, board)
    if not here and (asked.verified or asked.measurements):
        raise ArgumentError("--verify, --measure-all: expected a profile measured on this machine, or a new one")
    cores = cores_of(board) if here or board.model else {}
    found = _predicted(graph, profile, asked, cores)
    before = machine.state(board) if here else None
    checked: list[Verified] = []
    parallel: Verified | str | None = None
    refused: dict[str, str] = {}
    if count := (VERIFIED if asked.verified is None else asked.verified) if here else 0:
        checked, parallel, refused = _verified(graph, board, found, count, asked, bar)
    best = checked[0].choice if checked else found.ranked[0]
    every = None
    if asked.measurements:
        units = asked.units or list(profile.units)
        with tracked(bar, graph.name) as show:
            every = measure_all(
                graph, board, units, best.plan, seconds=asked.seconds, journal=asked.measurements, progress=show
            )
    return Outcome(
        profile,
        found,
        checked,
        parallel,
        refused,
        best,
        explain(profile, best.plan, found.ranked[: OTHERS + 1]),
        within_limits=not checked or keeps(asked.goal, checked[0]),
        every=every,
        before=before,
        after=machine.state(board) if here else None,
    )


def _predicted(graph: Graph, profile: Profile, asked: Request, cores: Mapping[str, int]) -> Found:
    return find(
        graph,
        profile,
        asked.objective,
        **asked.limits,
        units=asked.units,
        cores=cores,
        top=max(asked.top, asked.verified or VERIFIED),
        floating=asked.floating,
    )


def _verified(
    graph: Graph, board: Board, found: Found, count: int, asked: Request, bar: Progress
) -> tuple[list[Verified], Verified | str | None, dict[str, str]]:
    """The best plans that ran, ranked; all components independently beside them; and why others did not run."""
    choices = [*found.ranked[:count], *([found.parallel] if found.parallel else [])]
    rows, refused = verify(graph, board, choices, asked.seconds, bar, asked.queue)
    checked = [row for row in rows if row.choice is not found.parallel]
    if not checked:
        raise PipeallError(refused[str(found.best)])
    parallel = next((row for row in rows if row.choice is found.parallel), None)
    if found.parallel and not parallel:
        parallel = refused.pop(str(found.parallel.plan))
    return ranked(asked.goal, checked), parallel, refused
