"""Stages that take frames together: results, order, failures in their place, the end of a stream, memory, the plan's
prediction and its simulation against a run at the modelled pace."""

import numpy as np
import pytest
from graphs import Net, frames
from profiles import made_up

from pipeall import ArgumentError, Engine, Pipeline, PipelineError
from pipeall.pipeline.measuring.footprint import footprint
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.simulate import simulate


def heavy_net():
    """Some convolutions, an early output, then two layers of many weights, the first on an image."""
    net = Net((1, 3, 12, 12))
    x = net.op("leakyrelu", net.conv("x0", 16, 3))
    y = net.conv(x, 24, 3)
    x = net.op("maxpool", y)
    x = net.op("tanh", net.fc(x, 256))
    return net.graph(net.fc(x, 300))


@pytest.mark.parametrize(
    "text, batches",
    [("big*2", [2]), ("bigx1-bigx1*2:3", [1, 2]), ("big*2-gpu-big*4:1,2", [2, 1, 4]), ("2*little@mixedx1*3", [3, 3])],
)
def test_plans_say_how_many_frames_a_stage_takes(text, batches):
    plan = Plan.parse(text)
    assert str(plan) == text and Plan.parse(str(plan)) == plan
    assert [unit.batch for unit in plan.units] == batches


@pytest.mark.parametrize(
    "text, why",
    [
        ("B*5", "at most 4 frames together on a big"),
        ("G*2", "a frame at a time on a gpu"),
        ("B*0", "expected big"),
        ("L-Bx2@fp16*2:3", r"'Bx2@fp16\*2': expected the precision first, as B@fp16x2\*2"),
        ("B*2-B:3", "another component behind big"),
        ("B*2-L:3~4", "no floating cut beside a stage that takes frames together"),
        ("L-B*2:3~4", "no floating cut beside a stage that takes frames together"),
    ],
)
def test_plans_that_cannot_be_are_refused(text, why):
    with pytest.raises(ArgumentError, match=why):
        Plan.parse(text)


@pytest.mark.parametrize("text", ["B*2", "B*4", "B-L*2:2", "B*2-L*3:1", "L*3-B-L*2:1,3", "B*2+L*3"])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_results_are_those_of_one_engine_in_order(text, count, board):
    graph = heavy_net()
    inputs = frames(graph, count)
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in inputs]
    with Pipeline(graph, text, board=board) as pipe:
        results = list(pipe.map(inputs))
    assert len(results) == count
    assert all(map(np.array_equal, results, expected))  # a row of the kernel is that of a frame alone


def test_a_frame_that_comes_alone_is_not_kept_waiting(board):
    graph = heavy_net()
    with Pipeline(graph, "B*4-L*4:2", board=board) as pipe:
        for x in frames(graph, 3):
            pipe.submit(x)
            assert pipe.result(timeout=30) is not None
        assert [row.frames for row in pipe.counters()] == [3, 3]


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("failing", [0, 1, 4])
def test_a_failure_is_that_of_its_own_frame(stage, failing, board, monkeypatch):
    graph = heavy_net()
    monkeypatch.setenv("PIPEALL_FAULT", f"{stage}:{failing}")
    inputs = frames(graph, 7)
    with Pipeline(graph, "B*2-L*3:2", board=board) as pipe:
        results = pipe.map(inputs)
        for _ in range(failing):
            next(results)
        with pytest.raises(PipelineError) as caught:
            next(results)
        assert (caught.value.stage, caught.value.frame) == (stage, failing)


def test_it_closes_with_frames_inside(board):
    graph = heavy_net()
    x = frames(graph, 1)[0]
    for count in range(7):
        with Pipeline(graph, "B*2-L*2:2", board=board) as pipe:
            for _ in range(count):
                pipe.submit(x)


def test_full_load_computes_frames_together_and_says_so(board):
    graph = heavy_net()
    with Pipeline(graph, "B-L*2:1", board=board, trace=True) as pipe:
        pipe.lanes.all[0].native.set_pace(1, [7 * 10**6, 9 * 10**6, 0, 0])
        list(pipe.map(frames(graph, 40)))
        rows = pipe.counters()
    trace = pipe.trace[1]
    together = trace.together(trace.rows)
    assert rows[1].frames == len(trace.rows) == 40 and list(trace.frame) == list(range(40))
    assert np.count_nonzero(together == 2) >= 30
    whole = trace.group_ms(graph, trace.rows).sum(axis=1) * together
    assert whole == pytest.approx((trace.marks[:, -1] - trace.marks[:, 0]) / 1e6)
    lasted = trace.rows[:, trace.END] - trace.rows[:, trace.BEGIN]
    assert (lasted[together == 2] >= 9e6).all() and rows[1].busy_ns == (lasted / together).sum()


def test_what_a_batch_takes_is_in_the_footprint(board):
    graph = heavy_net()
    (one,), (two,) = (footprint(graph, text, board) for text in ("big", "big*2"))
    assert two.weights == one.weights
    assert 2 * one.arena <= two.arena <= 2 * one.arena + 2**20
    assert two.rings > one.rings


# ---- what is predicted


def paired(first, second, pair):
    """Two stages: of one group each; the second takes a frame alone, or two together."""
    times = {"little": (first, 99), "big": (99, second), "big*2": (99, pair / 2)}
    return made_up(times), Plan.parse("L-B*2:1")


def test_a_prediction_counts_a_frame_of_a_batch_and_its_wait():
    profile, plan = paired(10, 15, 20)
    predicted = predict(profile, plan)
    assert predicted.period_ms == pytest.approx(10)
    assert predicted.stage_ms == ((10, 10),)
    assert predicted.latency_ms == pytest.approx(10 + 20 + 10)  # the first of two waits a period for the second
    assert predicted.alone_ms == pytest.approx(25)


@pytest.mark.parametrize("times", [(10, 15, 20), (10, 15, 24), (10, 19, 20), (5, 15, 20), (18, 15, 20)])
def test_a_simulation_gets_the_predicted_rate(times):
    profile, plan = paired(*times)
    predicted = predict(profile, plan)
    for jitter in (False, True):
        found = simulate(profile, plan, frames=500, jitter=jitter)
        assert found.fps == pytest.approx(predicted.fps, rel=0.02)
    assert found.latency_p95_ms <= 2.5 * predicted.latency_ms
