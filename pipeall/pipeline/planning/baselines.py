"""The paper's contest on one network: every component alone, all of them independently, and the best pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from ...errors import ArgumentError
from ...graph.ir import Graph
from .plan import Plan
from .plan_table import PredictedPlan
from .predict import predict
from .profile import Profile
from .search import search
from .units import traits_of


@dataclass(frozen=True, slots=True)
class Baselines:
    """The plans that run against each other, by what a profile says.

    single      the whole network on each component that can run it (Peak is the fastest), the fastest first; also on
                "cpu", all cores at once, where it is one of the components
    parallel    the whole network on all of those but "cpu" at once, independently; None where there are not two of them
    pipelines   the best plans for throughput, best first; they may leave components out, or all but one
    """

    single: tuple[Plan, ...]
    parallel: Plan | None
    pipelines: tuple[PredictedPlan, ...]


def baselines(
    graph: Graph, profile: Profile, components: Sequence[str], top: int = 1, floating: bool = False
) -> Baselines:
    """The baselines of these components; ``top`` is the number of pipelines, ``floating`` as for ``search``.

    Raises ArgumentError where the profile lacks a component, none can run the whole network, or no plan is possible.
    """
    several = [name for name in components if not traits_of(name).all]
    result = search(graph, profile, units=several or components, top=top, floating=floating)
    able = [name for name in components if all(map(isfinite, profile.units[name].ms))]
    if not able:
        raise ArgumentError(f"{graph.name}: expected a component that can run all of it, got {', '.join(components)}")
    single = sorted(map(Plan.single, able), key=lambda plan: predict(profile, plan).period_ms)
    able = [name for name in able if name in several]
    return Baselines(tuple(single), Plan.parallel(able) if len(able) > 1 else None, result.ranked)
