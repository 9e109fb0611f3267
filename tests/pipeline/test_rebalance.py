"""A stream whose plan moves notices nothing but its speed, also when something goes wrong."""

import gc
import sys
import threading
import time
import weakref
from functools import partial
from itertools import count as numbers
from itertools import cycle, islice

import numpy as np
import pytest
from build_trees import ending
from graphs import frames, zoo_net
from process import promptly, statuses
from profiles import profile_of
from toy_board import MS, START, toy_board

from pipeall import ArgumentError, Board, DeviceError, Pipeline, PipelineError, Plan
from pipeall.pipeline import lanes as lanes_module
from pipeall.pipeline.lane import Lane
from pipeall.pipeline.rebalance import Drift
from pipeall.pipeline.stats import KEPT


def rebalancers():
    return [thread for thread in threading.enumerate() if thread.name == "pa-rebalance"]


def no_thread_left():
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("pa-")]
    assert not [status["Name"] for status in statuses().values() if status["Name"].startswith("pa-")]


@pytest.fixture(scope="module")
def inputs(chain):
    return frames(chain, 7)


@pytest.fixture(scope="module")
def expected(chain, inputs):
    with Pipeline(chain, "big") as pipe:
        results = list(pipe.map(inputs))
    assert len({result.tobytes() for result in results}) == 7  # so that a swap would show
    return results


@pytest.fixture(scope="module")
def toy(chain):
    return toy_board(chain, MS)


def emulated(chain, toy, plan=START, **arguments):
    return Pipeline(chain, plan, board=toy, **arguments)


def moved(pipe, count=1):
    """Whether it has moved so often."""
    return len(pipe.plans) > count


def stream(pipe, inputs, expected, until, most=20_000, same=np.array_equal):
    """Results through ``map`` until ``until()``, each compared; how many."""
    count = 0
    source = (frame for frame, _ in zip(cycle(inputs), iter(lambda: until(), True), strict=False))
    for result in islice(pipe.map(source), most):
        assert same(result, expected[count % len(inputs)])
        count += 1
    assert until(), f"{most} frames were not enough"
    return count


@pytest.mark.parametrize("component, count", [("big", 10_000), ("little", 6_000), ("gpu", 6_000)])
def test_ten_thousand_frames_through_a_drift_and_back(component, count, chain, toy, inputs, expected):
    """However many frames a move takes on a busy machine. Where to is told on set times (test_drift)."""
    with emulated(chain, toy, rebalance=True) as pipe:
        done = 0
        for slower, moves in ((1, 0), (2, 1), (1, 1)):
            pipe.throttle(component, slower)
            before = len(pipe.plans)
            arrived = partial(moved, pipe, before + moves - 1)
            enough = partial(lambda asked, arrived: next(asked) >= count // 3 and arrived(), numbers(), arrived)
            done += stream(pipe, inputs, expected, enough)
        plans = pipe.plans
        assert [times.frame for times in pipe.times] == list(range(done))[-KEPT:]
        deadline = time.monotonic() + 30
        while (
            len(pipe.lanes.all) > 1 and time.monotonic() < deadline
        ):  # it may just have moved: its next look ends them
            time.sleep(0.01)
        assert len(pipe.lanes.all) == 1
    assert [first for first, _ in plans] == sorted({first for first, _ in plans})
    no_thread_left()


def test_results_keep_their_order_while_plans_change_all_the_time(chain, board_with_gpu, inputs, expected):
    """On this machine, unpaced, as fast as lanes can be made: frames of several lanes are under way at once."""
    texts = ["big-little:4", "big", "little-gpu-big:1,6", "gpu", "little-big:2"]
    with Pipeline(chain, "big-little:4", board=board_with_gpu) as pipe:
        done = threading.Event()
        failures = []

        def mover():
            try:
                for text in cycle(texts):
                    if done.is_set():
                        return
                    pipe.lanes.move(Plan.parse(text))
                    pipe.lanes.end_left()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=mover)
        thread.start()
        try:
            # The GPU sums in another order: of the magnitude of float32 rounding, far below what a swap does
            same = partial(np.allclose, rtol=1e-4, atol=1e-4)
            asked = numbers()
            count = stream(pipe, inputs, expected, lambda: next(asked) >= 3000 and moved(pipe, 5), 200_000, same)
        finally:
            done.set()
            thread.join()
        assert not failures
        assert [times.frame for times in pipe.times] == list(range(count))[-KEPT:]
        pipe.lanes.end_left()
        assert len(pipe.lanes.all) == 1
    no_thread_left()


