"""What a plan will do, from a profile: stage times, period, latency, energy. Search, simulation and twin build on it.

The model: a stage takes the sum of its groups' times, each multiplied by the slow-down that every other unit of the
plan causes, by computing another part of the network in the same lane or the whole in another (all are taken to be busy
always, as in a balanced pipeline), and what receiving and sending cost it. The slowest stage is the period. Latency is
one frame's time through all stages, without waiting. Groups that float go to the stage before the cut for the share of
the frames with which the slowest stage is fastest; the runtime gets there by itself, as that stage takes them whenever
the next one is not ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite

import numpy as np

from ...errors import ArgumentError
from .plan import Plan, borders
from .profile import HOST, Profile

ROUNDING = 1e-12  # relative: a stage that just fits may come out longer by its sums
BISECTIONS = 50  # of the period of a plan whose cuts float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Steady state at full load. stage_ms: per lane, per stage; infinity where a unit cannot run a group.

    period_ms is the time between two results (of all lanes together), latency_ms that of a frame in the slowest lane;
    energy_mj is the board's per frame at this period, None where the profile knows no power. At a longer one, of a
    slower source, the idle board's draw over the difference comes on top.
    """

    stage_ms: tuple[tuple[float, ...], ...]
    period_ms: float
    latency_ms: float
    energy_mj: float | None

    @property
    def fps(self) -> float:
        return 1000.0 / self.period_ms


class StageCosts:
    """Times of all possible stages of ``units`` that run at once. Arrays are indexed by border: 0 .. groups.

    lanes: the lane that each unit is in; one pipeline of them all unless given.

    Raises ArgumentError for a unit that the profile lacks.
    """

    def __init__(self, profile: Profile, units: Sequence[str], lanes: Sequence[int] | None = None):
        if missing := [unit for unit in units if unit not in profile.units]:
            raise ArgumentError(f"unit {missing[0]!r}: expected one of the profile: {', '.join(profile.units)}")
        self.profile, self.units, self.lanes = profile, tuple(units), tuple(lanes or [0] * len(units))
        self._handovers: dict[tuple[int | None, int | None], tuple[np.ndarray, np.ndarray]] = {}

    @classmethod
    def of(cls, profile: Profile, plan: Plan) -> StageCosts:
        """Of the units of a plan. Raises ArgumentError for one that the profile lacks."""
        return cls(profile, plan.units, [index for index, lane in enumerate(plan.lanes) for _ in lane])

    def slowdown(self, position: int, other: int) -> np.ndarray:
        """Per group, how many times as long one unit takes while another runs; both given by position."""
        in_line = self.lanes[position] == self.lanes[other]
        return self.profile.slowdown(self.units[position], self.units[other], in_line=in_line)

    @cached_property
    def loaded_ms(self) -> tuple[np.ndarray, ...]:
        """Per unit, time of each group with the others running."""
        rows = []
        for position, unit in enumerate(self.units):
            ms = np.array(self.profile.units[unit].ms)
            for other in range(len(self.units)):
                if other != position:
                    ms = ms * self.slowdown(position, other)
            rows.append(ms)
        return tuple(rows)

    @cached_property
    def energy_known(self) -> bool:
        power = (self.profile.units[unit].power_w for unit in self.units)
        return self.profile.idle_w is not None and all(watts is not None for watts in power)

    @cached_property
    def loaded_mj(self) -> tuple[np.ndarray, ...]:
        """Per unit, energy of each group beyond what the idle board draws; only where ``energy_known``.

        Zero for a group that the unit cannot run: no plan that has it there is possible.
        """
        idle = self.profile.idle_w
        watts = (np.array(self.profile.units[unit].power_w) for unit in self.units)
        possible = (np.where(np.isfinite(ms), ms, 0.0) for ms in self.loaded_ms)
        return tuple(ms * np.maximum(w - idle, 0.0) for ms, w in zip(possible, watts, strict=True))

    def handover(self, sender: int | None, receiver: int | None) -> tuple[np.ndarray, np.ndarray]:
        """(send_ms, receive_ms) at every border between two units given by position; None is the host."""
        if (sender, receiver) not in self._handovers:
            ends = [HOST if position is None else self.units[position] for position in (sender, receiver)]
            self._handovers[sender, receiver] = self.profile.handover(ends[0], ends[1])
        return self._handovers[sender, receiver]


