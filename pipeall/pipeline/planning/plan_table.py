"""PlanTable: many configurations with their costs as columns; ranked by an objective, or reduced to a Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import numpy as np

from .operating_points import Clocks
from .plan import Plan
from .predict import Prediction, finite, predict
from .profile import Profile
from .stage_tables import Costs

DECIMALS = 9  # of ms and mJ: sums in another order differ by less, and what differs by less is equal


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a plan does at full load, simulated. Latency is from submit until all earlier frames are delivered too."""

    fps: float
    latency_p50_ms: float
    latency_p99_ms: float


@dataclass(frozen=True, slots=True)
class PredictedPlan:
    """A plan and what a profile predicts for it.

    ``delivered``: what it did in a simulation, if it ran in one. ``memory_mb``: what it takes, if that was asked for.
    """

    plan: Plan
    prediction: Prediction
    delivered: Delivered | None = None
    memory_mb: float | None = None

    @property
    def energy_mj(self) -> float | None:
        """Of a frame, at the rate that the plan was searched for, else at its own; None: not known."""
        return self.prediction.energy_at(self.plan.goal.rate)

    @property
    def period_ms(self) -> float:
        """Between two results, as the goal has it: of frames in turn, or at full load."""
        return self.prediction.times_ms(self.plan.goal)[0]

    @property
    def latency_ms(self) -> float:
        """Of a frame, as the goal has it: with no other under way, or at full load."""
        return self.prediction.times_ms(self.plan.goal)[1]

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        return f"{self.plan}, predicted {self.prediction}"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; null stands for infinity. ``energy_mj`` is at the plan's own rate.

        Of a plan that was searched for the least energy at a rate, ``energy_at_min_fps_mj`` is at that rate.
        """
        return {
            "plan": str(self.plan),
            **({"clocks_mhz": dict(self.plan.clocks)} if self.plan.clocks else {}),
            **self.prediction.to_dict(),
            **({} if self.plan.goal.rate is None else {"energy_at_min_fps_mj": self.energy_mj}),
            "stage_ms": list(map(finite, chain(*self.prediction.stage_ms))),
            **({} if self.delivered is None else {"simulated": asdict(self.delivered)}),
            **({} if self.memory_mb is None else {"memory_mb": self.memory_mb}),
        }


class Columns(NamedTuple):
    """Costs, one row per configuration. busy_mj is the energy beyond what the idle board draws."""

    stages: np.ndarray
    period_ms: np.ndarray
    latency_ms: np.ndarray
    energy_mj: np.ndarray
    busy_mj: np.ndarray
    alone_ms: np.ndarray


class PlanTable:
    """Configurations, added in batches of one order each. ``energy`` says whether the profile knows their power."""

    def __init__(self, profile: Profile, energy: bool):
        self.profile, self.energy = profile, energy
        self.batches: list[tuple[Sequence[str], np.ndarray, Costs]] = []
        self._clocks: list[Clocks] = []

    def add(self, units: Sequence[str], cuts: np.ndarray, costs: Costs, clocks: Clocks = ()) -> None:
        """Adds configurations: these units in this order at these clocks, once for every row of ``cuts``."""
        self.batches.append((units, cuts, costs))
        self._clocks.append(clocks)

    def ranked(self, objective: str, period_ms: float, latency_ms: float, top: int) -> tuple[PredictedPlan, ...]:
        """The best ``top`` plans within both limits. Equals go by the number of stages, then latency, then text.

        Energy is that of a frame at the plan's own rate; where ``period_ms`` is finite, at that period. The idle board
        then draws the same beside every plan.
        """
        rows, value, within = self._within(objective, period_ms, latency_ms)
        keys = np.array([column[within] for column in (rows.latency_ms, rows.stages, value)]).round(DECIMALS)
        order = np.lexsort(keys)
        if len(order) > top:  # the text of a plan decides only among equals of the last one
            equal = np.flatnonzero((keys[:, order] == keys[:, order[top - 1], None]).all(axis=0))
            order = order[: equal[-1] + 1]
        best = []
        for i in order:
            plan = self._plan(within[i])
            best.append((*keys[::-1, i], str(plan), plan))
        best.sort(key=lambda row: row[:-1])
        return tuple(self._predicted(plan) for *_, plan in best[:top])

    def ranked_orders(self, objective: str, period_ms: float, latency_ms: float) -> tuple[PredictedPlan, ...]:
        """The best plan of each batch within both limits, best first."""
        _, value, within = self._within(objective, period_ms, latency_ms)
        batch = np.searchsorted(self._ends(), within, side="right")
        order = np.argsort(value[within], kind="stable")
        firsts = np.unique(batch[order], return_index=True)[1]
        return tuple(self._predicted(self._plan(row)) for row in within[order[np.sort(firsts)]])

    def simpler(self, objective: str, period_ms: float, latency_ms: float, stages: int) -> PredictedPlan | None:
        """The best plan of fewer stages within both limits, as ``ranked`` has it; None: there is none."""
        rows, value, within = self._within(objective, period_ms, latency_ms)
        fewer = within[rows.stages[within] < stages]
        return self._predicted(self._plan(fewer[np.argmin(value[fewer])])) if len(fewer) else None

    def least(self, objective: str, period_ms: float, latency_ms: float) -> float:
        """The least value of the objective within both limits; infinity where there is no plan."""
        _, value, within = self._within(objective, period_ms, latency_ms)
        return float(value[within].min(initial=inf))

    def _within(self, objective: str, period_ms: float, latency_ms: float) -> tuple[Columns, np.ndarray, np.ndarray]:
        """The columns, the objective's value of every row, and the rows that are possible within both limits."""
        rows = self._columns()
        energy_mj = rows.energy_mj if period_ms == inf else rows.busy_mj
        in_time = (rows.period_ms <= period_ms) & (rows.latency_ms <= latency_ms)
        in_turn = rows.alone_ms <= period_ms  # each frame is done before the next one comes
        value = {"throughput": rows.period_ms, "energy": energy_mj}.get(objective)
        if value is None:
            value, in_time = np.where(in_turn, rows.alone_ms, rows.latency_ms), in_time | in_turn
        within = in_time & (value < inf)
        return rows, value, np.flatnonzero(within)

    def pareto(self, others: Sequence[PredictedPlan] = ()) -> tuple[PredictedPlan, ...]:
        """The plans that no other beats in period, latency and energy (where known); of equals one of fewest stages.

        others: plans that the table lacks.
        """
        rows = self._columns()
        criteria = [rows.period_ms, rows.latency_ms, *([rows.energy_mj] if self.energy else [])]
        found = [self._predicted(self._plan(row)) for row in _front([*criteria, rows.stages], len(criteria))]
        if not others:
            return tuple(found)
        found += others
        names = ("period_ms", "latency_ms", *(["energy_mj"] if self.energy else []))
        keys = [np.array([getattr(one.prediction, name) for one in found]) for name in names]
        keys.append(np.array([len(one.plan.units) for one in found]))
        return tuple(found[row] for row in _front(keys, len(names)))

    def front(self, total: str) -> list[tuple[float, float]]:
        """The Pareto front of (period_ms, ``total``), total being "latency_ms" or "busy_mj"."""
        rows = self._columns()
        period, amount = rows.period_ms, getattr(rows, total)
        return [(float(period[row]), float(amount[row])) for row in _front([period, amount], 2)]

    def _columns(self) -> Columns:
        stages = np.repeat([len(units) for units, _, _ in self.batches], [len(cuts) for _, cuts, _ in self.batches])
        period, latency, busy, alone = map(np.concatenate, zip(*(costs for _, _, costs in self.batches), strict=True))
        energy = busy + self.profile.idle_w * period if self.energy else np.full_like(period, inf)
        return Columns(stages, period, latency, energy, busy, alone)

    def _ends(self) -> np.ndarray:
        """The row behind the last one of each batch."""
        return np.cumsum([len(cuts) for _, cuts, _ in self.batches])

    def _plan(self, row: int) -> Plan:
        ends = self._ends()
        batch = int(np.searchsorted(ends, row, side="right"))
        units, cuts, _ = self.batches[batch]
        plan = Plan.pipeline(units, cuts[row - ends[batch]].tolist())  # a negative index, from the end of its batch
        return replace(plan, clocks=self._clocks[batch])

    def _predicted(self, plan: Plan) -> PredictedPlan:
        return PredictedPlan(plan, predict(self.profile, plan))


def _front(keys: Sequence[np.ndarray], criteria: int) -> list[int]:
    """The rows that no other beats in the first ``criteria`` keys, sorted by the keys; finite ones, one of equals."""
    table = np.array(keys).round(DECIMALS)
    order = np.lexsort(table[::-1])
    order = order[np.isfinite(table[0, order])]
    values = table[:criteria, order].T
    front = []
    while len(order):  # nothing beats the first of what is left: nothing is less in the first key
        front.append(int(order[0]))
        better = (values < values[0]).any(axis=1)
        order, values = order[better], values[better]
    return front
