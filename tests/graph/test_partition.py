"""Groups, cuts and sub-graphs against the program of paper 001, the definition of a crossing, and whole networks."""

from functools import cache
from itertools import pairwise
from math import prod

import numpy as np
import pytest
from graphs import ZOO, Net, inputs_of, random_graph, zoo_net

from pipeall.errors import ArgumentError
from pipeall.graph import ops
from pipeall.graph.ir import Graph
from pipeall.graph.onnx.read.read import load
from pipeall.graph.partition import configurations, split, subgraph

# What crosses each cut: (channels, height = width), from the strides and paddings in the paper's program.
FIRES = [(16, 54), (128, 54), (16, 54), (128, 54), (32, 54), (256, 27), (32, 27), (256, 27)]
FIRES += [(48, 27), (384, 27), (48, 27), (384, 27), (64, 27), (512, 13), (64, 13), (512, 13)]
DEPTHWISE = [(32, 112), (64, 56), (128, 56), (128, 28), (256, 28), (256, 14), *5 * [(512, 14)], (512, 7), (1024, 7)]
POINTWISE = [(64, 112), (128, 56), (128, 56), (256, 28), (256, 28), *6 * [(512, 14)], (1024, 7), (1024, 1)]
CROSSING = {
    "alexnet": [(96, 27), (256, 13), (384, 13), (384, 13), (256, 6), (4096, 1), (4096, 1)],
    "googlenet": [(64, 56), (64, 56), (192, 28), (256, 28), (480, 14), *3 * [(512, 14)], (528, 14)]
    + [(832, 7), (832, 7), (1024, 1)],
    "mobilenet": [(32, 112), *(size for pair in zip(DEPTHWISE, POINTWISE, strict=True) for size in pair)],
    "resnet50": [(64, 56), *3 * [(256, 56)], *4 * [(512, 28)], *6 * [(1024, 14)], *2 * [(2048, 7)], (2048, 1)],
    "resnet50-slim": [(64, 56), (256, 56), (256, 56), (256, 28), *3 * [(512, 28)], (512, 14)]
    + [*5 * [(1024, 14)], (1024, 7), (2048, 7), (2048, 7), (2048, 1)],
    "squeezenet": [(96, 54), *FIRES, (1000, 1)],
}
TRAINED = {"googlenet": 12, "mobilenet_v1_0.75_192": 27, "resnet50": 17, "squeezenet1.0": 18, "squeezenet1.1": 18}
CONFIGURATIONS = dict(alexnet=126, googlenet=396, mobilenet=2106, resnet50=816, squeezenet=918)


@pytest.mark.parametrize("name", ZOO)
def test_cuts_are_those_of_the_papers_program(name):
    graph = zoo_net(name)
    assert [cut.elements for cut in graph.cuts] == [channels * size**2 for channels, size in CROSSING[name]]
    assert [cut.index for cut in graph.cuts] == list(range(1, len(graph.groups)))
    assert [group.index for group in graph.groups] == list(range(1, len(graph.groups) + 1))
    assert all(len(cut.tensors) == 1 for cut in graph.cuts)
    assert sum((group.nodes for group in graph.groups), ()) == graph.nodes


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configurations_are_those_of_table_1(name):
    assert configurations(len(zoo_net(name).cuts)) == CONFIGURATIONS[name]


@pytest.mark.parametrize("name", TRAINED)
def test_trained_models_have_the_same_cuts(name, data_dir):
    graph = load(data_dir / "models" / f"{name}.onnx")
    assert len(graph.cuts) == TRAINED[name]
    assert all(len(cut.tensors) == 1 for cut in graph.cuts)


