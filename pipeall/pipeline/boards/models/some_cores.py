"""Some cores of a cluster: one of them by its prices, more of them by what one and all take, and what they share.

A group takes A / k + B on k cores: B is what they share, or cannot divide (Amdahl 1967). One core and the whole cluster
are priced, which tells both. Units that run side by side on cores of one cluster share the memory: they are slowed down
where they would read and write more than it can, and by no more than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....files import JsonReader
from ...planning.units import Unit
from .price_list import PriceList
from .step_work import FEATURES, GroupWork, Work

WEIGHTS, MOVED = FEATURES.index("ms_per_mb_weights"), FEATURES.index("ms_per_mb_written") + 1


@dataclass(frozen=True, slots=True)
class Cores:
    """What is known of one core of a cluster.

    one          its prices
    core_gb_s    what it reads from memory, in GB/s
    shared_gb_s  what all cores of the board read together
    error        of the factors by which its units slow each other down, as a profile's contention_error
    """

    one: PriceList
    core_gb_s: float
    shared_gb_s: float
    error: float = 0.0

    def traffic(self, work: GroupWork, ms: np.ndarray, cores: int) -> Traffic:
        """Of a network that takes ``ms`` per group on some cores: weights, inputs and outputs of each step, once."""
        mb = work.by_group(mb_of(work.steps))
        shared = max(self.shared_gb_s, self.core_gb_s)
        moving = np.minimum(ms, mb / min(cores * self.core_gb_s, shared))
        return Traffic(ms, moving, mb.sum() / shared)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        rates = {"core_gb_s": self.core_gb_s, "shared_gb_s": self.shared_gb_s, "error": self.error}
        return {**rates, **self.one.to_dict()}

    @classmethod
    def from_file(cls, read: JsonReader) -> Cores:
        """The inverse. Raises ArgumentError naming the entry that is wrong."""
        rates = read.number("core_gb_s", 0.01), read.number("shared_gb_s", 0.01)
        return cls(PriceList.from_file(read), *rates, read.number("error"))


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a unit asks of the memory.

    ms      it takes per group
    moving  how much of that it moves bytes, as fast as it can alone
    shared  how long the memory takes for all of its bytes
    """

    ms: np.ndarray
    moving: np.ndarray
    shared: float

    def slowdown(self, other: Traffic, count: int) -> tuple[float, ...]:
        """How many times as long each group takes while another unit runs, one of ``count`` equal ones.

        The memory is busy for longer than the unit by the factor that all of them have, which is in what moves bytes.
        """
        busy = self.shared / self.ms.sum() + count * other.shared / other.ms.sum()
        longer = max(0.0, busy - 1) * self.ms.sum() / self.moving.sum()
        share = np.divide(self.moving, self.ms, out=np.zeros_like(self.ms), where=self.ms > 0)
        return tuple(((1 + longer * share) ** (1 / count)).tolist())


def mb_of(steps: Iterable[Work]) -> np.ndarray:
    """What each step reads and writes, in MB: weights, inputs and outputs, once."""
    return np.array([sum(step.features[WEIGHTS:MOVED]) for step in steps])


def between(one: np.ndarray, all_: np.ndarray, cores: int, count: int) -> np.ndarray:
    """ms of each group on some of ``count`` cores, by those on one and on all."""
    if count == 1:
        return one
    return all_ + (one - all_) * (1 / cores - 1 / count) / (1 - 1 / count)


def side_by_side(
    traffic: Mapping[Unit, Traffic], counts: Mapping[str, int]
) -> dict[Unit, dict[Unit, tuple[float, ...]]]:
    """unit -> other unit of the component -> factors, while as many of the others run as the cores left allow.

    counts  component -> its cores
    """
    found: dict[Unit, dict[Unit, tuple[float, ...]]] = {}
    for unit, own in traffic.items():
        left = counts[unit.component] - unit.cores
        found[unit] = {
            other: own.slowdown(its, left // other.cores)
            for other, its in traffic.items()
            if other.component == unit.component and other.cores <= left
        }
    return found
