"""The simulation against closed formulas and the static prediction."""

import json
from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest
from profiles import made_up, pipeline_of

from pipeall.errors import ArgumentError
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import HOST, Link, UnitTimes
from pipeall.pipeline.planning.rings import REORDER
from pipeall.pipeline.planning.simulate import WARM_UP, simulate

# Times add up over 1,200 frames: some 10,000 roundings of 1.1e-16, relative to the whole
EXACT = 1e-11


def near(value: float, rel: float = EXACT) -> object:
    return pytest.approx(value, rel=rel, abs=1e-9)


# ---- one lane, no contention, no jitter


@pytest.mark.parametrize(("slots", "depth", "inside"), [(2, None, 2), (2, 1, 1), (1, 5, 5), (4, 3, 3)])
def test_one_stage(slots, depth, inside):
    """FPS is 1 / t; a frame waits for those before it, of which depth lets ``inside`` in."""
    profile, plan = pipeline_of([8.0])
    found = simulate(profile, plan, frames=300, slots=slots, depth=depth, jitter=False)
    assert found.fps == near(125)
    assert found.latency_p50_ms == found.latency_p99_ms == near(8.0 * inside)
    (stage,) = found.stages
    assert (stage.unit, stage.groups, stage.frames) == ("gpu", (0, 1), 300)
    assert (stage.busy_ms, stage.wait_in_ms, stage.wait_out_ms, stage.use) == tuple(map(near, (8, 0, 0, 1)))


def test_the_slowest_stage_sets_the_pace():
    """Use is the stage's time over the slowest's; what a stage does not compute, it waits: before the slowest for a
    free slot, after it for input."""
    profile, plan = pipeline_of([3.0, 10.0, 7.5])
    found = simulate(profile, plan, depth=8, jitter=False)
    assert found.fps == near(100)
    assert found.seconds == near(10.0)
    assert [stage.use for stage in found.stages] == [near(0.3), near(1.0), near(0.75)]
    assert [stage.busy_ms for stage in found.stages] == [near(3.0), near(10.0), near(7.5)]
    assert [stage.wait_in_ms for stage in found.stages] == [near(0), near(0), near(2.5)]
    assert [stage.wait_out_ms for stage in found.stages] == [near(7.0), near(0), near(0)]


@pytest.mark.parametrize(("depth", "wait_in", "wait_out"), [(None, 0.0, 8.0), (3, 0.0, 8.0), (2, 8.0, 0.0)])
def test_a_slow_last_stage_blocks_the_first(depth, wait_in, wait_out):
    """With two slots the ring between is full with 2 frames: a third one waits in the first stage for a slot; without
    a third one the first stage waits for input. By Little's law a frame takes depth periods; depth is 3 by default."""
    profile, plan = pipeline_of([2.0, 10.0])
    found = simulate(profile, plan, depth=depth, jitter=False)
    assert found.fps == near(100)
    assert found.stages[0].wait_in_ms == near(wait_in)
    assert found.stages[0].wait_out_ms == near(wait_out)
    assert found.stages[1].use == near(1.0)
    assert found.latency_p50_ms == near(10.0 * (depth or 3))


@pytest.mark.parametrize("stages", [2, 3, 6])
def test_balanced_with_a_frame_a_stage(stages):
    """Nothing waits: full throughput at the latency of a frame alone."""
    profile, plan = pipeline_of([5.0] * stages)
    found = simulate(profile, plan, depth=stages, jitter=False)
    assert found.fps == near(200)
    assert found.latency_p99_ms == near(5.0 * stages)


def test_latency_is_in_the_order_of_delivery():
    """While little takes 40 ms for a frame, big does four of 10 ms: the first of them was submitted before little's,
    the others wait for it, 30, 20 and 10 ms with their own 10. Of five frames two take 10, and one each 20, 30, 40."""
    profile = made_up({"big": [10.0], "little": [40.0]})
    found = simulate(profile, Plan.parallel(["big", "little"]), depth=1, jitter=False)
    assert found.fps == near(125)
    assert (found.latency_p50_ms, found.latency_p95_ms, found.latency_p99_ms) == (near(20), near(40), near(40))


@pytest.mark.parametrize(("depth", "period"), [(1, 18.0), (2, 9.0), (3, 8.0), (9, 8.0)])
def test_depth_bounds_the_throughput(depth, period):
    """depth frames go round in at least the time of all stages: the period is max(slowest, sum / depth)."""
    profile, plan = pipeline_of([6.0, 8.0, 4.0])
    found = simulate(profile, plan, depth=depth, jitter=False)  # 1,000 frames: whole turns of 1 and 2
    assert found.fps == near(1000 / period)


