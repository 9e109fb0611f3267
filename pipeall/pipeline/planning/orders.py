"""The pipelines of one lane: orders in which units may come several times, what bounds each, and its best cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations, islice, pairwise, product
from math import comb, inf, isfinite

import numpy as np

from .bound import Bound, mixture
from .linear import maximize
from .stage_tables import StageTables
from .units import Unit

MAX_CUTS = 20_000  # of an order, that are tried one by one; beyond, those of the bound are improved step by step
MAX_ORDERS = 5_000  # of a lane: five components in up to five stages make 2,500
FEW, REACH = 12, 4  # with so few groups an end of a cut moves by so many where steps of one do not help
EXACT = 1e-9  # relative: less is rounding
WORTHLESS = 1e-12  # what a ms of a unit that is not full is worth at least: of equal paths the shorter one is found

Ranges = tuple[tuple[int, int], ...]  # (early, late) of every cut: equal where it does not float


def orders(units: Sequence[Unit], stages: int, *, repeats: bool = True) -> list[tuple[int, ...]]:
    """All orders of up to ``stages`` stages of these units, each at least once and none beside itself, by their index.

    A whole component may come several times if ``repeats``; some cores of one are a unit that has one stage.
    """
    most = [stages if repeats and unit.cores is None else 1 for unit in units]
    found = (
        order
        for length in range(len(units), (stages if repeats else len(units)) + 1)
        for order in product(range(len(units)), repeat=length)
        if all(1 <= order.count(unit) <= count for unit, count in enumerate(most))
        and all(one != other for one, other in pairwise(order))
    )
    return list(islice(found, MAX_ORDERS))


class Order:
    """Units of a lane in an order, by their index: what cuts give each of them to do.

    Stages of one unit add up. What a cut costs depends on no other cut: what a unit takes is a sum over cuts, and cuts
    that float are a mixture of those at their ends.

    ms  (stages, groups + 1, groups + 1): time of each stage with groups [first, last)
    """

    def __init__(self, tables: StageTables, units: Sequence[Unit], order: tuple[int, ...]):
        rows = [tables.units.index(units[unit]) for unit in order]
        self.order, self.groups, self.units = order, tables.groups, len(units)
        self.ms = tables.stage_ms[rows, [*rows[1:], tables.host], [tables.host, *rows[:-1]]]

    @cached_property
    def bound(self) -> Bound:
        """The shortest period of any cuts, floating ones included: its paths are cuts."""
        return mixture(self.units, self._cheapest)

    def load(self, cuts: Sequence[int]) -> np.ndarray:
        """What a frame takes of each unit, ms."""
        load = np.zeros(self.units)
        for stage, (first, last) in enumerate(pairwise((0, *cuts, self.groups))):
            load[self.order[stage]] += self.ms[stage, first, last]
        return load

    def _cheapest(self, prices: np.ndarray) -> tuple[float, np.ndarray, tuple[int, ...]]:
        """The cuts that are worth least at these prices, for ``mixture``."""
        worth, came = np.full(self.groups + 1, inf), []
        worth[0] = 0.0
        for unit, ms in zip(self.order, self.ms, strict=True):
            every = worth[:, None] + max(float(prices[unit]), WORTHLESS) * ms
            came.append(every.argmin(axis=0))
            worth = every[came[-1], np.arange(self.groups + 1)]
        if worth[-1] == inf:
            return inf, np.zeros(self.units), ()
        ends = [self.groups]
        for before in reversed(came):
            ends.append(int(before[ends[-1]]))
        cuts = tuple(reversed(ends[1:-1]))
        load = self.load(cuts)
        return float(prices @ load), load, cuts

    def best(self, widest: int, max_latency_ms: float = inf) -> tuple[float, Ranges]:
        """The best cuts that each float over at most ``widest`` groups, and their period; infinity: there are none.

        Those that do not float are tried one by one. Others are improved step by step, from what the bound's paths span
        and from those that do not float: the best that is found may not be the best there is.
        """
        if not self.bound.paths:
            return inf, ()
        starts = [tuple((cut, cut) for cut in cuts) for cuts in self.bound.paths]
        if comb(self.groups - 1, len(self.order) - 1) <= MAX_CUTS:
            best = self._whole(max_latency_ms)
            if not widest:
                return self.period(best, max_latency_ms), best
            starts.append(best)
        if widest:
            spans = [(min(cuts), max(cuts)) for cuts in zip(*self.bound.paths, strict=True)]
            starts.append(tuple((first, min(last, first + widest)) for first, last in spans))
        return min(self._improved(start, widest, max_latency_ms) for start in starts)

    def _whole(self, max_latency_ms: float) -> Ranges:
        """The best cuts that do not float."""
        count = len(self.order) - 1
        cuts = np.array([*combinations(range(1, self.groups), count)], int)
        ends = np.pad(cuts, ((0, 0), (1, 1)), constant_values=((0, 0), (0, self.groups)))
        load = np.zeros((self.units, len(cuts)))
        for stage, unit in enumerate(self.order):
            load[unit] += self.ms[stage, ends[:, stage], ends[:, stage + 1]]
        period = np.where(load.sum(axis=0) <= max_latency_ms, load.max(axis=0), inf)
        return tuple((cut, cut) for cut in cuts[int(period.argmin())].tolist())

    def _improved(self, ranges: Ranges, widest: int, max_latency_ms: float) -> tuple[float, Ranges]:
        """The period of ranges, improved as long as one cut moved does: a little, or if nothing else helps by more."""
        best, reach = (self.period(ranges, max_latency_ms), ranges), 1
        farthest = REACH if self.groups <= FEW else 1
        while reach <= farthest:
            enough = best[0] * (1 - EXACT)
            near = _near(best[1], widest, reach)
            found = min(((self.period(one, max_latency_ms, enough), one) for one in near), default=best)
            best, reach = (found, 1) if found[0] < enough else (best, reach + REACH - 1)
        return best

    def period(self, ranges: Ranges, max_latency_ms: float = inf, enough: float = inf) -> float:
        """With the shares of the frames at which the unit with most to do has least; infinity where that cannot be.

        enough: also where it is not below that.
        """
        ends = ((0, 0), *ranges, (self.groups, self.groups))
        if any(first[1] >= last[0] for first, last in pairwise(ends)):
            return inf
        widest = (ms[first[0], last[1]] for ms, (first, last) in zip(self.ms, pairwise(ends), strict=True))
        if not all(map(isfinite, widest)):
            return inf
        load = self.load([early for early, _ in ranges])
        floats = [index for index, (early, late) in enumerate(ranges) if early < late]
        change = np.zeros((self.units, len(floats)))
        for column, index in enumerate(floats):
            (early, late), first, last = ranges[index], ends[index][1], ends[index + 2][0]
            change[self.order[index], column] += self.ms[index, first, late] - self.ms[index, first, early]
            change[self.order[index + 1], column] += self.ms[index + 1, late, last] - self.ms[index + 1, early, last]
        most = float(load.max())
        if floats:
            prices = np.array(self.bound.prices)
            if prices @ load + np.minimum(prices @ change, 0.0).sum() >= enough * prices.sum():
                return inf  # by duality: at any prices a mean of the units' times is no more than the greatest
            rows = np.block([[change, np.ones((self.units, 1))], [np.eye(len(floats)), np.zeros((len(floats), 1))]])
            goal = np.eye(1, len(floats) + 1, len(floats))[0]
            x, _ = maximize(goal, rows, np.concatenate([most - load, np.ones(len(floats))]))
            most, load = most - float(x[-1]), load + change @ x[:-1]
        return most if load.sum() <= max_latency_ms else inf


def _near(ranges: Ranges, widest: int, reach: int) -> Iterator[Ranges]:
    """The ranges with the ends of one cut moved by up to so many groups."""
    steps = range(-reach, reach + 1)
    for index, (early, late) in enumerate(ranges):
        for one, other in product(steps, repeat=2):
            if (one or other) and 0 <= late + other - early - one <= widest:
                yield (*ranges[:index], (early + one, late + other), *ranges[index + 1 :])
