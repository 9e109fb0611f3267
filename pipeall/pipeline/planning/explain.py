"""Why a plan is as fast as it is: where its stages' time goes, what other cuts would give, what is out of reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from ...errors import ArgumentError
from .plan import Plan
from .plan_table import PredictedPlan
from .predict import Prediction, StageCosts, balanced, finite, predict, spans, stage_shares
from .profile import Profile


@dataclass(frozen=True, slots=True)
class StageBreakdown:
    """Where the time of one stage goes, groups [first, last); ``total_ms`` is the sum of the four times.

    floated: the share of the frames for which it also computes the groups that float behind it.
    """

    unit: str
    first: int
    last: int
    alone_ms: float
    contention_ms: float
    receive_ms: float
    send_ms: float
    floated: float = 0.0

    @property
    def total_ms(self) -> float:
        return self.alone_ms + self.contention_ms + self.receive_ms + self.send_ms

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; groups count from 1, the last one included."""
        return {
            "unit": self.unit,
            "groups": [self.first + 1, self.last],
            "total_ms": self.total_ms,
            "alone_ms": self.alone_ms,
            "contention_ms": self.contention_ms,
            "receive_ms": self.receive_ms,
            "send_ms": self.send_ms,
            "floated": self.floated,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """What bounds a pipeline; infinity where a unit cannot run a group.

    bottleneck      index of the slowest stage, from 0
    balance         mean stage / slowest stage: 1 is perfect
    moves           plans with one cut moved by one group, those of the first cut first
    next_best       other plans, best first
    ideal_ms        period of the plan without contention and hand-over: its slowest stage when each unit runs alone
    rates_ms        period if the rates of the units added up, each alone on the whole network. A pipeline reaches it
                    only without contention, hand-over and whole groups, unless units excel at different groups
    """

    plan: Plan
    prediction: Prediction
    stages: tuple[StageBreakdown, ...]
    bottleneck: int
    balance: float
    moves: tuple[PredictedPlan, ...]
    next_best: tuple[PredictedPlan, ...]
    ideal_ms: float
    rates_ms: float

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; null stands for infinity."""
        return {
            "plan": str(self.plan),
            **self.prediction.to_dict(),
            "stages": [stage.to_dict() for stage in self.stages],
            "bottleneck": self.bottleneck,
            "balance": self.balance,
            "ideal_ms": self.ideal_ms,
            "rates_ms": finite(self.rates_ms),
            "moves": [other.to_dict() for other in self.moves],
            "next_best": [other.to_dict() for other in self.next_best],
        }

    def lines(self) -> list[str]:
        """The explanation as lines of text for people."""
        period = self.prediction.period_ms
        slowest = self.stages[self.bottleneck]
        return [
            f"{self.plan}: {self.prediction.fps:.2f} FPS, period {period:.2f} ms, "
            f"latency {self.prediction.latency_ms:.2f} ms"
            + (f", {self.prediction.energy_mj:.0f} mJ a frame" if self.prediction.energy_mj is not None else ""),
            f"bottleneck: stage {self.bottleneck + 1} on {slowest.unit}; "
            f"balance {self.balance:.0%} (mean / slowest stage)",
            *(
                f"  {stage.unit:10} groups {stage.first + 1:>3}-{stage.last:<3} {stage.total_ms:9.2f} ms = "
                f"{stage.alone_ms:.2f} alone + {stage.contention_ms:.2f} contention + "
                f"{stage.receive_ms:.2f} receiving + {stage.send_ms:.2f} sending"
                + (f"; floating groups for {stage.floated:.0%} of the frames" if stage.floated else "")
                for stage in self.stages
            ),
            f"without contention and hand-over: {self._compared(self.ideal_ms)}",
            f"if the units' rates alone added up: {self._compared(self.rates_ms)}",
            *(f"a cut moved (period): {self._line(other)}" for other in self.moves),
            *(f"next best (period): {self._line(other)}" for other in self.next_best),
        ]

    def _line(self, other: PredictedPlan) -> str:
        prediction = other.prediction
        text = f"{other.plan}: {self._compared(prediction.period_ms)}"
        if isfinite(prediction.latency_ms):
            text += f", latency {prediction.latency_ms:.2f} ms"
        return text if prediction.energy_mj is None else f"{text}, {prediction.energy_mj:.0f} mJ a frame"

    def _compared(self, period_ms: float) -> str:
        if not isfinite(period_ms):
            return "a unit cannot run one of its groups"
        return f"{period_ms:.2f} ms ({period_ms / self.prediction.period_ms - 1:+.1%})"


def explain(profile: Profile, plan: Plan, others: Iterable[PredictedPlan] = ()) -> Explanation:
    """Why a plan takes as long as it does.

    Parameters
    ----------
    profile
        Of the network.
    plan
        A pipeline.
    others
        Plans to compare with, such as ``SearchResult.ranked``; the plan itself is left out of them.

    Returns
    -------
    Explanation
        The parts of each stage's time, the bottleneck, and what other cuts would give.

    Raises
    ------
    ArgumentError
        Where the plan does not fit the profile or cannot run, and for lanes that run independently.
    """
    if len(plan.lanes) != 1:
        raise ArgumentError(f"plan {plan}: expected a pipeline; independent lanes have no common bottleneck")
    prediction = predict(profile, plan)
    if prediction.period_ms == inf:
        raise ArgumentError(
            f"plan {plan}: expected units that can run their groups and hand them on, as the profile knows them"
        )
    stages = _breakdowns(profile, plan)
    totals = prediction.stage_ms[0]
    rates = sum(1.0 / sum(profile.units[unit].ms) for unit in plan.units)
    moved = _moved(plan, len(profile.groups))
    return Explanation(
        plan=plan,
        prediction=prediction,
        stages=stages,
        bottleneck=totals.index(max(totals)),
        balance=sum(totals) / len(totals) / max(totals),
        moves=tuple(PredictedPlan(one, predict(profile, one)) for one in moved),
        next_best=tuple(other for other in others if other.plan != plan),
        ideal_ms=max(stage.alone_ms for stage in stages),
        rates_ms=1.0 / rates if rates else inf,
    )


def _breakdowns(profile: Profile, plan: Plan) -> tuple[StageBreakdown, ...]:
    costs = StageCosts.of(profile, plan)
    (lane,) = spans(profile, plan)
    found = []
    for span, before, behind in stage_shares(lane, balanced(costs, lane)):
        unit = plan.units[span.position]
        alone = span.total(np.array(profile.units[unit].ms), before, behind)
        contention = span.total(costs.loaded_ms[span.position], before, behind) - alone
        received, sent = span.handover_ms(costs, before, behind)
        found.append(StageBreakdown(unit, span.groups[0], span.groups[2], alone, contention, received, sent, behind))
    return tuple(found)


def _moved(plan: Plan, groups: int) -> list[Plan]:
    """The plan with each of its cuts one group earlier or later, where no stage becomes empty."""
    cuts = [(stage.last, stage.last + stage.floating) for stage in plan.lanes[0][:-1]]
    borders = [(0, 0), *cuts, (groups, groups)]
    return [
        Plan.pipeline(plan.units, [*cuts[:i], (early + step, late + step), *cuts[i + 1 :]])
        for i, (early, late) in enumerate(cuts)
        for step in (-1, 1)
        if borders[i][1] < early + step and late + step < borders[i + 2][0]
    ]
