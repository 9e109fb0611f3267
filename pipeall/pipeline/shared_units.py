"""The units that lanes have in common: the thread of each, and a program whose team or queue others take over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import runtime
from .devices.device import Component
from .planning.schedule_plan import RealUnit
from .realtime import NORMAL, Realtime


@dataclass(slots=True)
class SharedUnits:
    """Made anew as lanes name them. A thread runs as long as a lane is on its unit (``runtime.NativeUnit``).

    realtime  what gives them their priority

    The first program of each unit lives as long as this does: others use its team of cores, or its queue.
    """

    realtime: Realtime = NORMAL
    _threads: dict[RealUnit, runtime.NativeUnit] = field(default_factory=dict)
    _programs: dict[RealUnit, Any] = field(default_factory=dict)

    def threads(self, units: Sequence[RealUnit], components: Sequence[Component]) -> list[runtime.NativeUnit]:
        """The thread of each unit; one that is new gets the component's name."""
        for unit, component in zip(units, components, strict=True):
            if unit not in self._threads:
                made = runtime.NativeUnit(str(component.name), self.realtime.priority(component))
                self._threads.setdefault(unit, made)  # another thread may have been first
        return [self._threads[unit] for unit in units]

    def program(self, unit: RealUnit) -> Any:
        """The first program of a unit; None where it has none."""
        return self._programs.get(unit)

    def add(self, unit: RealUnit, program: Any) -> None:
        """A program of a unit: the first is kept."""
        self._programs.setdefault(unit, program)


@dataclass(frozen=True, slots=True)
class Place:
    """What a pipeline has of its board beside other networks.

    units     those that it shares; None: it has units of its own
    rate      frames per second that it is planned for, or None (``SchedulePlan.rates``)
    priority  as of ``Demand``
    beside    units of the other networks
    """

    units: SharedUnits | None = None
    rate: float | None = None
    priority: int = 0
    beside: tuple[RealUnit, ...] = ()


ALONE = Place()
