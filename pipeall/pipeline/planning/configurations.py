"""Every pipeline in which each unit has one stage.

All orders and cuts of up to three units at once are evaluated; beyond, dynamic programming finds the best of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import comb, factorial, inf, prod
from typing import NamedTuple

import numpy as np

from .bound import quick_ms
from .dynamic import Dynamic, Solution
from .operating_points import Clocks, Points, choices
from .plan_table import PlanTable
from .profile import Profile
from .stage_costs import StageCosts
from .stage_tables import Costs, Handovers, StageTables, handovers
from .units import Unit

EXHAUSTIVE_STAGES = 3
NEAR = 1.03  # times the least value: sets that are bounded by more are not searched for the best


@dataclass(frozen=True, slots=True)
class Limits:
    period_ms: float = inf
    latency_ms: float = inf


def evaluate(
    candidates: PlanTable, possible: Sequence[Sequence[Unit]], objective: str, limits: Limits, points: Points
) -> tuple[Counter[int], Counter[int]]:
    """Adds the configurations of all sets, fewer units first; returns ``evaluated`` and ``covered``.

    points  clocks to choose among, where there are any; sets of more than three units keep the highest
    """
    profile = candidates.profile
    evaluated, covered = Counter(), Counter()
    links = handovers(profile, {unit for unit_set in possible for unit in unit_set})
    larger = []
    for unit_set in possible:
        if len(unit_set) <= EXHAUSTIVE_STAGES:
            for clocks in choices(points, (unit.component for unit in unit_set)):
                tables = StageTables(profile.at_clocks(clocks), unit_set, links)
                evaluated[len(unit_set)] += _exhaustive(candidates, tables, unit_set, clocks)
        else:
            larger.append(unit_set)
            covered[len(unit_set)] += _count(unit_set, len(profile.groups))
    if larger:
        _Larger(candidates, links, objective, limits).add(larger)
    return evaluated, covered


class _Larger:
    """Sets of more units, by dynamic programming: the best of each and its fronts, where they could be ahead.

    best    the least value of the objective so far
    fronts  total -> (period, total) pairs
    """

    def __init__(self, candidates: PlanTable, links: Handovers, objective: str, limits: Limits):
        self.candidates, self.links, self.objective, self.limits = candidates, links, objective, limits
        self.best = candidates.least(objective, limits.period_ms, limits.latency_ms)
        totals = ("latency_ms", "busy_mj") if candidates.energy else ("latency_ms",)
        self.fronts = {total: candidates.front(total) for total in totals}

    def add(self, sets: Sequence[Sequence[str]]) -> None:
        """Those that could be best first: what they have leaves out others."""
        profile = self.candidates.profile
        least = [least_costs(profile, unit_set) for unit_set in sets]
        for cost, unit_set in sorted(zip(least, sets, strict=True), key=lambda pair: self._value(pair[0])):
            ahead = self._value(cost) <= NEAR * self.best
            fronts = {total: pairs for total, pairs in self.fronts.items() if _open(cost, total, pairs)}
            if not (ahead or fronts):
                continue
            tables = StageTables(profile, unit_set, self.links)
            dynamic = Dynamic(tables)
            best = _best(dynamic, self.objective, self.limits, profile.idle_w) if ahead else None
            if best:
                self.best = min(self.best, self._value(best))
            for solution in dict.fromkeys([best, *_new_on_fronts(dynamic, fronts)]):
                if solution is not None:
                    _add(self.candidates, tables, solution)

    def _value(self, cost: Solution | Least) -> float:
        """The least that the objective can be with these costs."""
        if self.objective == "throughput":
            return cost.period_ms
        if self.objective == "latency":
            return min(cost.latency_ms, cost.alone_ms)
        idle_w = self.candidates.profile.idle_w if self.limits.period_ms == inf else 0.0
        return cost.busy_mj + idle_w * cost.period_ms


class Least(NamedTuple):
    """What no pipeline of some units costs less than, as ``Solution``."""

    period_ms: float
    latency_ms: float
    busy_mj: float
    alone_ms: float


def least_costs(profile: Profile, unit_set: Sequence[str]) -> Least:
    """Of all pipelines of these units, whatever they hand over."""
    units = tuple(dict.fromkeys(unit_set))
    counts = [unit_set.count(unit) for unit in units]
    costs = StageCosts(profile, unit_set)
    places = [unit_set.index(unit) for unit in units]
    ms = np.array([costs.loaded_ms[place] for place in places])
    alone = np.array([profile.units[unit].ms for unit in units])
    mj = np.array([costs.loaded_mj[place] for place in places]) if costs.energy_known else np.zeros_like(ms)
    return Least(quick_ms(ms, counts), *(_least_total(values, counts) for values in (ms, mj, alone)))


def _least_total(values: np.ndarray, counts: Sequence[int]) -> float:
    """Each group where it costs least, and what every unit has more for at least one group of its own."""
    least = values.min(axis=0)
    if not np.isfinite(least).all():
        return inf
    more = np.sort(values - least, axis=1)
    return float(least.sum() + sum(row[:count].sum() for row, count in zip(more, counts, strict=True)))


def _open(cost: Least, total: str, pairs: Sequence[tuple[float, float]]) -> bool:
    """Whether a set could be on a front: no pair is as good in both."""
    return not any(period_ms <= cost.period_ms and amount <= getattr(cost, total) for period_ms, amount in pairs)


def _exhaustive(candidates: PlanTable, tables: StageTables, unit_set: Sequence[str], clocks: Clocks) -> int:
    """Evaluates every order and every cut of a unit set; returns how many there are."""
    cuts = np.array(list(combinations(range(1, tables.groups), len(unit_set) - 1)), int)
    orders = sorted(set(permutations(tables.units.index(unit) for unit in unit_set)))
    for order in orders:
        candidates.add([tables.units[unit] for unit in order], cuts, tables.evaluate(order, cuts), clocks)
    return len(orders) * len(cuts)


def _count(unit_set: Sequence[str], groups: int) -> int:
    """How many configurations a unit set has."""
    orders = factorial(len(unit_set)) // prod(map(factorial, Counter(unit_set).values()))
    return orders * comb(groups - 1, len(unit_set) - 1)


def _new_on_fronts(dynamic: Dynamic, fronts: dict[str, list[tuple[float, float]]]) -> list[Solution]:
    """The solutions of a unit set that are on a front; the fronts grow by them."""
    found = []
    for total, pairs in fronts.items():
        front = list(dynamic.front(total, pairs))
        pairs += [(solution.period_ms, getattr(solution, total)) for solution in front]
        found += front
    return found


def _best(dynamic: Dynamic, objective: str, limits: Limits, idle_w: float | None) -> Solution | None:
    if objective == "throughput":
        return dynamic.fastest(limits.latency_ms)
    if objective == "latency":
        return dynamic.soonest(limits.period_ms)
    return dynamic.thriftiest(idle_w) if limits.period_ms == inf else dynamic.least_busy(limits.period_ms)


def _add(candidates: PlanTable, tables: StageTables, solution: Solution) -> None:
    costs = Costs(*(np.array([cost]) for cost in solution[2:]))
    candidates.add([tables.units[unit] for unit in solution.order], np.array([solution.cuts]), costs)