def test_one_slot_couples_neighbours():
    """Without double buffering a stage holds the slot that its neighbour wants: the period is that of two stages."""
    profile, plan = pipeline_of([6.0, 8.0, 4.0])
    assert simulate(profile, plan, slots=1, depth=9, jitter=False).fps == near(1000 / 14)


def test_camera():
    """A frame every 20 ms finds the stages free."""
    profile, plan = pipeline_of([10.0, 8.0])
    found = simulate(profile, plan, period_ms=20.0, jitter=False)
    assert found.fps == near(50)
    assert found.latency_p99_ms == near(18.0)
    assert [stage.use for stage in found.stages] == [near(0.5), near(0.4)]
    assert [stage.wait_in_ms for stage in found.stages] == [near(10.0), near(12.0)]


# ---- several lanes


def test_parallel_adds_the_rates():
    """The count of a window is whole frames: off by up to one a lane."""
    profile = made_up({"big": [4.0, 6.0], "little": [20.0, 15.0], "gpu": [5.0, 7.0]})
    found = simulate(profile, Plan.parallel(["big", "little", "gpu"]), jitter=False)
    assert found.fps == near(1000 / 10 + 1000 / 35 + 1000 / 12, rel=3 / 1000)
    assert [stage.use for stage in found.stages] == [near(1.0)] * 3
    assert [stage.busy_ms for stage in found.stages] == [near(10.0), near(35.0), near(12.0)]


def test_lanes_share_the_frames():
    """Two frames each, the lane with fewer under way first; then whichever has room takes the next."""
    profile = made_up({"big": [10.0], "little": [25.0]})
    times = simulate(profile, Plan.parallel(["big", "little"]), frames=1, jitter=False).times
    assert [frame.submitted_ns for frame in times[:7]] == [0, 0, 0, 0, 10_000_000, 20_000_000, 25_000_000]
    ends = [frame.end_ns[-1] / 1e6 for frame in times[:7]]
    assert ends == [10.0, 25.0, 20.0, 50.0, 30.0, 40.0, 75.0]


def test_a_fast_lane_waits_for_the_oldest_frame():
    """Two lanes are at most 2 * REORDER frames ahead of the oldest result not delivered, and here they get there."""
    profile = made_up({"big": [1.0], "little": [500.0]})
    times = simulate(profile, Plan.parallel(["big", "little"]), frames=1500, jitter=False).times
    delivered = np.maximum.accumulate([frame.end_ns[-1] for frame in times])
    submitted = np.array([frame.submitted_ns for frame in times])
    ahead = 2 * REORDER
    assert (submitted[ahead:] >= delivered[:-ahead]).all()
    assert (submitted[ahead - 1 :] < delivered[: 1 - ahead]).any()


# ---- contention, hand-over, energy


def test_contention_of_units_that_are_always_busy():
    """Each lane has its factor all the time, whatever the groups: as predicted."""
    contention = {"big": {"little": (1.2, 1.4), "gpu": (1.1, 1.3)}, "gpu": {"big": (1.05, 1.5)}}
    profile = made_up({"big": [4.0, 6.0], "little": [20.0, 15.0], "gpu": [5.0, 7.0]}, contention=contention)
    plan = Plan.parallel(["big", "little", "gpu"])
    found = simulate(profile, plan, jitter=False)
    expected = [4 * 1.2 * 1.1 + 6 * 1.4 * 1.3, 35.0, 5 * 1.05 + 7 * 1.5]
    assert [stage.busy_ms for stage in found.stages] == [near(ms) for ms in expected]
    assert [ms for (ms,) in predict(profile, plan).stage_ms] == [near(ms) for ms in expected]


def test_stages_slow_each_other_down_as_stages_and_lanes_as_lanes():
    """Both ways of 8 ms: two stages that take 12 each, in a pipeline; two lanes of 20 each."""
    profile = made_up({"big": [8.0, 8.0], "little": [8.0, 8.0]}, contention=both(1.25))
    profile = replace(profile, same_pipeline=both(1.5))
    for text, busy_ms in (("big-little:1", 12.0), ("big+little", 20.0)):
        found = simulate(profile, Plan.parse(text), jitter=False)
        assert [stage.busy_ms for stage in found.stages] == [near(busy_ms)] * 2


def both(factor):
    return {"big": {"little": (factor,) * 2}, "little": {"big": (factor,) * 2}}


