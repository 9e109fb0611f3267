"""The pipelines of one lane: orders in which units may come several times, what bounds each, and its best cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, combinations, islice, pairwise, product
from math import comb, inf
from operator import mul

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

    A whole component may come several times if ``repeats``; some cores of one are a unit that has one stage. Equal
    units come in the order of their indices: others are the same orders.
    """
    most = stages if repeats else len(units)
    earlier = [max((at for at in range(index) if units[at] == unit), default=None) for index, unit in enumerate(units)]

    def longer(order: tuple[int, ...], length: int) -> Iterator[tuple[int, ...]]:
        missing = len(set(range(len(units))) - set(order))
        if len(order) + missing > length:
            return
        if len(order) == length:
            yield order
        else:
            for index, unit in enumerate(units):
                again = index in order and not (repeats and unit.cores is None and order[-1] != index)
                if not again and (earlier[index] is None or earlier[index] in order):
                    yield from longer((*order, index), length)

    found = chain.from_iterable(longer((), length) for length in range(len(units), most + 1))
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
        self.fixed = [tables.fixed[row] for row in rows]
        self.ms = tables.stage_ms[rows, [*rows[1:], tables.host], [tables.host, *rows[:-1]]]
        self._solved: dict[Ranges, tuple[float, list[float], float]] = {}  # ways of improving meet

    @cached_property
    def bound(self) -> Bound:
        """The shortest period of any cuts, floating ones included: its paths are cuts."""
        return mixture([1] * self.units, self._cheapest)

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
        (period, prices), best, reach = self._period(ranges, max_latency_ms), ranges, 1
        farthest = REACH if self.groups <= FEW else 1
        while reach <= farthest:
            enough, found = period * (1 - EXACT), []
            for near in _near(best, widest, reach):
                solved = self._period(near, max_latency_ms, enough, prices)
                if solved[0] < enough:
                    found.append((solved[0], near, solved[1]))
            if found:
                period, best, prices = min(found, key=lambda one: one[:2])
                reach = 1
            else:
                reach += REACH - 1
        return period, best

    def period(self, ranges: Ranges, max_latency_ms: float = inf) -> float:
        """With the shares of the frames at which the unit with most to do has least; infinity where that cannot be."""
        return self._period(ranges, max_latency_ms)[0]

    def _period(
        self, ranges: Ranges, max_latency_ms: float, enough: float = inf, near: Sequence[float] = ()
    ) -> tuple[float, list[float]]:
        """The period, and what a ms of each unit is worth there; infinity also where it is not below ``enough``.

        near: such prices of similar ranges. By duality a mean of the units' times at any prices is no more than the
        greatest, and mostly that says enough.
        """
        if ranges not in self._solved:
            ends = ((0, 0), *ranges, (self.groups, self.groups))
            if any(first[1] >= last[0] for first, last in pairwise(ends)):
                return inf, []
            load, changes = self._taken(ends)
            if enough < inf and any(_least(prices, load, changes) >= enough for prices in (self.bound.prices, near)):
                return inf, []
            self._solved[ranges] = _balanced(load, changes)
        period, prices, latency = self._solved[ranges]
        return (period, prices) if latency <= max_latency_ms else (inf, [])

    @cached_property
    def _rows(self) -> list[list[list[float]]]:
        """``ms``, as lists: single numbers of those are read faster."""
        return self.ms.tolist()

    def _taken(self, ends: Sequence[tuple[int, int]]) -> tuple[list[float], list[list[float]]]:
        """What a frame takes of each unit where every cut is early, and how much more where one of those that float is
        late; infinite where a stage cannot run all that it may have to."""
        load, changes = [0.0] * self.units, []
        for index, (unit, ms) in enumerate(zip(self.order, self._rows, strict=True)):
            (first, first_late), (last, last_late) = ends[index : index + 2]
            floats = first < first_late or last < last_late
            if ms[first][last_late] == inf or (floats and self.fixed[index]):
                return [inf], []
            load[unit] += ms[first][last]
            if first < first_late:
                changes[-1][unit] += ms[first_late][last] - ms[first][last]
            if last < last_late:
                changes.append([0.0] * self.units)
                changes[-1][unit] += ms[first_late][last_late] - ms[first_late][last]
        return load, changes


def _least(prices: Sequence[float], load: Sequence[float], changes: Sequence[Sequence[float]]) -> float:
    """What no shares of the changes make less of the greatest load, by prices of the units."""
    worth = sum(map(mul, prices, load)) + sum(min(sum(map(mul, prices, change)), 0.0) for change in changes)
    return worth / (sum(prices) or inf)


def _balanced(load: Sequence[float], changes: Sequence[Sequence[float]]) -> tuple[float, list[float], float]:
    """The greatest load with the shares of the changes at which it is least, the prices of the units there, and the sum
    of the loads."""
    most, count = max(load), len(changes)
    if most == inf or not changes:
        return most, [float(ms == most) for ms in load], sum(load)
    rows = np.zeros((len(load) + count, count + 1))
    rows[: len(load), :count], rows[: len(load), count] = np.array(changes).T, 1.0
    rows[len(load) :, :count] = np.eye(count)
    x, duals = maximize([0.0] * count + [1.0], rows, [*(most - ms for ms in load), *[1.0] * count])
    added = float((np.array(changes) * x[:-1, None]).sum())
    return most - float(x[-1]), duals[: len(load)].tolist(), sum(load) + added


def _near(ranges: Ranges, widest: int, reach: int) -> Iterator[Ranges]:
    """The ranges with the ends of one cut moved by up to so many groups."""
    steps = range(-reach, reach + 1)
    for index, (early, late) in enumerate(ranges):
        for one, other in product(steps, repeat=2):
            if (one or other) and 0 <= late + other - early - one <= widest:
                yield (*ranges[:index], (early + one, late + other), *ranges[index + 1 :])
