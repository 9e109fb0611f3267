"""Operating points: the clocks that a component can run at, and what its times and its power are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...errors import ArgumentError
from ...files import JsonReader

Clocks = tuple[tuple[str, float], ...]  # (component, MHz), in the order of their names


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A clock, beside that at which a profile's times hold.

    slower  how many times as long everything takes
    power   how many times as much it draws beyond the idle board
    error, power_error  e: in four of five cases these are not further off than by the factor 1 + e
    """

    mhz: float
    slower: float
    power: float
    error: float = 0.0
    power_error: float = 0.0

    def to_dict(self) -> dict[str, float]:
        """Ready for JSON."""
        row = {"mhz": self.mhz, "slower": self.slower, "power": self.power}
        return row | {key: getattr(self, key) for key in ("error", "power_error") if getattr(self, key)}


Points = Mapping[str, Sequence[OperatingPoint]]  # component -> its points, the slowest first


def points_from(read: JsonReader) -> dict[str, tuple[OperatingPoint, ...]]:
    """The entry "operating_points" of a file, which may be absent. Raises ArgumentError naming what is wrong."""
    if read.content.get("operating_points") is None:
        return {}
    inside = read.inside("operating_points")
    return {component: tuple(map(_point_from, inside.rows(component))) for component in inside.content}


def _point_from(row: JsonReader) -> OperatingPoint:
    errors = {key: row.number(key) for key in ("error", "power_error") if row.content.get(key) is not None}
    return OperatingPoint(row.number("mhz"), row.number("slower", low=0.1), row.number("power"), **errors)


def points_to_dict(points: Points) -> dict[str, list[dict[str, float]]]:
    return {component: [point.to_dict() for point in row] for component, row in points.items()}


def point_at(points: Points, component: str, mhz: float) -> OperatingPoint:
    """The point of a component at a clock. Raises ArgumentError where there is none, with those that there are."""
    row = points.get(component, ())
    if found := [point for point in row if point.mhz == mhz]:
        return found[0]
    there = ", ".join(f"{point.mhz:g}" for point in row)
    known = f"one of its operating points ({there} MHz)" if there else "a profile with its operating points"
    raise ArgumentError(f"clock of {component}: expected {known}, got {mhz:g} MHz")


def choices(points: Points, components: Iterable[str]) -> Iterator[Clocks]:
    """All clocks that these components can have together; one without points has one clock."""
    names = sorted(name for name in set(components) if name in points)
    for row in product(*(points[name] for name in names)):
        yield tuple((name, point.mhz) for name, point in zip(names, row, strict=True))


def clocks_text(clocks: Clocks) -> str:
    """As people read it: "big 1008 MHz, gpu 400 MHz"."""
    return ", ".join(f"{component} {mhz:.0f} MHz" for component, mhz in clocks)


def clocks_from(content: Mapping[str, Any], read: JsonReader) -> Clocks:
    """The clocks of a plan's file. Raises ArgumentError for one that is no frequency."""
    if content.get("clocks_mhz") is None:
        return ()
    inside = read.inside("clocks_mhz")
    found = []
    for component in sorted(inside.content):
        if not (mhz := inside.number(component)) > 0:
            raise inside.fail(component, "a clock in MHz above 0")
        found.append((component, mhz))
    return tuple(found)
