"""Lowered steps, run in NumPy, against the graphs they come from; and how little they copy and occupy."""

from collections import Counter
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from graphs import ZOO, Net, inputs_of, random_graph, zoo_net
from step_reference import POINTWISE, Memory, run_steps

from pipeall.errors import ModelError
from pipeall.graph import ops
from pipeall.graph.cases.op_cases import CASES, case_graph
from pipeall.graph.ir import Graph, Node
from pipeall.graph.lower.lower import lower
from pipeall.graph.lower.strides import merged, place
from pipeall.graph.memory import APART_BYTES, LINE_BYTES
from pipeall.graph.partition import split, subgraph
from pipeall.graph.pointwise import BINARY, UNARY
from pipeall.steps import ARENA, SLOT_IN, SLOT_OUT, Lowered, SlotTensor

# From floats to floats; test_strided_kernels has the others
TO_TRUTHS = {op for op, entry in (UNARY | BINARY).items() if entry.gives}
ALL_CASES = [case for op, group in CASES.items() for case in group if not case.types and op not in TO_TRUTHS]

LINE, PAGE = LINE_BYTES // 4, APART_BYTES // 4  # in floats


def take(slot: SlotTensor, memory: np.ndarray) -> np.ndarray:
    return memory[slot.offset : slot.offset + prod(slot.shape)].reshape(slot.shape)


