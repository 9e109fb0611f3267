"""Predictions worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from plans_reference import INF

from pipeall.errors import ArgumentError
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import Link, Profile, UnitTimes
from pipeall.pipeline.planning.stage_costs import StageCosts

SPREAD = (0.0,) * 4


def times(*ms: float, watts: float | None = None) -> UnitTimes:
    return UnitTimes(ms, SPREAD, None if watts is None else (watts,) * 4)


PROFILE = Profile(
    network="net",
    groups=("a", "b", "c", "d"),
    crossing_bytes=(1000, 2000, 3000, 4000, 500),
    units={
        "big": times(1, 2, 3, 4, watts=7),
        "little": times(10, 20, 30, 40, watts=3),
        "gpu": times(2, INF, 2, 2, watts=4),
        "bigx1": times(4, 8, 12, 16),
        "bigx3": times(2, 3, 4, 5),
    },
    contention={
        "big": {"little": (1.1, 1.2, 1.3, 1.4), "gpu": (2, 2, 2, 2), "big": (1.5, 1.5, 1.5, 1.5)},
        "little": {"big": (1, 1, 1, 2)},
        "bigx1": {"gpu": (3, 3, 3, 3)},
    },
    links={
        ("host", "big"): Link((1000, 2000), (9, 9), (0.25, 9), (0, 0)),
        ("big", "little"): Link((1000, 3000), (0.5, 1.5), (1, 3), (0, 0)),
        ("little", "host"): Link((1000,), (0.125,), (9,), (0,)),
    },
    idle_w=2.0,
)


def test_one_unit_alone():
    """1 + 2 + 3 + 4 ms, and 0.25 ms for the input of 1,000 bytes; nothing is known of sending from big to the host."""
    found = predict(PROFILE, Plan.single("big"))
    assert found.stage_ms == ((10.25,),)
    assert found.period_ms == found.latency_ms == 10.25
    assert found.fps == pytest.approx(1000 / 10.25)
    assert found.energy_mj == pytest.approx(10.25 * 2 + 10 * (7 - 2))  # the hand-over is at idle power


def test_a_pipeline():
    """big: (1.1 + 2.4) ms, 0.25 ms received, and 1 ms sent for 3,000 bytes ((3000 - 1000) / 2000 + 0.5 = 1.5).

    little: 30 + 2 x 40 ms, 3 ms received, and 0.125 ms sent, a link of one size being constant.
    """
    found = predict(PROFILE, Plan.parse("big-little:2"))
    assert found.stage_ms[0] == pytest.approx((1.1 + 2.4 + 0.25 + 1.5, 30 + 80 + 3 + 0.125))
    assert found.period_ms == pytest.approx(113.125)
    assert found.latency_ms == pytest.approx(5.25 + 113.125)
    assert found.energy_mj == pytest.approx(113.125 * 2 + 3.5 * 5 + 110 * 1)


def test_lines_of_a_link_go_on_beyond_the_last_size_and_stop_before_the_first():
    sent, received = PROFILE.handover("big", "little")
    assert sent == pytest.approx([0.5, 1.0, 1.5, 2.0, 0.5])
    assert received == pytest.approx([1, 2, 3, 4, 1])
    falling = Link((1000, 2000), (1.0, 0.5), (1.0, 0.5), (0, 0))
    sent, _ = replace(PROFILE, links={("big", "little"): falling}).handover("bigx1", "little")
    assert sent == pytest.approx([1, 0.5, 0, 0, 1])  # never below nothing


def test_opencl_devices_cannot_hand_over_to_each_other():
    """Not even where a file has a link for it; with a CPU in between, and side by side, they can run."""
    link = {("gpu", "gpu1"): Link((1000,), (0.5,), (0.5,), (0,))}
    profile = replace(PROFILE, units={**PROFILE.units, "gpu": times(1, 1, 1, 1), "gpu1": times(1, 1, 1, 1)}, links=link)
    assert all(np.isinf(cost).all() for cost in profile.handover("gpu", "gpu1"))
    assert predict(profile, Plan.parse("gpu-gpu1:2")).period_ms == INF
    assert predict(profile, Plan.parse("gpu1-gpu:2")).period_ms == INF
    assert predict(profile, Plan.parse("gpu-big-gpu1:1,3")).period_ms < INF
    assert predict(profile, Plan.parse("gpu+gpu1")).period_ms < INF


def test_parallel_adds_rates():
    """big beside little: 1.1 + 2.4 + 3.9 + 5.6 ms; little beside big: 10 + 20 + 30 + 80. Rates and energies add up."""
    found = predict(PROFILE, Plan.parse("big+little"))
    big, little = 13 + 0.25, 140 + 0.125
    assert found.stage_ms == (pytest.approx((big,)), pytest.approx((little,)))
    assert found.period_ms == pytest.approx(1 / (1 / big + 1 / little))
    assert found.latency_ms == pytest.approx(little)
    frames = 1000.0  # of both together take 1000 periods, of which each lane computes its share
    share = {"big": found.period_ms / big, "little": found.period_ms / little}
    joules = frames * (found.period_ms * 2 + share["big"] * 13 * 5 + share["little"] * 140 * 1)
    assert found.energy_mj == pytest.approx(joules / frames)


def test_stages_slow_each_other_down_as_stages_and_lanes_as_lanes():
    """In line, big's groups take 1.5, 1, 2 and 1 times as long beside little; little's are known as lanes only."""
    profile = replace(PROFILE, same_pipeline={"big": {"little": (1.5, 1, 2, 1)}}, links={})
    pipeline, lanes = predict(profile, Plan.parse("big-little:3")), predict(profile, Plan.parse("big+little"))
    assert pipeline.stage_ms == (pytest.approx((1.5 + 2 + 6, 2 * 40)),)
    assert lanes.stage_ms == (pytest.approx((1.1 + 2.4 + 3.9 + 5.6,)), pytest.approx((10 + 20 + 30 + 2 * 40,)))
    assert profile.slowdown("bigx3", "little", same_pipeline=True).tolist() == [1.5, 1, 2, 1]


def test_a_group_that_a_unit_cannot_run():
    assert predict(PROFILE, Plan.parse("gpu-big:2")).period_ms == INF
    assert predict(PROFILE, Plan.parse("gpu-big:2")).fps == 0
    found = predict(PROFILE, Plan.parse("gpu-big:1"))
    assert found.stage_ms[0] == pytest.approx((2, 2 * (2 + 3 + 4)))
    assert found.energy_mj == pytest.approx(18 * 2 + 2 * (4 - 2) + 18 * 5)


def test_parts_of_a_component_stand_for_the_whole():
    """What is known of "bigx1" itself counts first (gpu: 3); of the rest, what is known of "big"."""
    assert PROFILE.slowdown("bigx1", "gpu").tolist() == [3, 3, 3, 3]
    assert PROFILE.slowdown("bigx3", "gpu").tolist() == [2, 2, 2, 2]
    assert PROFILE.slowdown("bigx3", "bigx1").tolist() == [1.5, 1.5, 1.5, 1.5]
    assert PROFILE.slowdown("little", "bigx3").tolist() == [1, 1, 1, 2]
    assert PROFILE.slowdown("gpu", "big").tolist() == [1, 1, 1, 1]
    found = predict(PROFILE, Plan.parse("bigx3-bigx3-little:1,3"))
    loaded = [1.5 * factor * ms for factor, ms in zip((1.1, 1.2, 1.3), (2, 3, 4), strict=True)]
    # between two parts of big nothing is known of handing over; from big to little 4,000 bytes cost 2 and 4 ms
    assert found.stage_ms[0] == pytest.approx((loaded[0] + 0.25, loaded[1] + loaded[2] + 2, 40 * 4 + 4 + 0.125))
    assert found.energy_mj is None  # of bigx3 no power is known


def test_energy_needs_idle_power_too():
    assert predict(replace(PROFILE, idle_w=None), Plan.single("big")).energy_mj is None


def test_a_unit_that_draws_less_than_the_idle_board_saves_nothing():
    costs = StageCosts(replace(PROFILE, idle_w=5.0), ["little", "gpu"])
    assert [mj.tolist() for mj in costs.loaded_mj] == [[0, 0, 0, 0], [0, 0, 0, 0]]
    assert np.isinf(costs.loaded_ms[1][1])


@pytest.mark.parametrize(
    "plan, message",
    [
        ("mid-big:2", "unit 'mid': expected one of the profile: big, little, gpu, bigx1, bigx3"),
        ("bigx2", "unit 'bigx2': expected one of the profile"),
        ("big-little:4", "plan big-little:4: expected cuts between 1 and 3 for net"),
        ("big-little:7", "plan big-little:7: expected cuts between 1 and 3 for net"),
    ],
)
def test_plans_that_do_not_fit_are_named(plan, message):
    with pytest.raises(ArgumentError, match=message):
        predict(PROFILE, Plan.parse(plan))


def test_a_network_that_takes_no_time_is_refused():
    instant = replace(PROFILE, units={"little": times(0, 0, 0, 0)}, links={})
    with pytest.raises(ArgumentError, match="plan little: expected stages that take time"):
        predict(instant, Plan.single("little"))
