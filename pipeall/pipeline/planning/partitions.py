"""The fastest plans of any kind: lanes, each a pipeline in which components may come several times.

Lanes are independent but for contention, which depends on who is beside and not on what they do. Of every set of units
the best division among lanes in which each unit has one stage is found first, exactly, by dynamic programming over
multisets of equal units (``dynamic.py``, ``divisions.py``). A set whose bound is worse than what is known is left out.
Then those that could still be ahead are searched for lanes with repeated components and cuts that float.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf

from ...errors import ArgumentError
from .plan import Plan
from .plan_table import PredictedPlan
from .predict import predict
from .profile import Profile
from .stage_tables import handovers
from .unit_set import NEAR, Kind, UnitSet
from .units import Unit

SETS = 1  # of units, by their bounds, that are searched if they are near; others only if they could be ahead
FEW = 3  # units: larger sets that are near have plans enough in which each unit has one stage


@dataclass(frozen=True, slots=True)
class Fastest:
    """Plans by predicted period, shortest first, and what no plan of these units and so many stages is better than.

    Each plan is among the best of its lanes, and not all that are near the best are there."""

    plans: tuple[PredictedPlan, ...]
    bound_ms: float | None


def fastest(profile: Profile, sets: Sequence[Sequence[Unit]], kind: Kind, max_latency_ms: float = inf) -> Fastest:
    """The fastest plans of sets of units, each lane with no more latency."""
    links = handovers(profile, dict.fromkeys(chain.from_iterable(sets)))
    known = [UnitSet(profile, units, kind, links, max_latency_ms) for units in sets]
    known.sort(key=lambda one: one.least_ms)
    found = _Found(profile, max_latency_ms)
    for index, units in enumerate(known):
        near = NEAR if index < SETS else 1.0
        if units.least_ms > near * found.shortest_ms:
            break
        for plan in units.once(lambda near=near: 1.0 / (near * found.shortest_ms)):
            found.add(plan)
    bounds = []
    for index, units in enumerate(_by_bound(known)):
        near = NEAR if index < SETS and sum(units.counts) <= FEW else 1.0
        bounds.append(units.bound_ms)
        if units.bound_ms > near * found.shortest_ms:
            break
        for plan in units.several(lambda near=near: 1.0 / (near * found.shortest_ms)):
            found.add(plan)
        bounds[-1] = units.bound_ms
    plans = sorted(found.plans.values(), key=lambda one: (one.prediction.period_ms, len(one.plan.units), str(one.plan)))
    return Fastest(tuple(plans), min(bounds, default=inf))


class _Found:
    """Plans that were found, and the shortest period of them."""

    def __init__(self, profile: Profile, max_latency_ms: float):
        self.profile, self.max_latency_ms = profile, max_latency_ms
        self.plans: dict[Plan, PredictedPlan] = {}
        self.shortest_ms = inf

    def add(self, plan: Plan) -> None:
        try:
            prediction = predict(self.profile, plan)
        except ArgumentError:  # it takes no time at all
            return
        if prediction.period_ms < inf and prediction.latency_ms <= self.max_latency_ms:
            self.plans[plan] = PredictedPlan(plan, prediction)
            self.shortest_ms = min(self.shortest_ms, prediction.period_ms)


def _by_bound(sets: Sequence[UnitSet]) -> Iterator[UnitSet]:
    """The sets by their bounds, the least first; of those that are not asked for it is not computed."""
    queue = [(units.least_ms, index, False) for index, units in enumerate(sets)]
    heapify(queue)
    while queue:
        _, index, exact = heappop(queue)
        if exact:
            yield sets[index]
        else:
            heappush(queue, (sets[index].bound_ms, index, True))
