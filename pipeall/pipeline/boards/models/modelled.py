"""The modelled device: what a board model says of a component that is not at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar, NoReturn

from ...._kernels.peak import Peak
from ....errors import DeviceError
from ....files import JsonReader
from ....graph.ir import Graph
from ....steps import Lowered
from ...devices.device import Device, unsupported, unsupported_groups
from ...planning.profile import UnitTimes
from ...planning.units import Unit, traits_of


@dataclass(frozen=True, slots=True)
class Modelled(Device):
    """``count`` cores or compute units; max_mhz None: not known. Nothing runs on it here."""

    kind: ClassVar[str] = "model"
    core_type: str
    count: int
    max_mhz: float | None = None
    precision: str = "fp32"

    @classmethod
    def of(cls, device: Device) -> Modelled:
        """The model of a device that is at hand."""
        return cls(device.core_type, device.width, device.max_mhz)

    @classmethod
    def joined(cls, parts: Sequence[Modelled]) -> Modelled:
        """All their cores."""
        return cls(", ".join(part.core_type for part in parts), sum(part.count for part in parts))

    @classmethod
    def from_file(cls, read: JsonReader) -> Modelled:
        """The inverse of ``details``. Raises ArgumentError naming the entry that is wrong."""
        count = read.number("count", low=1)
        if count != int(count):
            raise read.fail("count", "a whole number")
        mhz = read.number("max_mhz") if read.content.get("max_mhz") is not None else None
        return cls(read.word("core_type"), int(count), mhz)

    @property
    def cores(self) -> tuple[int, ...]:
        return tuple(range(self.count))

    @property
    def width(self) -> int:
        return self.count

    @property
    def description(self) -> str:
        return f"{self.count} x {self.core_type}" + (f" at {self.max_mhz:.0f} MHz" if self.max_mhz else "")

    def details(self) -> dict[str, Any]:
        return {"core_type": self.core_type, "count": self.count, "max_mhz": self.max_mhz}

    def with_precision(self, precision: str) -> Modelled:
        return replace(self, precision=precision)

    def compile(self, lowered: Lowered, name: str, *, record: bool = False) -> NoReturn:
        raise self._absent()

    def footprint(self, lowered: Lowered) -> NoReturn:
        raise self._absent()

    def peak(self) -> Peak:
        raise self._absent()

    def _absent(self) -> DeviceError:
        return DeviceError(f"{self.description}: expected a device of this machine, got the model of one")


def able(graph: Graph, unit: Unit, times: UnitTimes) -> UnitTimes:
    """The times with infinity for the groups that the unit's device cannot run, and why."""
    ask = unsupported(traits_of(unit.component).device, unit.precision or None)
    refused = unsupported_groups(graph, ask) if ask else {}
    if not refused:
        return times
    ms = (inf if index in refused else value for index, value in enumerate(times.ms, 1))
    spread = (0.0 if index in refused else value for index, value in enumerate(times.half_iqr_ms, 1))
    return replace(times, ms=tuple(ms), half_iqr_ms=tuple(spread), refused={**refused, **times.refused})
