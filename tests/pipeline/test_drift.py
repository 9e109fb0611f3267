"""When a plan moves, and what never moves it: the detector alone, with a fake clock."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from graphs import zoo_net
from profiles import profile_of
from toy_board import MS, START, best_period_ms, drifted, period_ms

from pipeall import ArgumentError, Board, Plan, search
from pipeall.pipeline.planning.predict import alone_stage_ms, predict
from pipeall.pipeline.rebalance import GAIN, RETRY_S, Drift

NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50-slim", "squeezenet")
COMPONENTS = ("big", "little", "gpu")
WINDOW_S = 0.3  # of the fake clock


class World:
    """A fake clock and a board whose stages take what ``times(plan)`` says."""

    def __init__(self, drift, times):
        self.drift, self.times, self.now_s = drift, times, 0.0
        self.moves = []  # (seconds, plan)

    def run(self, windows):
        for _ in range(windows):
            self.now_s += WINDOW_S
            if (plan := self.drift.observe(self.times(self.drift.plan), self.now_s)) is not None:
                self.moves.append((self.now_s, plan))


def truth(profile):
    return lambda plan: predict(profile, plan).stage_ms[0]


def noisy(profile, share, seed):
    random = np.random.default_rng(seed)
    return lambda plan: truth(profile)(plan) * random.normal(1, share, len(plan.units))


def cold(name):
    """A zoo network, its profile on the A311D, and its best plan there."""
    graph = zoo_net(name)
    profile = Board.load("a311d-armcl").model.profile(graph)
    return graph, profile, search(graph, profile, top=1, plans="pipelines").best


@pytest.mark.parametrize("share", [0.002, 0.01])
@pytest.mark.parametrize("name", NETWORKS)
def test_noise_moves_nothing(name, share):
    """Gaussian noise of a window's mean: 1 % is 3 % of single frames in windows of nine."""
    graph, profile, plan = cold(name)
    for seed in range(3):
        world = World(Drift(graph, profile, plan), noisy(profile, share, seed))
        world.run(400)
        assert world.moves == []


def test_noise_of_three_per_cent_moves_a_plan_less_than_once_in_a_thousand_windows():
    """Two windows that agree by chance look like a drift: moved at first sight of it, plans would move more often."""
    moves = 0
    for name in NETWORKS:
        graph, profile, plan = cold(name)
        for seed in range(4):
            world = World(Drift(graph, profile, plan), noisy(profile, 0.03, seed))
            world.run(400)
            moves += len(world.moves)
    assert moves < 8


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_component_at_half_speed_moves_the_plan_within_three_windows_and_back(name, component, noise):
    graph, profile, plan = cold(name)
    world = World(Drift(graph, profile, plan), None)

    def phase(factor, since):
        """A window in which the factor changes, and three after it; the profile as it is now."""
        now, before = (drifted(profile, {component: value}) for value in (factor, since))
        world.times = lambda plan: np.mean([truth(now)(plan), truth(before)(plan)], axis=0)
        world.run(1)
        world.times = noisy(now, noise, seed=1)
        world.run(3)
        return now

    phase(1.0, 1.0)
    assert world.moves == []
    hot = phase(2.0, 1.0)
    margin = (1 + GAIN) * (1 + 3 * noise)
    assert period_ms(hot, world.drift.plan) <= margin * best_period_ms(graph, hot)
    assert len(world.moves) == (period_ms(hot, plan) > margin * best_period_ms(graph, hot))
    world.run(40)
    phase(1.0, 2.0)
    if component not in world.drift.plan.units:  # nobody sees it recover
        world.run(round(RETRY_S / WINDOW_S) + 3)
    assert period_ms(profile, world.drift.plan) <= margin * best_period_ms(graph, profile)
    moves = len(world.moves)
    world.run(100)
    assert len(world.moves) == moves


@pytest.mark.parametrize("name", NETWORKS)
def test_a_plan_that_moves_keeps_its_objective(name):
    """With big four times as slow, least latency is another plan: one of search's own, and not that of most FPS."""
    graph, profile, _ = cold(name)
    plan = search(graph, profile, "latency").best
    hot = drifted(profile, {unit: 4.0 for unit in plan.units})
    world = World(Drift(graph, profile, plan), truth(profile))
    world.run(4)
    assert world.moves == []
    world.times = truth(hot)
    world.run(60)
    least = search(graph, hot, "latency").ranked[0].prediction.latency_ms
    assert predict(hot, world.drift.plan).latency_ms <= (1 + GAIN) * least
    assert "x its profile" in world.drift.why and "latency" in world.drift.why


