"""Units that serve several stages: results, order, bounds of memory and threads, failures in their place, the pace."""

import gc
import threading
from itertools import product

import numpy as np
import pytest
from graphs import ZOO, frames, small_net, zoo_net
from hypothesis import given, settings
from hypothesis import strategies as st
from process import no_longer, statuses
from profiles import made_up
from scipy.optimize import linprog
from toy_board import MS, chain_net, toy_board

from pipeall import ArgumentError, Engine, Pipeline, PipelineError
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import balanced, predict, spans, stage_shares, with_shares
from pipeall.pipeline.planning.simulate import simulate
from pipeall.pipeline.planning.stage_costs import StageCosts

# ---- plans


@pytest.mark.parametrize(
    "text, units",
    [
        ("big-gpu-big:2,9", (0, 1, 0)),
        ("big-gpu-big:2~3,9~11@40", (0, 1, 0)),
        ("(big-gpu-big:2,9)+little", (0, 1, 0, 2)),
        ("bigx2-gpu-bigx2:2,9", (0, 1, 2)),
        ("big@fp16-gpu-big:2,9", (0, 1, 0)),
        ("cpu-gpu-cpu-gpu:1,2,3", (0, 1, 0, 1)),
        ("4*bigx1", (0, 1, 2, 3)),
        ("2*(bigx2-littlex2:9)+gpu", (0, 1, 2, 3, 4)),
        ("3*(bigx1-littlex1:3~4@50)", (0, 1, 2, 3, 4, 5)),
    ],
)
def test_whole_components_that_come_again_are_one_unit(text, units):
    plan = Plan.parse(text)
    assert str(plan) == text and Plan.parse(str(plan)) == plan
    assert plan.unit_of == units


@pytest.mark.parametrize(
    "text, why",
    [
        ("B-B:2", "another component behind big"),
        ("B-Bx2:2", "another component behind big"),
        ("(B-G:3)+B", "all of big in one lane"),
        ("Bx2-G-B:2,3", "all of big in one lane"),
        ("C-G-B:2,3", "no cores in common"),
        ("B-G-B:2", "2 for 3 stages"),
        ("B-G-B:2~3@101,5", "expected a list of group counts"),
        ("(B-G:x)+L", "expected ORDER"),
        ("2*B", "all of big in one lane"),
        ("0*Bx1", "expected big"),
        ("2*(B-L:1)", "in one lane"),
    ],
)
def test_units_that_cannot_be_in_one_plan_are_refused(text, why):
    with pytest.raises(ArgumentError, match=why):
        Plan.parse(text)


# ---- runs


@pytest.mark.parametrize("name", ZOO)
def test_a_unit_of_two_stages_gives_the_bits_of_one_engine(name, board):
    graph = zoo_net(name)
    inputs = frames(graph, 5)
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in inputs]
    last = len(graph.groups)
    third = max(2, last // 3)
    for text in (f"B-L-B:1,{last - 1}", f"L-B-L-B:1,{third},{last - 1}", f"B-L-B:1~{third}@50,{last - 1}"):
        with Pipeline(graph, text, board=board) as pipe:
            for result, reference in zip(pipe.map(inputs), expected, strict=True):
                assert np.array_equal(result, reference), f"{name}, {text}"


def test_a_unit_is_one_thread_and_one_team(board):
    """However many stages it serves; and it ends with the pipeline."""
    graph = small_net()
    before = set(statuses())

    def threads(plan):
        with Pipeline(graph, plan, board=board) as pipe:
            list(pipe.map(frames(graph, 3)))
            running = {thread: status["Name"] for thread, status in statuses().items() if thread not in before}
        assert no_longer(set(running))
        return sorted(name for name in running.values() if name.startswith("pa-"))  # Python's have another name

    assert threads("B-L-B-L:1,2,3") == threads("B-L:2") == ["pa-big", "pa-little"]


def test_stages_of_a_unit_share_their_arena(board):
    with Pipeline(zoo_net("squeezenet"), "B-L-B:3,6", board=board) as pipe:
        first, other, last = (stage.program.arena for stage in pipe.lanes.all[0].stages)
        assert first is last and first is not other


def test_lanes_have_their_weights_once(board):
    """Also those of other clusters, where the kernels are the same; none is left when the pipeline is gone."""
    graph = zoo_net("alexnet")
    counts = []
    for plan in ("big", "B+L"):
        with Pipeline(graph, plan, board=board) as pipe:
            weights = pipe.lanes.packed
            counts.append(len(weights))
            results = list(pipe.map(frames(graph, 2) * 2))
            assert np.array_equal(results[0], results[2]) and np.array_equal(results[1], results[3])
        del pipe
        gc.collect()
        assert not weights
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("stage, frame", [*product(range(3), (0, 4))])
def test_a_failure_arrives_in_its_place(stage, frame, board, monkeypatch):
    """Of a unit's first or last stage, or between them: the frames before it come out, whole."""
    graph = small_net()
    inputs = frames(graph, 8)
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in inputs[:frame]]
    monkeypatch.setenv("PIPEALL_FAULT", f"{stage}:{frame}")
    threads = threading.active_count()
    with Pipeline(graph, "B-L-B:1,3", board=board) as pipe:
        results = pipe.map(inputs)
        for reference in expected:
            assert np.array_equal(next(results), reference)
        with pytest.raises(PipelineError) as failure:
            next(results)
    assert (failure.value.stage, failure.value.frame) == (stage, frame)
    assert threading.active_count() == threads


