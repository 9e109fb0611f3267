"""The plans that are done with one frame soonest; a component may serve several of their stages.

A frame takes a path through groups and units (``bound.GroupPaths``), and its latency is what the path takes of all
units. Where each frame is done before the next one comes, one unit computes at a time, and the shortest path is the
answer: dynamic programming over group, unit and number of stages finds it. Where frames come sooner, no unit may be
busy for longer than the time between two. Paths then grow group by group. One is dropped that takes no less of any unit
than another to the same place, and one that cannot be completed within the limits even at the least that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from math import inf

import numpy as np

from .bound import GroupPaths, mixture, worth_of
from .fork_paths import with_branches
from .plan import Goal, Plan
from .plan_table import DECIMALS, PredictedPlan
from .predict import predict
from .profile import Profile
from .stage_costs import StageCosts
from .stage_tables import ROUNDING
from .units import Unit

PATHS = 200


def soonest(
    profile: Profile,
    possible: Sequence[Sequence[Unit]],
    goal: Goal,
    ranked: Sequence[PredictedPlan],
    needs: Sequence[frozenset[int]] = (),
) -> list[PredictedPlan]:
    """Plans of least latency within the goal's rate, best first; equals by the number of stages, then by text.

    Those that are ``ranked``, and those in which units that are whole components serve any number of stages: the best
    of each set and number of stages where frames come singly, else the best of each set.

    possible: the sets of units that can run at once.
    needs: the groups that each group reads, where branches may run side by side (``partition.needs``).
    """
    limit_ms = 1000.0 / goal.min_fps * (1 + ROUNDING) if goal.min_fps else inf
    whole = [unit_set for unit_set in possible if len(unit_set) > 1 and all(unit.cores is None for unit in unit_set)]
    largest = [one for one in whole if not any(set(one) < set(other) for other in whole)]
    choices = {choice.plan: choice for choice in ranked}

    def add(plan: Plan) -> None:
        choices.setdefault(plan, PredictedPlan(plan, predict(profile, plan)))

    def latency_ms(choice: PredictedPlan) -> float:
        period_ms, latency_ms = choice.prediction.times_ms(goal)
        return latency_ms if period_ms <= limit_ms else inf

    for unit_set in largest:
        for plan in chain(in_turn(profile, unit_set), with_branches(profile, unit_set, needs)):
            add(plan)
    if not any(goal.in_turn(choice.prediction.alone_ms) for choice in choices.values()):
        for unit_set in whole:
            costs = StageCosts(profile, unit_set)
            paths = GroupPaths(np.array(costs.loaded_ms), costs)
            best_ms = min(map(latency_ms, choices.values()), default=inf)
            if path := LoadedPaths(paths, limit_ms, best_ms).least():
                add(plan_of(unit_set, path))

    def key(choice: PredictedPlan) -> tuple[float, int, float, str]:
        loaded_ms = round(choice.prediction.latency_ms, DECIMALS)
        return round(latency_ms(choice), DECIMALS), len(choice.plan.units), loaded_ms, str(choice.plan)

    return [choice for choice in sorted(choices.values(), key=key) if latency_ms(choice) < inf]


def in_turn(profile: Profile, unit_set: Sequence[Unit]) -> Iterator[Plan]:
    """The plans of least latency for one frame at a time: of one stage, and of more while that is less."""
    costs = StageCosts(profile, unit_set, alone=True)
    paths = GroupPaths(np.array(costs.loaded_ms), costs, len(profile.groups))
    least = inf
    for worth, path in paths.by_stages(np.ones(paths.units)):
        if worth < least * (1 - ROUNDING) or worth < least == inf:
            least = worth
            yield plan_of(unit_set, path)


def plan_of(unit_set: Sequence[Unit], path: Sequence[int]) -> Plan:
    """The pipeline of a path, the index of the unit of each group."""
    runs = [(unit, len(list(groups))) for unit, groups in groupby(path)]
    ends = np.cumsum([count for _, count in runs])[:-1].tolist()
    return Plan.pipeline([unit_set[unit] for unit, _ in runs], ends)


class LoadedPaths:
    """The path of least latency in which no unit is busy for longer than the period.

    Exact unless more than PATHS paths to some place are in question: of those the ones of least latency go on.

    paths    through the groups, with contention
    """

    def __init__(self, paths: GroupPaths, period_ms: float, most_ms: float):
        mixed = np.array(mixture([1] * paths.units, paths.cheapest).prices)
        limits = [(np.ones(paths.units), most_ms), *((unit, period_ms) for unit in np.eye(paths.units))]
        self.grown = GrownPaths(paths, [*limits, (mixed, float(mixed.sum()) * period_ms)])

    def least(self) -> tuple[int, ...]:
        """The unit of every group; empty where no path is within the limits."""
        ends = ((float(load.sum()), path) for load, path in self.grown.ends())
        return min(ends, key=lambda end: end[0], default=(inf, ()))[1]


class GrownPaths:
    """Paths that take no more of units than limits allow, and less of some unit than any other.

    Of more than PATHS to some place those go on that are worth least at the first prices.

    paths    through the groups
    limits   (prices, most): what all of a path may be worth at these prices
    """

    def __init__(self, paths: GroupPaths, limits: Sequence[tuple[np.ndarray, float]]):
        self.paths = paths
        self.limits = [(prices, _rest(paths, prices), most * (1 + ROUNDING)) for prices, most in limits]

    def ends(self) -> Iterator[tuple[np.ndarray, tuple[int, ...]]]:
        """What each path takes of the units, and the path, the unit of every group."""
        places, units = self.paths.places, np.arange(self.paths.units)
        begin = places.entry + places.ms[:, 0]
        loads = [np.where(units == unit, ms, 0.0)[None] for unit, ms in zip(places.unit, begin, strict=True)]
        loads = [rows[self._kept(0, place, rows)] for place, rows in enumerate(loads)]
        came = []
        for group in range(1, self.paths.groups):
            grown = [self._grown(group, place, loads) for place in range(places.count)]
            kept = [self._kept(group, place, rows) for place, (rows, _) in enumerate(grown)]
            loads = [rows[keep] for (rows, _), keep in zip(grown, kept, strict=True)]
            came.append([origins[keep] for (_, origins), keep in zip(grown, kept, strict=True)])
        for place, rows in enumerate(loads):
            for row, load in enumerate(rows[: len(rows) * bool(np.isfinite(places.send[place, -1, -1]))]):
                sent = np.where(units == places.unit[place], places.send[place, -1, -1], 0.0)
                yield load + sent, places.units_of(_traced(came, place, row))

    def _grown(self, group: int, place: int, loads: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """What all paths take that go on in a place, and where each was before: place and row."""
        places, rows, origins = self.paths.places, [], []
        for before, taken in enumerate(loads):
            step = np.zeros(self.paths.units)
            unit, other = places.unit[place], places.unit[before]
            step[unit] = places.ms[place, group]
            if before != place:
                step[unit] += places.receive[before, place, group] if other != unit else inf
                step[other] += places.send[before, place, group]
            possible = taken[: len(taken) * bool(np.isfinite(step).all())]
            rows.append(possible + step)
            origins.append(np.stack([np.full(len(possible), before), np.arange(len(possible))], axis=1))
        return np.concatenate(rows), np.concatenate(origins)

    def _kept(self, group: int, place: int, rows: np.ndarray) -> np.ndarray:
        """The rows that can end within the limits and take less of some unit than any other, PATHS at most."""
        first = self.limits[0][0]
        order = np.flatnonzero(np.isfinite(rows).all(axis=1))
        for prices, rest, most in self.limits:
            order = order[rows[order] @ prices + rest[group, place] <= most]
        order = order[np.argsort(rows[order] @ first, kind="stable")]
        kept = []
        while len(order) and len(kept) < PATHS:  # none that is left is worth less than the first
            kept.append(order[0])
            order = order[1:][(rows[order[1:]] < rows[order[0]]).any(axis=1)]
        return np.array(kept, int)


def _traced(came: Sequence[Sequence[np.ndarray]], place: int, row: int) -> list[int]:
    path = [place]
    for origins in reversed(came):
        place, row = origins[place][row].tolist()
        path.append(place)
    return path[::-1]


def _rest(paths: GroupPaths, prices: np.ndarray) -> np.ndarray:
    """(groups, places): the least that all behind a group is worth, where a place computes that group."""
    places = paths.places
    rest, every = np.empty((paths.groups, places.count)), range(places.count)
    prices = prices[places.unit]
    rest[-1] = worth_of(prices, places.send[:, -1, -1])
    changing = places.changing(prices)
    changing[every, every] = 0.0
    computing = worth_of(prices[:, None], places.ms)
    for group in range(paths.groups - 1, 0, -1):
        rest[group - 1] = (changing[:, :, group] + computing[:, group] + rest[group]).min(axis=1)
    return rest