def test_group_names():
    assert [group.name for group in zoo_net("alexnet").groups][-3:] == ["fc6", "fc7", "fc8"]
    assert [group.name for group in zoo_net("squeezenet").groups][-3:] == ["fire9", "conv10", "flatten"]
    net = Net((1, 3, 4, 4))
    stem = net.conv("x0", 4)
    both = net.op("concat", net.conv(stem, 4), net.conv(stem, 4))
    assert [group.name for group in net.graph(both).finer(1).groups] == ["conv0", "conv1..conv2"]


def reordered(graph: Graph, seed: int) -> Graph:
    """A graph with the nodes in another topological order."""
    random = np.random.default_rng(seed)
    ready, waiting, nodes = {t.name for t in graph.inputs} | set(graph.constants), list(graph.nodes), []
    while waiting:
        possible = [node for node in waiting if ready.issuperset(node.inputs)]
        node = possible[random.integers(len(possible))]
        waiting.remove(node)
        ready.add(node.output)
        nodes.append(node)
    return Graph(graph.name, tuple(nodes), graph.tensors, graph.constants, graph.inputs, graph.outputs)


@pytest.mark.parametrize("name", ["googlenet", "resnet50-slim", "squeezenet"])
@pytest.mark.parametrize("seed", range(3))
def test_groups_do_not_depend_on_the_order_of_parallel_branches(name, seed):
    graph, other = zoo_net(name), reordered(zoo_net(name), seed)
    assert graph.nodes != other.nodes
    assert graph.cuts == other.cuts
    for ours, theirs in zip(graph.groups, other.groups, strict=True):
        assert {node.name for node in ours.nodes} == {node.name for node in theirs.nodes}


def chunks(graph: Graph) -> list[list[str]]:
    return [[node.op for node in group.nodes] for group in graph.groups]


def test_weightless_nodes_stay_with_the_main_before_them():
    net = Net((1, 3, 8, 8))
    x = net.op("maxpool", net.op("clip", net.conv(net.op("mul", "x0", net.constant((1, 3, 1, 1))), 4)))
    x = net.fc(net.op("reshape", net.op("lrn", x), shape=(1, 64)), 5)
    assert chunks(net.graph(net.op("softmax", x))) == [
        ["mul", "conv", "clip", "maxpool", "lrn", "reshape"],
        ["fc", "softmax"],
    ]


def test_a_pooling_to_one_pixel_closes_its_group_once():
    net = Net((1, 3, 8, 8))
    x = net.op("reshape", net.global_pool(net.op("clip", net.conv("x0", 4))), shape=(1, 4))
    assert chunks(net.graph(x)) == [["conv", "clip", "avgpool"], ["reshape"]]
    assert chunks(net.graph(net.fc(x, 5))) == [["conv", "clip", "avgpool"], ["reshape", "fc"]]
    net = Net((1, 3, 1, 1))  # nothing left to pool
    assert chunks(net.graph(net.op("clip", net.global_pool(net.conv("x0", 4))))) == [["conv", "avgpool", "clip"]]


def test_an_operand_may_be_a_constant():
    """The class token of a transformer is joined before its patches."""
    net = Net((1, 4, 8, 8))
    x = net.op("concat", net.constant((1, 4, 8, 8)), net.conv("x0", 4))
    assert chunks(net.graph(net.conv(x, 4))) == [["conv", "concat"], ["conv"]]


def test_no_cut_inside_a_squeeze_and_excite_block_or_a_residual_unit():
    net = Net((1, 4, 8, 8))
    x = net.conv("x0", 4)
    gate = net.op("sigmoid", net.conv(net.conv(net.global_pool(x), 2), 4))
    x = net.op("mul", x, gate)
    x = net.conv(net.conv(net.op("clip", x), 8), 4, residual=x)
    x = net.op("add", net.conv(net.op("clip", x), 4), x)
    assert chunks(net.graph(net.conv(x, 2)).finer(1)) == [
        ["conv"],
        ["avgpool", "conv", "conv", "sigmoid", "mul"],
        ["clip", "conv", "conv"],
        ["clip", "conv", "add"],
        ["conv"],
    ]


