"""The best order and cuts of any number of units by dynamic programming: exact, without listing configurations.

A state says which units are used up, the last of them, the unit that comes next (the last one's hand-over depends on
it), and the groups done. Equal units are counted, not told apart, so they multiply no work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np

from .stage_tables import ROUNDING, StageTables


class Solution(NamedTuple):
    """An order (indices of the tables' units), its cuts, and what they cost."""

    order: tuple[int, ...]
    cuts: tuple[int, ...]
    period_ms: float
    latency_ms: float
    busy_mj: float
    alone_ms: float


class Dynamic:
    """The best among the configurations that use every unit of ``tables``, each as often as it counts."""

    def __init__(self, tables: StageTables):
        self.tables = tables

    @cached_property
    def shortest_ms(self) -> float:
        """The shortest period of all; infinity where no configuration is possible."""
        return float(self.periods_ms[self.tables.counts])

    @cached_property
    def periods_ms(self) -> np.ndarray:
        """The same of pipelines of some of the units, by how many there are of each: (count + 1 of each unit)."""
        tables = self.tables
        best = _solve(tables, _inner(tables, tables.stage_ms), tables.stage_ms, np.maximum)
        shortest = [reached[:, tables.host, tables.groups].min() for reached in best.values()]
        return np.array(shortest).reshape([count + 1 for count in tables.counts])

    def least(self, costs: np.ndarray, limit_ms: float = inf) -> Solution | None:
        """The solution of least sum of ``costs`` where no stage takes longer than the limit; None: there is none.

        costs: the tables' ``held_ms`` (least latency), ``alone_ms``, or ``busy_mj`` with axes inserted to be like it.
        """
        if limit_ms < self.shortest_ms or self.shortest_ms == inf:
            return None
        tables = self.tables
        allowed = np.where(np.isfinite(tables.stage_ms) & (tables.stage_ms <= limit_ms), costs, inf)
        inner = _inner(tables, allowed)
        best = _solve(tables, inner, allowed, np.add)
        order, cuts = _trace(tables, inner, best)
        return Solution(order, cuts, *(float(cost[0]) for cost in tables.evaluate(order, np.array([cuts], int))))

    def least_latency(self, limit_ms: float = inf) -> Solution | None:
        """The solution of least latency whose period is within the limit."""
        return self.least(self.tables.held_ms, limit_ms)

    def soonest(self, period_ms: float = inf) -> Solution | None:
        """The solution that is done with a frame soonest: alone where that is within the period, else at full load."""
        found = self.least(self.tables.alone_ms)
        return found if found is None or found.alone_ms <= period_ms else self.least_latency(period_ms)

    def least_busy(self, limit_ms: float = inf) -> Solution | None:
        """The solution of least energy beyond the idle board's whose period is within the limit.

        At a source's period of just the limit it needs the least energy of all.
        """
        return self.least(self.tables.busy_mj[:, None, None], limit_ms)

    def fastest(self, max_latency_ms: float = inf) -> Solution | None:
        """The solution of shortest period within the latency, and of equals the least latency; None: there is none.

        Where the shortest period has too high a latency, the times that a stage can take are bisected.
        """
        found = self.least_latency(self.shortest_ms * (1 + ROUNDING))
        if found is None or found.latency_ms <= max_latency_ms:
            return found
        found = self.least_latency()
        if found.latency_ms > max_latency_ms:
            return None
        stage_ms = self.tables.stage_ms
        times = np.unique(stage_ms[(stage_ms > self.shortest_ms) & (stage_ms < found.period_ms)])
        while len(times):
            middle = len(times) // 2
            other = self.least_latency(float(times[middle]))
            if other.latency_ms <= max_latency_ms:
                found, times = other, times[times < other.period_ms]
            else:
                times = times[middle + 1 :]
        return found

    def thriftiest(self, idle_w: float) -> Solution | None:
        """The solution of least energy per frame, idle power included, at its own period; None: there is none."""
        best, least_mj, limit_ms = None, inf, inf
        while (found := self.least_busy(limit_ms)) is not None:
            energy = found.busy_mj + idle_w * found.period_ms
            if energy < least_mj:
                best, least_mj = found, energy
            if not idle_w:
                break
            # what is left has a shorter period and no less busy energy; only the idle energy can still be saved
            limit_ms = (1 - ROUNDING) * min(found.period_ms, (least_mj - found.busy_mj) / idle_w)
        return best

    def front(self, total: str, others: list[tuple[float, float]]) -> Iterator[Solution]:
        """The Pareto front of the period and ``total`` ("latency_ms" or "busy_mj"), longest period first.

        others: (period, total) of other solutions; what they dominate is left out. Some solutions may equal the next
        one in ``total``.
        """
        limit_ms = inf
        least = self.least_latency if total == "latency_ms" else self.least_busy
        while (found := least(limit_ms)) is not None:
            amount = getattr(found, total)
            rivals = [period_ms for period_ms, other in others if other <= amount]
            if all(period_ms > found.period_ms for period_ms in rivals):
                yield found
            # whatever has a shorter period has no lower total, so it must be faster than all that need no more
            limit_ms = (1 - ROUNDING) * min([found.period_ms, *rivals])


def _inner(tables: StageTables, costs: np.ndarray) -> np.ndarray:
    """Costs of the stages that follow another stage: [unit, next unit or host, (unit before, first), last]."""
    borders = tables.groups + 1
    return costs[:, :, : tables.host].reshape(tables.host, tables.host + 1, tables.host * borders, borders)


def _solve(
    tables: StageTables, inner: np.ndarray, costs: np.ndarray, combine: Callable[..., np.ndarray]
) -> dict[tuple[int, ...], np.ndarray]:
    """Units used up (how many of each) -> [last unit, next unit or host, groups done]: the least combined cost."""
    best: dict[tuple[int, ...], np.ndarray] = {}
    for used in product(*(range(count + 1) for count in tables.counts)):  # fewer come first
        best[used] = np.full((tables.host, tables.host + 1, tables.groups + 1), inf)
        for unit, count in enumerate(used):
            if count == sum(used) == 1:
                best[used][unit] = costs[unit, :, tables.host, 0]
            elif count:
                reached = best[_without(used, unit)][:, unit].reshape(-1, 1)
                best[used][unit] = combine(reached, inner[unit]).min(axis=1)
    return best


def _trace(
    tables: StageTables, inner: np.ndarray, best: dict[tuple[int, ...], np.ndarray]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Order and cuts of the least sum over all units, followed back through ``best``."""
    used, after, border = tables.counts, tables.host, tables.groups
    unit = int(best[used][:, after, border].argmin())
    order, cuts = [unit], []
    while sum(used) > 1:
        used = _without(used, unit)
        reached = best[used][:, unit].reshape(-1) + inner[unit, after, :, border]
        before, first = divmod(int(reached.argmin()), tables.groups + 1)
        after, border, unit = unit, first, before
        order.append(unit)
        cuts.append(border)
    return tuple(order[::-1]), tuple(cuts[::-1])


def _without(used: tuple[int, ...], unit: int) -> tuple[int, ...]:
    return (*used[:unit], used[unit] - 1, *used[unit + 1 :])