def test_a_move_takes_new_frames_at_once_and_results_wait_for_the_older_ones(chain, toy, inputs, expected):
    with emulated(chain, toy, "big", time_scale=30) as pipe:  # 90 ms
        for frame in inputs[:2]:
            pipe.submit(frame)
        pipe.lanes.move(Plan.parse("gpu-big:7"))
        for frame in inputs[2:5]:
            pipe.submit(frame, timeout=1)
        assert pipe.plans[-1] == (2, Plan.parse("gpu-big:7")) == (2, pipe.plan)
        assert len(pipe.lanes.all) == 2
        assert all(np.array_equal(pipe.result(timeout=5), result) for result in expected[:5])
        pipe.lanes.end_left()
        assert len(pipe.lanes.all) == 1 and [stage.unit for stage in pipe.stats().stages] == ["gpu", "big"]


def test_frames_are_not_far_ahead_of_a_lane_that_ends(chain, toy, inputs, monkeypatch):
    monkeypatch.setattr(lanes_module, "REORDER", 4)
    with emulated(chain, toy, "big", time_scale=10000) as pipe:  # 30 s a frame
        pipe.throttle("gpu", 1e-6)  # of the lane to come: what is under way on big stays slow
        pipe.throttle("little", 1e-6)
        pipe.submit(inputs[0])
        pipe.lanes.move(Plan.parse("gpu-little:1"))
        for _ in range(7):  # two lanes, four each
            with pytest.raises(TimeoutError):
                pipe.result(timeout=0.02)
            pipe.submit(inputs[0], timeout=1)
        with pytest.raises(TimeoutError):
            pipe.result(timeout=0.02)
        with pytest.raises(TimeoutError):
            pipe.submit(inputs[0], timeout=0.3)


def until_nothing_moves(pipe):
    """Every stage waits: no result is taken, and so the lanes of all plans fill up."""
    deadline, still, before = time.monotonic() + 30, 0, None
    while still < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
        now = [row.frames for lane in pipe.lanes.all for row in lane.counters()]
        before, still = now, still + 1 if now == before else 0
    assert still == 5


def test_a_consumer_that_pauses_loses_nothing(chain, toy, inputs, expected):
    with emulated(chain, toy, rebalance=True, time_scale=2) as pipe:
        results = pipe.map(islice(cycle(inputs), 4000))
        pipe.throttle("big", 2)
        count = 0
        while not moved(pipe):
            assert np.array_equal(next(results), expected[count % 7])
            count += 1
        until_nothing_moves(pipe)
        for result in islice(results, 500):
            assert np.array_equal(result, expected[count % 7])
            count += 1
        results.close()
        while pipe.pending:
            assert np.array_equal(pipe.result(), expected[count % 7])
            count += 1


def test_lanes_that_were_left_are_freed(chain, toy, inputs, expected):
    with emulated(chain, toy, rebalance=True) as pipe:
        left = weakref.ref(pipe.lanes.all[0])
        programs = [stage.program for stage in pipe.lanes.all[0].stages]
        pipe.throttle("big", 2)
        stream(pipe, inputs, expected, lambda: moved(pipe) and len(pipe.lanes.all) == 1)
        gc.collect()
        assert left() is None
        assert all(sys.getrefcount(program) == 3 for program in programs)  # the list, ``program`` and the call


