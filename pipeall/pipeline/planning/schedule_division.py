"""One division of a board into units, and the best plans of several networks that share them.

A plan's lanes are columns of the linear program of ``fluid.py``: with a plan of each network chosen it says how much
they do. Prices of the bound say what no choice is better than, so choices are looked at in the order of that. Where a
network has few plans all of them are there. Else its lanes are paths that are worth least at prices around those of the
bound, and the best choice is improved network by network.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import product
from math import inf
from operator import ne

import numpy as np

from .bound import LEAST_MS, GroupPaths, worth_of
from .fluid import Fluid, FluidBound, fluid_bound, least_worth, level_of
from .lane_moves import neighbours, with_shares_of
from .latency import GrownPaths, plan_of
from .plan import Plan
from .predict import spans, stage_shares
from .profile import Profile
from .rings import under_way
from .schedule_plan import real_units
from .stage_costs import StageCosts
from .units import Unit

ALL = 400  # plans of a network of so many at most are looked at one by one
POOL = 60  # plans of a network that has more
MARGIN = 0.02  # of a fixed rate: the time that is kept free for it beyond its share, which cuts can give in percent
NEAR = 0.1  # of all time: what a path may be worth more than the one that is worth least
CHEAP = 1e-3  # of the highest price: what a unit is worth at least
CHOICES = 1000  # that are looked at in a division, beside steps of improvement
BEGINNINGS = 4  # choices that are improved
HIGHEST = 2  # choices, by what units have time for, that are among the best however likely
WORTH_IT = 1e-3  # of the level: what a cut that floats has to gain

Path = tuple[int, ...]  # the unit of every group


@dataclass(frozen=True)
class Networks:
    """What networks of a schedule ask for.

    weights, fixed  frames per ms, and whether that is what the network is to do, as of ``fluid``
    limits_ms       of latency; infinity where there is none
    priorities      as of ``Demand``
    """

    profiles: tuple[Profile, ...]
    weights: tuple[float, ...]
    fixed: tuple[bool, ...]
    limits_ms: tuple[float, ...]
    priorities: tuple[int, ...]

    @classmethod
    def alike(cls, profiles: Sequence[Profile], weights: Sequence[float]) -> Networks:
        """Networks without rates, limits and priorities."""
        count = len(profiles)
        return cls(tuple(profiles), tuple(weights), (False,) * count, (inf,) * count, (0,) * count)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A plan of one network, and what each column of it takes of each unit at the network's weight, or at MARGIN more
    where that is fixed.

    There is a column for each way to go through cuts that float. Lanes are alike, and each has as many frames.

    lane       of one: the unit of every stage, and its time, ms
    under_way  frames that all lanes together have inside
    """

    plan: Plan
    loads: np.ndarray
    lane: tuple[tuple[int, float], ...]
    under_way: int

    def worth(self, prices: np.ndarray) -> float:
        """At these prices of the units' time."""
        return float((self.loads @ prices).min())

    def latency_ms(self, waits: np.ndarray) -> float:
        """Of a frame that waits so long for each unit."""
        return sum(ms + float(waits[unit]) for unit, ms in self.lane)

    @cached_property
    def longest(self) -> np.ndarray:
        """The longest stage on each unit, ms."""
        found = np.zeros(self.loads.shape[1])
        for unit, ms in self.lane:
            found[unit] = max(found[unit], ms)
        return found


@dataclass(frozen=True, eq=False)
class Choice:
    """A plan of each network, and how much they do.

    likely   the level, or less where the frames that a network has under way are too few for it, as long as they take
    in_time  whether frames are likely done within the limits
    """

    candidates: tuple[Candidate, ...]
    fluid: Fluid
    likely: float
    in_time: bool

    @property
    def level(self) -> float:
        return self.fluid.level

    @property
    def plans(self) -> tuple[Plan, ...]:
        return tuple(candidate.plan for candidate in self.candidates)

    @property
    def places(self) -> tuple[tuple[Unit, ...], ...]:
        """The units of each network."""
        return tuple(tuple(sorted(set(plan.units))) for plan in self.plans)

    @property
    def stages(self) -> int:
        """Of one lane of each network."""
        return sum(len(plan.lanes[0]) for plan in self.plans)

    def rank(self) -> tuple[bool, float, float, int, str]:
        """Of equals the one of fewest stages is first."""
        return not self.in_time, -round(self.likely, 12), -round(self.level, 12), self.stages, str(self.plans)