@dataclass(frozen=True, slots=True)
class StageWork:
    """Groups of one stage, with the shares of the frames for which it computes the floating ones before and behind.

    position   of its unit among the plan's; ``before`` and ``after`` are those of its neighbours, None for the host
    groups     (first, first_late, last, last_late): the two in the middle bound what it always computes
    """

    position: int
    before: int | None
    after: int | None
    groups: tuple[int, int, int, int]

    def total(self, values: np.ndarray, kept: float, taken: float) -> float:
        """Sum over its groups, those that float before it for a share ``kept`` of the frames, those behind: ``taken``.

        Infinite where one of them is: also what it computes for no frame, it has to be able to.
        """
        total = float(values[self.groups[0] : self.groups[3]].sum())
        if not isfinite(total):
            return inf
        first, first_late, last, last_late = self.groups
        left_out = (1 - kept) * values[first:first_late].sum() + (1 - taken) * values[last:last_late].sum()
        return total - float(left_out)

    def handover_ms(self, costs: StageCosts, kept: float, taken: float) -> tuple[float, float]:
        """(receiving, sending), the mean over the frames."""
        first, first_late, last, last_late = self.groups
        received = costs.handover(self.before, self.position)[1]
        sent = costs.handover(self.position, self.after)[0]
        return _between(received[first_late], received[first], kept), _between(sent[last], sent[last_late], taken)

    def ms(self, costs: StageCosts, kept: float, taken: float) -> float:
        return self.total(costs.loaded_ms[self.position], kept, taken) + sum(self.handover_ms(costs, kept, taken))


def works(profile: Profile, plan: Plan) -> list[list[StageWork]]:
    """The stages of every lane. Raises ArgumentError where they do not fit the profile's network."""
    position, lanes = 0, []
    for lane in plan.lanes:
        lanes.append([])
        for index, ends in enumerate(borders(lane, len(profile.groups), profile.network)):
            before = position - 1 if index else None
            after = position + 1 if index + 1 < len(lane) else None
            lanes[-1].append(StageWork(position, before, after, ends))
            position += 1
    return lanes


def balanced(costs: StageCosts, lane: Sequence[StageWork]) -> list[float]:
    """For each stage, the share of the frames for which it takes the groups that float behind it: those with which the
    slowest stage of the lane is fastest."""
    found = [0.0] * len(lane)
    shortest, longest = 0.0, _slowest(costs, lane, found)
    if longest == inf or all(work.groups[2] == work.groups[3] for work in lane):
        return found
    for _ in range(BISECTIONS):
        middle = (shortest + longest) / 2
        tried = _shares(costs, lane, middle)
        if _slowest(costs, lane, tried) <= middle * (1 + ROUNDING):
            longest, found = middle, tried
        else:
            shortest = middle
    return found


def _shares(costs: StageCosts, lane: Sequence[StageWork], period_ms: float) -> list[float]:
    """The largest that let each stage end within the period, if there are any."""
    found: list[float] = []
    kept = 1.0
    for work in lane:
        least, most = work.ms(costs, kept, 0.0), work.ms(costs, kept, 1.0)
        if work.groups[2] == work.groups[3]:
            share = 0.0
        elif most <= max(period_ms, least):  # it fits, or costs nothing
            share = 1.0
        else:
            share = min(max((period_ms - least) / (most - least), 0.0), 1.0)
        found.append(share)
        kept = 1.0 - share
    return found


def _slowest(costs: StageCosts, lane: Sequence[StageWork], shares: Sequence[float]) -> float:
    return max(work.ms(costs, kept, taken) for work, kept, taken in stage_shares(lane, shares))


def stage_shares(lane: Sequence[StageWork], shares: Sequence[float]) -> list[tuple[StageWork, float, float]]:
    """Each stage with what it keeps of the groups that float before it, and what it takes of those behind."""
    kept = [1.0, *(1.0 - share for share in shares)]
    return list(zip(lane, kept, shares, strict=False))


def _between(first: float, second: float, share: float) -> float:
    """``share`` of the second, the rest of the first; neither counts where it has no share."""
    return float((first * (1 - share) if share < 1 else 0.0) + (second * share if share else 0.0))


def predict(profile: Profile, plan: Plan) -> Prediction:
    """What the plan will do. Raises ArgumentError where it does not fit the profile's network or units."""
    costs = StageCosts.of(profile, plan)
    lanes, busy_mj = [], []
    for lane in works(profile, plan):
        stages = stage_shares(lane, balanced(costs, lane))
        lanes.append(tuple(work.ms(costs, kept, taken) for work, kept, taken in stages))
        if costs.energy_known:
            mj = (work.total(costs.loaded_mj[work.position], kept, taken) for work, kept, taken in stages)
            busy_mj.append(sum(mj))
    latency = max(sum(stages) for stages in lanes)
    if latency == inf:
        return Prediction(tuple(lanes), inf, inf, None)
    if not all(max(stages) for stages in lanes):
        raise ArgumentError(f"plan {plan}: expected stages that take time, all of a lane take 0 ms in the profile")
    rates = [1.0 / max(stages) for stages in lanes]
    period = 1.0 / sum(rates)
    energy = None
    if costs.energy_known:
        energy = period * (profile.idle_w + sum(rate * mj for rate, mj in zip(rates, busy_mj, strict=True)))
    return Prediction(tuple(lanes), period, latency, energy)
