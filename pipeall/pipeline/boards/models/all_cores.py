"""All cores of a board as one team, "cpu": cores of unequal speed share each step and wait for each other at its end.

The team's rule (_kernels/cpu/team.c): a step is divided into pieces. Each core begins with a share by its speed, then
takes pieces that others have not begun, fewer and fewer at once. At the end a slow core leaves the last ones to others
that are done with them sooner. So a step ends at the first moment by which all cores together can be done with all of
its pieces, each with whole ones (``least_ms``). Where the fastest cluster alone is done sooner, the others do not take
part.

What a cluster takes for a step is known with all of its own cores at work. Those of another one slow it down as in a
pipeline, and all of them together read and write no more than the memory can.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....graph.ir import Graph
from ...planning.profile import Link
from .price_list import PriceList
from .some_cores import mb_of
from .step_work import GroupWork, works

WHOLE = "cpu"  # the component that is all clusters
WANTED = 3  # pieces a core for which a step is divided further (winograd.c)
ROUNDING = 1e-9  # relative


@dataclass(frozen=True, slots=True)
class Part:
    """A cluster of the team: its prices, its cores, and how many times as long it takes while the others run."""

    prices: PriceList
    cores: int
    slower: float


@dataclass(frozen=True, slots=True)
class AllCores:
    """The prices of a team of clusters that have the same kernels (``Pricing``).

    parts        cluster -> what it is, the fastest first
    barrier_ms   what a step takes longer for being shared among clusters
    shared_gb_s  what all cores read from memory together
    """

    source: ClassVar[str] = PriceList.source
    parts: Mapping[str, Part]
    barrier_ms: float
    shared_gb_s: float

    @property
    def precisions(self) -> list[str]:
        first, *others = (part.prices.precisions for part in self.parts.values())
        return [precision for precision in first if all(precision in other for other in others)]

    def factor(self, precision: str) -> None:
        return None

    def default_precision(self, graph: Graph) -> str:
        return "int8" if graph.quantized and "int8" in self.precisions else ""

    def work_key(self, precision: str) -> Hashable:
        return "uneven", self._integers, precision

    def work(self, graph: Graph, precision: str) -> GroupWork:
        steps = works(graph, integers=self._integers, precision=precision, uneven=True)
        return GroupWork(steps, len(graph.groups))

    @property
    def _integers(self) -> str | None:
        """The instruction set of the GEMM of integers that all cores have."""
        first, *others = (part.prices.integers for part in self.parts.values())
        return first if all(other == first for other in others) else None

    def group_ms(self, work: GroupWork, precision: str = "", frames: int = 1) -> np.ndarray:
        prices = [part.prices for part in self.parts.values()]
        cores, slower = np.array([(part.cores, part.slower) for part in self.parts.values()]).T
        ms = np.array([own.step_ms(work, frames) for own in prices])
        start_ms = np.minimum(ms, np.array([own.start_ms(work) for own in prices]))
        least, most = np.array([step.pieces for step in work.steps]).T
        pieces = np.clip(WANTED * cores.sum(), least, most)
        divided_ms = least_ms(pieces, (slower * cores)[:, None] * (ms - start_ms) / pieces, cores)
        together_ms = np.maximum(start_ms.max(axis=0) + divided_ms, mb_of(work.steps) / self.shared_gb_s)
        return work.by_group(np.minimum(together_ms + self.barrier_ms, ms[0]))

    def beside(self, contention: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """Contention with the team's: it is slowed down as its clusters are at most, and others as by all of them."""
        rows = {unit: dict(row) for unit, row in contention.items()}
        own: dict[str, float] = {}
        for unit, row in contention.items():
            for other, factor in row.items():
                if unit in self.parts and other not in self.parts:
                    own[other] = max(own.get(other, 1.0), factor)
                if other in self.parts and unit not in self.parts:
                    rows[unit][WHOLE] = rows[unit].get(WHOLE, 1.0) * factor
        return {**rows, WHOLE: own}

    def handing_over(self, links: Mapping[tuple[str, str], Link]) -> dict[tuple[str, str], Link]:
        """Links with the team's: the first core of its first cluster takes and hands over for it."""
        first = next(iter(self.parts))
        own = {
            tuple(WHOLE if end == first else end for end in ends): link
            for ends, link in links.items()
            if [end for end in ends if end in self.parts] == [first]
        }
        return {**links, **own}

    def power_w(self, mean_power_w: Mapping[str, float], idle_w: float | None) -> dict[str, float]:
        """Mean powers with the team's: what each cluster draws more than the idle board, added up."""
        if idle_w is None or any(name not in mean_power_w for name in self.parts):
            return dict(mean_power_w)
        return {**mean_power_w, WHOLE: idle_w + sum(mean_power_w[name] - idle_w for name in self.parts)}


def least_ms(pieces: np.ndarray, piece_ms: np.ndarray, cores: np.ndarray) -> np.ndarray:
    """The first moment by which cores can be done with all pieces of a step, each with whole ones.

    pieces    (steps,)
    piece_ms  (kinds of core, steps): what a core of each kind takes for one
    cores     (kinds of core,): how many there are
    """
    free = (piece_ms <= 0.0).any(axis=0)
    piece_ms = np.where(free, 1.0, piece_ms)
    found = pieces / (cores[:, None] / piece_ms).sum(axis=0)  # no sooner: where pieces may be cut at will
    while True:
        done = np.floor(found / piece_ms * (1 + ROUNDING))
        short = cores @ done < pieces
        if not short.any():
            return np.where(free, 0.0, found)
        found = np.where(short, ((done + 1) * piece_ms).min(axis=0), found)
