"""A component of which only times of whole networks were published, such as an NPU.

Such a time is divided among the groups of the network as another component's prices have it. Which network a graph is
follows from its multiply-adds and the size of its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ....files import JsonReader
from ....graph.ir import Graph
from ....graph.ops import macs
from ...planning.units import Unit
from .modelled import Modelled
from .pricing import Pricing

NEAR = 0.02  # of the multiply-adds: exports of one network differ by less


class WholeNetwork(NamedTuple):
    """A network that was timed: its name, 1e9 multiply-adds, height and width of its input, and ms of a frame."""

    name: str
    gmacs: float
    size: tuple[int, int]
    ms: float

    def is_of(self, graph: Graph) -> bool:
        shapes = [tensor.shape for tensor in graph.inputs]
        sizes = {tuple(sorted(shape)[-2:]) for shape in shapes if len(shape) == 4}
        gmacs = sum(macs(node, graph) for node in graph.nodes) / 1e9
        return tuple(sorted(self.size)) in sizes and abs(gmacs / self.gmacs - 1) <= NEAR


@dataclass(frozen=True, slots=True)
class Published:
    """What was published of a component: ``part`` is what it is, ``divided`` the unit whose prices divide a time."""

    part: Modelled
    networks: tuple[WholeNetwork, ...]
    divided: Unit

    def known(self, graph: Graph) -> WholeNetwork | None:
        """The one that a graph is; None where there is none."""
        return next((network for network in self.networks if network.is_of(graph)), None)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        rows = [
            {"network": name, "gmacs": gmacs, "size": list(size), "ms": ms} for name, gmacs, size, ms in self.networks
        ]
        return {**self.part.details(), "divided_as": str(self.divided), "networks": rows}

    @classmethod
    def from_file(cls, read: JsonReader) -> Published:
        """The inverse. Raises ArgumentError naming the entry that is wrong."""
        rows = tuple(
            WholeNetwork(
                row.word("network"), row.number("gmacs", 1e-6), row.sizes("size", 2, 1), row.number("ms", 1e-6)
            )
            for row in read.rows("networks")
        )
        return cls(Modelled.from_file(read), rows, Unit.parse(read.word("divided_as")))


@dataclass(frozen=True, slots=True)
class WholeTimes:
    """``Pricing`` of a component by the published times of whole networks; other networks have none."""

    source: ClassVar[str] = "whole network published"
    published: Published
    shares: Pricing

    @property
    def precisions(self) -> list[str]:
        return []

    def factor(self, precision: str) -> float | None:
        return None

    def default_precision(self, graph: Graph) -> str:
        return ""

    def work_key(self, precision: str) -> tuple[str, int]:
        return self.source, id(self)

    def work(self, graph: Graph, precision: str) -> tuple[float, np.ndarray]:
        """The time of the whole, and the share of each group."""
        wanted = self.published.divided.precision
        parts = self.shares.group_ms(self.shares.work(graph, wanted), wanted)
        known = self.published.known(graph)
        return (np.inf if known is None else known.ms), parts / parts.sum()

    def group_ms(self, work: tuple[float, np.ndarray], precision: str = "", frames: int = 1) -> np.ndarray:
        ms, shares = work
        return ms * shares


def whole_times(published: Mapping[str, Published], pricing: Mapping[Unit, Pricing]) -> dict[Unit, Pricing]:
    """The pricing of each component."""
    return {
        Unit.parse(name): WholeTimes(one, pricing[Unit.parse(one.divided.component)]) for name, one in published.items()
    }
