"""Why a plan is as fast as it is: where its stages' time goes, what other cuts would give, what is out of reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from ...errors import ArgumentError
from .candidates import PredictedPlan
from .plan import Plan
from .predict import Prediction, StageCosts, balanced, predict, stage_shares, works
from .profile import Profile


@dataclass(frozen=True, slots=True)
class StageBreakdown:
    """Where the time of one stage goes, groups [first, last): the four parts add up to ``total_ms``.

    ``floated``: the share of the frames for which it also computes the groups that float behind it.
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


@dataclass(frozen=True, slots=True)
class Explanation:
    """What bounds a pipeline; infinity where a unit cannot run a group.

    bottleneck      index of the slowest stage, from 0
    balance         mean stage / slowest stage: 1 is perfect
    moves           one cut moved by one group: the plan and its prediction, those of the first cut first
    next_best       other plans and theirs, best first
    ideal_ms        period of the same cuts without contention and hand-over: the plan's own balance bound, its slowest
                    stage in times that each unit takes alone
    rates_ms        period if the units' rates on the whole network, each alone, added up. A pipeline gets there only
                    without contention, hand-over and whole groups, unless units excel at different groups
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
        stages = [
            {
                "unit": stage.unit,
                "groups": [stage.first + 1, stage.last],
                "total_ms": stage.total_ms,
                "alone_ms": stage.alone_ms,
                "contention_ms": stage.contention_ms,
                "receive_ms": stage.receive_ms,
                "send_ms": stage.send_ms,
                "floated": stage.floated,
            }
            for stage in self.stages
        ]
        return {
            "plan": str(self.plan),
            "period_ms": self.prediction.period_ms,
            "fps": self.prediction.fps,
            "latency_ms": self.prediction.latency_ms,
            "energy_mj": self.prediction.energy_mj,
            "stages": stages,
            "bottleneck": self.bottleneck,
            "balance": self.balance,
            "ideal_ms": self.ideal_ms,
            "rates_ms": _finite(self.rates_ms),
            "moves": [_choice_to_dict(choice) for choice in self.moves],
            "next_best": [_choice_to_dict(choice) for choice in self.next_best],
        }

    def lines(self) -> list[str]:
        """The same as text for people."""
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
            *(f"a cut moved (period): {self._choice(choice)}" for choice in self.moves),
            *(f"next best (period): {self._choice(choice)}" for choice in self.next_best),
        ]

    def _choice(self, choice: PredictedPlan) -> str:
        prediction, text = choice.prediction, f"{choice.plan}: {self._compared(choice.prediction.period_ms)}"
        if isfinite(prediction.latency_ms):
            text += f", latency {prediction.latency_ms:.2f} ms"
        return text if prediction.energy_mj is None else f"{text}, {prediction.energy_mj:.0f} mJ a frame"

    def _compared(self, period_ms: float) -> str:
        if not isfinite(period_ms):
            return "a unit cannot run one of its groups"
        return f"{period_ms:.2f} ms ({period_ms / self.prediction.period_ms - 1:+.1%})"


def explain(profile: Profile, plan: Plan, others: Iterable[PredictedPlan] = ()) -> Explanation:
    """Where the plan's period comes from.

    others: plans to compare with, such as ``Found.ranked``; the plan itself is left out of them.

    Raises ArgumentError where the plan does not fit the profile or cannot run, and for lanes that run independently.
    """
    if len(plan.lanes) != 1:
        raise ArgumentError(f"plan {plan}: expected a pipeline; independent lanes have no common bottleneck")
    prediction = predict(profile, plan)
    if prediction.period_ms == inf:
        raise ArgumentError(
            f"plan {plan}: expected units that can run their groups and hand them on, as the profile knows them"
        )
    stages = _shares(profile, plan)
    totals = prediction.stage_ms[0]
    return Explanation(
        plan=plan,
        prediction=prediction,
        stages=stages,
        bottleneck=totals.index(max(totals)),
        balance=sum(totals) / len(totals) / max(totals),
        moves=tuple(PredictedPlan(moved, predict(profile, moved)) for moved in _moved(plan, len(profile.groups))),
        next_best=tuple(choice for choice in others if choice.plan != plan),
        ideal_ms=max(stage.alone_ms for stage in stages),
        rates_ms=1.0 / rates if (rates := sum(1.0 / sum(profile.units[unit].ms) for unit in plan.units)) else inf,
    )


def _shares(profile: Profile, plan: Plan) -> tuple[StageBreakdown, ...]:
    costs = StageCosts.of(profile, plan)
    (lane,) = works(profile, plan)
    shares = []
    for work, kept, taken in stage_shares(lane, balanced(costs, lane)):
        unit = plan.units[work.position]
        alone = work.total(np.array(profile.units[unit].ms), kept, taken)
        contention = work.total(costs.loaded_ms[work.position], kept, taken) - alone
        received, sent = work.handover_ms(costs, kept, taken)
        shares.append(StageBreakdown(unit, work.groups[0], work.groups[2], alone, contention, received, sent, taken))
    return tuple(shares)


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


def _choice_to_dict(choice: PredictedPlan) -> dict[str, Any]:
    return {
        "plan": str(choice.plan),
        "period_ms": _finite(choice.prediction.period_ms),
        "latency_ms": _finite(choice.prediction.latency_ms),
        "energy_mj": choice.prediction.energy_mj,
    }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
