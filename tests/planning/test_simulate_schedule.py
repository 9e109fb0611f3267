"""The simulation of several networks on one board, against closed formulas and the simulation of one."""

from dataclasses import replace

import pytest
from profiles import made_up

from pipeall import ArgumentError, Demand, Plan, SchedulePlan, simulate, simulate_schedule
from pipeall.pipeline.planning.schedule_plan import AHEAD

NEAR = 0.02  # a rate is of whole frames in some seconds


def schedule(plans: dict[str, str], rates: dict[str, float] | None = None, **demands: Demand) -> SchedulePlan:
    plans = {name: Plan.parse(text) for name, text in plans.items()}
    demands = {name: demands.get(name, Demand()) for name in plans}
    planned = {name: demands[name].fps for name in plans} | (rates or {})
    return SchedulePlan(plans, demands, planned)


def run(ms: dict[str, float], plan: SchedulePlan, seconds: float = 10.0, **options):
    """Networks of one group, each of which takes so long on every unit."""
    profiles = {name: made_up({"big": [each], "little": [each], "gpu": [each]}) for name, each in ms.items()}
    return simulate_schedule(profiles, plan, seconds, jitter=False, **options)


def rates(found) -> dict[str, float]:
    return {name: one.fps for name, one in found.networks.items()}


def near(expected: dict[str, float]) -> object:
    return pytest.approx(expected, rel=NEAR)


def test_without_rates_frames_come_in_turn():
    """10 and 5 ms on one unit: each does 1000 / 15 a second, and a frame waits for those that came before it."""
    found = run({"a": 10.0, "b": 5.0}, schedule({"a": "big", "b": "big"}))
    assert rates(found) == near({"a": 1000 / 15, "b": 1000 / 15})
    assert found.use == pytest.approx({"big": 1.0})


def test_rates_are_kept_by_sources_that_are_always_ready():
    """30 and 140 a second take 0.3 and 0.7 of the unit."""
    plan = schedule({"a": "big", "b": "big"}, {"a": 30.0, "b": 140.0})
    assert rates(run({"a": 10.0, "b": 5.0}, plan)) == near({"a": 30, "b": 140})


def test_what_others_leave_is_taken():
    plan = schedule({"a": "big", "b": "big"}, a=Demand(fps=20.0))
    found = run({"a": 10.0, "b": 5.0}, plan)
    assert rates(found) == near({"a": 20, "b": 160})
    alone = run({"b": 5.0}, schedule({"b": "big"}))
    assert rates(alone) == near({"b": 200})


def test_a_higher_priority_waits_for_what_has_begun_alone():
    """A frame of 4 ms every 25 ms, beside frames of 10 ms: at most 10 ms until it begins."""
    ms = {"urgent": 4.0, "other": 10.0}
    units, left = dict.fromkeys(ms, "gpu"), {"other": 84.0}
    first = run(ms, schedule(units, left, urgent=Demand(40.0, 5), other=Demand(priority=0)))
    assert first.networks["urgent"].latency_p99_ms <= 14 + 1e-6
    assert rates(first) == near({"urgent": 40, "other": 84})
    last = run(ms, schedule(units, left, urgent=Demand(40.0, 0), other=Demand(priority=1)))
    assert last.networks["urgent"].latency_p99_ms > 20
    assert rates(last) == near({"urgent": 40, "other": 84})


def test_the_lowest_priority_gets_its_share():
    """What a source submits beyond its rate waits for those within theirs, whatever its priority."""
    plan = schedule({"a": "big", "b": "big"}, {"a": 50.0, "b": 100.0}, a=Demand(priority=9), b=Demand(priority=0))
    found = run({"a": 10.0, "b": 5.0}, plan)
    assert rates(found) == near({"a": 50, "b": 100})


def test_a_rate_that_others_left_is_not_made_up_for_long():
    """AHEAD periods of frames at most come in a row."""
    plan = schedule({"a": "big", "b": "big"}, {"a": 10.0, "b": 190.0}, b=Demand(fps=95.0))
    found = run({"a": 10.0, "b": 5.0}, plan)
    assert rates(found) == near({"a": 52.5, "b": 95})
    assert found.networks["b"].latency_p99_ms <= 10 * (AHEAD + 1) + 5


def test_networks_apart_slow_each_other_down_as_lanes_do():
    """Contention, and what the board draws, are those of one network with a lane on each unit."""
    profile = made_up({"big": [2.0, 3.0], "little": [6.0, 5.0]}, contention={
        "big": {"little": (1.5, 1.2)}, "little": {"big": (1.1, 2.0)},
    }, idle_w=1.0)  # fmt: skip
    units = {name: replace(times, power_w=(3.0, 4.0)) for name, times in profile.units.items()}
    profile = replace(profile, units=units)
    for paced in (False, True):
        lanes = simulate(profile, "big+little", 4000, jitter=False, paced=paced)
        plan = schedule({"a": "big", "b": "little"})
        apart = simulate_schedule({"a": profile, "b": profile}, plan, 10.0, jitter=False, paced=paced)
        for name, stage in zip(apart.networks, lanes.stages, strict=True):
            assert apart.networks[name].stages[0].busy_ms == pytest.approx(stage.busy_ms, rel=1e-3)
        assert apart.power_w == pytest.approx(lanes.energy_mj * lanes.fps / 1e3, rel=1e-3)


def test_one_network_is_as_alone():
    profile = made_up({"big": [2.0, 3.0, 4.0], "gpu": [1.0, 5.0, 2.0]}, 0.1, contention={"big": {"gpu": (1.3,) * 3}})
    for text in ("big-gpu:1", "big-gpu-big:1,2", "big-gpu:1~2", "big+gpu"):
        alone = simulate(profile, text, 2000, seed=4)
        found = simulate_schedule({"a": profile}, schedule({"a": text}), alone.seconds, seed=4).networks["a"]
        assert found.times[:1000] == alone.times[:1000]
        assert found.fps == pytest.approx(alone.fps, rel=0.01)


def test_stages_of_two_networks_take_turns_on_units_they_share():
    """No unit computes two frames at once, and all of its time is used."""
    profile = made_up({"big": [4.0, 4.0], "gpu": [3.0, 5.0]})
    plan = schedule({"a": "big-gpu:1", "b": "gpu-big:1"}, {"a": 125.0, "b": 125.0})
    found = simulate_schedule({"a": profile, "b": profile}, plan, 4.0, jitter=False)
    runs = [
        (one.begin_ns[stage], one.end_ns[stage])
        for name, stage in (("a", 0), ("b", 1))
        for one in found.networks[name].times
    ]
    runs.sort()
    assert all(end <= begin for (_, end), (begin, _) in zip(runs, runs[1:], strict=False))
    assert rates(found) == pytest.approx({"a": 1000 / 8, "b": 1000 / 8}, rel=0.05)  # each unit takes 8 ms for both
    assert min(found.use.values()) > 0.95


@pytest.mark.parametrize(
    ("profiles", "told"),
    [({}, "expected those of a, got none"), ({"b": None}, "expected those of a, got b")],
)
def test_names_agree(profiles, told):
    profile = made_up({"big": [1.0]})
    with pytest.raises(ArgumentError, match=told):
        simulate_schedule(dict.fromkeys(profiles, profile), schedule({"a": "big"}))
