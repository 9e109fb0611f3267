"""The best few plans simulated: which is fastest, and how long a frame takes until it is delivered in its turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .plan import Plan
from .plan_table import Delivered, PredictedPlan
from .profile import Profile
from .simulate import simulate

SIMULATED = 12  # plans, the best as predicted
FRAMES = 300
EQUAL = 0.005  # of the throughput: plans nearer to the fastest count as equal


def delivered(profile: Profile, plan: Plan) -> Delivered:
    """What a plan does at full load."""
    found = simulate(profile, plan, FRAMES)
    return Delivered(found.fps, found.latency_p50_ms, found.latency_p99_ms)


def by_delivery(profile: Profile, plans: Iterable[PredictedPlan], always: Sequence[Plan] = ()) -> list[PredictedPlan]:
    """The plans that are fastest as predicted, and ``always``, simulated; then the others, by predicted period.

    The fastest is first. Of those within ``EQUAL`` of it, and no slower than any of ``always``, the one that delivers
    sooner is, at the 99th percentile.
    """
    ordered = sorted(
        {one.plan: one for one in plans}.values(),
        key=lambda one: (one.prediction.period_ms, len(one.plan.units), str(one.plan)),
    )
    chosen = [one for index, one in enumerate(ordered) if index < SIMULATED or one.plan in always]
    simulated = [replace(one, delivered=delivered(profile, one.plan)) for one in chosen]
    most = max((one.delivered.fps for one in simulated), default=0.0)
    enough = max([(1 - EQUAL) * most, *(one.delivered.fps for one in simulated if one.plan in always)])

    def rank(one: PredictedPlan) -> tuple[float, float, int]:
        return (
            -most if one.delivered.fps >= enough else -one.delivered.fps,
            one.delivered.latency_p99_ms,
            len(one.plan.units),
        )

    return [*sorted(simulated, key=rank), *(one for one in ordered if one not in chosen)]