class Division:
    """Units that run at once, shared by networks. ``stages``: the most of a lane."""

    def __init__(self, networks: Networks, units: Sequence[Unit], stages: int):
        self.networks, self.units, self.stages = networks, tuple(units), stages
        self.real = {unit: index for index, unit in enumerate(real_units(Plan.parallel(self.units)))}
        self.evaluated, self.exact = 0, True

    @cached_property
    def paths(self) -> list[GroupPaths]:
        found = []
        for profile in self.networks.profiles:
            loaded = StageCosts(profile, self.units, least=True).loaded_ms
            found.append(GroupPaths(np.array(loaded), StageCosts(profile, self.units), self.stages))
        return found

    @cached_property
    def quick_level(self) -> float:
        """What is quickly known of the bound's level, by the prices at which each unit is worth what it does alone: it
        is not more."""
        weights, every = self.networks.weights, [np.where(np.isfinite(paths.ms), paths.ms, inf) for paths in self.paths]
        rates = [1.0 / (weight * ms.sum(axis=1).clip(LEAST_MS)) for weight, ms in zip(weights, every, strict=True)]
        prices = np.sum(rates, axis=0)
        worths = [
            weight * float(worth_of(prices[:, None], ms).min(axis=0).sum())
            for weight, ms in zip(weights, every, strict=True)
        ]
        return least_worth(worths, self.networks.fixed, prices)

    @cached_property
    def bound(self) -> FluidBound:
        finders = [paths.cheapest for paths in self.paths]
        return fluid_bound(finders, self.networks.weights, self.networks.fixed, len(self.units))

    def candidate(self, number: int, plan: Plan) -> Candidate | None:
        """A plan of network ``number``; None where it is impossible on these units."""
        units = real_units(plan)
        if any(unit not in self.real for unit in units):
            return None
        profile = self.networks.profiles[number]
        costs = StageCosts.of(profile, plan, beside=self.real)
        weight, columns = self.networks.weights[number] * (1 + MARGIN * self.networks.fixed[number]), []
        for lane in spans(profile, plan):
            places = [self.real[units[span.position]] for span in lane]
            floats = [span.share if span.groups[2] < span.groups[3] else 0 for span in lane]
            rows = []
            for shares in product(*((0.0, 1.0) if share is None else (share / 100,) for share in floats)):
                times = [span.ms(costs, before, behind) for span, before, behind in stage_shares(lane, shares)]
                rows.append(np.bincount(places, weight * np.array(times), len(self.units)))
            columns.append(rows)
        loads, inside = np.mean(columns, axis=0), sum(under_way(lane, None) for lane in plan.lanes)
        lane = tuple(zip(places, times, strict=True))
        return Candidate(plan, loads, lane, inside) if np.isfinite(loads).all() else None

    def choice(self, candidates: Sequence[Candidate]) -> Choice:
        self.evaluated += 1
        asked, fluid = self.networks, level_of([one.loads for one in candidates], self.networks.fixed, MARGIN / 4)
        likely, in_time = fluid.level, True
        for number, candidate in enumerate(candidates):
            latency_ms = candidate.latency_ms(self._waits(candidates, number))
            enough = candidate.under_way / max(latency_ms * asked.weights[number], LEAST_MS)  # Little's law
            likely = min(likely, enough - 1.0 if asked.fixed[number] and enough < 1.0 else enough)
            in_time &= latency_ms <= asked.limits_ms[number]
        return Choice(tuple(candidates), fluid, likely, in_time)

    def _waits(self, candidates: Sequence[Candidate], number: int) -> np.ndarray:
        """What a frame of a network waits at each unit, ms: until the longest stage of a network of lower priority is
        done, which cannot be interrupted, and one of each other network."""
        lower, others = np.zeros(len(self.units)), np.zeros(len(self.units))
        for other, candidate in enumerate(candidates):
            if self.networks.priorities[other] < self.networks.priorities[number]:
                lower = np.maximum(lower, candidate.longest)
            elif other != number:
                others = others + candidate.longest
        return lower + others

    @cached_property
    def pools(self) -> list[list[Candidate]]:
        """Plans of each network, those that are worth least at the prices of the bound first."""
        prices, found = self.bound.prices, []
        for number, paths in enumerate(self.paths):
            every = self._every_lane(paths)
            lanes = every or self._good_lanes(number)
            pool = list(filter(None, (self.candidate(number, plan) for plan in self._plans(lanes))))
            pool.sort(key=lambda one: (round(one.worth(prices), 12), len(one.lane), str(one.plan)))
            self.exact &= bool(every) and len(pool) <= ALL
            found.append(pool[:ALL] if every else pool[:POOL])
        return found

    def best(self, count: int, at_least: float) -> list[Choice]:
        """The best choices of a higher level than ``at_least``, the best first."""
        found: dict[tuple[Plan, ...], Choice] = {}
        levels = [at_least] * count  # of the best so far, lowest first
        for candidates, most in self._in_order():
            if most <= levels[0]:
                break
            if len(found) >= CHOICES:
                self.exact = False
                break
            choice = self.choice(candidates)
            found[choice.plans] = choice
            if choice.in_time:
                insort(levels, choice.level)
                del levels[0]
        if not self.exact:
            for choice in _apart(found.values(), BEGINNINGS):
                improved = self.improved(choice)
                found[improved.plans] = improved
        by_level = sorted(found.values(), key=lambda choice: (-choice.level, choice.rank()))
        chosen = dict.fromkeys([*_apart(found.values(), count), *by_level[:HIGHEST]])
        return [choice for choice in chosen if choice.level > at_least]

    def improved(self, choice: Choice) -> Choice:
        """The choice with other plans of one network at a time, as long as that is better."""
        again = True
        while again:
            again = False
            for number, pool in enumerate(self.pools):
                for candidate in pool:
                    other = self._with(choice, number, candidate)
                    if other.rank() < choice.rank():
                        choice, again = other, True
        return choice

    def refined(self, choice: Choice) -> Choice:
        """The choice with lanes that differ little where that is better, and with the shares of cuts that float."""
        better = True
        while better:
            better = False
            for number, candidate in enumerate(choice.candidates):
                lanes = candidate.plan.lanes
                near = neighbours(lanes[0], self.paths[number].groups, self.units, self.stages)
                others = filter(None, (self.candidate(number, Plan((lane,) * len(lanes))) for lane in near))
                found = min([choice, *(self._with(choice, number, other) for other in others)], key=Choice.rank)
                if found.likely > choice.likely + WORTH_IT * abs(choice.likely):
                    choice, better = found, True
        plans = map(with_shares_of, choice.plans, choice.fluid.shares)
        return self.choice([self.candidate(number, plan) for number, plan in enumerate(plans)])

    def _with(self, choice: Choice, number: int, candidate: Candidate) -> Choice:
        return self.choice([*choice.candidates[:number], candidate, *choice.candidates[number + 1 :]])

    def _in_order(self) -> Iterator[tuple[list[Candidate], float]]:
        """All choices, and what the level of each is not more than, from the highest."""
        pools, prices, fixed = self.pools, self.bound.prices, self.networks.fixed
        worths = [[one.worth(prices) for one in pool] for pool in pools]
        if not all(pools):
            return

        def most(row: tuple[int, ...]) -> float:
            return least_worth([worths[number][index] for number, index in enumerate(row)], fixed, prices)

        first = (0,) * len(pools)
        queue, seen = [(-most(first), first)], {first}
        while queue:
            negative, row = heappop(queue)
            yield [pool[index] for pool, index in zip(pools, row, strict=True)], -negative
            for number, index in enumerate(row):
                after = (*row[:number], index + 1, *row[number + 1 :])
                if index + 1 < len(pools[number]) and after not in seen:
                    seen.add(after)
                    heappush(queue, (-most(after), after))

    def _every_lane(self, paths: GroupPaths) -> list[Path] | None:
        """All paths, the unit of every group; None where there are too many."""
        if len(self.units) ** min(paths.groups, 12) > 4 * ALL:
            return None
        every = product(range(len(self.units)), repeat=paths.groups)
        return [path for path in every if 1 + sum(map(ne, path, path[1:])) <= self.stages]

    def _good_lanes(self, number: int) -> list[Path]:
        """Of a network: each unit alone, the paths of the bound, and others that are not worth much more."""
        paths, weight = self.paths[number], self.networks.weights[number]
        prices = np.maximum(self.bound.prices, CHEAP * self.bound.prices.max())
        worth, *_ = paths.cheapest(prices)
        grown = GrownPaths(paths, [(prices, worth + NEAR * float(prices.sum()) / weight)])
        found = [*((unit,) * paths.groups for unit in range(len(self.units))), *self.bound.paths[number]]
        found += [path for _, path in grown.ends() if 1 + sum(map(ne, path, path[1:])) <= self.stages]
        return list(dict.fromkeys(found))

    def _plans(self, lanes: Iterable[Path]) -> list[Plan]:
        """Of one lane, or of several that are alike, on equal units."""
        found: dict[Plan, None] = {}
        for lane in lanes:
            plan = plan_of(self.units, lane)
            copies = 1
            if all(unit.cores is not None for unit in plan.units):
                copies = min(self.units.count(unit) // plan.units.count(unit) for unit in plan.units)
            found |= dict.fromkeys(Plan(plan.lanes * count) for count in range(1, copies + 1))
        return list(found)


def _apart(choices: Iterable[Choice], count: int) -> list[Choice]:
    """The best of those whose networks are on the same units, of the best such places."""
    best: dict[tuple[tuple[Unit, ...], ...], Choice] = {}
    for choice in sorted(choices, key=Choice.rank):
        best.setdefault(choice.places, choice)
    return list(best.values())[:count]
