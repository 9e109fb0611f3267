"""The emulation of a board that is not at hand: the real runtime runs here, at the pace of the modelled board.

Threads, rings, hand-overs and results are real; a stage ends no earlier than the model says. So the schedule of six
cores and a GPU runs in real time on two cores, as long as these compute faster than the board does.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from ...errors import ArgumentError
from ...graph.ir import Graph
from ..planning.plan import Plan
from ..planning.predict import StageSpan, check_runs, spans
from ..planning.schedule_plan import RealUnit
from ..planning.stage_costs import StageCosts
from .board import Board

WAYS = 4  # to run a frame, or a number of them (stage.h)


class Emulator:
    """How long each stage of a network's plans takes on a modelled board, times ``time_scale``.

    Raises ArgumentError unless time_scale is positive and finite.
    """

    def __init__(self, graph: Graph, board: Board, time_scale: float):
        if not 0 < time_scale < float("inf"):
            raise ArgumentError(f"time_scale: expected a number above 0, got {time_scale!r}")
        self.profile = board.model.profile(graph, board.model.units(graph))
        self.time_scale = time_scale
        self._graph, self._model = graph, board.model
        self._heat: dict[str, float] = {}

    def throttle(self, component: str, factor: float) -> None:
        """From now on the component takes ``factor`` times as long, like one that is too hot; 1 is as modelled."""
        if not (isfinite(factor) and factor > 0):
            raise ArgumentError(f"factor: expected a number above 0, got {factor!r}")
        self._heat[component] = factor

    def heat_as(self, other: Emulator) -> None:
        """Components are throttled as in another emulation of this board."""
        self._heat = dict(other._heat)

    def paces_ms(self, plan: Plan, *, alone: bool = False, beside: Iterable[RealUnit] = ()) -> list[list[list[float]]]:
        """Per lane and stage, the time it takes each way to run a frame (``runtime.NativeLane.set_pace``).

        alone: no two units of the plan compute at once. beside: units of other networks (``SchedulePlan.beside``).
        Raises ArgumentError for a stage that the board cannot run.
        """
        profile = self.profile
        if any(
            unit not in profile.units for unit in plan.units
        ):  # those that take frames together are made when asked for
            profile = self._model.profile(self._graph, [*profile.units, *plan.units])
        costs = StageCosts.of(profile, plan, alone=alone, beside=beside)
        check_runs(profile, plan)
        paces = []
        for lane, stages in zip(plan.lanes, spans(profile, plan), strict=True):
            factors = [self.time_scale * self._heat.get(stage.unit.whole, 1.0) for stage in lane]
            paces.append(
                [
                    [factor * ms for ms in _ways_ms(costs, span, stage.unit.batch)]
                    for stage, span, factor in zip(lane, stages, factors, strict=True)
                ]
            )
        if not all(isfinite(ms) for row in paces for ways in row for ms in ways):
            raise ArgumentError(f"plan {plan}: expected stages that {self.profile.about.get('board')} can run")
        return paces


def _ways_ms(costs: StageCosts, span: StageSpan, batch: int) -> list[float]:
    """What a stage takes each way to run a frame, or frames together."""
    if batch > 1:
        return [span.together_ms(costs, min(frames, batch)) for frames in range(1, WAYS + 1)]
    return [span.ms(costs, kept, taken) for kept in (1.0, 0.0) for taken in (0.0, 1.0)]
