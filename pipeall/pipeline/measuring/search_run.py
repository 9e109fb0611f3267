"""A search and what it found: plans predicted from a profile, the best of them run to make sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import ArgumentError
from ...graph.ir import Graph
from ...journal import Journal
from ...progress import Progress, silent
from ..boards import machine
from ..boards.board import Board
from ..boards.default_units import cores_of, units_to_search
from ..boards.profile_cache import measured_on
from ..planning.explain import Explanation, explain
from ..planning.plan import Goal
from ..planning.plan_table import PredictedPlan
from ..planning.profile import Profile
from ..planning.search import SearchResult, search
from .exhaustive import measure_all
from .footprint import footprint
from .verify import VERIFIED, Verification, Verified, verify

OTHERS = 3  # of the next best plans in an explanation


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a search: the goal of its plans, what they may use, and what is run.

    max_memory_mb    that a plan may take, None for any
    units            may be used: components or some of their cores, None for all
    plans, floating, stages  what plans may be, as for ``search``
    clocks           whether to choose clocks too, as for ``search``
    top              how many plans to show; ``verified``: to run, None for ``VERIFIED`` where they can run here
    measurements     where every configuration is kept that is measured, None to measure none
    seconds          that each plan runs
    """

    goal: Goal
    max_memory_mb: float | None
    units: Sequence[str] | None
    plans: str
    floating: bool | None
    stages: int
    top: int
    verified: int | None
    measurements: Journal | None
    seconds: float
    clocks: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found: the best plan, with the explanation, and what its plans did when they ran, if they did.

    ``before`` and ``after`` are the states of the machine, None where nothing could run on it; ``every`` is what
    ``measure_all`` gave.
    """

    profile: Profile
    result: SearchResult
    verification: Verification | None
    best: PredictedPlan
    explanation: Explanation
    every: Mapping[str, Any] | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def checked(self) -> Sequence[Verified]:
        """The plans that ran, best first."""
        return self.verification.rows if self.verification else ()


def run_search(graph: Graph, board: Board, profile: Profile, asked: Request, progress: Progress = silent) -> Outcome:
    """Predicts plans and, where the profile is this machine's, runs the best of them or all configurations.

    Raises ArgumentError where something is to run that cannot, or no plan keeps the limits.
    """
    here = measured_on(profile, board)
    if not here and (asked.verified or asked.measurements):
        raise ArgumentError("--verify, --measure-all: expected a profile measured on this machine, or a new one")
    known = here or board.model  # what plans take is known of devices that are there, or that a model has
    if asked.max_memory_mb and not known:
        raise ArgumentError("--max-memory-mb: expected a profile measured on this machine, or --board")
    result = search(
        graph,
        profile,
        **asdict(asked.goal),
        max_memory_mb=asked.max_memory_mb,
        memory=(lambda plan: sum(stage.total for stage in footprint(graph, plan, board))) if known else None,
        units=asked.units,
        cores=cores_of(board) if known else {},
        top=max(asked.top, asked.verified or VERIFIED),
        plans=asked.plans,
        floating=asked.floating,
        clocks=asked.clocks,
        stages=asked.stages,
    )
    before = machine.state(board) if here else None
    verification = every = None
    count = VERIFIED if asked.verified is None else asked.verified
    if here and count:
        verification = verify(result, board, top=count, seconds=asked.seconds, progress=progress)
    best = verification.rows[0].choice if verification else result.ranked[0]
    if asked.measurements:
        units = asked.units or list(profile.units)
        every = measure_all(
            graph, board, units, best.plan, seconds=asked.seconds, journal=asked.measurements, progress=progress
        )
    return Outcome(
        profile,
        result,
        verification,
        best,
        explain(profile, best.plan, result.ranked[: OTHERS + 1]),
        every=every,
        before=before,
        after=machine.state(board) if here else None,
    )


def half_precision(graph: Graph, board: Board, outcome: Outcome, asked: Request) -> PredictedPlan | None:
    """The best plan of a search in half precision too, where the board's model has it, it is faster, and none was
    asked for."""
    if (
        not board.model
        or asked.units
        or asked.goal.objective != "throughput"
        or asked.goal.max_latency_ms
        or graph.quantized
    ):
        return None
    halves = units_to_search(board, "fp16")
    if not halves:
        return None
    known = {unit.component for unit in halves}
    others = [unit for unit in outcome.profile.units if unit.component not in known]
    profile = board.model.profile(graph, [*others, *halves])
    best = search(graph, profile, top=1, cores=cores_of(board)).ranked[0]
    return best if best.prediction.fps > outcome.best.prediction.fps else None