def test_a_plan_that_moves_keeps_its_limits(tmp_path):
    graph, profile, fastest = cold("squeezenet")
    single = search(graph, profile, "latency").ranked[0].prediction.latency_ms
    search(graph, profile, max_latency_ms=1.3 * single, plans="pipelines").best.save(tmp_path / "plan.json")
    plan = Plan.load(tmp_path / "plan.json", graph)
    assert plan.goal.max_latency_ms == 1.3 * single and plan.goal.objective == "throughput"
    hot = drifted(profile, {"gpu": 0.5})
    world = World(Drift(graph, profile, plan), truth(hot))
    world.run(60)
    assert predict(hot, world.drift.plan).latency_ms <= 1.3 * single
    assert predict(hot, world.drift.plan).period_ms <= predict(hot, plan).period_ms
    hopeless = drifted(profile, dict.fromkeys(COMPONENTS, 3.0))  # no plan keeps the limit: it stays as it is
    world = World(Drift(graph, profile, plan), truth(hopeless))
    world.run(60)
    assert world.moves == []


def test_files_of_plans_with_a_wrong_goal_are_refused(tmp_path):
    for entry, message in (
        ('"objective": "fun"', "objective: expected throughput, latency, energy"),
        ('"max_latency_ms": -1', "max_latency_ms: expected a number from 0"),
        ('"min_fps": "x"', "min_fps: expected a"),
    ):
        (tmp_path / "plan.json").write_text(f'{{"format": "pipeall.plan/1", "plan": "big", {entry}}}')
        with pytest.raises(ArgumentError, match=message):
            Plan.load(tmp_path / "plan.json")


def test_a_component_that_is_left_out_is_tried_again_with_longer_and_longer_pauses(chain):
    profile = profile_of(chain, MS)
    hot = drifted(profile, {"little": 20})
    world = World(Drift(chain, profile, Plan.parse(START)), truth(hot))
    world.run(round(700 / WINDOW_S))
    without = [(at, plan) for at, plan in world.moves if "little" not in plan.components]
    tries = [(at, plan) for at, plan in world.moves if "little" in plan.components]
    pauses = [again - left for (left, _), (again, _) in zip(without, tries, strict=False)]
    assert len({plan for _, plan in without}) == 1 and len(tries) == 6
    for pause, expected in zip(pauses, [RETRY_S * 2**n for n in range(6)], strict=True):
        assert expected <= pause <= expected + 3 * WINDOW_S  # of which two until it is seen and confirmed
    for (again, _), (left, _) in zip(tries, without[1:], strict=True):
        assert left - again <= 3 * WINDOW_S  # each try is short
    world.times = truth(profile)
    world.run(round(700 / WINDOW_S))
    assert period_ms(profile, world.drift.plan) <= (1 + GAIN) * best_period_ms(chain, profile)
    moves = len(world.moves)
    assert "little" in world.moves[-1][1].components
    world.run(round(700 / WINDOW_S))
    assert len(world.moves) == moves
    world.times = truth(hot)  # and the pauses are short again
    world.run(round(3 * RETRY_S / WINDOW_S))
    assert len(world.moves) == moves + 3


@pytest.mark.parametrize("worse", [1.0, 1.03, 1.5])
def test_a_gain_that_does_not_come_is_not_run_after(worse, chain):
    """The slowest stage takes twice as long as profiled, in whatever plan and on whatever unit: moving is no use.

    ``worse``: how many times as long as in the first plan it takes in every other.
    """
    profile, start = profile_of(chain, MS), Plan.parse(START)
    slowest = 2 * max(truth(profile)(start))

    def times(plan):
        exact = list(truth(profile)(plan))
        at = 0 if plan == start else int(np.argmax(exact))
        exact[at] = slowest if plan == start else worse * slowest
        return exact

    world = World(Drift(chain, profile, start), times)
    world.run(round(RETRY_S / WINDOW_S))
    first = len(world.moves)
    assert 1 <= first <= 12  # it may look at a few plans, but has settled
    world.run(round(1200 / WINDOW_S))
    # Forgotten after 10, 20, 40, ... s: at most 8 times in 20 minutes, and each costs no more than the first time
    assert len(world.moves) <= 9 * (first + 1)
    at_start, since, plan = 0.0, 0.0, start
    for at, following in [*world.moves, (world.now_s, None)]:
        at_start += (at - since) * (plan == start)
        since, plan = at, following
    if worse > 1 + GAIN:
        assert at_start > 0.9 * world.now_s


def test_two_stages_on_alike_units_that_differ_move_no_plan_to_itself(chain):
    """Both count as their mean, by which even halves would take 1.7 ms; tried once, they are found to be no better."""
    profile, plan = profile_of(chain, {"bigx2": [0.4] * 10}), Plan.parse("bigx2-bigx2:4")
    world = World(Drift(chain, profile, plan), lambda plan: (1.8, 1.4))
    world.run(30)
    plans = [str(plan), *(str(plan) for _, plan in world.moves)]
    assert "bigx2-bigx2:5" in plans and all(one != next_ for one, next_ in zip(plans, plans[1:], strict=False))


