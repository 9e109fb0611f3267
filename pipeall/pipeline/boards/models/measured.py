"""A network as somebody timed it on a board, and what of it a board model takes over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import isfinite

import numpy as np

from ....errors import ArgumentError
from ....files import JsonReader
from ....graph.ir import Graph
from ....graph.ops import macs
from ...planning.profile import Profile, UnitTimes, crossing_bytes
from . import regression


@dataclass(frozen=True, slots=True)
class Measured:
    """A network as it was timed on the board.

    profile  its times; groups and crossing_bytes are those that were timed
    spans    how many of the graph's groups each of them has
    macs     of the whole network: with crossing_bytes, what it is recognized by
    fitted   the regression was fitted on it; False where its times are not wholly measurements
    """

    profile: Profile
    spans: tuple[int, ...]
    macs: int
    fitted: bool = True

    @classmethod
    def of(cls, graph: Graph, profile: Profile, spans: Sequence[int] | None = None, fitted: bool = True) -> Measured:
        """A profile of the graph; with ``spans``, one of coarser groups (see ``borders``).

        Links and idle power are the board's and left out; so is contention, where groups are coarser. Raises
        ArgumentError where it does not fit.
        """
        coarser = spans is not None
        spans = tuple(spans or [1] * len(graph.groups))
        if sum(spans) != len(graph.groups) or len(spans) != len(profile.groups):
            raise ArgumentError(
                f"profile of {profile.network} with {len(profile.groups)} groups: "
                f"expected one of {graph.name}, spans {spans} of {len(graph.groups)} groups"
            )
        own = replace(profile, links={}, idle_w=None)
        own = replace(own, contention={}, same_pipeline={}) if coarser else own
        found = cls(own, spans, _macs(graph), fitted)
        if not found.fits(graph):
            raise ArgumentError(f"profile of {profile.network}: expected the tensor sizes of {graph.name} at its cuts")
        return found

    def fits(self, graph: Graph) -> bool:
        """Whether the graph is this network: the same number of groups, tensor sizes at their borders, and MACs."""
        return (
            len(graph.groups) == sum(self.spans)
            and borders(graph, self.spans) == self.profile.crossing_bytes
            and _macs(graph) == self.macs
        )

    def sample(self, graph: Graph) -> regression.Sample:
        """The rows of the regression."""
        rows = np.add.reduceat(regression.features(graph), [0, *accumulate(self.spans[:-1])], axis=0)
        return regression.Sample(rows, {unit: times.ms for unit, times in self.profile.units.items()})

    def times(self, unit: str, predicted: np.ndarray) -> UnitTimes:
        """The unit's times, divided among our groups of a measured one as ``predicted`` is."""
        known, spans = self.profile.units[unit], self.spans
        shares = np.concatenate(
            [
                part / part.sum() if part.sum() > 0 else np.full(len(part), 1 / len(part))
                for part in np.split(predicted, list(accumulate(spans[:-1])))
            ]
        )
        whole = np.repeat(np.arange(len(spans)), spans)
        refused = np.isinf(known.ms)
        ms = np.where(refused[whole], np.inf, np.where(refused, 0.0, known.ms)[whole] * shares)
        return UnitTimes(
            tuple(ms.tolist()),
            tuple((np.array(known.half_iqr_ms)[whole] * shares).tolist()),
            None if known.power_w is None else tuple(np.array(known.power_w)[whole].tolist()),
            {index + 1: known.refused[part + 1] for index, part in enumerate(whole) if part + 1 in known.refused},
        )


def borders(graph: Graph, spans: Sequence[int]) -> tuple[int, ...]:
    """Bytes that enter the network, cross every cut between spans of groups, and leave it."""
    sizes = crossing_bytes(graph)
    return (sizes[0], *(sizes[cut] for cut in accumulate(spans)))


def _macs(graph: Graph) -> int:
    return sum(macs(node, graph) for node in graph.nodes)


def measured_from(read: JsonReader) -> Measured:
    profile = Profile.from_dict(read.inside("profile").content, f"{read.where}: profile")
    spans = read.sizes("spans", len(profile.groups), low=1)
    if profile.contention and sum(spans) > len(spans):
        raise read.fail("profile", "no contention of groups that are coarser than the network's")
    if not isinstance(read.content.get("fitted"), bool):
        raise read.fail("fitted", "true or false")
    return Measured(profile, spans, int(read.number("macs")), read.content["fitted"])


def mean_power(profiles: Sequence[Profile], units: Iterable[str]) -> dict[str, float]:
    """unit -> mean over the networks' running time of what the board drew, where all of them know."""
    means = {}
    for unit in units:
        times = [profile.units[unit] for profile in profiles]
        if all(row.power_w is not None for row in times):
            pairs = [(ms, w) for row in times for ms, w in zip(row.ms, row.power_w, strict=True) if isfinite(ms)]
            means[unit] = float(np.average([w for _, w in pairs], weights=[ms for ms, _ in pairs]))
    return means


def median_contention(profiles: Sequence[Profile]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, list[float]]] = {}
    for profile in profiles:
        for unit, row in profile.contention.items():
            for other, factors in row.items():
                found.setdefault(unit, {}).setdefault(other, []).extend(factors)
    return {unit: {other: float(np.median(f)) for other, f in row.items()} for unit, row in found.items()}
