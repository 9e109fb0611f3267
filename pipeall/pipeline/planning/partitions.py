"""The fastest plans of any kind: lanes, each a pipeline in which components may come several times.

Every way to divide a set of whole units among lanes has a bound; those that could be ahead of what is known are
searched. Lanes are independent but for contention, which depends on who is beside and not on what they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf, isfinite

from ...errors import ArgumentError
from .bound import bound
from .orders import Order, Ranges, orders
from .plan import Plan, StagePlan
from .plan_table import PredictedPlan
from .predict import predict, with_shares
from .profile import Profile
from .stage_tables import StageTables, handovers
from .units import Unit

MAX_STAGES = 5  # of a lane, unless it is said: more hand over more, and gain little
WIDTHS = (0, 1, 3, 1000)  # groups that a cut may float over, at most: the wider, the more frames' times differ
NEAR = 1.03  # times the shortest period: what is bounded by more is not searched
ORDERS = 6  # of a lane, by their bounds, that are searched if they are near; others only if they could be ahead
KEPT = 2  # of each width, the best of a lane


Lane = tuple[tuple[Unit, ...], tuple[Unit, ...]]  # its units, and those of other lanes


@dataclass(frozen=True, slots=True)
class Kind:
    """What plans are searched.

    stages    at most in a lane
    lanes     units may be divided among lanes
    repeats   a component may serve several stages
    floating  cuts may float
    """

    stages: int = MAX_STAGES
    lanes: bool = True
    repeats: bool = True
    floating: bool = True


@dataclass(frozen=True, slots=True)
class Fastest:
    """Plans by predicted period, shortest first, and what no plan of these units and so many stages is better than.

    Each plan is among the best of its lanes, and not all that are near the best are there."""

    plans: tuple[PredictedPlan, ...]
    bound_ms: float | None


def divided(units: Sequence[Unit]) -> Iterator[tuple[tuple[Unit, ...], ...]]:
    """All ways to divide units among lanes."""
    if not units:
        yield ()
        return
    first, *others = units
    for parts in divided(others):
        yield ((first,), *parts)
        for index, part in enumerate(parts):
            yield (*parts[:index], (first, *part), *parts[index + 1 :])


def fastest(profile: Profile, sets: Sequence[Sequence[Unit]], kind: Kind, max_latency_ms: float = inf) -> Fastest:
    """The fastest plans of sets of units, each lane with no more latency."""
    sets = [tuple(sorted(units, key=list(profile.units).index)) for units in sets]
    lanes = _Lanes(profile, sets, kind, max_latency_ms)
    found: dict[Plan, PredictedPlan] = {}
    shortest, bounds = inf, []

    def add(plan: Plan) -> None:
        nonlocal shortest
        try:
            prediction = predict(profile, plan)
        except ArgumentError:  # it takes no time at all
            return
        if prediction.period_ms < inf and prediction.latency_ms <= max_latency_ms:
            found[plan] = PredictedPlan(plan, prediction)
            shortest = min(shortest, prediction.period_ms)

    for units in sets:
        if kind.lanes and all(isfinite(sum(profile.units[unit].ms)) for unit in units):
            add(Plan.parallel(units))
    for bound_ms, units in sorted((lanes.least_ms(units), units) for units in sets):
        if bound_ms > NEAR * shortest:
            bounds.append(bound_ms)
            break  # nor are those that follow
        divisions = sorted((lanes.bound_ms(parts), parts) for parts in (divided(units) if kind.lanes else [(units,)]))
        bounds.append(divisions[0][0])
        for least_ms, parts in divisions:
            if least_ms <= NEAR * shortest:
                for plan in lanes.plans(parts):
                    add(plan)
    plans = sorted(found.values(), key=lambda one: (one.prediction.period_ms, len(one.plan.units), str(one.plan)))
    return Fastest(tuple(plans), min(bounds, default=inf))


class _Lanes:
    """The best lanes of some units beside others; each is searched once."""

    def __init__(self, profile: Profile, sets: Sequence[Sequence[Unit]], kind: Kind, latency_ms: float):
        self.profile, self.kind, self.latency_ms = profile, kind, latency_ms
        self.stages, self.widths = min(kind.stages, len(profile.groups)), WIDTHS if kind.floating else WIDTHS[:1]
        self.links = handovers(profile, dict.fromkeys(chain.from_iterable(sets)))
        self._bounds: dict[Lane, float] = {}
        self._best: dict[Lane, list[list[Plan]]] = {}

    def least_ms(self, units: Sequence[Unit]) -> float:
        """What no plan of these units is better than, however they are divided among lanes."""
        return bound(self.profile, units, self.stages).period_ms

    def bound_ms(self, parts: Sequence[tuple[Unit, ...]]) -> float:
        """What no plan of these lanes is better than."""
        periods = [self._bound_ms(*lane) for lane in _beside(parts)]
        rate = sum(1.0 / ms if ms else inf for ms in periods)
        return 1.0 / rate if rate else inf

    def plans(self, parts: Sequence[tuple[Unit, ...]]) -> Iterator[Plan]:
        """Plans of these lanes: the best of each by the width of their cuts, then the second best."""
        best = [self._lane(*lane) for lane in _beside(parts)]
        for width in range(len(self.widths)):
            for rank in range(KEPT):
                kept = [lane[width][min(rank, len(lane[width]) - 1)] for lane in best if lane[width]]
                if len(kept) == len(best):
                    kept.sort(key=lambda plan: -len(plan.units))
                    plan = with_shares(self.profile, Plan(tuple(plan.lanes[0] for plan in kept)))
                    yield Plan(tuple(map(_settled, plan.lanes)))

    def _bound_ms(self, part: tuple[Unit, ...], beside: tuple[Unit, ...]) -> float:
        if (part, beside) not in self._bounds:
            self._bounds[part, beside] = bound(self.profile, part, self.stages, beside=beside).period_ms
        return self._bounds[part, beside]

    def _lane(self, part: tuple[Unit, ...], beside: tuple[Unit, ...]) -> list[list[Plan]]:
        """For each width the best pipelines, shortest period first."""
        if (part, beside) in self._best:
            return self._best[part, beside]
        tables = StageTables(self.profile, part, self.links, beside)
        every = [Order(tables, part, order) for order in orders(part, self.stages, repeats=self.kind.repeats)]
        every.sort(key=lambda order: (order.bound.period_ms, order.order))
        rows: list[list[tuple[float, tuple[int, ...], Ranges]]] = [[] for _ in self.widths]
        shortest = inf
        for index, order in enumerate(every):
            if order.bound.period_ms > (NEAR if index < ORDERS else 1.0) * shortest:
                break
            for row, width in zip(rows, self.widths, strict=True):
                period_ms, ranges = order.best(width, self.latency_ms)
                if period_ms < inf:
                    row.append((period_ms, order.order, ranges))
                    shortest = min(shortest, period_ms)
        found = [
            [Plan.pipeline([part[unit] for unit in order], [_cut(*ends) for ends in ranges])
             for _, order, ranges in sorted(row)[:KEPT]]
            for row in rows
        ]  # fmt: skip
        self._best[part, beside] = found
        return found


def _beside(parts: Sequence[tuple[Unit, ...]]) -> Iterator[Lane]:
    """Each lane, and the units of the others."""
    for index, part in enumerate(parts):
        yield part, tuple(chain(*parts[:index], *parts[index + 1 :]))


def _cut(early: int, late: int) -> int | tuple[int, int]:
    return early if early == late else (early, late)


def _settled(lane: Sequence[StagePlan]) -> tuple[StagePlan, ...]:
    """The lane without cuts that float for none of the frames, or for all of them."""
    cuts = [
        stage.last + stage.floating * (stage.share == 100) if stage.share in (0, 100) or not stage.floating
        else (stage.last, stage.last + stage.floating, *([] if stage.share is None else [stage.share]))
        for stage in lane[:-1]
    ]  # fmt: skip
    return Plan.pipeline([stage.unit for stage in lane], cuts).lanes[0]
