"""The most that any plan of some units can do, by column generation: what is left to gain is known.

A frame takes a path: each group is computed by some unit, and a hand-over at each change of unit costs sender and
receiver what the profile says. Every pipeline, cuts that float included, is a mixture of paths, and so is every lane of
a plan. The mixture with the most frames per ms that gives no unit more work than time is a linear program with a
column a path. Its duals are what a ms of each unit is worth, and dynamic programming finds the path that is worth
least: the program is solved when none is worth less than those it has (Ford and Fulkerson, 1958; Gilmore and
Gomory, 1961). Equal units count as one that has their time together: a mixture that gives one of them less to do than
another is as fast as its mean over all ways to exchange them, which gives them the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from .linear import maximize
from .profile import Profile
from .ranges import Ranges
from .stage_costs import StageCosts

ROUNDS = 200  # of column generation: some tens are usual
EXACT = 1e-9  # relative: from there on a better path is rounding
LEAST_MS = 1e-9  # what takes no time has a rate, too

Cheapest = Callable[[np.ndarray], "tuple[float, np.ndarray, object]"]


@dataclass(frozen=True, slots=True)
class Bound:
    """What no mixture of paths is better than.

    period_ms  the least, infinity where no path is possible
    prices     (units,): what a ms of each unit is worth, in frames; their sum, of equal units each, is the rate,
               1 / period_ms
    shares     of the frames that take each of ``paths``, those that take any; and what a path is, as its finder says
    """

    period_ms: float
    prices: tuple[float, ...]
    shares: tuple[float, ...]
    paths: tuple[object, ...]


def mixture(counts: Sequence[int], cheapest: Cheapest) -> Bound:
    """The best mixture of the paths that ``cheapest`` finds.

    counts: how many there are of each unit.
    cheapest: given prices (units,), the path that is worth least: its worth (infinity: none is possible), its load of
    each unit in ms, and the path.
    """
    units, time = len(counts), np.array(counts, float)
    prices = np.ones(units)
    loads: list[np.ndarray] = []
    paths: list[object] = []
    found, rate, best = np.zeros(0), inf, prices
    for _ in range(ROUNDS):
        worth, load, path = cheapest(prices)
        if worth == inf:
            return Bound(inf, (0.0,) * units, (), ())
        if not load.any():
            return Bound(0.0, (0.0,) * units, (1.0,), (path,))
        if worth > 0.0 and prices @ time / worth < rate:  # prices at which no path is worth less than 1
            rate, best = float(prices @ time) / worth, prices / worth
        if found.sum() >= rate * (1 - EXACT):
            break
        loads.append(load)
        paths.append(path)
        found, prices = maximize(np.ones(len(loads)), np.array(loads).T, time)
    used = np.flatnonzero(found > 0.0)
    shares = found[used] / found.sum()
    return Bound(1.0 / rate, tuple(best.tolist()), tuple(shares.tolist()), tuple(paths[index] for index in used))


def quick_ms(ms: np.ndarray, counts: np.ndarray | Sequence[int]) -> float:
    """What no mixture of paths is faster than, by the prices at which each unit is worth what it does alone.

    A path is worth at least each group where that is worth least, whatever it hands over.

    ms: (units, groups); counts: how many there are of each unit.
    """
    rates = 1.0 / np.where(np.isfinite(ms), ms, 0.0).sum(axis=1).clip(LEAST_MS)
    return float((ms * rates[:, None]).min(axis=0).sum() / (rates @ np.array(counts)))


class GroupPaths:
    """All paths through the groups of units that run at once.

    ms      (units, groups): what each takes for each group, slowed down by whatever runs beside
    costs   of handing over between the units
    places  what a frame may be in: the units, and of those that have ranges compiled ahead each range
    stages  the most that a path may have; None: any number
    free    whether handing over costs nothing
    """

    def __init__(self, ms: np.ndarray, costs: StageCosts, stages: int | None = None, *, free: bool = False):
        self.ms = ms
        self.units, self.groups = ms.shape
        self.stages = stages
        ends = [*range(self.units), None]
        pairs = [[costs.handover(sender, receiver) for receiver in ends] for sender in ends[:-1]]
        entry = [costs.handover(None, receiver)[1] for receiver in ends[:-1]]
        self.send = np.array([[send for send, _ in row] for row in pairs]) * (not free)
        self.receive = np.array([[receive for _, receive in row[:-1]] for row in pairs]) * (not free)
        self.entry = np.array(entry)[:, 0] * (not free)
        self.places = Places(self, [costs.profile.units[unit].ranges for unit in costs.units[: self.units]])

    def load(self, path: Sequence[int]) -> np.ndarray:
        """What a path, the unit of every group, takes of each unit, ms."""
        load = np.zeros(self.units)
        load[path[0]] += self.entry[path[0]]
        load[path[-1]] += self.send[path[-1], self.units, self.groups]
        for group, unit in enumerate(path):
            load[unit] += self.ms[unit, group]
            if group and path[group - 1] != unit:
                load[path[group - 1]] += self.send[path[group - 1], unit, group]
                load[unit] += self.receive[path[group - 1], unit, group]
        return load

    def cheapest(self, prices: np.ndarray) -> tuple[float, np.ndarray, tuple[int, ...]]:
        """The path that is worth least at these prices, for ``mixture``."""
        worth, path = min(self.by_stages(prices))
        if not path:
            return inf, np.zeros(self.units), ()
        load = self.load(path)
        return float(prices @ load), load, path

    def by_stages(self, prices: np.ndarray) -> list[tuple[float, tuple[int, ...]]]:
        """The worth of the path that is worth least, and the path, for 1, 2, .. ``stages``, or of any number of them.

        Infinity and no path where none is possible.
        """
        places, levels = self.places, self.stages or 1
        every = np.arange(places.count)
        prices = prices[places.unit]
        computing, changing = worth_of(prices[:, None], places.ms), places.changing(prices)
        worth = np.full((levels, places.count), inf)
        worth[0] = worth_of(prices, places.entry) + computing[:, 0]
        came = np.zeros((self.groups, levels, places.count), int)
        for group in range(1, self.groups):
            moved = worth[:, :, None] + changing[:, :, group]
            before = moved.argmin(axis=1)
            least = np.take_along_axis(moved, before[:, None], axis=1)[:, 0]
            if self.stages:
                least, before = np.roll(least, 1, axis=0), np.roll(before, 1, axis=0)
                least[0] = inf
            stays = worth <= least
            came[group] = np.where(stays, every, before)
            worth = np.where(stays, worth, least) + computing[:, group]
        worth = worth + worth_of(prices, places.send[:, -1, -1])
        ends = enumerate(worth.argmin(axis=1).tolist())
        return [(float(worth[end]), self._traced(came, *end) if worth[end] < inf else ()) for end in ends]

    def _traced(self, came: np.ndarray, level: int, place: int) -> tuple[int, ...]:
        path = [place]
        for group in range(self.groups - 1, 0, -1):
            before = int(came[group, level, path[-1]])
            level -= before != path[-1] and self.stages is not None
            path.append(before)
        return self.places.units_of(path[::-1])


class Places:
    """Where a frame may be on its way: in a unit, or in a range of one that has some compiled ahead, which it enters at
    the range's begin and leaves at its end.

    unit     (places,): of each its unit
    enters, leaves            (places, borders): whether a frame may
    ms, send, receive, entry  those of ``GroupPaths``, of places; infinite where a range is not entered or left
    """

    def __init__(self, paths: GroupPaths, ranges: Sequence[Ranges | None]):
        whole = (0, paths.groups)
        every = [(unit, one) for unit, own in enumerate(ranges) for one in ([whole] if own is None else own.groups)]
        self.count, self.unit = len(every), np.array([unit for unit, _ in every], int)
        borders = np.arange(paths.groups + 1)
        first, last = np.array([one for _, one in every], int).reshape(-1, 2).T[:, :, None]
        free = np.array([ranges[unit] is None for unit, _ in every], bool)[:, None]
        self.enters, self.leaves = free | (borders == first), free | (borders == last)
        inside = (borders[:-1] >= first) & (borders[:-1] < last)
        ends = [*self.unit, paths.units]
        self.ms = np.where(inside, paths.ms[self.unit], inf)
        self.send = np.where(self.leaves[:, None], paths.send[self.unit][:, ends], inf)
        self.receive = np.where(self.enters, paths.receive[self.unit][:, self.unit], inf)
        self.entry = np.where(self.enters[:, 0], paths.entry[self.unit], inf)

    def changing(self, prices: np.ndarray) -> np.ndarray:
        """[from, to, border]: what going on in another unit is worth, at prices of places."""
        sent, received = prices[:, None, None], prices[None, :, None]
        worth = worth_of(sent, self.send[:, :-1]) + worth_of(received, self.receive)
        worth[self.unit[:, None] == self.unit] = inf
        return worth

    def units_of(self, path: Sequence[int]) -> tuple[int, ...]:
        """The unit of every group on a path of places."""
        return tuple(self.unit[list(path)].tolist())


def worth_of(prices: np.ndarray, ms: np.ndarray) -> np.ndarray:
    """What these times are worth: infinity stays so, even where time is worth nothing."""
    return np.where(np.isfinite(ms), prices * np.where(np.isfinite(ms), ms, 0.0), inf)


def bound(
    profile: Profile,
    units: Sequence[str],
    stages: int | None = None,
    *,
    beside: Sequence[str] | None = None,
    free: bool = False,
) -> Bound:
    """The shortest period of any mixture of paths through units that run at once.

    Parameters
    ----------
    profile, units
        The times, and what runs; equal ones have one price.
    stages
        The most of each path; None: any number.
    beside
        Units of other lanes, which run too: the bound is of one lane. None: the units may be divided among lanes, and
        each group counts at whichever contention is less, of one lane or another.
    free
        As if handing over cost nothing.

    Raises
    ------
    ArgumentError
        For a unit that the profile lacks.
    """
    every = [*dict.fromkeys(units), *(beside or [])]
    lanes = [0] * len(units) + [1] * len(beside or [])
    costs = StageCosts(profile, [*units, *(beside or [])], lanes, least=beside is None)
    places = [units.index(unit) for unit in dict.fromkeys(units)]
    ms = np.array([costs.loaded_ms[place] for place in places])
    paths = GroupPaths(ms, StageCosts(profile, every), stages, free=free)
    return mixture([units.count(unit) for unit in every[: len(places)]], paths.cheapest)
