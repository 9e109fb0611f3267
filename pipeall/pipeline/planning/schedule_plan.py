"""Several networks on one board: what each is to reach, and a plan for each, all on one division into units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from ...arguments import a, by_name, checked, number, optional, refused, whole
from ...errors import ArgumentError
from ...files import JsonReader, naming, read_json, write_json
from .plan import Plan
from .units import Unit, overlap

MAX_PRIORITY = 9
MAX_RATE = 1e6  # frames per second
# Of each level of priority a frame that came so much later goes first. Most pipelines take less, so a frame of low
# priority does not overtake because it is under way; and none starves.
HEAD_START_MS = 1000
AHEAD = 3  # periods of its rate from now within which a network's frame is due, however many came before it


@dataclass(frozen=True, slots=True)
class Demand:
    """What a network of a schedule is to reach.

    Parameters
    ----------
    fps : float, optional
        Frames per second that it is to compute; default as many as the others leave.
    priority : int
        0 to 9. Of frames that wait for one unit those of the higher priority come first (``stage.h``).
    max_latency_ms : float, optional
        The time within which 99 of 100 frames are to be done.
    """

    fps: float | None = None
    priority: int = 1
    max_latency_ms: float | None = None

    def __post_init__(self) -> None:
        optional(number(0, MAX_RATE, above=True))("fps", self.fps)
        whole(0, MAX_PRIORITY)("priority", self.priority)
        optional(number(0, above=True))("max_latency_ms", self.max_latency_ms)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        given = {"fps": self.fps, "priority": self.priority, "max_latency_ms": self.max_latency_ms}
        return {name: value for name, value in given.items() if value is not None}


class RealUnit(NamedTuple):
    """The cores that serve a stage: so many of a component's, from one on; ``count`` None: the whole component."""

    component: str
    first: int
    count: int | None

    @property
    def unit(self) -> Unit:
        """As plans name it, in the default precision."""
        return Unit(self.component, self.count)

    def __str__(self) -> str:
        last = self.first + (self.count or 0) - 1
        cores = f"core {last}" if self.count == 1 else f"cores {self.first} to {last}"
        return self.component if self.count is None else f"{self.component} {cores}"


def real_units(plan: Plan) -> list[RealUnit]:
    """The unit of each stage of a plan, by its cores. A component is the same unit in whatever precision."""
    taken: dict[str, int] = {}
    found = []
    for unit in plan.units:
        first = taken.get(unit.component, 0)
        found.append(RealUnit(unit.component, first, unit.cores))
        if unit.cores is not None:
            taken[unit.component] = first + unit.cores
    return found


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """A plan for each network of a schedule, by name.

    Units of two plans are the same, and take turns, where they have the same cores.

    Parameters
    ----------
    plans : dict of Plan
    demands : dict of Demand
        What each network is to reach.
    rates : dict of float or None
        Frames per second that each is planned for. Of what it computes beyond these, the frames of others come first.
        None: it is planned for none, and all its frames count alike.

    Raises
    ------
    ArgumentError
        For names that do not agree, and for plans that divide a component in different ways.
    """

    plans: Mapping[str, Plan]
    demands: Mapping[str, Demand]
    rates: Mapping[str, float | None]

    def __post_init__(self) -> None:
        plans = by_name(a(Plan, "a pipeall.Plan"), "a dict of plans by network")("plans", self.plans)
        by_name(a(Demand, "a pipeall.Demand"), "a dict of demands by network")("demands", self.demands)
        by_name(optional(number(0, MAX_RATE, above=True)), "a dict of rates by network")("rates", self.rates)
        if not plans:
            raise ArgumentError("plans: expected one for each network, got none")
        for name, values in (("demands", self.demands), ("rates", self.rates)):
            if set(values) != set(plans):
                raise ArgumentError(f"{name}: expected those of {', '.join(plans)}, got {', '.join(values) or 'none'}")
        _check_division(plans)

    def __str__(self) -> str:
        return ", ".join(f"{name}: {plan}" for name, plan in self.plans.items())

    def __repr__(self) -> str:
        return f"<SchedulePlan {self}>"

    def __iter__(self) -> Iterator[str]:
        return iter(self.plans)

    def beside(self, name: str) -> tuple[RealUnit, ...]:
        """The units of the other networks, each once."""
        others = (real_units(plan) for other, plan in self.plans.items() if other != name)
        return tuple(dict.fromkeys(unit for units in others for unit in units))

    @checked(about=optional(by_name(lambda key, value: value, "a dict of what JSON can say")))
    def save(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Writes a JSON file: of each network plan, demand and rate, and what is known ``about`` them.

        Raises ArgumentError where the file cannot be written.
        """
        networks = {}
        for name, plan in self.plans.items():
            made_for = dict(zip(("network", "groups"), plan.network or (), strict=False))
            rate = {} if self.rates[name] is None else {"rate": self.rates[name]}
            networks[name] = {"plan": str(plan), **made_for, **self.demands[name].to_dict(), **rate}
        write_json(path, "schedule", {"networks": networks, **(about or {})})

    @classmethod
    def load(cls, path: str | Path) -> SchedulePlan:
        """The schedule plan of a file. Raises ArgumentError where it is malformed, with the entry."""
        read = JsonReader(read_json(path, "schedule"), str(path))
        plans, demands, rates = {}, {}, {}
        with naming(path):
            for name in read.keys("networks"):
                entry = read.inside("networks", name)
                plans[name], demands[name] = _plan(entry), _demand(entry)
                rates[name] = None if entry.content.get("rate") is None else entry.number("rate")
            return cls(plans, demands, rates)


def _plan(read: JsonReader) -> Plan:
    plan = Plan.parse(read.word("plan"))
    if read.content.get("groups") is None:
        return plan
    return replace(plan, network=(read.word("network"), _whole(read, "groups")))


def _whole(read: JsonReader, key: str) -> int:
    value = read.number(key)
    if value != int(value):
        raise read.fail(key, "a whole number")
    return int(value)


def _demand(read: JsonReader) -> Demand:
    given = {name: read.number(name) for name in ("fps", "max_latency_ms") if read.content.get(name) is not None}
    return Demand(priority=_whole(read, "priority"), **given)


def _check_division(plans: Mapping[str, Plan]) -> None:
    """Raises ArgumentError for units of two networks that have some cores in common and are not the same."""
    seen: dict[RealUnit, str] = {}
    for name, plan in plans.items():
        for unit in real_units(plan):
            for other, of in seen.items():
                if unit != other and _overlap(unit, other) and of != name:
                    got = f"{_words(other)} in {of} and {_words(unit)} in {name}"
                    raise ArgumentError(f"plans: expected one division of the cores, got {got}")
            seen.setdefault(unit, name)


def _overlap(one: RealUnit, other: RealUnit) -> bool:
    if one.component != other.component:
        return overlap(one.component, other.component)
    if one.count is None or other.count is None:
        return True
    return one.first < other.first + other.count and other.first < one.first + one.count


def _words(unit: RealUnit) -> str:
    return f"all of {unit}" if unit.count is None else str(unit)


def schedule_plan_of(name: str, value: Any) -> SchedulePlan:
    """A rule for arguments: a schedule plan, or the path of its file."""
    if isinstance(value, (str, PathLike)):
        return SchedulePlan.load(value)
    if not isinstance(value, SchedulePlan):
        raise refused(name, "a pipeall.SchedulePlan or the path of its file", value)
    return value
