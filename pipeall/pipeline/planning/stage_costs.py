"""What groups and hand-overs cost the units of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import ArgumentError
from .forks import levels
from .plan import Plan
from .profile import HOST, Profile
from .schedule_plan import RealUnit, real_units
from .units import Unit


class StageCosts:
    """What groups and hand-overs cost units that run at once. Hand-over is indexed by border: 0 .. groups.

    Units are given by position, one for each stage.

    lanes    the lane that each is in; unless given, all are one pipeline
    unit_of  numbers: equal ones are one unit, which serves several stages; unless given, each is its own
    alone    one unit at a time computes: there is no contention
    level_of where alone: equal numbers are of stages that run side by side
    least    each two of the units may be in one lane or in two: of what they slow each other down the less counts
    beside   units on which other networks run meanwhile, whether this one's compute in turn or not

    Raises ArgumentError for a unit that the profile lacks.
    """

    def __init__(
        self,
        profile: Profile,
        units: Sequence[str],
        lanes: Sequence[int] | None = None,
        unit_of: Sequence[int] | None = None,
        *,
        alone: bool = False,
        level_of: Sequence[int] | None = None,
        least: bool = False,
        beside: Iterable[Unit] = (),
    ):
        if missing := [unit for unit in units if unit not in profile.units]:
            raise ArgumentError(f"unit {missing[0]!r}: expected one of the profile: {', '.join(profile.units)}")
        self.profile, self.units, self.lanes = profile, tuple(units), tuple(lanes or [0] * len(units))
        self.unit_of, self.alone, self.least = tuple(unit_of or range(len(units))), alone, least
        self.beside = tuple(beside)
        self._level_of = tuple(level_of or range(len(units))) if alone else (0,) * len(units)
        self._handed: dict[tuple[int, int, int], tuple[float, float]] = {}
        self._handovers: dict[tuple[int | None, int | None], tuple[np.ndarray, np.ndarray]] = {}

    @classmethod
    def of(cls, profile: Profile, plan: Plan, *, alone: bool = False, beside: Iterable[RealUnit] = ()) -> StageCosts:
        """The costs of a plan's units beside those of other networks; a unit that both use is no neighbour of itself.

        Raises ArgumentError for a unit, or a clock, that the profile lacks.
        """
        lanes = [index for index, lane in enumerate(plan.lanes) for _ in lane]
        rows = [level for lane in plan.lanes for level in levels(lane)]
        level_of = [number for number, level in enumerate(rows) for _ in level]
        own = set(real_units(plan))
        others = [unit.unit for unit in beside if unit not in own]
        profile = profile.at_clocks(plan.clocks)
        return cls(profile, plan.units, lanes, plan.unit_of, alone=alone, level_of=level_of, beside=others)

    def may_be(self, position: int, ends: Sequence[int]) -> bool:
        """Whether a unit's stage may have these ends: (first, first_late, last, last_late)."""
        ranges = self.profile.units[self.units[position]].ranges
        return ranges is None or ranges.may_be(ends)

    @cached_property
    def others(self) -> tuple[tuple[int, ...], ...]:
        """For each position those of the other units that compute meanwhile, each unit once."""
        firsts: dict[int, dict[int, int]] = {}  # of each level: unit -> its first position there
        for position, number in enumerate(self.unit_of):
            firsts.setdefault(self._level_of[position], {}).setdefault(number, position)
        return tuple(
            tuple(first for other, first in firsts[level].items() if other != number)
            for level, number in zip(self._level_of, self.unit_of, strict=True)
        )

    def slowdown(self, position: int, other: int) -> np.ndarray:
        """How many times as long a unit takes while another runs, per group; both are given by position."""
        same = {self.lanes[position] == self.lanes[other]} if not self.least else {True, False}
        units = self.units[position], self.units[other]
        return np.min([self.profile.slowdown(*units, same_pipeline=one) for one in same], axis=0)

    def slowdown_beside(self, position: int) -> np.ndarray:
        """How many times as long a unit takes, per group, while other networks run beside."""
        factors = [self.profile.slowdown(self.units[position], other) for other in self.beside]
        return np.prod(factors, axis=0) if factors else np.ones(len(self.profile.groups))

    @cached_property
    def loaded_ms(self) -> tuple[np.ndarray, ...]:
        """Time of each group of a frame with the other units running, per unit."""
        kinds = list(zip(self.units, self.lanes, strict=True))  # those of a kind slow others down alike
        rows: dict[Any, np.ndarray] = {}
        found = []
        for position, unit in enumerate(self.units):
            others = Counter(kinds[other] for other in self.others[position])
            key = kinds[position], frozenset(others.items())
            if key not in rows:
                rows[key] = np.array(self.profile.units[unit].ms) * self.slowdown_beside(position)
                for other, count in others.items():
                    rows[key] = rows[key] * self.slowdown(position, kinds.index(other)) ** count
            found.append(rows[key])
        return tuple(found)

    def together_ms(self, position: int, frames: int) -> np.ndarray:
        """The same of one unit, for so many frames that are computed together."""
        ms = self.profile.together_ms(self.units[position], frames) * self.slowdown_beside(position)
        for other in self.others[position]:
            ms = ms * self.slowdown(position, other)
        return ms

    @cached_property
    def energy_known(self) -> bool:
        power = (self.profile.units[unit].power_w for unit in self.units)
        return self.profile.idle_w is not None and all(watts is not None for watts in power)

    @cached_property
    def loaded_mj(self) -> tuple[np.ndarray, ...]:
        """Energy of each group beyond what the idle board draws, per unit; only where ``energy_known``.

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

    def handed_ms(self, sender: int, receiver: int, nbytes: int) -> tuple[float, float]:
        """(send_ms, receive_ms) of so many bytes between two units given by position."""
        if (sender, receiver, nbytes) not in self._handed:
            send, receive = self.profile.handover(self.units[sender], self.units[receiver], (nbytes,))
            self._handed[sender, receiver, nbytes] = float(send[0]), float(receive[0])
        return self._handed[sender, receiver, nbytes]
