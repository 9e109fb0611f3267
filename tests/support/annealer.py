"""Simulated annealing over plans, with arithmetic of its own: it knows nothing of how the search looks for them.

A plan has lanes of up to five stages each, in which units may come again. Each cut has an early and a late border, and
a share of the frames that go out late. One unit, stage, border or share changes at a time.
"""

import time
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from math import exp, inf, prod
from random import Random

from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import with_shares
from pipeall.pipeline.planning.profile import HOST, Profile
from pipeall.pipeline.planning.simulate import simulate
from pipeall.pipeline.planning.units import traits_of

STAGES = 5
HOT, COLD = 0.05, 0.0003  # of the period: a plan so much slower is kept in one of e cases, at first and in the end
STEPS, KEPT = 200_000, 4  # of one annealing, and plans that each leaves
SIMULATED = 12  # of all, the best
NEVER_MS = 1e9  # of a group that a unit cannot run

Cut = tuple[int, int, float]  # early and late border, and the share of the frames that go out late
Lane = tuple[tuple[str, ...], tuple[Cut, ...]]
State = tuple[Lane, ...]


class Prices:
    """Periods of plans by a profile."""

    def __init__(self, profile: Profile):
        self.profile, self.groups = profile, len(profile.groups)
        self.units = [unit for unit in profile.units if unit.cores is None and not traits_of(unit.component).all]
        self._sums: dict[tuple[str, frozenset, frozenset], list[float]] = {}

    @cached_property
    def handover(self) -> dict[tuple[str, str], tuple[list[float], list[float]]]:
        ends = [*self.units, HOST]
        pairs = {(one, other): self.profile.handover(one, other) for one in ends for other in ends}
        return {pair: ([*map(finite, send)], [*map(finite, receive)]) for pair, (send, receive) in pairs.items()}

    def sums(self, unit: str, beside: frozenset, others: frozenset) -> list[float]:
        """Times of the first so many groups, with these units in the lane, and those in other lanes."""
        if (unit, beside, others) not in self._sums:
            ms = [*map(finite, self.profile.units[unit].ms)]
            for other in beside | others:
                slower = self.profile.slowdown(unit, other, same_pipeline=other in beside)
                ms = [finite(prod(pair)) for pair in zip(ms, slower, strict=True)]
            self._sums[unit, beside, others] = [0.0, *accumulate(ms)]
        return self._sums[unit, beside, others]

    def period_ms(self, state: State) -> float:
        taken = [frozenset(order) for order, _ in state]
        every, rate = frozenset().union(*taken), 0.0
        for (order, cuts), own in zip(state, taken, strict=True):
            load = dict.fromkeys(own, 0.0)
            names, borders = (HOST, *order, HOST), ((0, 0, 0.0), *cuts, (self.groups, self.groups, 0.0))
            for index, unit in enumerate(order):
                sums = self.sums(unit, own - {unit}, every - own)
                receive, send = self.handover[names[index], unit][1], self.handover[unit, names[index + 2]][0]
                (early, late, share), (first, last, behind) = borders[index], borders[index + 1]
                load[unit] += (1 - share) * (receive[early] - sums[early]) + share * (receive[late] - sums[late])
                load[unit] += (1 - behind) * (send[first] + sums[first]) + behind * (send[last] + sums[last])
            rate += 1 / max(load.values())
        return 1 / rate

    def plan(self, state: State) -> Plan:
        lanes = [Plan.pipeline(order, [a if a == b else (a, b) for a, b, _ in cuts]).lanes[0] for order, cuts in state]
        return with_shares(self.profile, Plan(tuple(lanes)))


def finite(ms: float) -> float:
    return min(float(ms), NEVER_MS)


def annealed(prices: Prices, seed: int) -> list[tuple[float, State]]:
    """The best that one annealing met: periods in ms, and states."""
    random = Random(seed)
    state: State = (((random.choice(prices.units),), ()),)
    period, found = prices.period_ms(state), {}
    for step in range(STEPS):
        near = _changed(state, prices.units, prices.groups, random)
        if not _possible(near):
            continue
        other_ms, temperature = prices.period_ms(near), HOT * (COLD / HOT) ** (step / STEPS)
        if other_ms <= period or random.random() < exp((1 - other_ms / period) / temperature):
            state, period = near, other_ms
            borders = tuple((order, tuple(cut[:2] for cut in cuts)) for order, cuts in state)
            found[borders] = min(found.get(borders, (inf, state)), (period, state))
    return sorted(found.values())[:KEPT]


def best_fps(profile: Profile, seconds: float, frames: int = 400) -> tuple[float, Plan]:
    """The most frames a second that plans of annealings of so many seconds on one core do, simulated, and the plan."""
    prices, found, seed = Prices(profile), [], 0
    end = time.process_time() + seconds
    while time.process_time() < end:
        found += annealed(prices, seed)
        seed += 1
    plans = list(dict.fromkeys(prices.plan(state) for _, state in sorted(found)))[:SIMULATED]
    return max(((simulate(profile, plan, frames, paced=True).fps, plan) for plan in plans), key=lambda pair: pair[0])


def _possible(state: State) -> bool:
    taken = [set(order) for order, _ in state]
    return bool(state) and sum(map(len, taken)) == len(set().union(*taken)) and all(
        1 <= len(order) <= STAGES
        and all(one != other for one, other in pairwise(order))
        and all(first[1] < last[0] for first, last in pairwise(cuts))
        for order, cuts in state
    )  # fmt: skip


def _changed(state: State, units: Sequence[str], groups: int, random: Random) -> State:
    """The state with one change, which may not be possible."""
    lanes = list(state)
    kind = random.randrange(9)
    if kind == 0:  # a unit more, or one less, beside the others
        alone = [index for index, (order, _) in enumerate(lanes) if len(order) == 1]
        if alone and random.random() < 0.5:
            del lanes[random.choice(alone)]
        else:
            lanes.append(((random.choice(units),), ()))
    elif kind == 1:  # two units change places
        one, other = random.sample(units, 2)
        names = {one: other, other: one}
        lanes = [(tuple(names.get(unit, unit) for unit in order), cuts) for order, cuts in lanes]
    else:
        at = random.randrange(len(lanes))
        lanes[at] = _changed_lane(lanes[at], kind, units, groups, random)
    return tuple(lanes)


def _changed_lane(lane: Lane, kind: int, units: Sequence[str], groups: int, random: Random) -> Lane:
    order, cuts = list(lane[0]), list(lane[1])
    index = random.randrange(len(order))
    if kind == 2:
        order[index] = random.choice(units)
    elif kind == 3:  # a stage more, on either side of a new cut
        border = random.randrange(1, groups)
        before = sum(late < border for _, late, _ in cuts)
        order.insert(before + random.randrange(2), random.choice(units))
        cuts.insert(before, (border, border, 0.0))
    elif kind == 4 and cuts:
        del order[index], cuts[min(index, len(cuts) - 1)]
    elif cuts:
        index = random.randrange(len(cuts))
        early, late, share = cuts[index]
        if kind < 7:
            ends = sorted(end + random.choice((-1, 0, 0, 1)) for end in (early, late))
            early, late = (min(max(end, 1), groups - 1) for end in ends)
        elif kind == 7:
            share = min(max(share + random.gauss(0, 0.15), 0.0), 1.0)
        else:
            early = late = random.choice((early, late))
        cuts[index] = early, late, share
    return tuple(order), tuple(cuts)
