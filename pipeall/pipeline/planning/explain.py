"""Why a plan is as fast as it is: where its stages' time goes, what other cuts would give, what is out of reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from math import inf, isfinite
from typing import Any

import numpy as np

from ...errors import ArgumentError
from .bound import bound, worth_of
from .forks import forks
from .plan import Plan
from .plan_table import PredictedPlan
from .predict import Prediction, StageSpan, balanced, finite, predict, spans, stage_shares, unit_times
from .profile import Profile
from .stage_costs import StageCosts


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

    def __str__(self) -> str:
        return (
            f"{self.unit:10} groups {self.first + 1:>3}-{self.last:<3} {self.total_ms:9.2f} ms = "
            f"{self.alone_ms:.2f} alone + {self.contention_ms:.2f} contention + "
            f"{self.receive_ms:.2f} receiving + {self.send_ms:.2f} sending"
            + (f"; floating groups for {self.floated:.0%} of the frames" if self.floated else "")
        )

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
    """What bounds a plan; infinity where a unit cannot run a group.

    bottleneck      index of the longest stage of the unit that its lane waits for, from 0, in the slowest lane
    balance         mean over the units of a lane / the one with most to do, of the slowest lane: 1 is perfect
    moves           for a pipeline, plans with one cut moved by one group, those of the first cut first
    next_best       other plans, best first
    ideal_ms        period of the plan without contention and hand-over: each unit runs alone
    rates_ms        period if the rates of the units added up, each alone on the whole network
    loaded_rates_ms the same with all of them running, as with a copy of the network on each
    bound_ms        what no plan of these units takes less than, however groups are shared among them
    good_at         unit -> groups [first, last) that it computes at the bound if handing over costs nothing: compared
                    with the other units it is good at these
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
    loaded_rates_ms: float
    bound_ms: float
    good_at: Mapping[str, tuple[tuple[int, int], ...]]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; null stands for infinity. Groups count from 1, the last one included."""
        return {
            "plan": str(self.plan),
            **self.prediction.to_dict(),
            "stages": [stage.to_dict() for stage in self.stages],
            "bottleneck": self.bottleneck,
            "balance": self.balance,
            "ideal_ms": self.ideal_ms,
            "rates_ms": finite(self.rates_ms),
            "loaded_rates_ms": finite(self.loaded_rates_ms),
            "bound_ms": self.bound_ms,
            "good_at": {unit: [[first + 1, last] for first, last in groups] for unit, groups in self.good_at.items()},
            "moves": [other.to_dict() for other in self.moves],
            "next_best": [other.to_dict() for other in self.next_best],
        }

    def lines(self) -> list[str]:
        """The explanation as lines of text for people."""
        period = self.prediction.period_ms
        slowest = self.stages[self.bottleneck]
        return [
            f"{self.plan}: {self.prediction.fps:.2f} FPS, period {period:.2f} ms, "
            f"latency {self.prediction.latency_ms:.2f} ms, alone {self.prediction.alone_ms:.2f} ms"
            + (f", {self.prediction.energy_mj:.0f} mJ a frame" if self.prediction.energy_mj is not None else ""),
            f"bottleneck: stage {self.bottleneck + 1} on {slowest.unit}; "
            f"balance {self.balance:.0%} (mean / slowest unit)",
            *(
                f"  {line}" + (f"; {count} stages alike" if count > 1 else "")
                for line, count in ((line, len(list(alike))) for line, alike in groupby(map(str, self.stages)))
            ),
            f"without contention and hand-over: {self._compared(self.ideal_ms)}",
            f"if the units' rates alone added up: {self._compared(self.rates_ms)}",
            f"if their rates beside each other did: {self._compared(self.loaded_rates_ms)}",
            f"bound of all plans of these units: {self._compared(self.bound_ms)}; the plan reaches "
            f"{self.bound_ms / period:.0%} of its throughput",
            *([f"good at, compared: {self._good_at()}"] if len(self.good_at) > 1 else []),
            *(f"a cut moved (period): {self._line(other)}" for other in self.moves),
            *(f"next best (period): {self._line(other)}" for other in self.next_best),
        ]

    def _good_at(self) -> str:
        """The units and their groups in words; a unit with none is left out."""
        parts = []
        for unit, groups in self.good_at.items():
            spans = [str(last) if last == first + 1 else f"{first + 1}-{last}" for first, last in groups]
            parts += [f"{unit} {', '.join(spans)}"] if spans else []
        return "; ".join(parts)

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
        Any.
    others
        Plans to compare with, such as ``SearchResult.ranked``; the plan itself is left out of them.

    Returns
    -------
    Explanation
        The parts of each stage's time, the bottleneck, and what other cuts would give.

    Raises
    ------
    ArgumentError
        Where the plan does not fit the profile or cannot run.
    """
    given, plan, profile = plan, replace(plan, clocks=()), profile.at_clocks(plan.clocks)
    prediction = predict(profile, plan)
    if prediction.period_ms == inf:
        raise ArgumentError(
            f"plan {plan}: expected units that can run their groups and hand them on, as the profile knows them"
        )
    costs, lanes = StageCosts.of(profile, plan), spans(profile, plan)
    stages = [_breakdowns(costs, lane) for lane in lanes]
    alone, total = (
        [
            unit_times(costs, lane, [getattr(stage, ms) for stage in row])
            for lane, row in zip(lanes, stages, strict=True)
        ]
        for ms in ("alone_ms", "total_ms")
    )
    slowest = max(total, key=lambda times: max(times.values()))
    busiest = max(slowest, key=slowest.__getitem__)
    stages = tuple(chain(*stages))
    units = [plan.units[plan.unit_of.index(number)] for number in dict.fromkeys(plan.unit_of)]
    row = len(plan.lanes) == 1 and not forks(plan.lanes[0])
    moved = _moved(plan, len(profile.groups)) if row else []  # branches end where they end
    return Explanation(
        plan=given,
        prediction=prediction,
        stages=stages,
        bottleneck=max(
            (index for index, number in enumerate(plan.unit_of) if number == busiest),
            key=lambda index: stages[index].total_ms,
        ),
        balance=sum(slowest.values()) / len(slowest) / slowest[busiest],
        moves=tuple(PredictedPlan(one, predict(profile, one)) for one in moved),
        next_best=tuple(other for other in others if other.plan != given),
        ideal_ms=_added([max(times.values()) for times in alone]),
        rates_ms=_added([sum(profile.units[unit].ms) for unit in units]),
        loaded_rates_ms=_added([float(ms.sum()) for ms in StageCosts(profile, units, range(len(units))).loaded_ms]),
        bound_ms=bound(profile, units).period_ms,
        good_at=_good_at(profile, units),
    )


