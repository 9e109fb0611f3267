"""The search of any plan against all there is: every assignment of groups with repeats, every range that floats, every
way to divide units among lanes; shares by SciPy's linear programs."""

from itertools import chain as joined
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from plans_reference import INF, THREE, chain, may_be, random_profile
from scipy.optimize import linprog

from pipeall.pipeline.planning.profile import HOST, Profile
from pipeall.pipeline.planning.search import search

GROUPS = 5
ENDS = [(early, late) for early in range(1, GROUPS) for late in range(early, GROUPS)]
LONG = [pytest.param(seed, marks=pytest.mark.full) for seed in range(9, 300)]


def loaded_ms(profile: Profile, part: tuple[str, ...], beside: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Times of the groups on the units of a lane, slowed down by all that run."""
    found = {}
    for unit in part:
        found[unit] = np.array(profile.units[unit].ms)
        for other in (*part, *beside):
            if other != unit:
                found[unit] = found[unit] * profile.slowdown(unit, other, same_pipeline=other in part)
    return found


def stage_ms(profile: Profile, ms: dict[str, np.ndarray], units: tuple[str, str, str], first: int, last: int) -> float:
    """What a stage takes for groups [first, last), its neighbours being the first and last of ``units``."""
    before, unit, after = units
    if not may_be(profile, unit, first, last):
        return INF
    receive, send = profile.handover(before, unit)[1][first], profile.handover(unit, after)[0][last]
    return ms[unit][first:last].sum() + receive + send


def shortest(loads: np.ndarray, changes: np.ndarray) -> float:
    """The least greatest load with shares from 0 to 1 of each change; loads: (units,), changes: (cuts, units)."""
    if not len(changes):
        return loads.max()
    rows = np.hstack([changes.T, -np.ones((len(loads), 1))])
    found = linprog([0.0] * len(changes) + [1.0], rows, -loads, bounds=[(0, 1)] * len(changes) + [(None, None)])
    return found.fun


def lane_ms(profile: Profile, part: tuple[str, ...], beside: tuple[str, ...]) -> float:
    """The shortest period of any pipeline of all these units."""
    ms, best = loaded_ms(profile, part, beside), INF
    for count in range(len(part), GROUPS + 1):
        for order in product(part, repeat=count):
            if set(order) == set(part) and all(one != other for one, other in pairwise(order)):
                best = min(best, order_ms(profile, ms, order))
    return best


def order_ms(profile: Profile, ms: dict[str, np.ndarray], order: tuple[str, ...]) -> float:
    names, best = (HOST, *order, HOST), INF
    units = tuple(dict.fromkeys(order))

    def loads(cuts: tuple[int, ...]) -> np.ndarray:
        found = np.zeros(len(units))
        for index, (first, last) in enumerate(pairwise((0, *cuts, GROUPS))):
            found[units.index(order[index])] += stage_ms(profile, ms, names[index : index + 3], first, last)
        return found

    for ranges in combinations(ENDS, len(order) - 1):
        if any(first[1] >= last[0] for first, last in pairwise(ranges)):
            continue
        early = tuple(first for first, _ in ranges)
        floats = [index for index, (first, last) in enumerate(ranges) if first < last]
        if any(profile.units[order[side]].ranges for index in floats for side in (index, index + 1)):
            continue
        base = loads(early)
        late = [loads((*early[:index], ranges[index][1], *early[index + 1 :])) for index in floats]
        if np.isfinite([base, *late]).all():
            best = min(best, shortest(base, np.array(late) - base if floats else np.zeros((0, len(units)))))
    return best


def divided(units: tuple[str, ...]) -> list[tuple[tuple[str, ...], ...]]:
    """All ways to divide units among lanes, whose order does not count."""
    places = product(range(len(units)), repeat=len(units))
    lanes = {
        frozenset(tuple(u for u, at in zip(units, place, strict=True) if at == lane) for lane in place)
        for place in places
    }
    return [tuple(sorted(parts)) for parts in lanes]


def best_ms(profile: Profile) -> float:
    """The shortest period of any plan."""
    best = INF
    for units in joined(*(combinations(THREE, count) for count in (1, 2, 3))):
        for parts in divided(units):
            lanes = [lane_ms(profile, part, tuple(u for u in units if u not in part)) for part in parts]
            best = min(best, 1 / sum(1 / period for period in lanes) if max(lanes) < INF else INF)
    return best


@pytest.mark.parametrize("seed", [*range(9), *LONG])
def test_the_best_is_that_of_brute_force_within_its_gap(seed):
    """The bound is below the best of all plans, and the search's best above it by no more than the gap.

    Shares are whole percents, and cuts that float are improved step by step: the best may be missed by a little.
    """
    profile = random_profile(
        chain(GROUPS), seed=seed, infinite=0.1 * (seed % 4 == 1), ties=seed % 5 == 2, ahead=seed % 3 == 0
    )
    expected, found = best_ms(profile), search(chain(GROUPS), profile, top=1000)
    best = min(choice.prediction.period_ms for choice in found.ranked)
    assert found.bound_ms <= expected * (1 + 1e-6) and expected <= best * (1 + 1e-6)
    assert expected >= (1 - found.gap) * found.ranked[0].prediction.period_ms * (1 - 1e-6)
    assert best <= 1.03 * expected
