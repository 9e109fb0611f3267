"""Plans of some cores against brute force: every multiset of units, every way to divide it, every order, every cut."""

from functools import cache
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from plans_reference import INF, chain, random_profile

from pipeall.pipeline.planning.divisions import best_divisions
from pipeall.pipeline.planning.partitions import fastest
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import HOST, Profile
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.unit_set import Kind
from pipeall.pipeline.planning.units import Unit, unit_sets

ONCE = Kind(repeats=False, floating=False)
LITTLE, WIDE = [(seed, 3, 1, 5) for seed in range(9)], [(seed, 4, 2, 8) for seed in range(40)]


def lists(sizes: int, cores: int) -> list[tuple[int, ...]]:
    """All multisets of sizes that add up to at most so many cores, largest first."""
    return [()] + [
        (size, *rest) for size in range(1, min(sizes, cores) + 1) for rest in lists(size, cores - size)
    ]  # fmt: skip


def partitions(items: tuple[str, ...]) -> set[tuple[tuple[str, ...], ...]]:
    """All ways to divide units among lanes; which of equal ones is where makes no other way."""
    if not items:
        return {()}
    first, rest = items[0], items[1:]
    found = set()
    for parts in partitions(rest):
        found.add(tuple(sorted([(first,), *parts])))
        for i in range(len(parts)):
            found.add(tuple(sorted([*parts[:i], tuple(sorted((first, *parts[i]))), *parts[i + 1 :]])))
    return found


def lane_costs(profile: Profile, lane: tuple[str, ...], others: tuple[str, ...]) -> list[tuple[float, float]]:
    """(period, latency) of every order and cut of a lane."""
    groups, ms = len(profile.groups), {}
    for unit in set(lane):
        beside = list(lane)
        beside.remove(unit)
        loaded = np.array(profile.units[unit].ms)
        for other in beside:
            loaded = loaded * profile.slowdown(unit, other, same_pipeline=True)
        for other in others:
            loaded = loaded * profile.slowdown(unit, other)
        ms[unit] = loaded.tolist()
    found = []
    for order in set(permutations(lane)):
        ends = [HOST, *order, HOST]
        handed = [profile.handover(*pair) for pair in pairwise(ends)]
        for cuts in combinations(range(1, groups), len(order) - 1):
            borders = [0, *cuts, groups]
            times = [
                sum(ms[unit][borders[i] : borders[i + 1]]) + handed[i][1][borders[i]] + handed[i + 1][0][borders[i + 1]]
                for i, unit in enumerate(order)
            ]
            found.append((max(times), sum(times)))
    return found


def brute_force(profile: Profile, big: int, little: int, limits: tuple[float, ...]) -> list[float]:
    """The shortest period of any plan, within each of these latencies."""
    best = [INF] * len(limits)
    for bigs in lists(big, big):
        for littles in lists(little, little):
            units = (*(f"bigx{n}" for n in bigs), *(f"littlex{n}" for n in littles))

            @cache
            def lane_best(lane, units=units):
                others = list(units)
                for unit in lane:
                    others.remove(unit)
                costs = lane_costs(profile, lane, tuple(others))
                return [min((period for period, latency in costs if latency <= most), default=INF) for most in limits]

            for parts in partitions(units) if 0 < len(units) else ():
                if all(len(lane) <= len(profile.groups) for lane in parts):
                    for i, periods in enumerate(zip(*map(lane_best, parts), strict=True)):
                        best[i] = min(best[i], 1 / sum(1 / period for period in periods) if INF not in periods else INF)
    return best


def cases():
    return [*LITTLE, *(pytest.param(*case, marks=pytest.mark.full) for case in WIDE)]


@pytest.mark.parametrize("seed, big, little, groups", cases())
def test_every_plan_of_some_cores(seed, big, little, groups):
    names = [*(f"bigx{n}" for n in range(1, big + 1)), *(f"littlex{n}" for n in range(1, little + 1))]
    profile = random_profile(
        chain(groups), tuple(names), seed, infinite=0.1 * (seed % 4 == 0), ties=seed % 3 == 1, loaded=seed % 5 != 2
    )
    latencies = [sum(profile.units[name].ms) for name in names if sum(profile.units[name].ms) < INF]
    limits = (INF, *np.quantile(latencies or [50.0], [0.2, 0.6]).tolist())
    sets = unit_sets(names, groups, {"big": big, "little": little})
    for limit, expected in zip(limits, brute_force(profile, big, little, limits), strict=True):
        found = fastest(profile, sets, ONCE, limit)
        assert (found.plans[0].prediction.period_ms if found.plans else INF) == pytest.approx(expected, rel=1e-9)
        assert found.bound_ms <= expected * (1 + 1e-9)
        if expected < INF and limit == INF:
            ranked = search(chain(groups), profile, cores={"big": big, "little": little}, floating=False).ranked
            assert min(one.prediction.period_ms for one in ranked) == pytest.approx(expected, rel=1e-9)


def test_the_best_divisions_of_two_kinds():
    """Lanes of one each are worth 3, lanes of two of the first 5: by number of lanes."""
    rates = np.array([[-INF, 1.0], [2.0, 3.5], [5.0, -INF]])
    assert best_divisions(rates, 3) == [(-INF, ()), (6.0, ((2, 0), (0, 1))), (5.0, ((1, 0), (1, 0), (0, 1)))]


def test_equal_cores_with_a_set_of_four():
    """Nothing is shared: four copies do four times as much as one, and no pipeline of equal cores does more."""
    profile = random_profile(chain(6), ("big", "bigx1", "bigx2"), 3, loaded=False)
    found = search(chain(6), profile, units=["bigx1"], cores={"big": 4})
    assert str(found.best) == "4*bigx1" and found.gap == pytest.approx(0, abs=1e-9)
    assert predict(profile, Plan.parse("4*Bx1")).period_ms == pytest.approx(sum(profile.units["bigx1"].ms) / 4)
    pipelines = search(chain(6), profile, units=["bigx1"], cores={"big": 4}, plans="pipelines", floating=False)
    assert all(len(choice.plan.lanes) == 1 for choice in pipelines.ranked)
    assert Unit.parse("Bx1") == "bigx1"