def test_a_trace_has_the_frames_of_all_plans(chain, toy, inputs, expected):
    with emulated(chain, toy, rebalance=True, trace=True) as pipe:
        pipe.throttle("big", 2)
        count = stream(pipe, inputs, expected, lambda: moved(pipe) and len(pipe.lanes.all) == 1)
        plans = pipe.plans
    ends = [first for first, _ in plans[1:]] + [count]
    for lane, ((first, plan), end) in enumerate(zip(plans, ends, strict=True)):
        traces = [trace for trace in pipe.trace if trace.lane == lane]
        assert [trace.unit for trace in traces] == list(plan.units)
        for trace in traces:
            assert trace.rows[:, 0].tolist() == list(range(first, end))[-len(trace.rows) :]
            assert len(trace.rows) == min(end - first, 4096)


def test_a_profile_moves_a_plan_on_this_machine(chain, board, inputs, expected):
    profile = profile_of(chain, {"big": [0.5] * 10, "little": [0.5] * 10})
    with Pipeline(chain, "big-little:5", board=board, profile=profile, rebalance=True) as pipe:
        pipe.lanes.all[0].set_paces([2.5, 5])  # little at half its speed
        stream(pipe, inputs, expected, lambda: moved(pipe))
        first, second = pipe.plans[1][1].lanes[0]
        groups = second.first if first.unit == "big" else 10 - second.first
        assert 6 <= groups <= 8  # of big: seven by these paces, one more or less by what else runs
    no_thread_left()


# ---- when something goes wrong ----


def test_what_to_rebalance_by_has_to_be_a_profile_of_the_network(chain, board):
    other = Board.load("a311d-armcl").model.profile(zoo_net("squeezenet"))
    with pytest.raises(ArgumentError, match="profile of squeezenet with .* groups: expected one of net"):
        Pipeline(chain, "big", board=board, profile=other, rebalance=True)
    with pytest.raises(ArgumentError, match="rebalance: expected a profile of net on this board beside it"):
        Pipeline(chain, "big", board=board, rebalance=True)
    toy = toy_board(chain, MS)
    with pytest.raises(ArgumentError, match="rebalance: expected a pipeline, got big.little"):
        Pipeline(chain, "big+little", board=toy, rebalance=True)
    no_thread_left()


def test_a_move_that_fails_warns_and_the_stream_goes_on(chain, toy, inputs, expected, monkeypatch):
    with pytest.warns(RuntimeWarning, match=f"rebalancing to .* failed, {START} runs on: no memory left"):
        with emulated(chain, toy, rebalance=True) as pipe:
            tried = threading.Event()

            def refuse(plan, board):
                tried.set()
                raise DeviceError("no memory left")

            monkeypatch.setattr(Board, "units", lambda board, plan: refuse(plan, board))
            pipe.throttle("big", 2)
            stream(pipe, inputs, expected, tried.is_set)
            assert len(list(pipe.map(inputs))) == 7
            assert pipe.plans == ((0, Plan.parse(START)),) and str(pipe.plan) == START and len(pipe.lanes.all) == 1
            assert len(rebalancers()) == 1
    no_thread_left()


def test_a_plan_that_was_refused_is_not_asked_for_again_until_times_change(chain):
    drift = Drift(chain, profile_of(chain, MS), Plan.parse(START))
    hot = [1.8, 1.0, 1.0]
    assert drift.observe(hot, 0.0) is None
    refused = drift.observe(hot, 0.3)
    drift.refuse(refused, Plan.parse(START))
    assert [drift.observe(hot, 0.6 + 0.3 * i) for i in range(20)] == [None] * 20 and str(drift.plan) == START


