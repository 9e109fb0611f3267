"""An emulated board: the real runtime at the pace of a model, with real results."""

from dataclasses import replace
from itertools import chain
from math import inf

import numpy as np
import pytest
from graphs import frames, small_net, zoo_net
from toy_board import toy_board

from pipeall import ArgumentError, Board, DeviceError, Pipeline, Plan
from pipeall.pipeline.boards.emulator import Emulator
from pipeall.pipeline.lane import Lane
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.schedule_plan import real_units

MS = {
    "big": [2, 3, 4, 5],
    "bigx3": [3, 4, 5, 6],
    "bigx1": [7, 8, 9, 10],
    "little": [6, 7, 8, 9],
    "gpu": [4, 3, 2, 1],
}
STAGE_MS = {  # sums of MS, by hand
    "big": [[14]],
    "big-little:3": [[9, 9]],
    "gpu-big-little:1,2": [[4, 3, 17]],
    "bigx3-bigx1:2": [[7, 19]],
    "bigx3-little-bigx1:1,2": [[3, 7, 19]],
    "big+little+gpu": [[14], [30], [10]],
}


@pytest.fixture(scope="module")
def graph():
    return small_net()


@pytest.fixture(scope="module")
def toy(graph):
    return toy_board(graph, MS)


def lasted_ms(trace):
    """A pace is in whole nanoseconds: half of one more, as it may have been rounded down by that."""
    return (trace.rows[:, trace.END] - trace.rows[:, trace.BEGIN] + 0.5) / 1e6


def expected_results(graph, inputs):
    with Pipeline(graph, "big") as pipe:
        return list(pipe.map(inputs))


# ---- paces and results ----


@pytest.mark.parametrize("time_scale", [1.0, 0.5])
@pytest.mark.parametrize("plan", STAGE_MS)
def test_no_stage_ends_before_its_modelled_time_and_results_are_the_same(plan, time_scale, graph, toy):
    inputs = frames(graph, 4) * 3
    with Pipeline(graph, plan, board=toy, time_scale=time_scale, trace=True) as pipe:
        results = list(pipe.map(inputs))
        counters = pipe.counters()
    assert len(results) == 12 and all(map(np.array_equal, results, expected_results(graph, inputs)))
    paces = [ms * time_scale for lane in STAGE_MS[plan] for ms in lane]
    assert [row.unit for row in counters] == list(Plan.parse(plan).units)
    for trace, pace_ms, row in zip(pipe.trace, paces, counters, strict=True):
        assert len(trace.rows) == row.frames > 0
        assert lasted_ms(trace).min() >= pace_ms
        ran_ms = (trace.rows[:, trace.RAN] - trace.rows[:, trace.BEGIN]) / 1e6
        assert row.late == np.count_nonzero(ran_ms > pace_ms)


@pytest.mark.parametrize(
    "name, plan",
    [
        ("a311d-armcl", "gpu-big-little:5,15"),
        ("rpi4", "4*Bx1"),
        ("rpi4", "Bx1-Bx1-Bx1-Bx1:5,10,15"),
        ("rpi4", "Bx3+Bx1"),
    ],
)
def test_modelled_paces_hold_for_a_network_of_the_zoo(name, plan):
    graph, board, split = zoo_net("squeezenet"), Board.load(name), Plan.parse(plan)
    modelled = chain(*predict(board.model.profile(graph, sorted(set(split.units))), split).stage_ms)
    inputs = frames(graph, 2) * 2
    with Pipeline(graph, plan, board=board, trace=True) as pipe:
        results = list(pipe.map(inputs))
    assert all(map(np.array_equal, results, expected_results(graph, inputs)))
    assert all(lasted_ms(trace).min() >= ms for trace, ms in zip(pipe.trace, modelled, strict=True))


def test_frames_that_take_longer_than_modelled_are_counted(graph, toy):
    with Pipeline(graph, "gpu-big:2", board=toy, time_scale=1e-5) as pipe:  # 70 and 90 ns
        list(pipe.map(frames(graph, 3)))
        assert [row.late for row in pipe.counters()] == [3, 3] == [stage.late for stage in pipe.stats().stages]