def test_a_trace_has_a_row_for_every_stage(board):
    graph = small_net()
    with Pipeline(graph, "B-L-B:1,3", board=board, trace=True) as pipe:
        list(pipe.map(frames(graph, 6)))
    assert [trace.unit for trace in pipe.trace] == ["big", "little", "big"]
    assert all(len(trace.rows) == 6 for trace in pipe.trace)
    first, _, last = (trace.rows for trace in pipe.trace)
    spans_ns = sorted((row[3], row[-1]) for rows in (first, last) for row in rows)
    assert all(end <= begin for (_, end), (begin, _) in zip(spans_ns, spans_ns[1:], strict=False))  # one at a time


# ---- predictions and simulation


@st.composite
def profiles(draw, groups=5, units=("big", "little", "gpu")):
    times = st.floats(0.5, 8.0)
    return made_up({unit: [draw(times) for _ in range(groups)] for unit in units})


@settings(deadline=None, max_examples=60)
@given(profiles())
def test_shares_are_those_of_the_linear_program(profile):
    """Minimise the busiest unit's time over the shares of two floating cuts, by SciPy."""
    plan = Plan.parse("B-G-B:1~2,3~4")
    costs = StageCosts.of(profile, plan)
    (lane,) = spans(profile, plan)
    ms = {unit: np.array(profile.units[unit].ms) for unit in ("big", "gpu")}
    # big: groups 1, 5 and, for shares s and 1 - t, groups 2 and 4; gpu: group 3 and the rest
    big, gpu = ms["big"], ms["gpu"]
    found = linprog(
        [0, 0, 1],
        A_ub=[[big[1], -big[3], -1], [-gpu[1], gpu[3], -1]],
        b_ub=[-(big[0] + big[4] + big[3]), -(gpu[2] + gpu[1])],
        bounds=[(0, 1), (0, 1), (0, None)],
    )
    assert predict(profile, plan).period_ms == pytest.approx(found.fun, rel=1e-9)
    shares = balanced(costs, lane)
    assert all(0 <= share <= 1 for share in shares)
    assert [span.position for span, _, _ in stage_shares(lane, shares)] == [0, 1, 2]


@settings(deadline=None, max_examples=25)
@given(profiles())
def test_a_simulation_comes_to_what_is_predicted(profile):
    """Mostly to all: on 60 random profiles nothing was lost with three stages, up to 7 % with five, and up to 17 %
    where shares give groups in bunches. Chosen times are worse: 10 % with three."""
    for text, least in (("B-G-B:1,4", 0.85), ("B-G-B-L-B:1,2,3,4", 0.8), ("B-G-B:1~2,3~4", 0.75)):
        plan = with_shares(profile, Plan.parse(text))
        assert least <= simulate(profile, plan, 300, jitter=False).fps / predict(profile, plan).fps <= 1.02, text


def test_an_emulated_board_keeps_the_pace_of_a_unit_of_two_stages():
    """Two stages of 4 ms on one unit and one of 4 ms on another: a frame every 8 ms."""
    graph = chain_net()
    board = toy_board(graph, MS)
    with Pipeline(graph, "B-L-B:1,2", board=board) as pipe:
        pipe.lanes.all[0].set_paces([4.0, 4.0, 4.0])
        list(pipe.map(frames(graph, 10)))
        begin = pipe.snapshot()
        list(pipe.map(frames(graph, 40)))
        assert pipe.stats(begin).fps <= 1.02 * 125