def two_rows() -> Graph:
    """Two chains of convolutions side by side, joined at the end: two tensors cross everywhere."""
    net = Net((1, 3, 4, 4), (1, 3, 4, 4))
    a, b = net.conv("x0", 4), net.conv("x1", 5)
    a, b = net.op("clip", net.conv(a, 6)), net.conv(b, 7)
    return net.graph(net.op("concat", a, b), name="rows")


def test_two_tensors_cross_where_one_alone_never_does():
    graph = two_rows()
    assert [[t.name for t in cut.tensors] for cut in graph.cuts] == [
        ["x1", "conv0"],
        ["conv0", "conv1"],
        ["conv1", "clip3"],
    ]
    assert [cut.elements for cut in graph.cuts] == [(3 + 4) * 16, (4 + 5) * 16, (5 + 6) * 16]
    assert graph.finer(1).cuts == ()


def test_more_crossing_tensors_allow_more_cuts():
    graph = zoo_net("squeezenet")
    more = graph.finer(2).cuts
    assert len(more) == len(graph.cuts) + 8  # one between the two expanding convolutions of each fire module
    assert {cut.tensors for cut in graph.cuts} < {cut.tensors for cut in more}
    with pytest.raises(ArgumentError, match="max_crossing: expected a whole number of at least 1, got 0"):
        graph.finer(0)


def test_where_equal_cuts_are_possible_the_fewest_tensors_cross():
    """GoogLeNet's modules begin with a pooling branch: before it one tensor crosses, behind it two."""
    graph = zoo_net("googlenet")
    assert {cut.tensors for cut in graph.cuts} < {cut.tensors for cut in graph.finer(3).cuts}


def test_a_tensor_may_pass_straight_through_a_stage():
    first, middle, last = split(two_rows(), (1, 3))
    assert [t.name for t in middle.inputs] == ["x1", "conv0"]
    assert [t.name for t in middle.outputs] == ["conv1", "clip3"]
    assert [t.name for t in first.outputs] == ["x1", "conv0"]  # x1 is an input of the model
    assert [t.name for t in last.inputs] == ["conv1", "clip3"]


def test_subgraph_has_its_own_borders_and_constants():
    graph = zoo_net("alexnet")
    stages = split(graph, (3, 5))
    assert [stage.name for stage in stages] == ["alexnet[0:3]", "alexnet[3:5]", "alexnet[5:8]"]
    assert [(stage.receives, stage.transmits) for stage in stages] == [(False, True), (True, True), (True, False)]
    assert [stage.inputs[0].name for stage in stages] == ["data", "conv3", "pool5"]
    assert sorted(stages[1].constants) == ["conv4/bias", "conv4/weight", "conv5/bias", "conv5/weight"]
    assert sorted(stages[1].tensors) == ["conv3", "conv4", "conv5", "pool5"]
    assert [row.kind for row in stages[1].listing()] == [
        *("Receiver", "Weight", "Bias", "Main", "Weight", "Bias", "Main", "Op", "Transmitter"),
    ]
    inner = subgraph(stages[1], 0, 1)
    assert (inner.receives, inner.transmits) == (True, True)


@pytest.mark.parametrize("cuts", [(0,), (8,), (5, 3), (4, 4), (-1, 3)])
def test_illegal_cuts_are_named(cuts):
    with pytest.raises(ArgumentError, match=r"cut -?\d of alexnet in .*increasing numbers from 1 to 7"):
        split(zoo_net("alexnet"), cuts)


def test_a_single_group_has_no_cut():
    net = Net((1, 3, 4, 4))
    graph = net.graph(net.op("clip", net.conv("x0", 4)))
    assert graph.cuts == () and len(graph.groups) == 1 and split(graph, ())[0].nodes == graph.nodes
    with pytest.raises(ArgumentError, match="cut 1 of net .*none, it has a single group"):
        split(graph, (1,))
    with pytest.raises(ArgumentError, match=r"groups \[1:1\] of net: expected a range within \[0:1\]"):
        subgraph(graph, 1, 1)