@pytest.mark.parametrize("dropped", [False, True])
def test_close_in_the_middle_of_a_move(dropped, chain, toy, inputs, expected, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    class SlowLane(Lane):
        def __init__(self, *arguments, **named):
            if named["number"]:
                begun.set()
                assert go_on.wait(10)
            super().__init__(*arguments, **named)

    monkeypatch.setattr(lanes_module, "Lane", SlowLane)
    pipe = emulated(chain, toy, rebalance=True)
    pipe.throttle("big", 2)
    stream(pipe, inputs, expected, begun.is_set)
    pipe.submit(inputs[0])
    (thread,) = rebalancers()
    if dropped:
        go_on.set()
        del pipe
    else:
        closing = threading.Thread(target=pipe.close)
        closing.start()
        with pytest.raises(PipelineError, match="closed"):
            while True:  # close has begun, and waits for the move
                pipe.check_open()
                time.sleep(0.001)
        go_on.set()
        closing.join(timeout=5)
        assert not closing.is_alive()
        with pytest.raises(PipelineError, match="closed"):
            pipe.result()
    thread.join(timeout=5)
    assert not thread.is_alive()
    no_thread_left()


def test_close_while_a_lane_that_was_left_still_has_frames(chain, toy, inputs):
    pipe = emulated(chain, toy, "big", time_scale=1e5)  # 300 s a frame
    pipe.submit(inputs[0])
    pipe.lanes.move(Plan.parse("gpu"))
    pipe.submit(inputs[0])
    with promptly():
        pipe.close()
    no_thread_left()


def test_dropping_a_pipeline_ends_its_rebalancer(chain, toy, inputs):
    pipe = emulated(chain, toy, rebalance=True)
    list(pipe.map(inputs))
    (thread,), lane = rebalancers(), weakref.ref(pipe.lanes.all[0])
    del pipe
    thread.join(timeout=5)
    gc.collect()
    assert not thread.is_alive() and lane() is None
    no_thread_left()


def test_a_stage_that_fails_after_a_move_is_named_in_its_place(chain, toy, inputs, expected, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "0:50")
    with emulated(chain, toy) as pipe:
        count = 0
        with pytest.raises(PipelineError, match="stage 0 on gpu failed at frame 50") as caught:
            for result in pipe.map(islice(cycle(inputs), 100)):
                assert np.array_equal(result, expected[count % 7])
                count += 1
                if count == 20:
                    pipe.lanes.move(Plan.parse("gpu"))
        assert count == 50 == caught.value.frame and moved(pipe)
        assert caught.value.component == "gpu"
    no_thread_left()


def test_a_failure_in_the_lane_that_was_left_comes_in_its_place(chain, toy, inputs, expected, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "0:2")
    with emulated(chain, toy, "big", time_scale=30, depth=4) as pipe:  # 90 ms
        for frame in inputs[:4]:
            pipe.submit(frame)
        pipe.lanes.move(Plan.parse("gpu"))
        pipe.submit(inputs[4])
        assert np.array_equal(pipe.result(), expected[0]) and np.array_equal(pipe.result(), expected[1])
        with pytest.raises(PipelineError, match="stage 0 on big failed at frame 2"):
            pipe.result()
        with pytest.raises(PipelineError, match="frame 2"):
            pipe.submit(inputs[5], timeout=1)
        pipe.lanes.end_left()
        assert len(pipe.lanes.all) == 2  # frame 3 is still inside
    no_thread_left()


EXIT_SCRIPT = """
from itertools import cycle
from graphs import frames
from pipeall import Pipeline
from toy_board import MS, START, chain_net, toy_board
graph = chain_net()
pipe = Pipeline(graph, START, board=toy_board(graph, MS), rebalance=True)
pipe.throttle("big", 2)
for _ in pipe.map(cycle(frames(graph, 1))):
    if len(pipe.plans) > 1:
        raise SystemExit(7)
"""


def test_exit_with_frames_in_two_lanes_is_clean():
    assert ending(EXIT_SCRIPT) == (7, "")
