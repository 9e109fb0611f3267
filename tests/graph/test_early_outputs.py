"""Outputs of a network that no later stage needs: where they leave, and that each comes with its own frame.

``test_floating`` has them at cuts that float.
"""

import threading
import time

import numpy as np
import pytest
from bounds import U
from graphs import Net, early_net, frames

from pipeall import Engine, Pipeline
from pipeall.graph.ir import Graph
from pipeall.graph.memory import LINE_BYTES
from pipeall.graph.ops import run_graph
from pipeall.graph.partition import border, split, subgraph
from pipeall.pipeline.lane import lowered_stages
from pipeall.pipeline.measuring.footprint import footprint
from pipeall.pipeline.planning.plan import Plan

# ---- where they leave


def several_outputs(*also: str) -> Graph:
    """Five convolutions in a row and a branch behind the second. Outputs: the branch, which no node reads; the last;
    the second, which the branch and the third read; and tensors named in ``also``."""
    net = Net((1, 3, 6, 6), (1, 2, 3, 3))
    second = net.conv(net.conv("x0", 4), 6, k=3)
    branch = net.op("clip", second, lo=0.0)
    last = net.conv(net.conv(net.conv(second, 5), 7), 8)
    return net.graph(branch, last, second, *also, name="early")


def names(tensors) -> list[str]:
    return [tensor.name for tensor in tensors]


def test_an_output_leaves_where_no_node_needs_it_any_more():
    """In the model's order; while a node reads it, it crosses like any tensor."""
    graph = several_outputs()
    assert [names(cut.tensors) for cut in graph.cuts] == [["conv0"], ["conv1"], ["conv3"], ["conv4"]]
    stages = split(graph, (1, 2, 3, 4))
    assert [names(stage.leaves) for stage in stages] == [[], ["clip2"], ["conv1"], [], []]
    assert [names(stage.outputs) for stage in stages[1:]] == [["conv1"], ["conv3"], ["conv4"], ["conv5"]]
    assert [stage.transmits for stage in stages] == [True] * 4 + [False]
    first, last = split(graph, (3,))
    assert names(first.leaves) == ["clip2", "conv1"] and names(first.outputs) == ["conv3"] == names(last.inputs)
    assert names(last.outputs) == ["conv5"] and last.leaves == ()
    assert graph.leaves == () == split(graph, ())[0].leaves and split(graph, ())[0].outputs == graph.outputs
    assert [row.name for row in first.listing() if row.kind == "Output"] == ["clip2", "conv1"]
    inner = split(first, (2,))  # of a sub-graph: its own outputs go through, and what leaves it leaves
    assert [names(part.leaves) for part in inner] == [["clip2"], ["conv1"]]
    assert names(inner[1].outputs) == ["conv3"] and inner[1].transmits


def test_inputs_that_are_outputs_leave_in_the_first_stage():
    """One is read by the first node, one by none."""
    stages = split(several_outputs("x1", "x0"), (1, 4))
    assert [names(stage.leaves) for stage in stages] == [["x1", "x0"], ["clip2", "conv1"], []]


def test_what_is_done_between_the_places_of_a_floating_cut_leaves_after_it():
    """It crosses the late place too, whether a node reads it there or not; the early one only if a node reads it."""
    graph = several_outputs()
    before, after = subgraph(graph, 0, 3, 1), subgraph(graph, 1, 5)
    assert before.leaves == () and names(before.outputs) == ["conv3", "clip2", "conv1"]
    assert names(after.inputs) == ["conv0"] and names(after.outputs) == ["clip2", "conv5", "conv1"]
    assert names(border(graph, 1, 3, 1).tensors) == ["conv3", "clip2", "conv1"]
    assert names(border(graph, 0, 1).tensors) == ["conv0"]
    middle = subgraph(graph, 1, 4, 3)
    assert names(middle.leaves) == ["clip2", "conv1"] and names(middle.outputs) == ["conv4"]


# ---- the runtime

EARLY_PLANS = ["big", "B+L", "big-little:1", "big-little:3", "little-big:5", "big-mid-little:2,4", "mid-big-little:1,5"]


@pytest.mark.parametrize("depth", [None, 1, 6])
@pytest.mark.parametrize("plan", EARLY_PLANS)
def test_every_output_is_that_of_its_own_frame(plan, depth, three_clusters):
    """More frames than any ring or block holds, each with numbers of its own: bits as from one stage."""
    graph, count = early_net(), 60
    inputs = frames(graph, count)
    with Engine(graph, "big", board=three_clusters) as engine:
        expected = [engine(x) for x in inputs]
    slots = 2 if depth is None else 6
    with Pipeline(graph, plan, board=three_clusters, slots=slots, depth=depth) as pipe:
        results = list(pipe.map(inputs))
    assert len(results) == count
    for x, result, want in zip(inputs, results, expected, strict=True):
        assert list(result) == [tensor.name for tensor in graph.outputs] and np.array_equal(result["x0"], x)
        for name, y in want.items():
            assert np.array_equal(result[name], y), name


@pytest.mark.parametrize("plan", ["gpu-big:2", "big-gpu:2", "big-gpu-little:2,4", "gpu-big:5", "B+G"])
def test_outputs_leave_early_from_an_opencl_device(plan, board_with_gpu):
    """Mapped and copied slots, two frames at once on the device."""
    graph, count = early_net(), 40
    inputs = frames(graph, count)
    with Pipeline(graph, plan, board=board_with_gpu) as pipe:
        results = list(pipe.map(inputs))
    assert len(results) == count
    for x, result in zip(inputs, results, strict=True):
        for name, want in run_graph(graph, {"x0": x}).items():  # as test_random_graph_matches_reference
            assert np.abs(result[name] - want).max() <= 5 * np.sqrt(14 * 210) * U * max(1, np.abs(want).max()), name


def test_results_that_nobody_takes_keep_their_early_outputs(board):
    """All that fits is under way, and taken only then, while another thread submits more."""
    graph = early_net()
    inputs = frames(graph, 30)
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in inputs]
    with Pipeline(graph, "big-little:3", board=board) as pipe:
        sender = threading.Thread(target=lambda: [pipe.submit(x) for x in inputs])
        sender.start()
        while pipe.pending < 3:
            time.sleep(0.001)
        time.sleep(0.05)
        for want in expected:
            result = pipe.result(timeout=10)
            assert all(np.array_equal(result[name], y) for name, y in want.items())
        sender.join()


def test_an_early_output_is_in_no_slot_after_its_stage(board):
    """Three outputs are done by group 2; from there on slots hold what nodes need, and blocks the rest."""
    graph = early_net()
    lane = Plan.parse("B-M-L:2,4").lanes[0]
    first, middle, last = lowered_stages(graph, lane)
    done = [{tensor.name for tensor in part.leaves} for part in (first, middle)]
    assert [len(names) for names in done] == [3, 2] and not done[0] & done[1]
    assert len(first.slot_out) == len(middle.slot_out) == 1
    assert {tensor.name for tensor in last.slot_out} == {t.name for t in graph.outputs} - done[0] - done[1]
    memory = footprint(graph, "big-little:3", board)
    before, after = lowered_stages(graph, Plan.parse("big-little:3").lanes[0])
    line = LINE_BYTES
    frame = sum(
        -(4 * tensor.elements) // line * -line
        for tensor in graph.outputs
        if tensor.name in {leaf.name for leaf in before.leaves}
    )
    assert memory[0].rings == 3 * before.slot_in_bytes + 2 * before.slot_out_bytes + 3 * frame
    assert memory[1].rings == 2 * after.slot_out_bytes
