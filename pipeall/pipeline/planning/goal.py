"""What a plan is to be good at, and the limits that it has to keep: of a search, of its plans, and of their moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from ...files import JsonReader

OBJECTIVES = ("throughput", "latency", "energy")


@dataclass(frozen=True, slots=True)
class Goal:
    """The objective and its limits, as for ``search``."""

    objective: str = "throughput"
    max_latency_ms: float | None = None
    min_fps: float | None = None

    @property
    def limits(self) -> dict[str, float]:
        """Those that there are."""
        given = {"max_latency_ms": self.max_latency_ms, "min_fps": self.min_fps}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def rate(self) -> float | None:
        """The frames per second at which energy counts; None where it counts at each plan's own rate."""
        return self.min_fps if self.objective == "energy" else None

    @property
    def queue(self) -> bool:
        """Whether frames may wait in a trial: no, where the time they wait would count as latency."""
        return self.objective != "latency" and self.max_latency_ms is None

    def value(self, period_ms: float, latency_ms: float, energy_mj: float | None) -> float:
        """What is to be small; infinity where a limit is broken."""
        if latency_ms > (self.max_latency_ms or inf) or period_ms > 1000 / (self.min_fps or 1e-300):
            return inf
        return {"throughput": period_ms, "latency": latency_ms}.get(self.objective, energy_mj or 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Ready for a plan's file; nothing where it is the usual one."""
        return {} if self == Goal() else {"objective": self.objective, **self.limits}

    @classmethod
    def from_file(cls, content: Mapping[str, Any], read: JsonReader) -> Goal:
        """The inverse. Raises ArgumentError for what is no objective or no limit above 0."""
        objective = content.get("objective", "throughput")
        if objective not in OBJECTIVES:
            raise read.fail("objective", ", ".join(OBJECTIVES))
        limits = {}
        for name in ("max_latency_ms", "min_fps"):
            if content.get(name) is not None:
                limits[name] = read.number(name)
                if not 0 < limits[name] < inf:
                    raise read.fail(name, "a number above 0")
        return cls(objective, **limits)
