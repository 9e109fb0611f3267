"""Branches of a module side by side on units: results against one engine, order, failures, traces, the pace."""

from itertools import product

import numpy as np
import pytest
from graphs import frames, inputs_of, modules_net, zoo_net

from pipeall import ArgumentError, Board, Engine, Pipeline, PipelineError
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.simulate import simulate

# Groups of the network in branches: a convolution; 2, 3, 4; concat; 6, 7 and 8, 9; concat; a convolution
PLANS = (
    "B-(B|L)-B:1,2,4",
    "B-(L|B)-B:1,3,4",
    "B-(B|L|B)-L:1,2,3,4",
    "L-(B|L)-B-(L|B)-B:1,3,4,5,6,9",
    "B-(B|L)-L-(B|L|B)-B:1,2,4,5,6,8,9",
)


@pytest.mark.parametrize(
    "text",
    [
        "big-(big|gpu)-big:3,4,6",
        "big-(big|gpu|big)-little:3,4,6,7",
        "(big-(big|gpu)-big:3,4,6)+little",
        "big-gpu-(big|gpu)-gpu:1,3,4,6",
        "2*(bigx1-(bigx1|littlex1)-bigx1:3,4,6)",
        "big@fp16-(big@fp16|gpu@fp16)-big@fp16:3,4,6",
        "big-(big|gpu)-big-(gpu|big)-big:3,4,6,7,8,9",
    ],
)
def test_plans_with_branches_are_what_they_say(text):
    plan = Plan.parse(text)
    assert str(plan) == text and Plan.parse(str(plan)) == plan


@pytest.mark.parametrize(
    "text, why",
    [
        ("(B|G)-B:1,2", "expected one stage before branches, and one behind them"),
        ("B-(B|G):1,2", "expected one stage before branches, and one behind them"),
        ("B-(B|G)-(B|L)-B:1,2,3,4,5", "expected one stage before branches, and one behind them"),
        ("B-(B|B)-G:1,2,3", "another component behind big"),
        ("B-(B|G)-B:1,2", "expected 3 for 4 stages"),
        ("B-(B|G)-B:1,2~3,4", "no cut that floats beside branches"),
        ("B-(B|G)-B:1~2,3,4", "no cut that floats beside branches"),
        ("B-(B-L|G)-B:1,2,3,4", "expected big"),
        ("B-(B|G-B:1,2,3", "expected big"),
    ],
)
def test_plans_that_cannot_be_are_refused(text, why):
    with pytest.raises(ArgumentError, match=why):
        Plan.parse(text)


def test_an_order_has_the_units_of_branches_in_a_tuple():
    assert Plan.pipeline(["B", ("B", "G"), "B"], [3, 4, 6]) == Plan.parse("B-(B|G)-B:3,4,6")


def test_branches_that_need_each_other_are_refused(board):
    graph = modules_net().in_branches()
    with pytest.raises(ArgumentError, match="group 5 needs group 4"):
        Pipeline(graph, "B-(B|L)-B:3,4,5", board=board)
    with pytest.raises(ArgumentError, match="rebalance: expected a plan without branches side by side"):
        profile = Board.load("a311d").model.profile(graph, ["big", "little"])
        Pipeline(graph, PLANS[0], board=board, profile=profile, rebalance=True)


def same(results, expected):
    for result, reference in zip(results, expected, strict=True):
        assert result.keys() == reference.keys()
        assert all(np.array_equal(result[name], reference[name]) for name in result)


@pytest.mark.parametrize("text, slots", list(product(PLANS, (1, 2))))
def test_branches_give_the_bits_of_one_engine(text, slots, board):
    graph = modules_net().in_branches()
    inputs = frames(graph, 20)
    with Engine(modules_net(), "big", board=board) as engine:
        expected = [engine(x) for x in inputs]
    with Pipeline(graph, text, board=board, slots=slots) as pipe:
        same(pipe.map(inputs), expected)
        assert [stage.frames for stage in pipe.stats().stages] == [20] * len(pipe.plan.units)


@pytest.mark.parametrize("text", ["B-(B|G)-B:1,2,4", "B-(G|B)-B:1,3,4", "G-(B|L|G)-B:1,2,3,4", "B-(B|G)-G:1,2,4"])
def test_branches_on_a_gpu(text, board_with_gpu):
    graph = modules_net().in_branches()
    inputs = frames(graph, 12)
    with Engine(modules_net(), "big", board=board_with_gpu) as engine:
        expected = [engine(x) for x in inputs]
    with Pipeline(graph, text, board=board_with_gpu) as pipe:
        for result, reference in zip(pipe.map(inputs), expected, strict=True):
            for name in reference:
                np.testing.assert_allclose(result[name], reference[name], rtol=1e-4, atol=1e-4)