def _added(periods: Iterable[float]) -> float:
    """The period of what runs independently at these periods."""
    rate = sum(1.0 / ms if ms else inf for ms in periods)
    return 1.0 / rate if rate else inf


def _good_at(profile: Profile, units: Sequence[str]) -> dict[str, tuple[tuple[int, int], ...]]:
    """Unit -> spans of the groups that are worth least on it, at what its time is worth at the bound."""
    different = list(dict.fromkeys(units))
    prices = np.array(bound(profile, units, free=True).prices)[:, None]
    loaded = StageCosts(profile, units).loaded_ms
    best = worth_of(prices, np.array([loaded[units.index(unit)] for unit in different])).argmin(axis=0)
    found: dict[str, list[tuple[int, int]]] = {unit: [] for unit in different}
    for unit, groups in groupby(range(len(best)), key=lambda group: different[best[group]]):
        first, *others = groups
        found[unit].append((first, first + 1 + len(others)))
    return {unit: tuple(spans) for unit, spans in found.items()}


def _breakdowns(costs: StageCosts, lane: Sequence[StageSpan]) -> list[StageBreakdown]:
    found = []
    for span, before, behind in stage_shares(lane, balanced(costs, lane)):
        unit = costs.units[span.position]
        alone = span.total(np.array(costs.profile.units[unit].ms), before, behind)
        contention = span.total(costs.loaded_ms[span.position], before, behind) - alone
        received, sent = span.handover_ms(costs, before, behind)
        found.append(StageBreakdown(unit, span.groups[0], span.groups[2], alone, contention, received, sent, behind))
    return found


def _moved(plan: Plan, groups: int) -> list[Plan]:
    """The plan with each of its cuts one group earlier or later, where no stage becomes empty."""
    cuts = [
        (stage.last, stage.last + stage.floating, *([] if stage.share is None else [stage.share]))
        for stage in plan.lanes[0][:-1]
    ]
    borders = [(0, 0), *cuts, (groups, groups)]
    return [
        Plan.pipeline(plan.units, [*cuts[:i], (early + step, late + step, *share), *cuts[i + 1 :]])
        for i, (early, late, *share) in enumerate(cuts)
        for step in (-1, 1)
        if borders[i][1] < early + step and late + step < borders[i + 2][0]
    ]
