"""Units that run at once: their best plans, however they are divided among lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf

import numpy as np

from .bound import LEAST_MS, bound, quick_ms
from .divisions import Part, refined
from .dynamic import Dynamic
from .orders import EXACT, Order, Ranges, orders
from .plan import Plan, StagePlan
from .predict import with_shares
from .profile import Profile
from .stage_costs import StageCosts
from .stage_tables import Handovers, StageTables
from .units import Unit

MAX_STAGES = 5  # of a lane, unless it is said: more hand over more, and gain little
WIDTHS = (0, 1, 3, 1000)  # groups that a cut may float over, at most: the wider, the more frames' times differ
NEAR = 1.03  # times the shortest period: what is bounded by more is not searched
ORDERS = 6  # of a lane, by their bounds, that are searched if they are near; others only if they could be ahead
KEPT = 2  # of each width, the best of a lane

Enough = Callable[[], float]  # the rate from which on plans are wanted: it grows as better ones are known


@dataclass(frozen=True, slots=True)
class Kind:
    """What plans are searched.

    stages    at most in a lane where a component serves several
    lanes     units may be divided among lanes
    repeats   a component may serve several stages
    floating  cuts may float
    """

    stages: int = MAX_STAGES
    lanes: bool = True
    repeats: bool = True
    floating: bool = True


class UnitSet:
    """Units that run at once. Rates are in frames per ms.

    units, counts  the different ones, in the profile's order, and how many there are of each
    bound_ms       no plan of them has a shorter period
    """

    def __init__(self, profile: Profile, units: Sequence[Unit], kind: Kind, links: Handovers, latency_ms: float):
        every = sorted(units, key=list(profile.units).index)
        self.units = tuple(dict.fromkeys(every))
        self.counts = tuple(every.count(unit) for unit in self.units)
        self.profile, self.kind, self.links, self.latency_ms = profile, kind, links, latency_ms
        self.lanes = len(every) if kind.lanes else 1
        self._once: dict[Part, Plan | None] = {}
        self._found: dict[Part, list[list[Plan]]] = {}

    @cached_property
    def bound_ms(self) -> float:
        every = self._of(self.counts)
        return bound(self.profile, every, self._stages(self.counts)).period_ms

    @cached_property
    def least_ms(self) -> float:
        """What is quickly known of ``bound_ms``: it is not less."""
        return _period(self._most(self.counts))

    def once(self, enough: Enough) -> Iterator[Plan]:
        """The best plan of each number of lanes in which each unit has one stage and no cut floats. Exact."""
        tables = StageTables(self.profile, self._of(self.counts), self.links, least=True)
        rates = _rates(Dynamic(tables).periods_ms)
        for _, parts in refined(rates, self.lanes, self._once_rate, enough):
            yield self._plan([self._once[part] for part in parts])

    def several(self, enough: Enough) -> Iterator[Plan]:
        """Plans in which components may have several stages and cuts may float, of the best divisions; improves
        ``bound_ms``."""
        rates = np.full([count + 1 for count in self.counts], -inf)
        for part in np.ndindex(rates.shape):
            if any(part):
                rates[part] = self._most(part)
        best = refined(rates, self.lanes, self._bound_rate, enough)
        self.bound_ms = max(self.bound_ms, _period(max((rate for rate, _ in best), default=enough())))
        for _, parts in refined(rates, self.lanes, self._lane_rate, enough):
            lanes = [self._found[part] for part in parts]
            for width in range(len(lanes[0])):
                for rank in range(KEPT):
                    kept = [lane[width][min(rank, len(lane[width]) - 1)] for lane in lanes if lane[width]]
                    if len(kept) == len(lanes):
                        yield self._plan(kept)

    def _of(self, part: Part) -> tuple[Unit, ...]:
        """The units of a lane."""
        return tuple(chain.from_iterable([unit] * count for unit, count in zip(self.units, part, strict=True)))

    def _beside(self, part: Part) -> tuple[Unit, ...]:
        """The units of other lanes."""
        return self._of(tuple(np.subtract(self.counts, part).tolist()))

    def _stages(self, part: Part) -> int:
        """The most that a lane may have."""
        return min(max(self.kind.stages, sum(part)), len(self.profile.groups))

    def _most(self, part: Part) -> float:
        """What no lane of these units does more than."""
        used = np.flatnonzero(part)
        if self._ms[used].min(axis=0).sum() > self.latency_ms:
            return -inf
        return float(_rates(quick_ms(self._ms[used], np.array(part)[used])))

    @cached_property
    def _ms(self) -> np.ndarray:
        """(units, groups): time of each group, however the units are divided at least."""
        every = self._of(self.counts)
        loaded = StageCosts(self.profile, every, least=True).loaded_ms
        return np.array([loaded[every.index(unit)] for unit in self.units])

    def _once_rate(self, part: Part, least: float = 0.0) -> float:
        tables = StageTables(self.profile, self._of(part), self.links, self._beside(part))
        solution = Dynamic(tables).fastest(self.latency_ms)
        if solution is None:
            return -inf
        self._once[part] = Plan.pipeline([tables.units[unit] for unit in solution.order], solution.cuts)
        return float(_rates(solution.period_ms))

    def _bound_rate(self, part: Part, least: float) -> float:
        if sum(part) == 1:
            return self._once_rate(part)
        found = bound(self.profile, self._of(part), self._stages(part), beside=self._beside(part))
        rate = float(_rates(found.period_ms))
        return rate if rate > self._apart(part) else -inf

    def _apart(self, part: Part) -> float:
        """What the units of a lane do where each has a lane of its own instead, if there may be so many."""
        if self.lanes == 1:
            return -inf
        alone = (self._once_rate(tuple(map(int, row))) for row in np.eye(len(part), dtype=int))
        return (1 + EXACT) * sum(count * rate for count, rate in zip(part, alone, strict=True) if count)

    def _lane_rate(self, part: Part, least: float) -> float:
        """The rate of a lane whose best pipelines are searched, for each width; unless it is less than ``least``."""
        units, widths = self._of(part), WIDTHS if self.kind.floating else WIDTHS[:1]
        tables = StageTables(self.profile, units, self.links, self._beside(part))
        every = [Order(tables, units, order) for order in self._orders(part)]
        every.sort(key=lambda order: (order.bound.period_ms, order.order))
        rows: list[list[tuple[float, tuple[int, ...], Ranges]]] = [[] for _ in widths]
        shortest, longest = inf, _period(least)
        for index, order in enumerate(every):
            if order.bound.period_ms > min((NEAR if index < ORDERS else 1.0) * shortest, longest):
                break
            for row, width in zip(rows, widths, strict=True):
                period_ms, ranges = order.best(width, self.latency_ms)
                if period_ms < inf:
                    row.append((period_ms, order.order, ranges))
                    shortest = min(shortest, period_ms)
        self._found[part] = [
            [Plan.pipeline([units[unit] for unit in order], [_cut(*ends) for ends in ranges])
             for _, order, ranges in sorted(row)[:KEPT]]
            for row in rows
        ]  # fmt: skip
        return float(_rates(shortest))

    def _orders(self, part: Part) -> list[tuple[int, ...]]:
        """Those of a lane that are searched: of more units than stages are told, the best in which no cut floats."""
        units = self._of(part)
        if len(units) <= self.kind.stages:
            return orders(units, self._stages(part), repeats=self.kind.repeats)
        if part not in self._once:
            self._once_rate(part)
        left = list(enumerate(units))
        found = []
        for unit in self._once[part].units if part in self._once else ():
            index = next(index for index, other in left if other == unit)
            left.remove((index, unit))
            found.append(index)
        return [tuple(found)] if found else []

    def _plan(self, lanes: Sequence[Plan]) -> Plan:
        """Of pipelines: the plan, those of most stages first."""
        lanes = sorted(lanes, key=lambda plan: -len(plan.units))
        plan = with_shares(self.profile, Plan(tuple(plan.lanes[0] for plan in lanes)))
        return Plan(tuple(map(settled, plan.lanes)))


def _rates(period_ms: np.ndarray | float) -> np.ndarray:
    """Minus infinity: no plan is possible."""
    return np.where(np.isfinite(period_ms), 1.0 / np.maximum(period_ms, LEAST_MS), -inf)


def _period(rate: float) -> float:
    return 1.0 / rate if rate > 0.0 else inf


def _cut(early: int, late: int) -> int | tuple[int, int]:
    return early if early == late else (early, late)


def settled(lane: Sequence[StagePlan]) -> tuple[StagePlan, ...]:
    """The lane without cuts that float for none of the frames, or for all of them."""
    cuts = [
        stage.last + stage.floating * (stage.share == 100) if stage.share in (0, 100) or not stage.floating
        else (stage.last, stage.last + stage.floating, *([] if stage.share is None else [stage.share]))
        for stage in lane[:-1]
    ]  # fmt: skip
    return Plan.pipeline([stage.unit for stage in lane], cuts).lanes[0]