def test_stages_are_named_by_what_they_stand_for(graph, toy):
    with Pipeline(graph, "gpu-bigx3:2", board=toy, trace=True) as pipe:
        list(pipe.map(frames(graph, 2)))
        assert [stage.unit for stage in pipe.stats().stages] == ["gpu", "bigx3"]
    assert [trace.unit for trace in pipe.trace] == ["gpu", "bigx3"]


# ---- throttling ----


@pytest.mark.parametrize(
    "plan, component, factors",
    [
        ("gpu-big-little:1,2", "big", [1, 3, 1]),
        ("gpu-big-little:1,2", "L", [1, 1, 3]),
        ("bigx3-little-bigx1:1,2", "big", [3, 1, 3]),
        ("big+little+gpu", "gpu", [1, 1, 3]),
        ("big-little:3", "gpu", [1, 1]),
    ],
)
def test_throttling_changes_the_paces_of_its_component_only(plan, component, factors, graph, toy, monkeypatch):
    told, set_paces = [], Lane.set_paces
    monkeypatch.setattr(Lane, "set_paces", lambda lane, ms: (told.extend(ms), set_paces(lane, ms)))
    cool = [0.5 * ms for lane in STAGE_MS[plan] for ms in lane]
    with Pipeline(graph, plan, board=toy, time_scale=0.5, trace=True) as pipe:
        pipe.throttle(component, 3)
        list(pipe.map(frames(graph, 12)))
    hot = [ms * factor for ms, factor in zip(cool, factors, strict=True)]
    assert [pytest.approx([ms] * 4) for ms in cool + hot] == told  # no cut floats: the same in all ways
    assert all((lasted_ms(trace) >= ms).all() for trace, ms in zip(pipe.trace, hot, strict=True))


def test_contention_slows_down_only_where_two_frames_may_be_under_way(graph, toy, monkeypatch):
    """big takes 2 + 3 + 4 ms alone and half as much again beside little."""
    model = replace(toy.model, contention={"big": {"little": 1.5}})
    told, set_paces = [], Lane.set_paces
    monkeypatch.setattr(Lane, "set_paces", lambda lane, ms: (told.append(ms[0][0]), set_paces(lane, ms)))
    for depth in (None, 2, 1):
        Pipeline(graph, "big-little:3", board=Board((), gpu=False, model=model), depth=depth).close()
    assert told == pytest.approx([13.5, 13.5, 9])


def test_units_of_other_networks_slow_down_as_they_do_beside_a_lane(graph, toy):
    """big takes 14 ms alone: half as much again beside little, twice as much beside the gpu; itself is no neighbour."""
    model = replace(toy.model, contention={"big": {"little": 1.5, "gpu": 2.0}, "gpu": {"big": 3.0}})
    emulator = Emulator(graph, Board((), gpu=False, model=model), 1.0)

    def total_ms(plan: str, *others: str, alone: bool = False) -> list[float]:
        beside = chain.from_iterable(real_units(Plan.parse(other)) for other in others)
        lane = emulator.paces_ms(Plan.parse(plan), alone=alone, beside=beside)[0]
        return [stage[0] for stage in lane]

    assert total_ms("big", "little") == total_ms("big", "big-little:3") == pytest.approx([14 * 1.5])
    assert total_ms("big", "big-little:3", "gpu") == total_ms("big+little", "gpu") == pytest.approx([14 * 1.5 * 2])
    assert total_ms("big-gpu:3", "gpu") == total_ms("big-gpu:3") == pytest.approx([9 * 2, 1 * 3])
    assert total_ms("big-gpu:3", "little", alone=True) == pytest.approx([9 * 1.5, 1])
    assert total_ms("bigx3", "bigx3-little:2") == pytest.approx([18 * 1.5])


