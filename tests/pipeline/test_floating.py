"""Cuts that float: every way to run a frame, the share that balances the stages, and the runtime that finds it."""

import threading
import time
from dataclasses import replace
from itertools import pairwise, product, repeat
from math import inf, prod

import numpy as np
import pytest
from graphs import Net, early_net, frames, inputs_of, random_graph, small_net, zoo_net
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from process import promptly
from profiles import profile_of
from step_reference import run_steps
from toy_board import chain_net, toy_board

from pipeall import ArgumentError, Board, Pipeline, PipelineError, profile, search
from pipeall.graph import ops
from pipeall.graph.ir import Graph
from pipeall.graph.memory import LINE_BYTES
from pipeall.pipeline import runtime
from pipeall.pipeline.lane import lowered_stages
from pipeall.pipeline.measuring.footprint import footprint
from pipeall.pipeline.planning.explain import explain
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.rings import LATE_EXIT_FRAMES, goes_out_late
from pipeall.pipeline.planning.simulate import simulate

# ---- plans


@pytest.mark.parametrize("text", ["big-little:3~4", "gpu-big-little:3~5,7", "bigx3-bigx1-gpu:1,4~5"])
def test_the_text_of_a_plan_is_read_back(text, tmp_path):
    plan = Plan.parse(text)
    assert str(plan) == text and plan.floats
    graph = chain_net()
    plan.save(tmp_path / "plan.json", graph)
    assert Plan.load(tmp_path / "plan.json", graph) == plan


def test_the_rule_is_told_once_in_each_language():
    assert runtime.LATE_EXIT_FRAMES == LATE_EXIT_FRAMES
    assert [goes_out_late(occupied, waiting) for occupied in (1, 2) for waiting in (0, 1)] == [True, False, True, True]


def test_a_cut_that_floats_nowhere_is_a_cut():
    assert Plan.parse("B-L:3~3") == Plan.parse("B-L:3") == Plan.pipeline(["B", "L"], [(3, 3)])
    assert not Plan.parse("B-L:3").floats


@pytest.mark.parametrize("cuts", ["4~3", "3~5,5~6", "3~5,4", "3,2~4", "0~1,2", "2~", "~3", "1~2~3", "1~x"])
def test_cuts_that_make_no_stages_are_refused(cuts):
    with pytest.raises(ArgumentError, match="increasing group counts|expected ORDER"):
        Plan.parse(("B-L-G:" if "," in cuts else "B-L:") + cuts)


def test_a_cut_beyond_the_network_is_refused_before_anything_starts(board):
    for text in ("big-little:3~4", "big-little:2~9"):  # after the last group there is no stage
        with pytest.raises(ArgumentError, match="expected cuts between 1 and 3"):
            Pipeline(small_net(), text, board)
        with pytest.raises(ArgumentError, match="expected cuts between 1 and 3"):
            predict(profile_of(small_net(), {"big": [1.0] * 4, "little": [1.0] * 4}), Plan.parse(text))


# ---- lowering: each way a frame can go


