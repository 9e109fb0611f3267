"""What a plan will do, from a profile: stage times, period, latency, energy. Search, simulation and twin build on it.

The model: a stage takes the sum of its groups' times, each multiplied by the slow-down that every other unit of the
plan causes (all are taken to be busy always, as in a balanced pipeline), and what receiving and sending cost it. The
slowest stage is the period. Latency is one frame's time through all stages, without waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from ..errors import ArgumentError
from .plan import Plan
from .profile import HOST, Profile


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

    Raises ArgumentError for a unit that the profile lacks.
    """

    def __init__(self, profile: Profile, units: Sequence[str]):
        if missing := [unit for unit in units if unit not in profile.units]:
            raise ArgumentError(f"unit {missing[0]!r}: expected one of the profile: {', '.join(profile.units)}")
        self.profile, self.units = profile, tuple(units)

    @cached_property
    def loaded_ms(self) -> tuple[np.ndarray, ...]:
        """Per unit, time of each group with the others running."""
        rows = []
        for position, unit in enumerate(self.units):
            ms = np.array(self.profile.units[unit].ms)
            for other in self.units[:position] + self.units[position + 1 :]:
                ms = ms * self.profile.slowdown(unit, other)
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
        ends = [HOST if position is None else self.units[position] for position in (sender, receiver)]
        return self.profile.handover(ends[0], ends[1])

    def stage_ms(self, unit: int, first: int, last: int, before: int | None, after: int | None) -> float:
        """Groups [first, last) on a unit, received from ``before`` and sent to ``after``."""
        received = self.handover(before, unit)[1][first]
        sent = self.handover(unit, after)[0][last]
        return float(self.loaded_ms[unit][first:last].sum() + received + sent)


def predict(profile: Profile, plan: Plan) -> Prediction:
    """What the plan will do. Raises ArgumentError where it does not fit the profile's network or units."""
    costs = StageCosts(profile, plan.units)
    groups = len(profile.groups)
    lanes, position = [], 0
    busy_mj = []
    for lane in plan.lanes:
        stages, mj = [], 0.0
        for index, stage in enumerate(lane):
            last = groups if stage.last is None else stage.last
            if not stage.first < last <= groups:
                raise ArgumentError(f"plan {plan}: expected cuts between 1 and {groups - 1} for {profile.network}")
            before = position - 1 if index else None
            after = position + 1 if index + 1 < len(lane) else None
            stages.append(costs.stage_ms(position, stage.first, last, before, after))
            if costs.energy_known:
                mj += float(costs.loaded_mj[position][stage.first : last].sum())
            position += 1
        lanes.append(tuple(stages))
        busy_mj.append(mj)
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