def test_factors_replace_each_other_and_one_is_as_modelled(graph, toy):
    emulator, plan = Emulator(graph, toy, 1.0), Plan.parse("gpu-big-little:1,2")
    for factor in (3, 2, 0.5, 1):
        emulator.throttle("big", factor)
        assert emulator.paces_ms(plan) == [[[4] * 4, [3 * factor] * 4, [17] * 4]]
    emulator.throttle("big", 2)
    emulator.throttle("gpu", 5)
    assert emulator.paces_ms(plan) == [[[20] * 4, [6] * 4, [17] * 4]]


def test_throttling_holds_from_the_next_frame_on(graph, toy):
    with Pipeline(graph, "big", board=toy, trace=True) as pipe:
        for factor in (1, 3, 1):
            pipe.throttle("B", factor)
            list(pipe.map(frames(graph, 3)))
    ms = lasted_ms(pipe.trace[0])
    assert (ms >= 14).all() and (ms[3:6] >= 3 * 14).all() and np.median(ms[6:]) < 3 * 14


@pytest.mark.parametrize("factor", [0, -1, inf, float("nan")])
def test_a_factor_that_cannot_be_is_refused(factor, graph, toy):
    with (
        Pipeline(graph, "big", board=toy) as pipe,
        pytest.raises(ArgumentError, match="factor: expected a number above 0, at most 1e[+]06, got"),
    ):
        pipe.throttle("big", factor)


def test_throttling_needs_an_emulated_board_and_a_component_of_its_board(graph, toy, board):
    with (
        Pipeline(graph, "big", board=board) as pipe,
        pytest.raises(ArgumentError, match="throttle big: expected a pipeline on an emulated board"),
    ):
        pipe.throttle("big", 2)
    with Pipeline(graph, "big", board=toy) as pipe:
        with pytest.raises(ArgumentError, match="component: expected big, mid, little, gpu, npu or cpu"):
            pipe.throttle("huge", 2)
        with pytest.raises(DeviceError, match="no component 'mid' on this board .it has big, little, gpu."):
            pipe.throttle("mid", 2)


# ---- what is refused ----


def test_a_real_board_has_no_time_scale(graph, board):
    with pytest.raises(ArgumentError, match="time_scale: expected an emulated board, such as Board.load"):
        Pipeline(graph, "big", board=board, time_scale=2)


@pytest.mark.parametrize("time_scale", [0, -1, inf, float("nan")])
def test_a_time_scale_that_cannot_be_is_refused(time_scale, graph, toy):
    with pytest.raises(ArgumentError, match="time_scale: expected a number above 0, at most 1e[+]06, got"):
        Pipeline(graph, "big", board=toy, time_scale=time_scale)


@pytest.mark.parametrize(
    "plan, error, message",
    [
        ("bigx3-bigx2:2", ArgumentError, r"stage bigx2: expected at most 1 cores of big \(4, 3 of them taken .* got 2"),
        ("bigx5", ArgumentError, r"stage bigx5: expected at most 4 cores of big .* got 5"),
        ("bigx2", ArgumentError, "unit 'bigx2': expected one of the model toy .*: big, bigx3, bigx1, little, gpu"),
        ("mid-big:2", DeviceError, "no component 'mid' on this board"),
        ("big-little:4", ArgumentError, "expected cuts between 1 and 3"),
    ],
)
def test_units_that_the_model_lacks_are_refused(plan, error, message, graph, toy):
    with pytest.raises(error, match=message):
        Pipeline(graph, plan, board=toy)


def test_a_stage_that_the_board_cannot_run_is_refused(graph):
    board = toy_board(graph, {"big": [2, 3, 4, 5], "gpu": [1, inf, 1, 1]})
    with pytest.raises(ArgumentError, match="plan gpu-big:2: expected groups that gpu can run, got group 2, "):
        Pipeline(graph, "gpu-big:2", board=board)
    with Pipeline(graph, "gpu-big:1", board=board) as pipe:
        assert len(list(pipe.map(frames(graph, 2)))) == 2
