"""The bound of all plans against every assignment of groups to units, mixed by SciPy."""

from dataclasses import replace
from itertools import groupby, pairwise, product
from math import prod

import numpy as np
import pytest
from plans_reference import INF, THREE, chain, random_profile
from scipy.optimize import linprog

from pipeall.errors import ArgumentError
from pipeall.pipeline.planning.bound import bound
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import HOST, Profile, UnitTimes


def times(profile: Profile, unit: str, group: int, others: list[str], same: tuple[bool, ...]) -> float:
    """Of a group while the others run; of two ways to count contention the less."""
    slow = [min(profile.slowdown(unit, other, same_pipeline=one)[group] for one in same) for other in others]
    return profile.units[unit].ms[group] * prod(slow)


def assignments(profile: Profile, units: tuple[str, ...], stages: int, beside: tuple[str, ...] | None) -> np.ndarray:
    """(units, assignments): the load of each unit, of every assignment of groups to units of so many stages."""
    groups, loads = len(profile.groups), []
    for path in product(units, repeat=groups):
        if sum(1 for _ in groupby(path)) > stages:
            continue
        load = dict.fromkeys(units, 0.0)
        for group, unit in enumerate(path):
            lane = [other for other in units if other != unit]
            if beside is None:
                load[unit] += times(profile, unit, group, lane, (True, False))
            else:
                slow = [profile.slowdown(unit, other)[group] for other in beside]
                load[unit] += times(profile, unit, group, lane, (True,)) * prod(slow)
        for border, (one, other) in enumerate(pairwise((HOST, *path, HOST))):
            if one != other:
                send, receive = profile.handover(one, other)
                load |= {one: load[one] + send[border]} if one != HOST else {}
                load |= {other: load[other] + receive[border]} if other != HOST else {}
        loads.append(list(load.values()))
    return np.array(loads).T


def shortest(loads: np.ndarray) -> float:
    """The period of the best mixture."""
    possible = loads[:, np.isfinite(loads).all(axis=0)]
    if not possible.size:
        return INF
    return -1 / linprog(-np.ones(possible.shape[1]), possible, np.ones(len(possible))).fun


@pytest.mark.parametrize("beside", [None, (), ("little",)])
@pytest.mark.parametrize("seed", range(12))
def test_against_every_assignment(seed, beside):
    profile = random_profile(chain(5), seed=seed, infinite=0.15 * (seed % 3 == 0), ties=seed % 4 == 0)
    units = THREE if not beside else ("big", "gpu")
    for stages in (1, 2, 3, 5):
        expected = shortest(assignments(profile, units, stages, beside))
        found = bound(profile, units, stages, beside=beside)
        assert found.period_ms == pytest.approx(expected, rel=1e-6)
    assert bound(profile, units, beside=beside).period_ms == pytest.approx(expected, rel=1e-6)
    if expected < INF:
        assert sum(found.prices) == pytest.approx(1 / expected, rel=1e-6) and sum(found.shares) == pytest.approx(1)
    free = bound(profile, units, beside=beside, free=True).period_ms
    assert free == pytest.approx(bound(replace(profile, links={}), units, beside=beside).period_ms)


@pytest.mark.parametrize("seed", range(20))
def test_no_plan_is_better(seed):
    profile = random_profile(chain(6), seed=seed)
    least = bound(profile, THREE).period_ms
    for text in ("big-gpu-little:2~3,4~5", "little-big-gpu:1,3~5", "big+gpu+little"):
        assert predict(profile, Plan.parse(text)).period_ms >= least * (1 - 1e-9)


def test_worked_out_by_hand():
    """Each unit is good at one group: 1 ms a frame, where either alone takes 3 ms, and both side by side 1.5 ms."""
    units = {"big": UnitTimes((1.0, 2.0), (0.0, 0.0)), "gpu": UnitTimes((2.0, 1.0), (0.0, 0.0))}
    profile = replace(random_profile(chain(2), loaded=False), units=units)
    found = bound(profile, ["big", "gpu"])
    assert found.period_ms == pytest.approx(1.0) and found.paths == ((0, 1),)
    assert found.prices == pytest.approx((0.5, 0.5))
    with pytest.raises(ArgumentError, match="unit 'little': expected one of the profile"):
        bound(profile, ["little"])


def test_groups_that_take_no_time():
    units = {"big": UnitTimes((1.0, 0.0), (0.0, 0.0)), "gpu": UnitTimes((0.0, 1.0), (0.0, 0.0))}
    profile = replace(random_profile(chain(2), loaded=False), units=units)
    assert bound(profile, ["big"]).period_ms == 1.0
    assert bound(profile, ["big", "gpu"]).period_ms == 0.0
