"""Plans that are done with a frame soonest, against every path of groups through units, added up here."""

from itertools import product

import numpy as np
import pytest
from plans_reference import INF, chain, may_run, raised, random_profile

from pipeall.pipeline.planning.latency import soonest
from pipeall.pipeline.planning.plan import Goal, Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import HOST, Profile
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.simulate import simulate
from pipeall.pipeline.planning.units import Unit, unit_sets

UNITS = tuple(map(Unit, ("big", "gpu", "little")))
GROUPS = 8
PATHS = np.array(list(product(range(3), repeat=GROUPS)))  # the unit of every group
CLOSE = dict(rel=1e-9)


def seeded(seed: int) -> Profile:
    """Some with ties, some with groups that a unit cannot run, some without hand-over costs and contention, some with a
    unit that has ranges compiled ahead."""
    return random_profile(
        chain(GROUPS),
        UNITS,
        seed,
        infinite=(0.0, 0.1, 0.4)[seed % 3],
        ties=seed % 2 == 0,
        loaded=seed % 5 != 0,
        ahead=seed % 7 in (2, 3),
    )


def loads(profile: Profile, alone: bool) -> np.ndarray:
    """(paths, units): the ms that each path takes of each unit; at full load all units that it has slow each other."""
    taken = np.zeros((len(PATHS), 3))
    sides = [np.full(len(PATHS), 3), *PATHS.T, np.full(len(PATHS), 3)]
    names = (*UNITS, HOST)
    for number, unit in enumerate(UNITS):
        ms = np.tile(profile.units[unit].ms, (len(PATHS), 1))
        for other, name in enumerate(UNITS):
            if other != number and not alone:
                ms[(PATHS == other).any(axis=1)] *= profile.slowdown(unit, name, same_pipeline=True)
        taken[:, number] = np.where(PATHS == number, ms, 0.0).sum(axis=1)
    for border, (before, after) in enumerate(zip(sides[:-1], sides[1:], strict=True)):
        for sender, receiver in product(range(4), repeat=2):
            here = (before == sender) & (after == receiver) & (before != after)
            send, receive = profile.handover(names[sender], names[receiver])
            taken[here, sender % 3] += send[border] * (sender < 3)
            taken[here, receiver % 3] += receive[border] * (receiver < 3)
    taken[~allowed(profile)] = INF
    return taken


def allowed(profile: Profile) -> np.ndarray:
    """(paths,): whether each unit may have the stages that a path gives it."""
    if not any(times.ranges for times in profile.units.values()):
        return np.ones(len(PATHS), bool)
    return np.array([may_run(profile, tuple(UNITS[unit] for unit in path)) for path in PATHS])


@pytest.mark.parametrize("thousandths", range(0, 1000, 100))
def test_one_frame_is_done_soonest_of_all_paths(thousandths):
    """100 profiles each: 3^8 paths, in which a unit may come any number of times."""
    sets = unit_sets(UNITS, GROUPS)
    for seed in range(thousandths, thousandths + 100):
        profile = seeded(seed)
        least = loads(profile, alone=True).sum(axis=1).min()
        found = soonest(profile, sets, Goal("latency"), [])
        assert (found[0].prediction.alone_ms if found else INF) == pytest.approx(least, **CLOSE)


@pytest.mark.parametrize("seed", range(30))
def test_least_latency_at_a_rate(seed):
    """Where all are slower than the rate asks, frames are under way at once: units slow each other down, none may be
    busy for longer than the period. Among the ranked are all pipelines in which each unit has one stage.
    """
    profile = seeded(seed)
    alone, loaded = loads(profile, alone=True).sum(axis=1), loads(profile, alone=False)
    if alone.min() == INF:
        assert raised(search, chain(GROUPS), profile, "latency").startswith("no plan for chain8")
        return
    period = float(np.random.default_rng(seed).uniform(0.3, 1.1) * alone.min())
    in_time = loaded[(loaded.max(axis=1) <= period) & (alone > period)].sum(axis=1)
    least = min([*in_time, *alone[alone <= period]], default=INF)
    if least == INF:
        message = raised(search, chain(GROUPS), profile, "latency", min_fps=1000 / period)
        assert message.startswith(("min_fps: expected at most", "no plan for chain8"))
        return
    found = search(chain(GROUPS), profile, "latency", min_fps=1000 / period, top=10_000).ranked
    assert found[0].latency_ms == pytest.approx(least, **CLOSE)
    assert all(choice.period_ms <= period * (1 + 1e-9) for choice in found)
    assert [choice.latency_ms for choice in found] == pytest.approx(sorted(choice.latency_ms for choice in found))
    assert len({choice.plan for choice in found}) == len(found)


def test_all_cores_as_one_unit_take_turns_with_the_gpu():
    """cpu is never beside big: it takes 2, 2, 2 ms, big 3, 3, 3, gpu 9, 1, 9, and handing over costs nothing."""
    units = ("big", "cpu", "gpu")
    profile = random_profile(chain(3), units, loaded=False)
    for unit, ms in zip(map(Unit, units), ((3.0, 3.0, 3.0), (2.0, 2.0, 2.0), (9.0, 1.0, 9.0)), strict=True):
        object.__setattr__(profile.units[unit], "ms", ms)
    found = search(chain(3), profile, "latency")
    assert str(found.best) == "cpu-gpu-cpu:1,2" and found.ranked[0].latency_ms == 5
    assert not any({"big", "cpu"} <= set(choice.plan.units) for choice in found.ranked)


def test_a_unit_that_comes_again_is_worth_its_hand_overs():
    """big takes 1, 9, 1 ms, gpu 9, 1, 9: no cost of handing over, so 3 ms in three stages against 11 in one."""
    profile = random_profile(chain(3), UNITS[:2], loaded=False)
    for unit, ms in zip(UNITS, ((1.0, 9.0, 1.0), (9.0, 1.0, 9.0)), strict=False):
        object.__setattr__(profile.units[unit], "ms", ms)
    found = search(chain(3), profile, "latency")
    assert str(found.best) == "big-gpu-big:1,2" and found.ranked[0].latency_ms == 3
    assert str(found.simpler.plan) == "big" and found.simpler.prediction.alone_ms == 11


@pytest.mark.parametrize("plan", ["big", "big-gpu:3", "big-gpu-big-little:2,3,5", "gpu-big-gpu:2~4@50,6"])
def test_simulation_of_one_frame_at_a_time_is_the_prediction(plan):
    profile, plan = random_profile(chain(GROUPS), UNITS, 4), Plan.parse(plan)
    for paced in (False, True):
        run = simulate(profile, plan, 100, depth=1, jitter=False, paced=paced)
        mean = 1000 / run.fps
        assert mean == pytest.approx(predict(profile, plan).alone_ms, rel=1e-6)
    assert predict(profile, plan).latency_ms >= predict(profile, plan).alone_ms