def check_stages(stages: list[Graph], inputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Runs stage after stage on slots, in float64.

    Both sides compute the same sums in float64, in different orders: fan-ins below 10^4 and some 60 layers put them
    within 60 * 10^4 * 2^-53 < 1e-10 of each other, relative to the largest values.
    """
    programs = [lower(stage) for stage in stages]
    slot = np.full(programs[0].slot_in_bytes // 4, np.nan)
    for tensor in programs[0].slot_in:
        take(tensor, slot)[...] = inputs[tensor.name]
    left = []
    for program, behind in zip(programs, [*programs[1:], None], strict=True):
        slot = run_steps(program, slot[: program.slot_in_bytes // 4])
        left += [(tensor.name, take(tensor, slot)) for tensor in program.leaves]
        if behind:
            assert slot.size == program.slot_out_bytes // 4 and program.slot_out == behind.slot_in
            assert all(tensor.offset_bytes >= behind.slot_in_bytes for tensor in program.leaves)
    left += [(tensor.name, take(tensor, slot)) for tensor in programs[-1].slot_out]
    assert sorted(name for name, _ in left) == sorted(expected)
    for name, found in left:
        want = expected[name]
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-10 * max(1, np.abs(want).max()))


def kinds(program: Lowered) -> Counter:
    return Counter(step.kind for step in program.steps)


@pytest.mark.parametrize("case", ALL_CASES, ids=str)
def test_every_op(case):
    graph, inputs = case_graph(case)
    check_stages([graph], inputs, ops.run_graph(graph, inputs))


@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_whole_and_cut(seed):
    graph = random_graph(seed)
    inputs = inputs_of(graph, seed)
    expected = ops.run_graph(graph, inputs)
    check_stages([graph], inputs, expected)
    everywhere = graph.finer(len(graph.tensors))
    check_stages(split(everywhere, range(1, len(everywhere.cuts) + 1)), inputs, expected)


@pytest.mark.parametrize("name", [*ZOO[2:], *ZOO[:2]])  # the quickest are among those that run without --full
def test_zoo_in_three_stages(name):
    graph = zoo_net(name)
    inputs, groups = inputs_of(graph), len(graph.groups)
    check_stages(split(graph, (groups // 3, groups - 2)), inputs, ops.run_graph(graph, inputs))


@pytest.mark.parametrize("name", ZOO)
def test_zoo_copies_nothing_but_its_input(name):
    """Concat, flatten and both sides of every hand-over are in place; the first step turns NCHW into NHWC."""
    graph = zoo_net(name)
    whole = lower(graph)
    assert [step.kind for step in whole.steps].index("copy") == 0 and kinds(whole)["copy"] == 1
    for index in range(1, len(graph.groups)):
        program = lower(subgraph(graph, index, index + 1))
        assert not kinds(program)["copy"]
        assert all(tensor.nhwc for tensor in program.slot_in)
        assert {view.base for step in program.steps for view in step.src} >= {SLOT_IN}
        assert program.steps[-1].dst.base == SLOT_OUT


@pytest.mark.parametrize("name", ZOO)
def test_zoo_arena_is_near_its_lower_bound(name):
    """No arena is smaller than the values alive at once: the greedy plan stays within an eighth of them."""
    program = lower(zoo_net(name))
    bound = max(Memory(program).live())
    assert bound <= program.arena_bytes // 4 <= bound * 9 / 8


def test_lowering_is_deterministic():
    def views(program: Lowered) -> list:
        return [(step.kind, step.src, step.dst) for step in program.steps]

    assert views(lower(zoo_net("googlenet"))) == views(lower(zoo_net("googlenet")))


def test_nested_concat_is_in_place():
    """DenseNet: each layer's input is the concat of all before it; they share one storage."""
    net = Net((1, 4, 6, 6))
    x = net.conv("x0", 8)
    for _ in range(4):
        x = net.op("concat", x, net.conv(net.conv(net.op("clip", x), 6), 5, 3))
    graph = net.graph(net.fc(net.global_pool(x), 3))
    program = lower(graph)
    assert kinds(program)["copy"] == 1
    assert {step.dst.stride for step in program.steps if step.kind == "conv" and step.dst.c in (5, 8)} >= {28}
    inputs = inputs_of(graph)
    check_stages([graph], inputs, ops.run_graph(graph, inputs))


def test_shuffle_net_copies_only_its_shuffles():
    """A unit splits the channels, convolves one half and shuffles: the other half costs a copy, the shuffle another."""
    net = Net((1, 8, 6, 6))
    x = net.conv("x0", 8)
    for _ in range(2):
        kept, half = net.op("slice", x, start=0, stop=4), net.op("slice", x, start=4, stop=8)
        x = net.op("shuffle", net.op("concat", kept, net.conv(net.conv(half, 4), 4, 3, groups=4)), groups=2)
    graph = net.graph(net.fc(net.global_pool(x), 3))
    assert kinds(lower(graph))["copy"] == 1 + 2 * 2
    inputs = inputs_of(graph)
    check_stages([graph], inputs, ops.run_graph(graph, inputs))


@pytest.mark.parametrize(
    "shape, copies",
    [((1, 3, 4, 4), 1), ((1, 1, 4, 4), 0), ((1, 3, 1, 1), 0), ((1, 12), 0)],
)
def test_models_borders_are_converted_only_where_layouts_differ(shape, copies):
    net = Net(shape)
    program = lower(net.graph(net.op("lrn", "x0", size=3) if len(shape) == 4 else net.op("clip", "x0")))
    assert kinds(program)["copy"] == 2 * copies  # to pixels and back
    net = Net(shape)
    assert set(kinds(lower(net.graph(net.op("clip", "x0"))))) == {"unary"}  # in the model's own layout
    assert not program.slot_in[0].nhwc and not program.slot_out[0].nhwc


def copies_of(graph: Graph) -> int:
    inputs = inputs_of(graph)
    check_stages([graph], inputs, ops.run_graph(graph, inputs))
    return kinds(lower(graph))["copy"]


PIXEL = (1, 6, 1, 1)  # of which the model's borders need no conversion


def test_concat_operands_that_lie_elsewhere_are_copied():
    net = Net(PIXEL)
    leaving, twice = net.op("clip", "x0"), net.op("sigmoid", "x0")
    joined = net.op("concat", "x0", leaving, twice, twice)
    assert copies_of(net.graph(leaving, joined)) == 2  # what entered; at once what leaves and the second of two

    net = Net(PIXEL)
    a, b = net.op("clip", "x0"), net.op("sigmoid", "x0")
    assert copies_of(net.graph(net.op("concat", a, b), net.op("concat", b, a))) == 2  # they lie in one concat only


def test_outputs_that_are_inputs_or_aliases_are_copied():
    net = Net(PIXEL)
    x = net.op("clip", "x0")
    assert copies_of(net.graph("x0", x, net.op("reshape", x, shape=(1, 6)), net.op("slice", x, start=2, stop=4))) == 3


def test_a_reshape_computes_straight_into_the_slot():
    net = Net((1, 6, 4, 4))
    assert copies_of(net.graph(net.op("reshape", net.global_pool(net.conv("x0", 8)), shape=(1, 8)))) == 1


def test_fully_connected_layer_is_a_convolution_of_the_whole_input():
    net = Net((2, 3, 4, 5))
    (*_, step) = lower(net.graph(net.fc(net.op("lrn", "x0", size=3), 7))).steps
    assert (step.kind, step.weight.shape, step.params["kernel"]) == ("conv", (7, 3, 4, 5), (4, 5))
    assert (step.params["strides"], step.src[0].h) == ((4, 1), 8)  # two images, one below the other
    assert (step.dst.h, step.dst.w, step.dst.c) == (2, 1, 7)
    net = Net((1, 3, 4, 5))  # in the model's own layout the input is a row
    (step,) = lower(net.graph(net.fc("x0", 7))).steps
    assert (step.weight.shape, step.params["kernel"], step.src[0].c) == ((7, 60, 1, 1), (1, 1), 60)


def test_pixels_never_lie_whole_pages_apart():
    """In storages, in slots and inside of a concat; a single pixel and the model's own borders stay dense."""
    net = Net((1, PAGE, 2, 3))
    halves = (net.op("clip", net.conv("x0", PAGE // 2)), net.op("clip", net.conv("x0", PAGE // 2)))
    wide = net.conv(net.op("concat", *halves), 2 * PAGE)
    flat = net.op("reshape", net.op("clip", wide), shape=(1, 12 * PAGE))
    graph = net.graph(net.op("reshape", net.fc(flat, PAGE), shape=(1, PAGE, 1, 1)), wide)
    inputs = inputs_of(graph)
    expected = ops.run_graph(graph, inputs)
    check_stages([graph], inputs, expected)
    finer = graph.finer(len(graph.tensors))
    stages = split(finer, range(1, len(finer.cuts) + 1))
    check_stages(stages, inputs, expected)
    views = [view for stage in stages for step in lower(stage).steps for view in (*step.src, step.dst)]
    strides = {view.stride for view in views if view.h * view.w > 1}
    assert {PAGE + LINE, 2 * PAGE + LINE} <= strides and all(stride % PAGE for stride in strides)
    assert PAGE in {view.stride for view in views if view.h * view.w == 1}


def test_slots_of_neighbours_agree():
    graph = zoo_net("squeezenet")
    first, second = map(lower, split(graph, (7,)))
    assert first.slot_out == second.slot_in and first.slot_out_bytes // 4 == second.slot_in_bytes // 4
    assert first.slot_out[0].nhwc and first.slot_out_bytes // 4 >= 256 * 27 * 27
    net = Net((1, 3, 3, 3), (1, 5, 3, 3))
    rows = net.graph(net.op("concat", net.conv(net.conv("x0", 5), 7), net.conv("x1", 7)))
    first, second, _ = map(lower, split(rows, (1, 2)))
    assert [(t.name, t.shape) for t in second.slot_in] == [("x1", (1, 5, 3, 3)), ("conv0", (1, 5, 3, 3))]
    assert first.slot_out == second.slot_in and all(tensor.offset % LINE == 0 for tensor in second.slot_in)


@pytest.mark.parametrize(
    "dims, src, dst, expected",
    [
        ((1, 3, 4, 5), (60, 20, 5, 1), (60, 20, 5, 1), ((60,), (1,), (1,))),
        ((1, 3, 4, 5), (60, 20, 5, 1), (60, 1, 15, 3), ((20, 3), (1, 20), (3, 1))),
        ((1, 1, 1), (9, 9, 9), (7, 7, 7), ((1,), (0,), (0,))),
        ((2, 3), (8, 1), (3, 1), ((2, 3), (8, 1), (3, 1))),
    ],
)
def test_copies_take_the_fewest_dimensions(dims, src, dst, expected):
    source, target = merged(dims, place(ARENA, 0, dims, src), place(ARENA, 0, dims, dst))
    assert (source.shape, source.strides, target.strides) == expected


def one_node(op: str, *inputs: str, shape=(1, 4), output=(1, 4), **attrs) -> Graph:
    net = Net(shape)
    net.constant(shape)
    graph = net.graph("x0")
    tensors = dict(graph.tensors) | {"y": type(graph.inputs[0])("y", output)}
    node = Node("culprit", op, inputs, "y", attrs)
    return Graph("bad", (node,), tensors, graph.constants, graph.inputs, (tensors["y"],))


@pytest.mark.parametrize(
    "graph, message",
    [
        (one_node("guess", "x0"), "no device computes op 'guess'"),
        (one_node("fc", "x0", "x0", "x0", axis=1), "input 1 must be a constant, got 'x0'"),
    ],
    ids=lambda value: value.nodes[0].op if isinstance(value, Graph) else "",
)
def test_what_cannot_be_lowered_is_named(graph, message):
    with pytest.raises(ModelError, match=f"'culprit'.*{message}"):
        lower(graph)


def test_the_yardstick_notices_lost_values():
    """``run_steps`` itself: what was never written is NaN, and no step may write what it reads."""
    net = Net(PIXEL)
    program = lower(net.graph(net.op("add", net.op("clip", "x0"), net.op("sigmoid", "x0"))))
    slot = np.ones(program.slot_in_bytes // 4)
    clip, sigmoid, add = program.steps
    output = slice(0, prod(PIXEL))
    assert not np.isnan(run_steps(program, slot)[output]).any()
    assert np.isnan(run_steps(replace(program, steps=(sigmoid, add)), slot)[output]).all()
    some = replace(clip.dst, c=clip.dst.c - 1)
    same = replace(sigmoid, src=(some,), dst=some)  # each element where it was
    run_steps(replace(program, steps=(clip, same)), slot)
    with pytest.raises(AssertionError, match="sigmoid1 writes what it reads"):
        shifted = replace(some, offset=some.offset + 1)
        run_steps(replace(program, steps=(clip, replace(sigmoid, src=(some,), dst=shifted))), slot)


def in_place(graph):
    """The ops of pointwise steps that write where they read."""
    return [step.params["op"] for step in lower(graph).steps if step.kind in POINTWISE and step.dst in step.src]


def test_pointwise_results_lie_where_their_only_operand_was_computed():
    net = Net((1, 3, 8, 8))
    made = net.conv("x0", 5)
    scaled = net.op("mul", net.op("elu", made), net.constant((1, 5, 1, 1)))
    read_twice = net.conv(scaled, 4)
    total = net.op("add", net.op("tanh", read_twice), read_twice)
    graph = net.graph(net.op("concat", net.op("exp", net.conv(total, 4)), net.op("neg", total)), net.conv(total, 2))
    assert in_place(graph) == ["elu", "mul", "exp"]  # exp inside of the concat; total is read by others, too
    inputs = inputs_of(graph)
    check_stages([graph], inputs, ops.run_graph(graph, inputs))


def test_what_leaves_is_not_overwritten():
    net = Net((1, 3, 8, 8))
    made = net.conv("x0", 5)
    graph = net.graph(net.conv(net.op("elu", made), 4), made)
    assert in_place(graph) == []
    inputs = inputs_of(graph)
    check_stages([graph], inputs, ops.run_graph(graph, inputs))


def test_slices_that_a_concat_puts_together_are_one_copy():
    net = Net((1, 3, 8, 12))
    parts = [
        net.op("slice", net.op("slice", "x0", axis=2, start=y, stop=8, step=2), axis=3, start=x, stop=12, step=2)
        for x, y in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    assert copies_of(net.graph(net.conv(net.op("concat", *parts), 5))) == 2  # and of what leaves


@pytest.mark.parametrize(
    "index, looks",
    [
        ([[0, 1, 2], [3, 4, 5]], True),
        ([1, 3, 5], True),
        ([-6, -4, -2], True),
        ([2], True),
        (4, True),
        ([[1], [1]], True),
        ([0, 1, 3], False),
        ([5, 4, 3], False),
        ([[0, 1], [1, 3]], False),
        ([4, 5, 6], False),  # beyond the axis
    ],
)
def test_gather_of_even_indices_only_looks(index, looks):
    net = Net((1, 4, 6, 5))
    net.constants["index"] = np.array(index, np.int64)
    found = net.op("gather", "x0", "index", axis=2)
    graph = net.graph(net.op("clip", found))
    inputs = inputs_of(graph)
    check_stages([graph], inputs, ops.run_graph(graph, inputs))
    assert kinds(lower(graph))["gather"] == (not looks)


def test_joined_heads_lie_as_they_are_read():
    """A concat of tensors that are no images is in row-major order, and what makes its parts writes them there."""
    net = Net((1, 3, 8, 32), (1, 3, 1, 32))
    joined = net.op("concat", "x1", net.op("exp", "x0"), axis=2)
    heads = net.op("matmul", joined, net.op("transpose", joined, perm=(0, 1, 3, 2)))
    assert copies_of(net.graph(heads)) == 1  # of x1
    net = Net((1, 3, 8, 32))
    image = net.op("concat", "x0", net.op("maxpool", "x0", kernel=(1, 1), strides=(1, 1)), axis=1)
    assert copies_of(net.graph(net.conv(image, 4))) == 3  # of what enters, twice, and of what leaves


def test_heads_become_an_image_without_a_copy():
    """A product that reshapes and transposes make an image is written as pixels; of a slice there is one copy."""
    net = Net((1, 12, 4, 5))
    v = net.op("reshape", net.conv("x0", 12), shape=(1, 2, 6, 20))
    heads = net.op("slice", v, axis=2, start=2, stop=6)
    tokens = net.op("transpose", heads, perm=(0, 1, 3, 2))
    mixed = net.op("transpose", net.op("matmul", net.constant((1, 2, 20, 20)), tokens), perm=(0, 1, 3, 2))
    images = [net.op("reshape", name, shape=(1, 8, 4, 5)) for name in (mixed, heads)]
    near = net.op("maxpool", images[1], kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1))
    graph = net.graph(net.conv(net.op("add", images[0], near), 8))
    inputs = inputs_of(graph)
    check_stages([graph], inputs, ops.run_graph(graph, inputs))
    assert copies_of(graph) == 3  # of what enters and leaves, too


def test_steps_of_single_elements_have_long_runs():
    """Pixels of few channels are taken along the image; what lies across is transposed by a copy first."""
    net = Net((1, 85, 9, 9))
    few = net.op("sigmoid", net.op("slice", net.conv("x0", 85), axis=1, start=0, stop=2))
    assert kinds(lower(net.graph(few)))["pointwise"] == 1
    net = Net((1, 3, 20, 20), (1, 32, 20, 20))
    assert copies_of(net.graph(net.op("sub", net.conv("x0", 32), "x1"))) == 3  # both that enter, and what leaves


def test_few_channels_are_pooled_where_they_lie():
    """One by one, without a copy before; many are brought together."""
    for channels, found in ((3, {"maxpool": 3}), (5, {"copy": 2, "maxpool": 1})):
        net = Net((1, channels, 8, 9))
        assert kinds(lower(net.graph(net.op("maxpool", "x0", kernel=(2, 2), strides=(2, 2))))) == found


def test_weights_of_a_transposed_convolution_are_bounded():
    """A file says dilations in a few bytes."""
    net = Net((1, 64, 3, 3))
    weight, bias = net.constant((64, 64, 3, 3)), net.constant((64,))
    out = net.op("deconv", "x0", weight, bias, strides=(9, 9), dilations=(1000, 1000))
    with pytest.raises(ModelError, match="'deconv0' .deconv.: expected at most 268435456 weights"):
        lower(net.graph(out))
