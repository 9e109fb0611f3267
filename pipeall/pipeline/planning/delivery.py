"""The best few plans simulated: which is fastest, and how long a frame takes until it is delivered in its turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .plan import Plan
from .plan_table import Delivered, PredictedPlan
from .profile import Profile
from .simulate import simulate
from .stage_tables import ROUNDING
from .ties import Contender, behind, simplest

SIMULATED = 12  # plans, the best as predicted
FRAMES = 300
EQUAL = 0.005  # of the throughput: plans nearer to the fastest tie with it


def delivered(profile: Profile, plan: Plan) -> Delivered:
    """What a plan does at full load."""
    found = simulate(profile, plan, FRAMES)
    return Delivered(found.fps, found.latency_p50_ms, found.latency_p99_ms)


def by_delivery(
    profile: Profile, plans: Iterable[PredictedPlan], always: Sequence[Plan] = ()
) -> tuple[list[PredictedPlan], float]:
    """The plans that are fastest as predicted, and ``always``, simulated; then the others, by predicted period.

    The simplest of those within ``EQUAL`` of the fastest, and no slower than any of ``always``, simulated or
    predicted, comes first. Also returns what share of the simulated throughput that gives up.
    """
    ordered = sorted(
        {one.plan: one for one in plans}.values(),
        key=lambda one: (one.prediction.period_ms, len(one.plan.units), str(one.plan)),
    )
    chosen = [one for index, one in enumerate(ordered) if index < SIMULATED or one.plan in always]
    if not chosen:
        return [], 0.0
    simulated = [replace(one, delivered=delivered(profile, one.plan)) for one in chosen]
    simulated.sort(key=lambda one: (-one.delivered.fps, one.delivered.latency_p99_ms, len(one.plan.units)))
    rivals = [one for one in simulated if one.plan in always]
    enough = max((one.delivered.fps for one in rivals), default=0.0)
    shortest = min((one.prediction.period_ms for one in rivals), default=0.0) * (1 + ROUNDING)
    able = [one for one in simulated if one.delivered.fps >= enough or one.prediction.period_ms <= shortest]
    first, best = simplest([_contender(one) for one in able])
    simulated.sort(key=lambda one: one.plan != first.plan)
    return [*simulated, *(one for one in ordered if one not in chosen)], behind(first.value, best.value)


def _contender(one: PredictedPlan) -> Contender:
    found = one.delivered
    return Contender(one.plan, 1000.0 / found.fps, EQUAL / 2, one.prediction.period_ms, found.latency_p99_ms)
