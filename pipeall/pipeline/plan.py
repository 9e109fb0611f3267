"""Which component runs which groups: the paper's pipelines, one component (Peak), all independently (Parallel)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..graph.ops import macs
from .board import component_name

_GRAMMAR = "expected ORDER[:CUTS] such as G-B-L:3,5, one component such as big, or B+L+G for Parallel"


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage: a component and its groups [first, last); ``last`` None means up to the network's end."""

    component: str
    first: int = 0
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Lanes of stages. A pipeline is one lane; Peak is one lane of one stage; Parallel is a lane per component."""

    lanes: tuple[tuple[StagePlan, ...], ...]

    @classmethod
    def pipeline(cls, order: Sequence[str], cuts: Sequence[int]) -> Plan:
        """Stages in ``order`` (distinct components); ``cuts`` are cumulative group counts, one fewer than stages.

        Raises ArgumentError where the numbers do not fit together.
        """
        names = [component_name(word) for word in order]
        if not names or not all(names):
            raise ArgumentError(f"order {'-'.join(order)!r}: {_GRAMMAR}")
        if len(set(names)) != len(names):
            raise ArgumentError(f"order {'-'.join(names)}: expected distinct components, got one twice")
        if len(cuts) != len(names) - 1:
            raise ArgumentError(
                f"cuts {list(cuts)}: expected {len(names) - 1} for {len(names)} stages, got {len(cuts)}"
            )
        borders = [0, *cuts]
        if any(second <= first for first, second in zip(borders, borders[1:], strict=False)):
            raise ArgumentError(f"cuts {list(cuts)}: expected increasing group counts from 1")
        ends = [*cuts, None]
        return cls((tuple(StagePlan(*stage) for stage in zip(names, borders, ends, strict=True)),))

    @classmethod
    def single(cls, component: str) -> Plan:
        """The whole network on one component (the paper's Peak, when it is the fastest)."""
        return cls.pipeline([component], [])

    @classmethod
    def parallel(cls, components: Iterable[str]) -> Plan:
        """The whole network on each component, independently, fed from one source (the paper's Parallel)."""
        names = [component_name(word) for word in components]
        if not names or len(set(names)) != len(names):
            raise ArgumentError(f"parallel {names}: expected one or more distinct components")
        return cls(tuple((StagePlan(name),) for name in names))

    @classmethod
    def parse(cls, text: str) -> Plan:
        """``G-B-L:3,5`` (order, cumulative group counts), ``big``, or ``B+L+G``; letters or names."""
        order, _, cuts = text.partition(":")
        if "+" in order and not cuts:
            return cls.parallel(order.split("+"))
        try:
            numbers = [int(word) for word in cuts.split(",")] if cuts.strip() else []
        except ValueError:
            raise ArgumentError(f"plan {text!r}: {_GRAMMAR}") from None
        return cls.pipeline(order.split("-"), numbers)

    @property
    def components(self) -> tuple[str, ...]:
        return tuple(stage.component for lane in self.lanes for stage in lane)

    def __str__(self) -> str:
        if len(self.lanes) > 1:
            return "+".join(self.components)
        cuts = ",".join(str(stage.last) for stage in self.lanes[0][:-1])
        return "-".join(self.components) + (f":{cuts}" if cuts else "")


def balanced_cuts(graph: Graph, speeds: Sequence[float]) -> list[int]:
    """The cuts whose slowest stage is fastest, where stage i computes MACs at ``speeds[i]`` (any unit).

    Raises ArgumentError where the network has fewer groups than there are stages.
    """
    if len(speeds) > len(graph.groups):
        raise ArgumentError(
            f"{graph.name} has {len(graph.groups)} groups, expected at least {len(speeds)}, one a stage"
        )
    done = [0, *accumulate(sum(macs(node, graph) for node in group.nodes) for group in graph.groups)]
    # best[n]: time of the slowest stage and the cuts, with the first n groups on the stages looked at so far
    best: list[tuple[float, tuple[int, ...]]] = [(total / speeds[0], ()) for total in done]
    best[0] = (inf, ())
    for speed in speeds[1:]:
        best = [(inf, ())] + [
            min((max(best[cut][0], (total - done[cut]) / speed), (*best[cut][1], cut)) for cut in range(n))
            for n, total in enumerate(done[1:], 1)
        ]
    return list(best[-1][1])