def crossing(graph: Graph, position: int) -> list[str]:
    """The definition: made before, read after."""
    made = [t.name for t in graph.inputs] + [node.output for node in graph.nodes[:position]]
    needed = {name for node in graph.nodes[position:] for name in node.inputs}
    return [name for name in made if name in needed]


def borders_of(graph: Graph) -> list[int]:
    """The positions of the cuts; checks that each carries what crosses there."""
    borders = np.cumsum([len(group.nodes) for group in graph.groups]).tolist()
    assert borders.pop() == len(graph.nodes) and len(borders) == len(graph.cuts)
    for border, cut in zip(borders, graph.cuts, strict=True):
        assert [tensor.name for tensor in cut.tensors] == crossing(graph, border)
    return borders


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed):
    """Cuts carry what crosses, no more than allowed, every group has a Main; and there is no cut one could add."""
    graph = random_graph(seed)
    allowed = 3 + seed % 6
    borders = borders_of(graph.finer(allowed))
    narrow = [p for p in range(1, len(graph.nodes)) if len(crossing(graph, p)) <= allowed]
    assert set(borders) <= set(narrow)
    for start, stop in pairwise([0, *borders, len(graph.nodes)]):
        mains = [p for p in range(start, stop) if graph.nodes[p].is_main]
        assert mains or start == 0 or is_global_pool(graph, start - 1)
        # between two Mains of one group nothing narrow enough stands
        assert not [p for p in narrow if mains and mains[0] < p <= mains[-1]]


def is_global_pool(graph: Graph, index: int) -> bool:
    node = graph.nodes[index]
    return node.op.endswith("pool") and prod(graph.tensors[node.output].shape[2:]) == 1


def upsampled(net: Net, x: str) -> str:
    """Twice as high and wide."""
    return net.op("concat", *2 * [net.op("concat", x, x, axis=2)], axis=3)


def u_net(levels: int = 3, width: int = 8) -> Graph:
    """Down by poolings and up again: what each level makes is needed at the end; the deeper, the more tensors cross."""
    net = Net((1, 3, 32, 32))
    x, skips = net.conv("x0", width, k=3), []
    for level in range(levels):
        skips.append(net.conv(x, width << level, k=3))
        x = net.conv(net.op("maxpool", skips[-1]), width << level + 1, k=3)
    for level in reversed(range(levels)):
        x = upsampled(net, net.conv(x, width << level))
        x = net.conv(net.conv(net.op("concat", x, skips.pop()), width << level, k=3), width << level, k=3)
    return net.graph(net.conv(x, 2), name="u-net")


def pyramid() -> Graph:
    """A backbone, a path down and one up again (PAN), and at each of three levels a head with two branches."""
    net = Net((1, 3, 64, 64))
    x, levels = net.conv("x0", 8, k=3, strides=(2, 2)), []
    for channels in (16, 32, 64):
        x = net.conv(net.conv(x, channels, k=3, strides=(2, 2)), channels, k=3)
        levels.append(x)
    for level in (1, 0):
        joined = net.op("concat", upsampled(net, net.conv(x, 16)), levels[level])
        x = levels[level] = net.conv(joined, 16, k=3)
    for level in (1, 2):
        joined = net.op("concat", net.conv(x, 16, k=3, strides=(2, 2)), levels[level])
        x = levels[level] = net.conv(joined, 16, k=3)
    heads = [net.conv(net.conv(level, 16, k=3), channels) for level in levels for channels in (4, 10)]
    return net.graph(*heads, name="pyramid")


NECKS = {"u-net": u_net, "pyramid": pyramid}


def macs_of(graph: Graph) -> list[int]:
    return [sum(ops.macs(node, graph) for node in group.nodes) for group in graph.groups]


