"""Rewriting: what each rule does, when it must not, and that results, borders, order and cuts stay."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import INF, Net, random_graph
from rewriting import IMAGE, ops_of, rewritten

from pipeall.graph.ir import Graph
from pipeall.graph.onnx.read.read import load
from pipeall.graph.passes.rewrite import rewrite


@pytest.mark.parametrize("seed", range(80))
def test_random_graph_keeps_its_results(seed):
    rewritten(random_graph(seed))


# ---- weights ----


@pytest.mark.parametrize("op, swapped", [("mul", False), ("add", False), ("sub", False), ("sub", True)])
@pytest.mark.parametrize("shape", [(1, 8, 1, 1), (1, 1, 1, 1)])
def test_constant_after_conv_is_folded(op, swapped, shape):
    net = Net(IMAGE)
    conv = net.conv("x0", 8, 3, groups=2)
    y = net.op(op, conv, net.constant(shape), swapped=swapped, lo=0.0, hi=2.0)
    (node,) = rewritten(net.graph(y)).nodes
    assert (node.op, node.attrs["lo"], node.attrs["hi"], node.output) == ("conv", 0.0, 2.0, y)


def test_batch_norm_and_relu_after_conv_are_folded():
    net = Net(IMAGE)
    y = net.conv("x0", 8, 3)
    for op in ("mul", "add", "mul", "add"):
        y = net.op(op, y, net.constant((1, 8, 1, 1)))
    graph = rewritten(net.graph(net.op("clip", y)))
    assert [node.op for node in graph.nodes] == ["conv"] and len(graph.constants) == 2


def test_constant_after_fc_is_folded():
    net = Net((1, 12))
    y = net.op("add", net.op("mul", net.fc("x0", 5), net.constant((1, 5))), net.constant((1, 1)))
    assert ops_of(net.graph(y)) == "fc"


def test_folding_rounds_once_to_float32():
    net = Net(IMAGE)
    conv = net.conv("x0", 8, 3)
    graph = net.graph(net.op("mul", conv, net.constant((1, 8, 1, 1))))
    weight, scale = (graph.constants[name].astype(np.float64) for name in ("k0", "k2"))
    folded = rewrite(graph)
    expected = (weight * scale.reshape(-1, 1, 1, 1)).astype(np.float32)
    assert np.array_equal(folded.constants[folded.nodes[0].inputs[1]], expected)


def test_shared_weights_are_folded_for_each_user():
    net = Net(IMAGE)
    weight, bias, scale = net.constant((6, 6, 1, 1)), net.constant((6,)), net.constant((1, 6, 1, 1))
    a = net.op("conv", "x0", weight, bias)
    b = net.op("conv", net.op("mul", a, scale), weight, bias)
    graph = rewritten(net.graph(b))
    assert [node.op for node in graph.nodes] == ["conv", "conv"]
    assert graph.nodes[0].inputs[1] != weight and graph.nodes[1].inputs[1] == weight


@pytest.mark.parametrize("reason", ["per pixel", "along the width", "clamp", "residual", "two readers", "an output"])
def test_constant_is_not_folded(reason):
    net = Net(IMAGE)
    conv = net.conv("x0", 6, 3, residual="x0" if reason == "residual" else None, lo=0.0 if reason == "clamp" else -INF)
    shapes = {"per pixel": (1, 6, 5, 4), "along the width": (1, 1, 1, 4)}
    outputs = [net.op("mul", conv, net.constant(shapes.get(reason, (1, 6, 1, 1))))]
    if reason == "two readers":
        outputs.append(net.op("sigmoid", conv))
    if reason == "an output":
        outputs.append(conv)
    assert "conv mul" in ops_of(net.graph(*outputs))


def test_constant_that_would_overflow_is_not_folded():
    net = Net(IMAGE)
    y = net.op("mul", net.conv("x0", 6), net.constant((1, 6, 1, 1)))
    graph = net.graph(y)
    huge = {name: np.full_like(array, 1e30) for name, array in graph.constants.items()}
    assert [node.op for node in rewrite(replace(graph, constants=huge)).nodes] == ["conv", "mul"]


# ---- clamps and residuals ----


@pytest.mark.parametrize("op", ["conv", "fc", "add", "clip"])
@pytest.mark.parametrize("first, second, both", [
    ((-INF, INF), (0.0, 6.0), (0.0, 6.0)),
    ((0.0, INF), (-1.0, 0.5), (0.0, 0.5)),
    ((-1.0, 0.0), (0.5, 1.0), (0.5, 0.5)),
    ((0.5, 1.0), (-1.0, 0.0), (0.0, 0.0)),
])  # fmt: skip
def test_clamp_is_fused(op, first, second, both):
    net = Net(IMAGE)
    inputs = {
        "conv": (net.constant((4, 6, 1, 1)), net.constant((4,))),
        "fc": (net.constant((4, 120)), net.constant((4,))),
        "add": (net.constant((1, 6, 1, 1)),),
    }
    x = net.op(op, "x0", *inputs.get(op, ()), lo=first[0], hi=first[1])
    (node,) = rewritten(net.graph(net.op("clip", x, lo=second[0], hi=second[1]))).nodes
    assert (node.op, node.attrs["lo"], node.attrs["hi"]) == (op, *both)


def test_clamp_of_a_shared_tensor_stays():
    net = Net(IMAGE)
    conv = net.conv("x0", 6)
    assert ops_of(net.graph(net.op("clip", conv), net.op("sigmoid", conv))) == "conv clip sigmoid"


def test_residual_goes_into_the_later_conv():
    net = Net(IMAGE)
    main, short = net.conv(net.op("sigmoid", "x0"), 8, 3), net.conv("x0", 8)
    graph = rewritten(net.graph(net.op("clip", net.op("add", main, short))))
    assert [(node.name, node.inputs[3:], node.attrs["lo"]) for node in graph.nodes[1:]] == [
        (main, (), -INF),
        (short, (main,), 0.0),
    ]


def test_identity_shortcut_is_a_residual():
    net = Net(IMAGE)
    y = net.op("clip", net.op("add", net.conv(net.conv("x0", 8, lo=0.0), 6, 3), "x0"))
    graph = rewritten(net.graph(y))
    assert [node.inputs[3:] for node in graph.nodes] == [(), ("x0",)]


def residual_refused(reason: str) -> Graph:
    net = Net(IMAGE)
    if reason == "the other comes later":
        conv = net.conv("x0", 6)
        return net.graph(net.op("add", conv, net.op("sigmoid", "x0")))
    if reason == "broadcast":
        conv = net.conv("x0", 6)
        small = net.conv(net.global_pool("x0"), 6)
        return net.graph(net.op("add", conv, small))
    conv = net.conv("x0", 6, 3, residual="x0" if reason == "residual" else None, lo=0.0 if reason == "clamp" else -INF)
    y = net.op("add", conv, conv if reason == "both operands" else "x0")
    return net.graph(y, conv) if reason == "an output" else net.graph(y)


@pytest.mark.parametrize(
    "reason", ["the other comes later", "broadcast", "residual", "clamp", "both operands", "an output"]
)
def test_add_stays(reason):
    assert "add" in ops_of(residual_refused(reason))


# ---- padding ----


def padded(op: str, begin=(0, 0, 1, 0), end=(0, 0, 2, 1), value=0.0, kernel=3, **attrs) -> Graph:
    net = Net(IMAGE)
    x = net.op("pad", "x0", pads_begin=begin, pads_end=end, value=value)
    if op == "conv":
        weight, bias = net.constant((4, 6, kernel, kernel)), net.constant((4,))
        return net.graph(net.op("conv", x, weight, bias, pads=(0, 1, 1, 0)))
    return net.graph(net.op(op, x, kernel=(kernel, kernel), strides=(1, 1), **attrs))


def test_pad_is_folded_into_conv():
    (node,) = rewritten(padded("conv")).nodes
    assert node.attrs["pads"] == (1, 1, 3, 1)


@pytest.mark.parametrize("pads, counted", [((0, 0, 0, 0), False), ((0, 1, 0, 0), True)])
def test_pad_is_folded_into_average_that_counts_it(pads, counted):
    (node,) = rewritten(padded("avgpool", pads=pads, count_include_pad=counted)).nodes
    assert node.attrs["count_include_pad"] and node.attrs["pads"] == (1, pads[1], 2, 1)


@pytest.mark.parametrize(
    "graph",
    [
        padded("conv", value=1.0),
        padded("maxpool"),
        padded("avgpool", pads=(1, 0, 0, 0), count_include_pad=False),
        padded("avgpool", ceil=True, count_include_pad=True),
        padded("avgpool", kernel=2, count_include_pad=True),
    ],
    ids=["value", "maxpool", "uncounted", "ceil", "padding as wide as the kernel"],
)
def test_pad_stays(graph):
    assert ops_of(graph).startswith("pad ")


def test_pad_of_channels_stays():
    net = Net(IMAGE)
    x = net.op("pad", "x0", pads_begin=(0, 0, 0, 0), pads_end=(0, 2, 0, 0))
    assert ops_of(net.graph(net.conv(x, 4))) == "pad conv"


# ---- moves ----


def test_idle_nodes_are_removed():
    net = Net(IMAGE)
    x = net.op("reshape", "x0", shape=IMAGE)
    x = net.op("transpose", x, perm=(0, 1, 2, 3))
    x = net.op("slice", x, start=0, stop=6)
    x = net.op("pad", x, pads_begin=(0,) * 4, pads_end=(0,) * 4)
    x = net.op("concat", x)
    x = net.op("shuffle", x, groups=6)
    x = net.op("clip", x, lo=-INF, hi=INF)
    assert ops_of(net.graph(net.op("sigmoid", x))) == "sigmoid"


def test_idle_node_at_the_output_passes_its_name_on():
    net = Net(IMAGE)
    s = net.op("sigmoid", "x0")
    h = net.op("hardswish", s)
    y = net.op("reshape", s, shape=IMAGE)
    graph = rewritten(net.graph(y, h))
    assert [(node.op, node.inputs, node.output) for node in graph.nodes] == [
        ("sigmoid", ("x0",), y),
        ("hardswish", (y,), h),
    ]


def test_copy_between_two_borders_stays():
    net = Net(IMAGE)
    s = net.op("sigmoid", "x0")
    copies = [net.op("reshape", x, shape=IMAGE) for x in ("x0", s)]
    assert ops_of(net.graph(s, *copies)) == "sigmoid reshape reshape"


def test_reshapes_are_merged():
    net = Net((1, 24))
    x = net.op("reshape", net.op("reshape", "x0", shape=(2, 12)), shape=(1, 4, 3, 2))
    y = net.op("reshape", net.op("reshape", x, shape=(1, 24)), shape=(1, 2, 3, 4))
    assert ops_of(net.graph(y)) == "reshape"
    net = Net((1, 4, 3, 2))
    y = net.op("reshape", net.op("reshape", net.op("reshape", "x0", shape=(1, 24)), shape=(24,)), shape=(1, 2, 3, 4))
    assert ops_of(net.graph(y)) == "reshape"
    back = net.op("reshape", net.op("reshape", "x0", shape=(1, 24)), shape=(1, 4, 3, 2))
    assert ops_of(net.graph(net.op("sigmoid", back))) == "sigmoid"


def test_transposes_are_merged():
    net = Net((1, 2, 3, 4))
    x = net.op("transpose", "x0", perm=(0, 2, 3, 1))
    assert ops_of(net.graph(net.op("transpose", x, perm=(0, 2, 1, 3)))) == "transpose"
    assert ops_of(net.graph(net.op("sigmoid", net.op("transpose", x, perm=(0, 3, 1, 2))))) == "sigmoid"


def test_flatten_before_fc_is_dropped():
    net = Net(IMAGE)
    y = net.fc(net.op("reshape", net.op("reshape", "x0", shape=(1, 6, 20)), shape=(1, 120)), 7)
    assert ops_of(net.graph(y)) == "fc"


@pytest.mark.parametrize(
    "split, perm, op",
    [
        ((1, 2, 3, 5, 4), (0, 2, 1, 3, 4), "shuffle"),
        ((1, 3, 2, 20), (0, 2, 1, 3), "shuffle"),
        ((1, 2, 3, 5, 4), (0, 1, 2, 4, 3), "transpose"),
        ((1, 6, 5, 4, 1), (0, 2, 1, 3, 4), "transpose"),
        ((2, 3, 20), (1, 0, 2), "transpose"),
    ],
)
def test_channel_shuffle_is_recognized(split, perm, op):
    net = Net(IMAGE)
    x = net.op("reshape", "x0", shape=(1, 120))
    x = net.op("transpose", net.op("reshape", x, shape=split), perm=perm)
    y = net.op("reshape", net.op("reshape", x, shape=(1, 120)), shape=IMAGE)
    assert op in ops_of(net.graph(y)).split()


def test_dead_nodes_and_constants_are_removed():
    net = Net(IMAGE)
    y = net.conv("x0", 4)
    net.conv(net.conv("x0", 8), 2)
    graph = rewritten(net.graph(y))
    assert [node.output for node in graph.nodes] == [y] and len(graph.constants) == 2


# ---- cuts ----


@pytest.mark.parametrize("network", ["googlenet", "mobilenet_v1_0.75_192", "resnet50", "squeezenet1.0"])
def test_trained_network_keeps_its_cuts(network, data_dir):
    path = data_dir / "models" / f"{network}.onnx"
    plain, graph = load(path, rewrite=False), load(path)
    assert len(graph.nodes) < len(plain.nodes)
    assert [cut.elements for cut in graph.cuts] == [cut.elements for cut in plain.cuts]


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_parallel_branches_become_one_convolution(groups):
    """As in RepVGG and FastViT: 3x3, 1x1, batch normalization and the image itself, summed and subtracted."""
    net = Net(IMAGE)
    per_channel = (1, 6, 1, 1)
    normed = net.op("add", net.op("mul", "x0", net.constant(per_channel)), net.constant(per_channel))
    wide, narrow = net.conv("x0", 6, 3, groups=groups), net.conv("x0", 6, 1, groups=groups)
    total = net.op("add", net.op("sub", wide, normed), narrow)
    scaled = net.op("mul", total, net.constant(per_channel))
    graph = net.graph(net.op("clip", net.op("add", "x0", scaled)))
    assert ops_of(graph) == "conv"


def test_branches_whose_pixels_do_not_meet_stay():
    net = Net(IMAGE)
    weight, bias = net.constant((6, 6, 2, 2)), net.constant((6,))
    shifted = net.op("conv", "x0", weight, bias, pads=(1, 1, 0, 0))
    other = net.op("conv", "x0", net.constant((6, 6, 3, 3)), bias, pads=(1, 1, 1, 1))
    assert ops_of(net.graph(net.op("add", other, shifted))) == "conv"  # the same corner
    last = net.op("conv", "x0", net.constant((6, 6, 2, 2)), bias, pads=(0, 0, 1, 1))
    assert ops_of(net.graph(net.op("add", net.conv("x0", 6, 1), last))) == "conv"
    strided = net.op("conv", "x0", net.constant((6, 6, 1, 1)), bias, strides=(2, 2))
    dilated = net.op(
        "conv", "x0", net.constant((6, 6, 3, 3)), bias, strides=(2, 2), dilations=(2, 2), pads=(1, 1, 1, 1)
    )
    graph = net.graph(net.op("add", dilated, net.op("slice", net.op("slice", strided, axis=2, start=0, stop=2, step=1),
                      axis=3, start=0, stop=2, step=1)))  # fmt: skip
    assert "slice" in ops_of(graph)


def test_slices_that_lie_side_by_side_are_joined():
    net = Net(IMAGE)
    x = net.conv("x0", 8)
    a, b, c = (net.op("slice", x, axis=1, start=i, stop=i + n, step=1) for i, n in ((0, 4), (4, 2), (6, 2)))
    assert ops_of(net.graph(net.op("concat", a, b, c, net.op("sigmoid", a), axis=1))) == "conv slice sigmoid concat"
    part = net.graph(net.op("concat", b, c, a, axis=1))
    assert ops_of(part) == "conv slice slice concat"
    backwards = net.graph(net.op("concat", b, a, axis=1))
    assert ops_of(backwards) == "conv slice slice concat"


def test_concats_that_begin_alike_are_nested():
    net = Net(IMAGE)
    a, b, c = net.conv("x0", 4), net.op("sigmoid", "x0"), net.op("tanh", "x0")
    both, all_three = net.op("concat", a, b, axis=1), net.op("concat", a, b, c, axis=1)
    graph = net.graph(net.op("tanh", both), all_three)
    assert [node.inputs for node in rewritten(graph).nodes if node.op == "concat"] == [(a, b), (both, c)]


# ---- rows ----


@pytest.mark.parametrize(
    "flat, axes, found",
    [
        ((1, 1, 120), (2,), (1, 2, 3)),  # GroupNorm of one group
        ((6, 20), (1,), (2, 3)),  # InstanceNormalization
        ((1, 6, 20), (1, 2), (1, 2, 3)),
        ((2, 60), (1,), None),  # a part of the channels
        ((6, 20), (0,), (1,)),
    ],
)
def test_reshapes_around_a_normalization_vanish(flat, axes, found):
    net = Net(IMAGE)
    rows = net.op("layernorm", net.op("reshape", "x0", shape=flat), axes=axes)
    graph = net.graph(net.op("reshape", rows, shape=IMAGE))
    if found is None:
        assert ops_of(graph) == "reshape layernorm reshape"
    else:
        (node,) = rewritten(graph).nodes
        assert (node.op, node.attrs["axes"]) == ("layernorm", found)


def test_shared_normalization_keeps_its_reshapes():
    net = Net(IMAGE)
    rows = net.op("layernorm", net.op("reshape", "x0", shape=(1, 120)), axes=(1,))
    assert ops_of(net.graph(rows, net.op("reshape", rows, shape=IMAGE))) == "reshape layernorm reshape"