def check_all_ways(graph: Graph, plan: Plan, inputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """In float64, as test_lower.check_stages: what is neither delivered nor computed is NaN."""
    programs = lowered_stages(graph, plan.lanes[0])
    leaving = [program.leaves for program in programs[:-1]] + [programs[-1].slot_out]
    left = [tensor.name for tensors in leaving for tensor in tensors]
    assert sorted(left) == sorted(expected)  # each leaves in one stage, whichever way the frame goes
    choices = [(False, True) if stage.floating else (False,) for stage in plan.lanes[0]]
    for late in product(*choices):
        slot = np.full(programs[0].slot_in_bytes // 4, np.nan)
        for tensor in programs[0].slot_in:
            slot[tensor.offset : tensor.offset + prod(tensor.shape)] = inputs[tensor.name].reshape(-1)
        for program, tensors, (came_late, goes_late) in zip(programs, leaving, pairwise((False, *late)), strict=True):
            end = len(program.steps) if goes_late else program.last_early
            steps = program.steps[program.first_late if came_late else 0 : end]
            slot = run_steps(replace(program, steps=steps), slot[: program.slot_in_bytes // 4])
            for tensor in tensors:
                want = expected[tensor.name].reshape(-1)
                found = slot[tensor.offset : tensor.offset + want.size]
                np.testing.assert_allclose(found, want, rtol=0, atol=1e-10 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_all_ways(seed):
    """Wherever a cut is possible, so that several tensors cross it and some of them pass through."""
    graph = random_graph(seed)
    inputs = inputs_of(graph, seed)
    expected = ops.run_graph(graph, inputs)
    graph = graph.finer(len(graph.tensors))
    random, groups = np.random.default_rng(seed), len(graph.groups)
    for _ in range(4):
        ends = sorted(random.choice(np.arange(1, groups), min(4, groups - 1) // 2 * 2, replace=False).tolist())
        cuts = list(zip(ends[::2], ends[1::2], strict=True))
        check_all_ways(graph, Plan.pipeline(["big", "little", "gpu"][: len(cuts) + 1], cuts), inputs, expected)


@pytest.mark.parametrize("name", ["mobilenet", "resnet50-slim", "squeezenet", "googlenet"])  # the first is the quickest
def test_zoo_all_ways(name):
    graph = zoo_net(name)
    inputs, groups = inputs_of(graph), len(graph.groups)
    plan = Plan.pipeline(["big", "little", "gpu"], [(groups // 3, groups // 3 + 1), (groups - 3, groups - 1)])
    check_all_ways(graph, plan, inputs, ops.run_graph(graph, inputs))


# ---- the runtime


def run(graph, plan, board, count, slow=(), **arguments):
    """Results and counters; the stages in ``slow`` take 10 ms, the others 1 ms."""
    with Pipeline(graph, plan, board, **arguments) as pipe:
        pipe.lanes.all[0].set_paces([10.0 if stage in slow else 1.0 for stage in range(len(pipe.plan.lanes[0]))])
        results = list(pipe.map(frames(graph, count)))
        counters = pipe.counters()
    return results, counters, pipe.trace


@pytest.mark.parametrize("slow", [0, 1])
def test_the_stage_before_takes_the_groups_when_the_next_is_behind(slow, board):
    graph, count = small_net(), 60
    expected, _, _ = run(graph, "big-little:2", board, count)
    results, counters, (first, second) = run(graph, "big-little:1~3", board, count, slow=[slow], trace=True)
    assert all(map(np.array_equal, results, expected)) and len(results) == count
    assert counters[1].floated == 0
    assert counters[0].floated > count / 2 if slow == 1 else counters[0].floated < count / 2
    for trace in (first, second):
        assert (np.diff(trace.marks) >= 0).all() and trace.rows.shape[1] == 6 + 1 + len(trace.labels)
    ran = [np.diff(trace.marks) > 0 for trace in (first, second)]  # what was left out took no time
    went_late = ran[0].all(axis=1)
    assert went_late.sum() == counters[0].floated
    assert (ran[1].all(axis=1) == ~went_late).all()


@pytest.mark.parametrize(
    "plan", ["big-gpu-little:1~2,3", "gpu-big:1~3", "big-gpu:1~3", "little-big-gpu:1,2~3", "gpu-little-big:1,2~3"]
)
@pytest.mark.parametrize("slow", [0, 1, 2])
def test_next_to_an_opencl_device(plan, slow, board_with_gpu):
    graph, count = small_net(), 30
    expected, _, _ = run(graph, "big", board_with_gpu, count)
    for trace in (False, True):
        results, counters, traces = run(graph, plan, board_with_gpu, count, slow=[slow], trace=trace)
        assert len(results) == count
        for found, want in zip(results, expected, strict=True):  # as test_zoo_devices: other sums of at most 144 terms
            np.testing.assert_allclose(found, want, rtol=0, atol=1e-5 * np.abs(want).max())
        assert all((np.diff(one.marks) >= 0).all() for one in traces)
    stages = Plan.parse(plan).lanes[0]
    for before, after, stage, row in zip(range(2), range(1, 3), stages, counters, strict=False):
        if stage.floating and slow == after:
            assert row.floated > count / 3
        if stage.floating and slow == before:  # but for frames in which the machine held up the next stage
            assert row.floated < count / 2


@pytest.mark.parametrize("plan", ["big-little:2~4", "little-big:1~2"])
def test_a_network_whose_tensors_pass_the_cut(plan, board):
    """Two tensors cross each cut, one of them needed only at the end."""
    net = Net((1, 4, 6, 6))
    early = net.conv("x0", 6, k=3)
    x = early
    for _ in range(4):
        x = net.conv(x, 6, k=3)
    graph = net.graph(net.op("add", x, early)).finer(2)
    expected, _, _ = run(graph, "big", board, 24)
    for slow in (0, 1):
        results, _, _ = run(graph, plan, board, 24, slow=[slow])
        assert len(results) == 24 and all(map(np.array_equal, results, expected))


EARLY_PLANS = ["big-little:1~2", "big-little:2~5", "little-big:1~4", "big-mid-little:1~2,3~5", "mid-little-big:2~3,5"]


@pytest.mark.parametrize("plan", EARLY_PLANS)
def test_early_outputs_all_ways(plan):
    graph = early_net()
    inputs = inputs_of(graph)
    check_all_ways(graph, Plan.parse(plan), inputs, ops.run_graph(graph, inputs))


@pytest.mark.parametrize("plan", EARLY_PLANS)
def test_outputs_leave_early_whichever_way_a_frame_goes(plan, three_clusters):
    """Each frame has numbers of its own: whoever is slow, every output is the bits of one stage."""
    graph, count = early_net(), 40
    expected, _, _ = run(graph, "big", three_clusters, count)
    floated = 0
    for slow in range(plan.count("-") + 1):
        results, counters, _ = run(graph, plan, three_clusters, count, slow=[slow])
        floated += sum(row.floated for row in counters) / plan.count("~")
        assert len(results) == count
        for result, want in zip(results, expected, strict=True):
            assert list(result) == list(want) and all(np.array_equal(result[name], y) for name, y in want.items())
    assert 0 < floated < count * (plan.count("-") + 1)  # both ways


@pytest.mark.parametrize("plan", ["big-gpu:1~3", "gpu-big:2~4", "big-gpu-little:1~2,4~5"])
def test_outputs_leave_early_next_to_an_opencl_device(plan, board_with_gpu):
    graph, count = early_net(), 30
    expected, _, _ = run(graph, "big", board_with_gpu, count)
    for slow in (0, 1):
        results, _, _ = run(graph, plan, board_with_gpu, count, slow=[slow])
        assert len(results) == count
        for result, want in zip(results, expected, strict=True):  # as test_next_to_an_opencl_device
            for name, y in want.items():
                np.testing.assert_allclose(result[name], y, rtol=0, atol=1e-5 * np.abs(y).max())


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("plan", ["big-mid-little:2,4", "big-mid-little:1~2,4~5"])
def test_a_fault_behind_early_outputs(stage, plan, three_clusters, monkeypatch):
    """Frames before the one that fails come whole; no early output of it, or of one after it, is seen."""
    graph = early_net()
    inputs = frames(graph, 20)
    expected, _, _ = run(graph, "big", three_clusters, 7)
    monkeypatch.setenv("PIPEALL_FAULT", f"{stage}:7")
    before, taken = threading.active_count(), []
    with Pipeline(graph, plan, three_clusters) as pipe:
        with pytest.raises(PipelineError, match=f"stage {stage} .* failed at frame 7"):
            taken.extend(pipe.map(inputs))
    assert len(taken) == 7 and threading.active_count() == before
    for result, want in zip(taken, expected, strict=True):
        assert all(np.array_equal(result[name], y) for name, y in want.items())


def test_a_fault_comes_in_its_place(board, monkeypatch):
    graph = small_net()
    for stage in (0, 1):
        monkeypatch.setenv("PIPEALL_FAULT", f"{stage}:7")
        before = threading.active_count()
        with Pipeline(graph, "big-little:1~3", board) as pipe:
            pipe.lanes.all[0].set_paces([0.0, 2.0])
            taken = 0
            with pytest.raises(PipelineError, match=f"stage {stage} .* failed at frame 7"):
                for _ in pipe.map(repeat(frames(graph, 1)[0], 20)):
                    taken += 1
            assert taken == 7
        assert threading.active_count() == before


def test_closing_does_not_wait_for_a_paced_frame(board):
    graph = small_net()
    pipe = Pipeline(graph, "big-little:1~3", board)
    pipe.lanes.all[0].set_paces([60_000.0, 60_000.0])
    pipe.submit(frames(graph, 1)[0])
    time.sleep(0.05)  # into the pacing, as a rule
    with promptly():
        pipe.close()


def test_a_plan_that_floats_does_not_move(board):
    graph = small_net()
    known = profile_of(graph, {"big": [1.0] * 4, "little": [1.0] * 4})
    with pytest.raises(ArgumentError, match="do not float"):
        Pipeline(graph, "big-little:1~3", board, profile=known, rebalance=True)


def test_memory_counts_what_both_stages_hold(board):
    graph = small_net()
    fixed, floats = (footprint(graph, f"big-little:{cuts}", board) for cuts in ("2", "2~3"))
    # Frames of 4, cuts of 8 and 16 channels on 64 pixels, a line after each tensor: 3 frames and 2 slots; then 4 and 4
    frame, early, late = (4 * 64 * channels + LINE_BYTES for channels in (4, 8, 16))
    assert fixed[0].rings == 3 * frame + 2 * early
    assert floats[0].rings == 4 * frame + 4 * (early + late)
    assert floats[1].groups == fixed[1].groups == (2, 4)


# ---- the model


def every_share(known: Profile, plan: Plan, steps: int = 200) -> float:
    """The shortest period over a grid of shares, from sums written out; no contention, hand-over free."""
    lane = plan.lanes[0]
    ms = [np.array(known.units[stage.unit].ms) for stage in lane]
    best = inf
    for shares in product(*(np.linspace(0, 1, steps + 1) if stage.floating else [0.0] for stage in lane)):
        period, taken = 0.0, 0.0
        for stage, times, share in zip(lane, ms, shares, strict=True):
            before = lane[lane.index(stage) - 1].floating if stage.first else 0
            last = len(times) if stage.last is None else stage.last
            own = times[stage.first + before : last].sum()
            own += (1 - taken) * times[stage.first : stage.first + before].sum()
            own += share * times[last : last + stage.floating].sum()
            period, taken = max(period, own), share
        best = min(best, period)
    return best


MS = st.lists(st.floats(0.5, 8.0), min_size=8, max_size=8)


@settings(max_examples=40, deadline=None)
@given(MS, MS, MS, st.sampled_from(["2~3,5~6", "1~3,6", "3,4~7", "2~4,5~7"]))
def test_the_shares_are_the_best_ones(big, little, gpu, cuts):
    """No grid point is better, and the best one is no further than a grid step of the floating groups allows."""
    known = profile_of(chain_net(8), {"big": big, "little": little, "gpu": gpu})
    plan = Plan.parse(f"big-little-gpu:{cuts}")
    found, grid = predict(known, plan), every_share(known, plan, 50)
    step = 2 * 3 * 8.0 / 50  # of two borders with up to three groups each
    assert grid - step <= found.period_ms <= grid * (1 + 1e-9)
    assert max(found.stage_ms[0]) == pytest.approx(found.period_ms)
    for early in product(*([stage.last, stage.last + stage.floating] for stage in plan.lanes[0][:-1])):
        assert found.period_ms <= predict(known, Plan.pipeline(plan.units, early)).period_ms * (1 + 1e-9)
    shown = explain(known, plan)
    assert max(stage.total_ms for stage in shown.stages) == pytest.approx(found.period_ms)
    assert [stage.total_ms for stage in shown.stages] == pytest.approx(found.stage_ms[0])


def test_groups_that_take_no_time_may_float():
    known = profile_of(
        chain_net(), {"big": [1.0] * 4 + [0.0] * 2 + [1.0] * 4, "little": [1.0] * 4 + [0.0] * 2 + [2.0] * 4}
    )
    assert predict(known, Plan.parse("big-little:4~6")).stage_ms == ((4.0, 8.0),)
    assert predict(known, Plan.parse("little-big:4~6")).stage_ms == ((4.0, 4.0),)


def test_a_group_that_one_of_the_stages_cannot_run_makes_the_plan_impossible():
    known = profile_of(chain_net(), {"big": [1.0] * 10, "little": [1.0] * 5 + [inf] * 5})
    assert predict(known, Plan.parse("little-big:4~5")).period_ms < inf
    assert predict(known, Plan.parse("little-big:4~6")).period_ms == inf


@settings(max_examples=30, deadline=None)
@given(MS, MS, st.integers(1, 6), st.integers(1, 2))
def test_two_stages_simulate_as_predicted(big, little, cut, width):
    """Both are busy all the time, wherever the balance lies between the cuts: within a slot's worth of frames.

    As long as the floating groups take less than a frame of the next stage, on either unit: it has that long when one
    goes out late, and is late by no more when it takes them itself.
    """
    late = min(7, cut + width)
    assume(max(sum(unit[cut:late]) for unit in (big, little)) <= sum(little[late:]))
    known = profile_of(chain_net(8), {"big": big, "little": little})
    plan = Plan.pipeline(["big", "little"], [(cut, late)])
    found = simulate(known, plan, 400, jitter=False)
    assert found.fps == pytest.approx(predict(known, plan).fps, rel=0.02)


@pytest.mark.parametrize("net", ["alexnet", "googlenet", "mobilenet", "resnet50-slim", "squeezenet"])
def test_on_a_modelled_board_the_search_finds_faster_plans(net):
    graph, board = zoo_net(net), Board.load("a311d-armcl")
    known = profile(graph, board)
    fixed, found = (search(graph, known, plans="pipelines", floating=floats) for floats in (False, True))
    assert found.best.floats and found.evaluated == fixed.evaluated
    assert found.bound_ms <= found.ranked[0].prediction.period_ms < fixed.ranked[0].prediction.period_ms
    rates = [simulate(known, plan, 300, jitter=False, paced=True).fps for plan in (fixed.best, found.best)]
    assert rates[1] > 1.02 * rates[0]
    assert rates[1] == pytest.approx(predict(known, found.best).fps, rel=0.03)


def test_only_faster_plans_and_those_within_the_limit():
    """Ten equal groups on two equal units balance as they are: there is nothing to gain."""
    options = dict(plans="pipelines", floating=True)
    even = profile_of(chain_net(), {"big": [1.0] * 10, "little": [1.0] * 10})
    assert str(search(chain_net(), even, **options).best) == "big-little:5"
    odd = profile_of(chain_net(), {"big": [1.0] * 10, "little": [2.0] * 10})
    best = search(chain_net(), odd, **options).ranked[0]
    assert best.plan.floats and best.prediction.period_ms == pytest.approx(20 / 3)
    assert not search(chain_net(), odd, **options, max_latency_ms=10.0).best.floats
    with pytest.raises(ArgumentError, match="floating"):
        search(chain_net(), odd, "latency", floating=True)


def test_the_emulator_runs_as_predicted():
    """5 + share = 4 x 1.3 + (1 - share) x 1.3 ms: 5.65 both, where whole groups would make one of them take 6.

    No time is asserted: the share of frames that the stage before takes is where the runtime found the balance.
    """
    graph = chain_net()
    toy = toy_board(graph, {"big": [1.0] * 10, "little": [1.3] * 10, "gpu": [1.0] * 10})
    share = 1.5 / 2.3
    assert predict(profile(graph, toy), Plan.parse("big-little:5~6")).period_ms == pytest.approx(5 + share)
    with Pipeline(graph, "big-little:5~6", toy, time_scale=4.0) as pipe:
        list(pipe.map(frames(graph, 20)))
        since = pipe.snapshot()
        list(pipe.map(repeat(frames(graph, 1)[0], 120)))
        stats = pipe.stats(since)
    assert stats.stages[0].floated / stats.stages[0].frames == pytest.approx(share, abs=0.2)
