"""Every pipeline in which each unit has one stage.

All orders and cuts of up to three units at once are evaluated; beyond, dynamic programming finds the best of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import comb, factorial, inf, prod

import numpy as np

from .dynamic import Dynamic, Solution
from .plan_table import PlanTable
from .stage_tables import Costs, StageTables, handovers

EXHAUSTIVE_STAGES = 3


@dataclass(frozen=True, slots=True)
class Limits:
    period_ms: float = inf
    latency_ms: float = inf


def evaluate(
    candidates: PlanTable, possible: Sequence[Sequence[str]], objective: str, limits: Limits
) -> tuple[Counter[int], Counter[int]]:
    """Adds the configurations of all sets, fewer units first; returns ``evaluated`` and ``covered``."""
    profile = candidates.profile
    fronts: dict[str, list[tuple[float, float]]] = {}  # total -> (period, total) pairs
    evaluated, covered = Counter(), Counter()
    links = handovers(profile, {unit for unit_set in possible for unit in unit_set})
    for unit_set in possible:
        tables = StageTables(profile, unit_set, links)
        if len(unit_set) <= EXHAUSTIVE_STAGES:
            evaluated[len(unit_set)] += _exhaustive(candidates, tables, unit_set)
            continue
        if not fronts:
            totals = ("latency_ms", "busy_mj") if candidates.energy else ("latency_ms",)
            fronts = {total: candidates.front(total) for total in totals}
        dynamic = Dynamic(tables)
        best = _best(dynamic, objective, limits, profile.idle_w)
        for solution in dict.fromkeys([best, *_new_on_fronts(dynamic, fronts)]):
            if solution is not None:
                _add(candidates, tables, solution)
        covered[len(unit_set)] += _count(tables, len(unit_set))
    return evaluated, covered


def _exhaustive(candidates: PlanTable, tables: StageTables, unit_set: Sequence[str]) -> int:
    """Evaluates every order and every cut of a unit set; returns how many there are."""
    cuts = np.array(list(combinations(range(1, tables.groups), len(unit_set) - 1)), int)
    orders = sorted(set(permutations(tables.units.index(unit) for unit in unit_set)))
    for order in orders:
        candidates.add([tables.units[unit] for unit in order], cuts, tables.evaluate(order, cuts))
    return len(orders) * len(cuts)


def _count(tables: StageTables, stages: int) -> int:
    """How many configurations a unit set has."""
    orders = factorial(stages) // prod(factorial(count) for count in tables.counts)
    return orders * comb(tables.groups - 1, stages - 1)


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