@pytest.mark.parametrize("name", NECKS)
def test_necks_are_cut_where_several_tensors_cross(name):
    graph = NECKS[name]()
    few, borders, mains = graph.finer(1), borders_of(graph), [p for p, n in enumerate(graph.nodes) if n.is_main]
    assert max(macs_of(few)) > sum(macs_of(few)) / 4  # the neck is one group where one tensor crosses
    assert set(borders) > set(borders_of(few)) and len(borders) > 10
    assert max(len(cut.tensors) for cut in graph.cuts) <= 6
    for group, cost in zip(graph.groups, macs_of(graph), strict=True):  # a piece that is not small has a single layer
        assert cost <= sum(macs_of(graph)) / 16 or sum(node.is_main for node in group.nodes) == 1
    here = {p: [graph.tensors[name].nbytes for name in crossing(graph, p)] for p in range(1, len(graph.nodes))}
    for before, after in pairwise(mains):
        for border in set(borders) & set(range(before + 1, after + 1)) - set(borders_of(few)):
            sizes = [sum(here[p]) for p in range(before + 1, after + 1) if len(here[p]) <= 6]
            assert sum(here[border]) == min(sizes)


def test_a_large_group_that_nothing_divides_stays_whole():
    """Eight branches of the same cost: seven tensors and more cross between the last of them."""
    net = Net((1, 4, 8, 8))
    branches = [net.conv("x0", 4) for _ in range(10)]
    graph = net.graph(net.op("concat", *branches), name="branches")
    assert [len(cut.tensors) for cut in graph.cuts] == [2, 3, 4, 5, 6]
    assert [sum(node.is_main for node in group.nodes) for group in graph.groups] == [1, 1, 1, 1, 1, 5]


def chained(stages: list[Graph], inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of stages in sequence, each of which gets exactly what the one before hands on; none leaves twice."""
    found, values = {}, inputs
    for stage in stages:
        values = ops.run_graph(stage, values, np.float32)
        left = [tensor.name for tensor in (stage.leaves if stage is not stages[-1] else stage.outputs)]
        assert not found.keys() & set(left)
        found |= {name: values[name] for name in left}
        values = {tensor.name: values[tensor.name] for tensor in stage.outputs}
    return found


@pytest.mark.parametrize("name", NECKS)
def test_stages_of_a_neck_in_sequence_are_the_network(name):
    graph = NECKS[name]()
    inputs = inputs_of(graph)
    expected = ops.run_graph(graph, inputs, np.float32)
    groups = len(graph.groups)
    for cuts in ((1,), (groups // 3, 2 * groups // 3), range(1, groups)):
        values = chained(split(graph, cuts), inputs)
        assert values.keys() == expected.keys()
        for output, y in expected.items():
            np.testing.assert_array_equal(values[output], y)


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_are_cut_right_by_default(seed):
    graph = random_graph(seed)
    borders_of(graph)
    inputs = inputs_of(graph)
    expected = ops.run_graph(graph, inputs, np.float32)
    values = chained(split(graph, range(1, len(graph.groups))), inputs)
    assert values.keys() == expected.keys()
    for output, y in expected.items():
        np.testing.assert_array_equal(values[output], y)


@cache
def whole(name: str) -> tuple[dict, np.ndarray]:
    inputs = inputs_of(zoo_net(name))
    return inputs, ops.run_graph(zoo_net(name), inputs, np.float32)["prob"]


@pytest.mark.parametrize("name", ["mobilenet", "squeezenet"])
def test_stages_in_sequence_are_the_network(name):
    inputs, expected = whole(name)
    groups = len(zoo_net(name).groups)
    for cuts in ((1,), (groups // 2, groups - 1), range(1, groups)):
        values = inputs
        for stage in split(zoo_net(name), cuts):
            values = ops.run_graph(stage, values, np.float32)
        np.testing.assert_array_equal(values["prob"], expected)  # the same operations in the same order
