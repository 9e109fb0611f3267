"""Pacing: a stage that ends no earlier than it is told, whatever it computes."""

import time

import numpy as np
import pytest
from graphs import frames, small_net
from process import promptly

from pipeall import ArgumentError, Pipeline


def set_pace(pipe, lane, stage, ms):
    pipe.lanes.all[lane].native.set_pace(stage, round(ms * 1e6))


def paced(plan, board, pace_ms, count, **arguments):
    """Results, traces and counters of ``count`` frames with every stage at ``pace_ms``."""
    graph = small_net()
    with Pipeline(graph, plan, board=board, trace=True, **arguments) as pipe:
        for number, lane in enumerate(pipe.plan.lanes):
            for stage in range(len(lane)):
                set_pace(pipe, number, stage, pace_ms)
        results = list(pipe.map(frames(graph, count)))
        counters = pipe.counters()
    return results, pipe.trace, counters


@pytest.mark.parametrize("plan", ["big", "big-little:2", "B+L"])
def test_no_stage_ends_before_its_pace_and_results_are_the_same(plan, board):
    graph, count, pace_ms = small_net(), 10, 20
    with Pipeline(graph, plan, board=board) as pipe:
        expected = list(pipe.map(frames(graph, count)))
    results, traces, counters = paced(plan, board, pace_ms, count)
    assert len(results) == count and all(map(np.array_equal, results, expected))
    for trace, row in zip(traces, counters, strict=True):
        lasted = trace.rows[:, trace.END] - trace.rows[:, trace.BEGIN]
        assert len(lasted) == row.frames > 0 and lasted.min() >= pace_ms * 1e6
        assert row.busy_ns == lasted.sum()
        assert row.late == np.count_nonzero(trace.rows[:, trace.RAN] - trace.rows[:, trace.BEGIN] > pace_ms * 1e6)


def test_a_pace_shorter_than_the_computing_makes_every_frame_late(board):
    _, traces, counters = paced("big-little:2", board, 1e-6, 10)
    assert [row.late for row in counters] == [10, 10]
    for trace in traces:
        lasted = trace.rows[:, trace.END] - trace.rows[:, trace.RAN]
        assert np.median(lasted) < 1e6  # it did not wait


def test_each_stage_has_its_own_pace_and_zero_ends_it(board):
    graph = small_net()
    with Pipeline(graph, "big-little:2", board=board, trace=True) as pipe:
        set_pace(pipe, 0, 1, 30)
        list(pipe.map(frames(graph, 8)))
        switched = time.monotonic_ns()
        set_pace(pipe, 0, 1, 0)
        list(pipe.map(frames(graph, 8)))
        stats = pipe.stats()
    free, slow = (trace.rows for trace in pipe.trace)
    end, ran = pipe.trace[0].END, pipe.trace[0].RAN
    assert (free[:, end] == free[:, ran]).all()  # no pace: the program's end is the stage's
    before = slow[:, pipe.trace[0].BEGIN] < switched
    assert before.any() and not before.all()
    assert (slow[before, end] >= slow[before, pipe.trace[0].BEGIN] + 30e6).all()
    assert (slow[~before, end] == slow[~before, ran]).all()
    late = slow[before, ran] - slow[before, pipe.trace[0].BEGIN] > 30e6  # without a pace no frame is
    assert [stage.late for stage in stats.stages] == [0, late.sum()]


def test_close_while_pacing_is_prompt(board):
    graph = small_net()
    pipe = Pipeline(graph, "big-little:2", board=board)
    set_pace(pipe, 0, 0, 60_000)
    pipe.submit(frames(graph, 1)[0])
    time.sleep(0.05)  # into the pacing, as a rule
    with promptly():
        pipe.close()


@pytest.mark.parametrize(
    "stage, ns, message",
    [
        (2, 1, "stage: expected 0 to 1, got 2"),
        (-1, 1, "stage: expected 0 to 1, got -1"),
        (0, [1, 2], "pace: expected one or four of at least 0 ns, got .1, 2"),
        (0, -1, "pace: expected one or four of at least 0 ns, got .-1"),
    ],
)
def test_a_pace_that_cannot_be_is_refused(stage, ns, message, board):
    with Pipeline(small_net(), "big-little:2", board=board) as pipe, pytest.raises(ArgumentError, match=message):
        pipe.lanes.all[0].native.set_pace(stage, ns)