def test_a_component_that_is_taken_in_part_gives_no_more_cores(chain):
    """All four cores of big would do it in 1.2 ms alone; the plan has two of them."""
    ms = {"big": [0.12] * 10, "bigx2": [0.4] * 10, "bigx1": [0.8] * 10, "little": [0.5] * 10}
    world = World(Drift(chain, profile_of(chain, ms), Plan.parse("bigx2-little:6")), lambda plan: (2.4, 4.0))
    world.run(2)
    assert [str(plan) for _, plan in world.moves] == ["bigx2-little:7"]  # 2.8 and 3 ms


def test_a_stage_that_takes_no_time_in_the_profile_tells_nothing(chain):
    profile = profile_of(chain, {"big": [0.0] * 4 + [0.4] * 6, "little": [0.5] * 10})
    world = World(Drift(chain, profile, Plan.parse("big-little:4")), lambda plan: (0.01, 6.0))
    world.run(2)
    assert [str(plan) for _, plan in world.moves] == ["big-little:9"]  # 2 and 1 ms


@pytest.mark.parametrize(
    "plan, ms, message",
    [
        ("big+little", MS, r"rebalance: expected a pipeline, got big\+little"),
        ("big-mid:4", MS, "unit 'mid': expected one of the profile: big, little, gpu"),
        ("big-little:10", MS, "expected cuts between 1 and 9"),
        ("big", {"big": [inf] + [1] * 9, "little": [1] * 10}, "rebalance: expected a plan that the profile of net can"),
    ],
)
def test_a_plan_that_cannot_move_is_refused(plan, ms, message, chain):
    with pytest.raises(ArgumentError, match=message):
        Drift(chain, profile_of(chain, ms), Plan.parse(plan))


@pytest.mark.parametrize("start", ["big-gpu-big:2,8", "big-gpu-big:2~3@40,8"])
def test_a_plan_in_which_a_component_repeats_moves_and_comes_back(start, chain):
    """big likes the ends, gpu the middle: no plan in which each comes once is as fast."""
    ms = {"big": [1.0] * 2 + [9.0] * 6 + [1.0] * 2, "gpu": [9.0] * 2 + [0.6] * 6 + [9.0] * 2}
    profile, plan = profile_of(chain, ms), Plan.parse(start)
    hot = replace(profile, units=profile.units | {"gpu": replace(profile.units["gpu"], ms=(1000.0,) * 10)})
    world = World(Drift(chain, profile, plan), truth(profile))
    world.run(10)
    assert not world.moves
    world.times = truth(hot)
    world.run(4)
    assert [str(plan) for _, plan in world.moves] == ["big"]
    world.times = truth(profile)
    world.run(int(3 * RETRY_S / WINDOW_S))
    (_, back), *others = world.moves[1:]
    assert not others and str(back).startswith("big-gpu-big:") and period_ms(profile, back) <= period_ms(profile, plan)


def test_a_plan_for_latency_is_judged_by_frames_in_turn(chain):
    """Units slow each other down to half their speed, but not where frames come one at a time: nothing has drifted."""
    ms = {"big": [1.0] * 5 + [4.0] * 5, "gpu": [4.0] * 5 + [1.0] * 5, "little": [1.9] * 10}
    slower = {one: {other: (2.0,) * 10 for other in ms if other != one} for one in ms}
    profile = profile_of(chain, ms, contention=slower)
    plan = search(chain, profile, "latency").best
    assert str(plan) == "big-gpu:5"
    world = World(Drift(chain, profile, plan), lambda plan: alone_stage_ms(profile, plan)[0])
    world.run(20)
    assert not world.moves
    hot = drifted(profile, {"gpu": 4.0})
    world.times = lambda plan: alone_stage_ms(hot, plan)[0]
    world.run(4)
    (_, moved), *_ = world.moves
    assert (
        moved.goal == plan.goal
        and predict(hot, moved).alone_ms <= (1 + GAIN) * search(chain, hot, "latency").ranked[0].prediction.alone_ms
    )


def test_a_plan_in_which_a_component_repeats_moves_to_another_of_its_shape(chain):
    """big likes the ends, gpu the middle: as gpu slows down, big takes more of it, and still both ends."""
    ms = {"big": [1.0] * 2 + [5.0] * 6 + [1.0] * 2, "gpu": [9.0] * 2 + [0.6] * 6 + [9.0] * 2}
    profile, plan = profile_of(chain, ms), Plan.parse("big-gpu-big:2,8")
    hot = drifted(profile, {"gpu": 4.0})
    world = World(Drift(chain, profile, plan), truth(hot))
    world.run(6)
    (_, moved), *_ = world.moves
    once = search(chain, hot, plans="pipelines").ranked[0].prediction.period_ms
    assert str(moved).startswith("big-gpu-big:") and predict(hot, moved).period_ms < 0.8 * once
