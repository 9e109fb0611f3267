"""How long each group took: every step counts with its group, and together they are the whole frame."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import NETS, branching_net, frames, small_net, two_crossing_net
from traces import stage_trace

from pipeall import Pipeline


def stages(graph):
    count = len(graph.groups)
    return [(first, last) for first in range(count) for last in range(first + 1, count + 1)]


@pytest.mark.parametrize("net", NETS)
def test_every_step_counts_with_the_group_of_its_node(net):
    graph = net()
    for first, last in stages(graph):
        trace = stage_trace(graph, (first, last))
        expected = np.zeros(len(graph.groups), int)
        for step, (_, name) in enumerate(trace.labels):
            owners = [group.index - 1 for group in graph.groups if name in {node.name for node in group.nodes}]
            expected[max(owners[0] if owners else 0, first)] += 2**step  # none: x0; before: handed on to who comes next
        assert (np.rint(trace.group_ms(graph, trace.rows)[0] * 1e6) == expected).all()
        assert sum(expected) == 2 ** len(trace.labels) - 1


@pytest.mark.parametrize("plan", ["big", "big-little:2", "little-big:1", "big+little", "gpu-big:2", "big-gpu:1"])
@pytest.mark.parametrize("net", [small_net, branching_net, two_crossing_net])
def test_groups_and_hand_over_are_the_whole_frame(net, plan, board_with_gpu):
    """To the nanosecond, per frame; and the stages of a plan share the groups out."""
    graph = net()
    with Pipeline(graph, plan, board=board_with_gpu, trace=True) as pipe:
        assert len(list(pipe.map(frames(graph, 8)))) == 8
    for trace in pipe.trace:
        rows, ms = trace.rows, trace.group_ms(graph, trace.rows)
        handed = rows[:, trace.GIVEN] - rows[:, trace.BEGIN] + rows[:, trace.RAN] - rows[:, trace.RAN - 1]
        assert (np.rint(ms.sum(axis=1) * 1e6) + handed == rows[:, trace.END] - rows[:, trace.BEGIN]).all()
        inside = np.zeros(len(graph.groups), bool)
        inside[slice(*trace.groups)] = True
        assert (ms[:, ~inside] == 0).all() and (ms[:, inside].sum(axis=1) > 0).all()


def test_a_step_of_no_node_counts_with_the_one_before_it():
    graph = small_net()
    named = graph.groups[2].nodes[0].name
    trace = stage_trace(graph, (1, 3), [1, 10])
    for labels, expected in [(("nobody", named), [0, 1, 10, 0]), ((named, "nobody"), [0, 0, 11, 0])]:
        found = replace(trace, labels=tuple(("copy", name) for name in labels)).group_ms(graph, trace.rows)
        assert np.rint(found[0] * 1e6).tolist() == expected


def test_nodes_may_bear_the_names_of_other_nodes_tensors():
    graph = small_net()
    swapped = {graph.nodes[0].name: graph.nodes[3].name, graph.nodes[3].name: graph.nodes[0].name}
    graph = replace(graph, nodes=tuple(replace(node, name=swapped.get(node.name, node.name)) for node in graph.nodes))
    trace = stage_trace(graph, (0, 4))
    by_node = {node.name: group.index - 1 for group in graph.groups for node in group.nodes}
    expected = np.zeros(4, int)
    for step, (kind, name) in enumerate(trace.labels):
        if kind == "conv":
            expected[by_node[name]] += 2**step
    found = np.rint(trace.group_ms(graph, trace.rows)[0] * 1e6).astype(int)
    convs = sum(2**step for step, (kind, _) in enumerate(trace.labels) if kind == "conv")
    assert ((found & convs) == expected).all()