def test_a_module_of_a_zoo_network(board):
    """Every inception module of GoogLeNet has two of its branches on another unit."""
    graph = zoo_net("googlenet").in_branches()
    starts = [i for i, group in enumerate(graph.groups) if "inception" in group.name]
    x = next(iter(inputs_of(graph).values()))
    with Engine(zoo_net("googlenet"), "big", board=board) as engine:
        expected = engine(x)
    assert starts
    with Pipeline(graph, "B-(B|L)-B:" + "3,5,7", board=board) as pipe:
        assert all(np.array_equal(result, expected) for result in pipe.map([x] * 3))


@pytest.mark.parametrize("stage, frame", [*product(range(6), (0, 4))])
def test_a_failure_arrives_in_its_place(stage, frame, board, monkeypatch):
    graph = modules_net().in_branches()
    inputs = frames(graph, 10)
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in inputs[:frame]]
    monkeypatch.setenv("PIPEALL_FAULT", f"{stage}:{frame}")
    with Pipeline(graph, "B-(B|L|B)-B-L:1,2,3,4,8", board=board) as pipe:
        results = pipe.map(inputs)
        same([next(results) for _ in expected], expected)
        with pytest.raises(PipelineError) as failure:
            next(results)
    assert (failure.value.stage, failure.value.frame) == (stage, frame)


def test_a_trace_leads_frames_through_all_branches(board, tmp_path):
    graph = modules_net().in_branches()
    with Pipeline(graph, PLANS[0], board=board, trace=True) as pipe:
        list(pipe.map(frames(graph, 6)))
    assert [trace.senders for trace in pipe.trace] == [(), (0,), (0,), (1, 2)]
    fork, *branches, join = (trace.rows for trace in pipe.trace)
    for rows in branches:
        assert (fork[:, -1] <= rows[:, 3]).all() and (rows[:, -1] <= join[:, 3]).all()


@pytest.fixture(scope="module")
def modelled():
    graph = zoo_net("squeezenet").in_branches()
    return graph, Board.load("a311d").model.profile(graph, ["big", "gpu"])


def test_a_frame_alone_takes_the_slower_branch(modelled):
    """Added up here: both sides of one fire module, slowed down by each other, and what is handed over."""
    graph, profile = modelled
    plan = Plan.parse("B-(B|G)-B:2,3,4")
    big, gpu = (np.array(profile.units[unit].ms) for unit in ("big", "gpu"))
    read, made = (graph.tensors[graph.groups[index].nodes[-1].output].nbytes for index in (1, 3))
    sent, fetched = profile.handover("big", "gpu", (read,))
    back, received = profile.handover("gpu", "big", (made,))
    beside = (profile.slowdown("big", "gpu", same_pipeline=True), profile.slowdown("gpu", "big", same_pipeline=True))
    branches = big[2] * beside[0][2], gpu[3] * beside[1][3] + fetched[0] + back[0]
    host = profile.handover("host", "big")[1][0] + profile.handover("big", "host")[0][-1]
    expected = big[:2].sum() + sent[0] + max(branches) + received[0] + big[4:].sum() + host
    assert predict(profile, plan).alone_ms == pytest.approx(expected, rel=1e-9)
    simulated = simulate(profile, plan, 20, depth=1, jitter=False, paced=True)
    assert simulated.latency_p50_ms == pytest.approx(expected, rel=1e-6)


def test_a_simulation_of_branches_comes_to_what_is_predicted(modelled):
    _, profile = modelled
    for text in ("B-(B|G)-B:2,3,4", "B-(G|B)-B:6,7,8", "B-(B|G)-B-(B|G)-B:2,3,4,6,7,8"):
        plan = Plan.parse(text)
        found = simulate(profile, plan, 300, jitter=False, paced=True)
        assert found.fps == pytest.approx(predict(profile, plan).fps, rel=0.02), text


def test_an_emulated_board_keeps_the_pace_of_branches(modelled):
    graph, profile = modelled
    plan = Plan.parse("B-(B|G)-B:2,3,4")
    with Pipeline(graph, plan, board="a311d", depth=1) as pipe:
        list(pipe.map([next(iter(inputs_of(graph).values()))] * 5))
        assert pipe.stats().latency_p50_ms >= predict(profile, plan).alone_ms