def test_contention_only_while_the_other_computes():
    """big (10 ms alone) computes always, so little's 4 ms take 5. Those 5 ms big runs 1.5 times slower:
    5 / 1.5 + (P - 5) = 10. Idle 2 W, big 3 W and little 2 W more while they compute. Paced: 15 ms, as predicted."""
    units = {
        "big": UnitTimes((10.0, 4.0), (0.0, 0.0), (5.0, 5.0)),
        "little": UnitTimes((10.0, 4.0), (0.0, 0.0), (4.0, 4.0)),
    }
    contention = {"big": {"little": (1.5, 1.5)}, "little": {"big": (1.25, 1.25)}}
    profile = made_up(units, contention=contention, idle_w=2.0)
    plan = Plan.parse("big-little:1")
    found = simulate(profile, plan, depth=6, jitter=False)
    period = 15 - 5 / 1.5
    assert found.fps == near(1000 / period)
    assert [stage.busy_ms for stage in found.stages] == [near(period), near(5.0)]
    assert found.energy_mj == near((2 + 3) * period + 2 * 5)

    paced = simulate(profile, plan, depth=6, jitter=False, paced=True)
    assert paced.fps == near(predict(profile, plan).fps) == near(1000 / 15)
    assert paced.energy_mj == near(predict(profile, plan).energy_mj)


def test_power_of_every_group():
    """The energy of a unit that is always slowed down alike is the prediction's, group by group."""
    units = {
        "big": UnitTimes((4.0, 6.0, 2.0), (0.0,) * 3, (5.0, 1.0, 7.0)),  # below idle counts as idle
        "gpu": UnitTimes((3.0, 5.0, 9.0), (0.0,) * 3, (3.0, 4.0, 6.0)),
    }
    contention = {"big": {"gpu": (1.1, 1.6, 1.0)}, "gpu": {"big": (1.3, 1.0, 1.2)}}
    profile = made_up(units, contention=contention, idle_w=2.0)
    plan = Plan.parse("big-gpu:2")
    assert simulate(profile, plan, jitter=False, paced=True).energy_mj == near(predict(profile, plan).energy_mj)


def test_handover_is_part_of_both_stages():
    """4,000 bytes cross every border. Contention slows down the groups, not the hand-over."""
    links = {
        (HOST, "big"): Link((4000,), (0.0,), (0.5,), (0.0,)),
        ("big", "gpu"): Link((4000,), (1.0,), (2.0,), (0.5,)),
        ("gpu", HOST): Link((4000,), (0.25,), (0.0,), (0.0,)),
    }
    profile = made_up({"big": [6.0, 5.0], "gpu": [6.0, 5.0]}, links=links)
    plan = Plan.parse("big-gpu:1")
    found = simulate(profile, plan, depth=2, jitter=False)
    assert [stage.busy_ms for stage in found.stages] == [near(6 + 0.5 + 1), near(5 + 2 + 0.25)]
    assert [stage.handover_ms for stage in found.stages] == [near(1.5), near(2.25)]
    assert found.fps == near(predict(profile, plan).fps) == near(1000 / 7.5)

    profile = replace(profile, contention={"big": {"gpu": (1.5, 1.0)}})
    paced = simulate(profile, plan, depth=2, jitter=False, paced=True)
    assert paced.stages[0].busy_ms == near(predict(profile, plan).stage_ms[0][0]) == near(6 * 1.5 + 0.5 + 1)


# ---- jitter


def test_jitter_is_the_profiles_spread():
    """Four groups of 10 ms, quartiles 0.2 ms from the median, so 0.2 / 0.6745 standard deviations, independently:
    twice that for the sum. Of n frames the mean is off by sd / sqrt(n), the deviation by sd / sqrt(2 n): 5 of them."""
    profile = made_up({"big": [10.0] * 4}, spread=0.02)
    found = simulate(profile, Plan.single("big"), seed=3)
    took = np.array([frame.end_ns[0] - frame.begin_ns[0] for frame in found.times]) / 1e6
    sd = 2 * 0.2 / 0.6745
    assert took.mean() == pytest.approx(40.0, abs=5 * sd / sqrt(len(took)))
    assert took.std() == pytest.approx(sd, rel=5 / sqrt(2 * len(took)))
    assert found.stages[0].busy_ms == pytest.approx(took[WARM_UP:].mean(), rel=1e-6)  # times are whole ns


