"""A profile: how long every unit takes for every group of one network, and what running side by side costs.

Measured on this machine (``profiler.py``) or modelled for a board that is not at hand (``boards/model.py``); what plans
from it (``predict.py``, ``search.py``, ``simulate.py``) cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ...arguments import path as as_path
from ...arguments import refused
from ...errors import ArgumentError
from ...files import JsonReader, naming, read_json, write_json
from ...graph.ir import Graph
from ...graph.onnx.read.given import network
from ...notebook import html_table
from .link import HOST, Link, link_from, link_to_dict, rounded
from .operating_points import Clocks, OperatingPoint, Points, point_at, points_from, points_to_dict
from .ranges import Ranges
from .units import Unit, may_be_neighbours

DISTURBED = 0.25  # of a core that others took: from there on a measurement is marked

FASTEST = "performance"  # the governor that always chooses the highest clock: one that is lower is held down by heat
SLOW = ("powersave", "conservative")  # governors that choose the lowest, or rise late
NEAR_TOP = 0.98  # of the top: steps are not exact

Factors = Mapping[str, Mapping[str, tuple[float, ...]]]


def disturbed(cores: Any) -> bool:
    """Whether others took so much, in cores, that a measurement is to be marked; None: nobody knows."""
    return isinstance(cores, int | float) and cores > DISTURBED


def slow_clocks(state: Mapping[str, Any]) -> str | None:
    """What keeps clocks from their top by the record of a machine (``machine.state``), by component; None: nothing."""
    mhz, governors = state.get("clocks_mhz", {}), state.get("governors", {})
    found = []
    for name in dict.fromkeys((*state.get("clock_limits_mhz", {}), *governors)):
        limits, governor = state.get("clock_limits_mhz", {}).get(name, {}), governors.get(name)
        top = limits.get("top", limits.get("most", 0.0))
        most = min(limits.get("most", top), mhz.get(name, top) if governor == FASTEST else top)
        why = [f"{most:.0f} of {top:.0f} MHz at most"] if most < NEAR_TOP * top else []
        why += [f"governor {governor}"] if governor in SLOW else []
        found += [f"{name} {', '.join(why)}"] if why else []
    return "; ".join(found) or None


@dataclass(frozen=True, slots=True)
class UnitTimes:
    """One unit alone and warm: per group the median time, and half the distance of its quartiles.

    ms         infinity where the unit cannot run the group: ``refused`` says why, by group index (from 1). Of a unit
               that takes frames together: of one of them, where as many as it takes are computed
    power_w    what the whole board draws meanwhile, per group, or None where nobody measured it
    ranges     what its stages may be, of a unit that has some compiled ahead; None: any. The times of groups are then
               those whose sums come nearest to what the ranges take
    """

    ms: tuple[float, ...]
    half_iqr_ms: tuple[float, ...]
    power_w: tuple[float, ...] | None = None
    refused: Mapping[int, str] = field(default_factory=dict)
    ranges: Ranges | None = None

    @property
    def all_groups(self) -> bool:
        """Whether one stage may compute the whole network."""
        return all(map(isfinite, self.ms)) and (self.ranges is None or (0, len(self.ms)) in self.ranges.groups)


@dataclass(frozen=True, repr=False)
class Profile:
    """The times that plans for one network are made from.

    groups          names of the network's groups
    crossing_bytes  what enters group 1, crosses each cut, and leaves the last group: one more than groups
    units           unit ("big", "bigx3", "gpu") -> its times
    contention      unit -> other unit -> per group, how many times as long it takes while the other one runs the whole
                    network too
    same_pipeline         factors while the two share the network, as stages of one pipeline; absent: as contention
    links           (from, to) -> hand-over cost between components, or between one and "host"; absent: it is free
    idle_w          what the board draws with nothing running, or None
    error           unit -> e: its true times lie between these / (1 + e) and these * (1 + e), in four cases of five
    contention_error  the same of the contention factors
    points          component -> clocks that it may have; the times and the power are those of the fastest
    power_error     unit -> as ``error``, of what it draws beyond the idle board
    about           where the figures come from: machine, clocks, date, or the sources of a model
    modelled        False: measured, on this kind of machine
    """

    network: str
    groups: tuple[str, ...]
    crossing_bytes: tuple[int, ...]
    units: Mapping[Unit, UnitTimes]
    contention: Factors = field(default_factory=dict)
    same_pipeline: Factors = field(default_factory=dict)
    links: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    idle_w: float | None = None
    error: Mapping[str, float] = field(default_factory=dict)
    contention_error: float = 0.0
    points: Points = field(default_factory=dict)
    power_error: Mapping[str, float] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    modelled: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", {Unit.parse(unit): times for unit, times in self.units.items()})

    def __repr__(self) -> str:
        times = ", ".join(f"{unit} {_whole(row)}" for unit, row in self.units.items())
        origin = "modelled" if self.modelled else "measured"
        where = self.about.get("board") if self.modelled else self.about.get("date")
        return f"<Profile of {self.network}, {origin}{f' {where}' if where else ''}: {times or 'no units'}>"

    @property
    def disturbed(self) -> bool:
        """Whether other programs took so much of the machine meanwhile that the times are not its own."""
        return disturbed(self.about.get("others_cores"))

    @property
    def slow_clocks(self) -> str | None:
        """What kept clocks from their top while this was measured, by component; None: nothing that is recorded."""
        after = self.about.get("after")
        return slow_clocks(after if isinstance(after, Mapping) else {})

    def _repr_html_(self) -> str:
        columns = (self.units[unit].ms for unit in self.units)
        rows = [(index, name, *ms) for index, (name, *ms) in enumerate(zip(self.groups, *columns, strict=True), 1)]
        return html_table(repr(self)[1:-1], ("group", "name", *(f"{unit} ms" for unit in self.units)), rows)

    def slowdown(self, unit: str, other: str, *, same_pipeline: bool = False) -> np.ndarray:
        """Per group, how many times as long ``unit`` takes while ``other`` runs; ones where nobody measured it.

        same_pipeline: the other is a stage of the same pipeline, not of another lane.
        Some cores of a component stand for each other and for the whole: what is known of "big" holds for "bigx3". So
        does the default precision for others: for "big@fp16".
        """
        factors = (same_pipeline and _factors(self.same_pipeline, unit, other)) or _factors(
            self.contention, unit, other
        )
        return np.array(factors) if factors else np.ones(len(self.groups))

    def together_ms(self, unit: str, frames: int) -> np.ndarray:
        """Per group, what a unit takes for so many frames together, at most as many as it takes.

        A straight line from one frame, as of the same unit a frame at a time, to as many as it takes. Where nobody
        measured that one, fewer frames take as long as all.
        """
        unit = Unit.parse(unit)
        most = np.array(self.units[unit].ms) * unit.batch
        if frames == unit.batch or unit.single not in self.units:
            return most
        share = (frames - 1) / (unit.batch - 1)
        return np.array(self.units[unit.single].ms) * (1 - share) + most * share

    def at_clocks(self, clocks: Clocks) -> Profile:
        """The profile with components at these clocks; hand-overs and contention as they are.

        Raises ArgumentError for a clock that is none of ``points``.
        """
        if not clocks:
            return self
        chosen = {component: point_at(self.points, component, mhz) for component, mhz in clocks}
        units = {unit: self._at(times, chosen.get(unit.component)) for unit, times in self.units.items()}
        error, power_error = dict(self.error), {}
        for unit in units:
            point = chosen.get(unit.component)
            if point and point.error:
                error[unit] = (1 + error.get(unit, 0.0)) * (1 + point.error) - 1
            if point and point.power_error:
                power_error[unit] = point.power_error
        return replace(self, units=units, error=error, power_error=power_error)

    def _at(self, times: UnitTimes, point: OperatingPoint | None) -> UnitTimes:
        if point is None:
            return times
        ms, spread = (tuple(point.slower * value for value in row) for row in (times.ms, times.half_iqr_ms))
        watts = times.power_w
        if watts is not None and self.idle_w is not None:
            watts = tuple(self.idle_w + point.power * (w - self.idle_w) for w in watts)
        return replace(times, ms=ms, half_iqr_ms=spread, power_w=watts)

    def handover(
        self, sender: str, receiver: str, sizes: tuple[int, ...] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(send_ms, receive_ms) at every border, 0 being the network's input; zeros for a link nobody measured.
        ``sizes``: of so many bytes, in place of what crosses the borders.

        Infinity between two that cannot stand beside each other: they share no memory, and the runtime refuses it.
        """
        ends = [None if end == HOST else Unit.parse(end) for end in (sender, receiver)]
        whole, default = (
            tuple(HOST if unit is None else getattr(unit, of) for unit in ends) for of in ("whole", "component")
        )
        sizes = np.array(self.crossing_bytes if sizes is None else sizes, float)
        if whole[0] != whole[1] and HOST not in whole and not may_be_neighbours(*default):
            return np.full(len(sizes), np.inf), np.full(len(sizes), np.inf)
        link = self.links.get(whole) or self.links.get(default)
        return link.at(sizes) if link else (np.zeros(len(sizes)), np.zeros(len(sizes)))

    def check_network(self, graph: Graph) -> None:
        """Raises ArgumentError unless this is a profile of the graph."""
        graph = network("graph", graph)
        if crossing_bytes(graph) != self.crossing_bytes:
            raise ArgumentError(
                f"profile of {self.network} with {len(self.groups)} groups: "
                f"expected one of {graph.name} with {len(graph.groups)} groups and its tensor sizes"
            )

    def save(self, path: str | Path) -> None:
        """Writes it as JSON. Raises ArgumentError where the file cannot be written."""
        write_json(path, "profile", self.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """The profile of a file. Raises ArgumentError naming the file and the entry that is wrong."""
        path = as_path("path", path)
        with naming(path):
            return cls.from_dict(read_json(path, "profile"), str(path))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; null stands for a group that a unit cannot run."""
        return {
            "network": self.network,
            "modelled": self.modelled,
            "about": dict(self.about),
            "groups": list(self.groups),
            "crossing_bytes": list(self.crossing_bytes),
            "units": {name: _unit_to_dict(times) for name, times in self.units.items()},
            "contention": _factors_to_dict(self.contention),
            "same_pipeline": _factors_to_dict(self.same_pipeline),
            "links": [link_to_dict(ends, link) for ends, link in self.links.items()],
            "idle_w": self.idle_w,
            **({"error": dict(self.error), "contention_error": self.contention_error} if self.error else {}),
            **({"operating_points": points_to_dict(self.points)} if self.points else {}),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], source: str) -> Profile:
        """The inverse of ``to_dict``; ``source`` is named in errors."""
        read = JsonReader(content, source)
        groups = tuple(read.words("groups"))
        crossing = read.sizes("crossing_bytes", len(groups) + 1)
        units = {name: _unit_from(read.inside("units", name), len(groups)) for name in read.keys("units")}
        contention = _factors_from(read, "contention", len(groups))
        same_pipeline = (
            _factors_from(read, "same_pipeline", len(groups)) if content.get("same_pipeline") is not None else {}
        )
        if not isinstance(content.get("modelled", False), bool):
            raise read.fail("modelled", "true or false")
        error = read.inside("error") if content.get("error") is not None else JsonReader({}, source)
        tables = (contention, same_pipeline)
        for unit in (*units, *chain(*tables), *(other for table in tables for row in table.values() for other in row)):
            if Unit.parse(unit) != unit:
                raise ArgumentError(f"{source}: unit {unit!r}: expected its name, {Unit.parse(unit)!r}")
        return cls(
            network=read.word("network"),
            groups=groups,
            crossing_bytes=crossing,
            units=units,
            contention=contention,
            same_pipeline=same_pipeline,
            links=dict(link_from(row) for row in read.rows("links")),
            idle_w=read.number("idle_w") if content.get("idle_w") is not None else None,
            error={unit: error.number(unit) for unit in error.content},
            contention_error=read.number("contention_error") if content.get("contention_error") is not None else 0.0,
            points=points_from(read),
            about=read.inside("about").content if content.get("about") is not None else {},
            modelled=content.get("modelled", False),
        )


def crossing_bytes(graph: Graph) -> tuple[int, ...]:
    """Bytes that enter the network, cross each cut, and leave it."""
    borders = (graph.inputs, *(cut.tensors for cut in graph.cuts), graph.leaving)
    return tuple(sum(tensor.nbytes for tensor in tensors) for tensors in borders)


def _whole(times: UnitTimes) -> str:
    """The whole network's time, or of how many groups it is."""
    known = [ms for ms in times.ms if isfinite(ms)]
    return f"{sum(known):.2f} ms" + (f" ({len(known)} of {len(times.ms)} groups)" if len(known) < len(times.ms) else "")


def _unit_to_dict(times: UnitTimes) -> dict[str, Any]:
    row: dict[str, Any] = {
        "ms": [value if isfinite(value) else None for value in rounded(times.ms)],
        "half_iqr_ms": rounded(times.half_iqr_ms),
    }
    if times.power_w is not None:
        row["power_w"] = rounded(times.power_w)
    if times.refused:
        row["refused"] = {str(index): reason for index, reason in times.refused.items()}
    if times.ranges is not None:
        row["slices"] = times.ranges.to_dict()
    return row


def _unit_from(read: JsonReader, count: int) -> UnitTimes:
    ms = read.numbers("ms", count, null=True)
    if not any(ms):
        raise read.fail("ms", "a time above 0")
    power = tuple(read.numbers("power_w", count)) if read.content.get("power_w") is not None else None
    refused, indices = {}, {str(index) for index in range(1, count + 1)}
    for key in read.keys("refused"):
        if key not in indices:
            raise read.fail("refused", f"group indices from 1 to {count}")
        refused[int(key)] = read.inside("refused").word(key)
    ranges = Ranges.read(read.inside("slices"), count) if read.content.get("slices") is not None else None
    return UnitTimes(tuple(ms), tuple(read.numbers("half_iqr_ms", count)), power, refused, ranges)


def _factors(table: Factors, unit: str, other: str) -> tuple[float, ...] | None:
    return _known(_known(table, unit) or {}, other)


def _known(rows: Mapping[str, Any], unit: str) -> Any:
    """What rows have of a unit, else of it a frame at a time, of its component, or of that in its default precision."""
    unit = Unit.parse(unit)
    return next((rows[name] for name in (unit, unit.single, unit.whole, unit.component) if name in rows), None)


def _factors_to_dict(table: Factors) -> dict[str, dict[str, list[float]]]:
    return {unit: {other: rounded(factors) for other, factors in row.items()} for unit, row in table.items()}


def _factors_from(read: JsonReader, key: str, count: int) -> Factors:
    rows = {unit: read.inside(key, unit) for unit in read.keys(key)}
    return {
        unit: {other: tuple(row.numbers(other, count, low=0.1)) for other in row.content} for unit, row in rows.items()
    }


def profile_of(name: str, value: Any) -> Profile:
    """A rule for arguments: a profile, or the file of one."""
    if isinstance(value, (str, PathLike)):
        return Profile.load(value)
    if not isinstance(value, Profile):
        raise refused(name, "a pipeall.Profile, or the path of its file", value)
    return value
