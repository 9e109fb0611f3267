"""Groups cut into the branches of their modules, and sub-graphs of branches, against the dependencies of nodes."""

from itertools import combinations

import pytest
from graphs import ZOO, modules_net, zoo_net

from pipeall.graph.partition import branch, joined, needs, subgraph

# pairs of groups that do not need each other: 6 of four branches
PAIRS = {"googlenet": 9 * 6, "squeezenet": 8, "resnet50": 4, "alexnet": 0, "mobilenet": 0, "modules": 3 + 5 + 2}


def made_before(graph):
    """node -> all nodes that it needs, directly or not."""
    makers, found = {node.output: node.name for node in graph.nodes}, {}
    for node in graph.nodes:
        direct = [makers[name] for name in node.inputs if name in makers]
        found[node.name] = set(direct).union(*(found[name] for name in direct))
    return found


def independent(graph, one, other):
    before = made_before(graph)
    names = [{node.name for node in group.nodes} for group in (one, other)]
    return not any(before[name] & names[0] for name in names[1]) and not any(
        before[name] & names[1] for name in names[0]
    )


@pytest.mark.parametrize("name", PAIRS)
def test_modules_are_cut_into_branches_that_do_not_need_each_other(name):
    whole = modules_net() if name == "modules" else zoo_net(name)
    graph = whole.in_branches()
    assert sorted(node.name for node in graph.nodes) == sorted(node.name for node in whole.nodes)
    assert [node for group in graph.groups for node in group.nodes] == list(graph.nodes)
    place = {tensor.name: -1 for tensor in graph.inputs} | {node.output: i for i, node in enumerate(graph.nodes)}
    assert all(place[read] < place[node.output] for node in graph.nodes for read in node.inputs if read in place)
    again = graph.in_branches()
    assert again.nodes == graph.nodes and [g.nodes for g in again.groups] == [g.nodes for g in graph.groups]
    apart = [independent(graph, *pair) for pair in combinations(graph.groups, 2)]
    assert sum(apart) == PAIRS[name]


@pytest.mark.parametrize("name", [*ZOO, "modules"])
def test_needs_are_the_groups_that_make_what_a_group_reads(name):
    graph = (modules_net() if name == "modules" else zoo_net(name)).in_branches()
    of_node = {node.output: index for index, group in enumerate(graph.groups) for node in group.nodes}
    for index, group in enumerate(graph.groups):
        read = {of_node[name] for node in group.nodes for name in node.inputs if name in of_node}
        assert needs(graph)[index] == read - {index}


def test_branches_receive_what_they_read_and_the_join_all_that_crosses():
    graph = modules_net().in_branches()
    names = [group.name for group in graph.groups]
    first, ends = 1, [1, 2, 3, 4]  # behind the first convolution
    parts = [branch(graph, *pair, (1, 4)) for pair in zip(ends, ends[1:], strict=False)]
    join = joined(subgraph(graph, 4, len(graph.groups)), parts)
    crossing = {tensor.name for tensor in graph.cuts[3].tensors}
    assert {tensor.name for tensor in join.inputs} == crossing and len(join.inputs) == 3
    for part in parts:
        assert {tensor.name for tensor in part.inputs} == {graph.cuts[0].tensors[0].name}
        assert len(part.outputs) == 1 and part.receives and part.transmits
    assert names[first] and sum(len(part.nodes) for part in parts) + len(join.nodes) + 1 == len(graph.nodes)