def test_jitter_widens_latency_and_costs_little():
    """No stage finishes more than it computes: FPS is below 1 / t, but for the mean of n draws. It is above that of a
    line in which all stages step together, each step as long as the longest of three: t + 0.846 sd (normal)."""
    profile, plan = pipeline_of([10.0] * 3, spread=0.03)
    calm = simulate(profile, plan, jitter=False)
    found = simulate(profile, plan, frames=4000, seed=1)
    sd = 0.03 / 0.6745
    sampling = 5 * sd / sqrt(4000)
    assert 1 / (1 + 0.846 * sd + sampling) < found.fps / calm.fps < 1 + sampling
    assert found.fps < calm.fps
    assert calm.latency_p99_ms == near(calm.latency_p50_ms)
    assert found.latency_p99_ms > found.latency_p95_ms > found.latency_p50_ms
    assert found.latency_p99_ms > calm.latency_p99_ms + 10 * sd


def test_the_seed_decides():
    profile, plan = pipeline_of([10.0, 9.0], spread=0.03)
    runs = [simulate(profile, plan, frames=50, seed=seed) for seed in (7, 7, 8)]
    assert runs[0] == runs[1]
    assert runs[0].times != runs[2].times


def test_draws_do_not_depend_on_slots_and_depth():
    """So that two simulations differ by what was changed only."""
    profile, plan = pipeline_of([10.0, 9.0], spread=0.03)
    few, many = (simulate(profile, plan, frames=50, slots=slots, depth=slots).times for slots in (1, 8))
    for one, other in zip(few, many, strict=False):
        for begin, end, began, ended in zip(one.begin_ns, one.end_ns, other.begin_ns, other.end_ns, strict=True):
            assert end - begin == pytest.approx(ended - began, abs=2)  # each stamp is rounded to whole ns


# ---- what cannot run, and output


@pytest.mark.parametrize(
    ("plan", "arguments", "expected"),
    [
        ("big-gpu:1", {}, "plan big-gpu:1: expected groups that gpu can run, got group 3, g3: no pooling"),
        ("gpu", {}, "got group 3, g3: no pooling"),
        ("gpu-little:3", {}, "no pooling"),
        ("big-little:3", {}, "little cannot|got group 4, g4: no time was measured"),
        ("big-little:4", {}, "expected cuts between 1 and 3"),
        ("big-bigx3:1", {}, "another component behind big"),
        ("bigx2", {}, "unit 'bigx2': expected one of the profile"),
        ("big", {"frames": 0}, "frames: expected a whole number from 1 to 1000000, got 0"),
        ("big", {"slots": 0}, "slots: expected a whole number from 1 to 64, got 0"),
        ("big", {"slots": 65}, "slots"),
        ("big", {"depth": -1}, "depth: expected a whole number from 0 to"),
        ("big", {"depth": True}, "depth"),
        ("big", {"period_ms": -1.0}, "period_ms: expected a number from 0 to 1e[+]09"),
        ("big", {"period_ms": inf}, "period_ms"),
        ("big", {"period_ms": "3"}, "period_ms: expected a number from 0 to 1e[+]09, got '3'"),
        ("gpu-gpu1:2", {}, "plan gpu-gpu1:2: expected gpu next to no other OpenCL device"),
    ],
)
def test_refused(plan, arguments, expected):
    profile = made_up({"big": [1.0] * 4, "little": [1.0] * 3 + [inf], "gpu": [1.0, 1.0, inf, 1.0]})
    gpu = replace(profile.units["gpu"], half_iqr_ms=(0.0,) * 4, refused={3: "no pooling"})
    profile = replace(profile, units={**profile.units, "gpu": gpu, "gpu1": profile.units["big"]})
    with pytest.raises(ArgumentError, match=expected):
        simulate(profile, Plan.parse(plan), **arguments)


def test_what_a_unit_cannot_run_may_be_another_units():
    profile = made_up({"big": [2.0, 3.0, 4.0], "gpu": [1.0, 1.0, inf]})
    assert simulate(profile, Plan.parse("gpu-big:2"), jitter=False).fps == near(250)


def test_to_dict():
    """As a run's statistics, and energy; ready for JSON."""
    profile, plan = pipeline_of([4.0, 5.0])
    content = json.loads(json.dumps(simulate(profile, plan, frames=10).to_dict()))
    assert list(content) == [
        "frames", "seconds", "fps", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "energy_mj", "stages",
    ]  # fmt: skip
    assert content["energy_mj"] is None
    assert [stage["unit"] for stage in content["stages"]] == ["gpu", "little"]
