"""What a profile's error makes of a plan: between which figures it will be, and how surely it is better than another.

A unit is off by one factor in all of its groups, each unit by its own; so is contention, all of it by one. Their
logarithms are normal, with four of five within the error that the profile states. Plans are compared by the same draws:
what they have in common is off in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from .plan import Goal, Plan
from .predict import Prediction, predict
from .profile import Factors, Profile, UnitTimes

DRAWS = 41
SHARE = 0.8  # of the draws: what an interval holds
DEVIATIONS = 1.2816  # of a normal distribution hold that share, each way
STUDENT = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372)  # of 1 to 10 samples do


@dataclass(frozen=True, slots=True)
class Interval:
    """What holds four of five draws of a plan's figures: (least, most). Energy where the profile knows power."""

    fps: tuple[float, float]
    latency_ms: tuple[float, float]
    energy_mj: tuple[float, float] | None = None


def interval(profile: Profile, plan: Plan) -> Interval | None:
    """Between which figures the plan will be; None where the profile states no error."""
    if not profile.at_clocks(plan.clocks).error:
        return None
    found = list(_predictions(profile, plan))
    ends = 50 * (1 - SHARE), 50 * (1 + SHARE)
    figures = [(p.fps, p.latency_ms, p.energy_mj) for p in found]
    known = [values for values in zip(*figures, strict=True) if None not in values]
    return Interval(*(tuple(np.percentile(values, ends).tolist()) for values in known))


def four_of_five(errors: Iterable[float], effective: float | None = None) -> float:
    """The error that holds four of five cases, of errors (predicted - measured) / measured that no fit has seen.

    Few of them say little of their own spread: it is widened by Student's distribution.

    effective  as how many they count, where they depend on each other; default all
    """
    logarithms = np.log1p(list(errors))
    count = len(logarithms) if effective is None else effective
    known = range(1, 1 + len(STUDENT))
    deviations = np.interp(count, known, STUDENT) if count <= len(STUDENT) else DEVIATIONS + 0.9 / count
    return float(np.expm1(deviations * np.sqrt(np.mean(logarithms**2))))


def share_ahead(profile: Profile, plan: Plan, other: Plan, goal: Goal) -> float:
    """The share of the draws in which a plan is better than another, by the objective of a goal; 0.5 for equals."""
    pairs = zip(_predictions(profile, plan), _predictions(profile, other), strict=True)
    signs = [np.sign(_value(b, goal) - _value(a, goal)) for a, b in pairs]
    return float(np.mean(signs) / 2 + 0.5)


def _value(prediction: Prediction, goal: Goal) -> float:
    energy_mj = prediction.energy_at(goal.rate)
    return Goal(goal.objective).value(*prediction.times_ms(goal), energy_mj)


def _predictions(profile: Profile, plan: Plan) -> Iterator[Prediction]:
    profile, plan = profile.at_clocks(plan.clocks), replace(plan, clocks=())
    times_off, power_off = (tuple(errors.items()) for errors in (profile.error, profile.power_error))
    draws = _draws(times_off, profile.contention_error), _draws(power_off, 0.0, seed=1)
    for (unit_factors, contention_factor), (unit_watts, _) in zip(*draws, strict=True):
        factors, watts = dict(unit_factors), dict(unit_watts)
        units = {
            unit: _off(times, profile.idle_w, factors.get(unit, 1.0), watts.get(unit, 1.0))
            for unit, times in profile.units.items()
            if unit in plan.units
        }
        contention, same_pipeline = (
            _scaled(table, contention_factor) for table in (profile.contention, profile.same_pipeline)
        )
        yield predict(replace(profile, units=units, contention=contention, same_pipeline=same_pipeline), plan)


def _off(times: UnitTimes, idle_w: float | None, longer: float, more: float) -> UnitTimes:
    """Times that are so many times as long, and power beyond the idle board that is so many times as much."""
    power_w = times.power_w
    if power_w is not None and idle_w is not None and more != 1.0:
        power_w = tuple(idle_w + more * (watts - idle_w) for watts in power_w)
    return replace(times, ms=tuple(longer * ms for ms in times.ms), power_w=power_w)


@lru_cache(maxsize=16)
def _draws(
    errors: tuple[tuple[str, float], ...], contention: float, seed: int = 0
) -> tuple[tuple[tuple[tuple[str, float], ...], float], ...]:
    """(unit -> factor, factor of contention) of each draw: the same for every plan."""
    spreads = np.log1p([*(error for _, error in errors), contention]) / DEVIATIONS
    normal = [NormalDist().inv_cdf((i + 0.5) / DRAWS) for i in range(DRAWS)]  # evenly, in an order of its own for each
    random = np.random.default_rng(seed)
    factors = np.exp(spreads * np.stack([random.permutation(normal) for _ in spreads], 1)).tolist()
    names = [unit for unit, _ in errors]
    return tuple((tuple(zip(names, row[:-1], strict=True)), row[-1]) for row in factors)


def _scaled(table: Factors, factor: float) -> Factors:
    return {
        unit: {other: tuple(max(1.0, value * factor) for value in row) for other, row in rows.items()}
        for unit, rows in table.items()
    }
