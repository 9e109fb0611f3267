"""Attention as exporters write it becomes one node, with the same results; what is not attention stays as it is."""

import numpy as np
import pytest
from graphs import Net
from rewriting import ops_of, rewritten

HEADS = (2, 3, 7, 4)
SHORT = (2, 3, 5, 4)


def number(net, value):
    name = f"n{len(net.constants)}"
    net.constants[name] = np.full((1, 1, 1, 1), value, np.float32)
    return name


def keys(net, name):
    return net.op("transpose", name, perm=(0, 1, 3, 2))


def attend(net, scores, v, shape=None):
    """softmax(scores) v"""
    axis = len(net.shape(scores)) - 1
    return net.op("matmul", net.op("softmax", scores, axis=axis), v)


def only(net, *outputs):
    """The node and the graph that these become."""
    graph = rewritten(net.graph(*outputs))
    (node,) = graph.nodes
    assert node.op == "attention"
    return node, graph


def test_scaled_scores():
    net = Net(HEADS, SHORT, SHORT)
    scores = net.op("mul", net.op("matmul", "x0", keys(net, "x1"), alpha=0.5), number(net, 0.25))
    node, _ = only(net, attend(net, scores, "x2"))
    assert node.inputs == ("x0", "x1", "x2") and node.attrs["scale"] == 0.125


def test_divided_scores():
    net = Net(HEADS, SHORT, SHORT)
    scores = net.op("div", net.op("matmul", "x0", keys(net, "x1")), number(net, 2.0))
    assert only(net, attend(net, scores, "x2"))[0].attrs["scale"] == 0.5


@pytest.mark.parametrize("before", [True, False])
def test_factors_of_q_and_k(before):
    """Before or after k's transpose."""
    net = Net(HEADS, SHORT, SHORT)
    q = net.op("mul", "x0", number(net, 0.5))
    k = (
        keys(net, net.op("mul", "x1", number(net, 0.25)))
        if before
        else net.op("mul", keys(net, "x1"), number(net, 0.25))
    )
    node, _ = only(net, attend(net, net.op("matmul", q, k), "x2"))
    assert node.inputs == ("x0", "x1", "x2") and node.attrs["scale"] == 0.125


def test_keys_that_no_transpose_makes():
    net = Net(HEADS, (2, 3, 4, 5), SHORT)
    graph = rewritten(net.graph(attend(net, net.op("matmul", "x0", "x1"), "x2")))
    assert [node.op for node in graph.nodes] == ["transpose", "attention"]
    assert graph.nodes[0].attrs["perm"] == (0, 1, 3, 2)


def test_keys_of_a_general_transpose():
    """(tokens, heads) to (heads, width, tokens) is one transpose of another order."""
    net = Net(HEADS, (2, 5, 3, 4), SHORT)
    k = net.op("transpose", "x1", perm=(0, 2, 3, 1))
    graph = rewritten(net.graph(attend(net, net.op("matmul", "x0", k), "x2")))
    assert [node.op for node in graph.nodes] == ["transpose", "attention"]
    assert graph.nodes[0].attrs["perm"] == (0, 2, 1, 3)


@pytest.mark.parametrize("shape", [(1, 1, 7, 5), (1, 3, 1, 1), (2, 3, 7, 5)])
@pytest.mark.parametrize("first", [True, False])
def test_constant_mask(shape, first):
    net = Net(HEADS, SHORT, SHORT)
    scores = net.op("matmul", "x0", keys(net, "x1"))
    mask = net.constant(shape)
    node, _ = only(net, attend(net, net.op("add", *((mask, scores) if first else (scores, mask))), "x2"))
    assert node.inputs[3] == mask


def test_computed_mask():
    net = Net(HEADS, SHORT, SHORT, (2, 1, 1, 5))
    scores = net.op("add", net.op("matmul", "x0", keys(net, "x1")), "x3")
    assert only(net, attend(net, scores, "x2"))[0].inputs[3] == "x3"


def test_masks_of_windows_between_reshapes():
    """A bias for every head, then a mask for every window of an image, whose axis a reshape splits off."""
    net = Net((4, 3, 7, 4), (4, 3, 7, 4), (4, 3, 7, 4))
    scores = net.op("add", net.op("matmul", "x0", keys(net, "x1")), net.constant((1, 3, 7, 7)))
    split = net.op("reshape", scores, shape=(2, 2, 3, 7, 7))
    masked = net.op("add", split, net.constant((1, 2, 1, 7, 7)))
    node, graph = only(net, attend(net, net.op("reshape", masked, shape=(4, 3, 7, 7)), "x2"))
    assert graph.constants[node.inputs[3]].shape == (4, 3, 7, 7)


def test_rows_of_scores_through_a_flat_softmax():
    net = Net(HEADS, SHORT, SHORT)
    flat = net.op("reshape", net.op("matmul", "x0", keys(net, "x1")), shape=(42, 5))
    weights = net.op("reshape", net.op("softmax", flat, axis=1), shape=(2, 3, 7, 5))
    only(net, net.op("matmul", weights, "x2"))


def test_constant_queries_and_values():
    net = Net(SHORT)
    scores = net.op("matmul", net.constant(HEADS), keys(net, "x0"))
    only(net, attend(net, scores, net.constant(SHORT)))


@pytest.mark.parametrize("v", [(2, 3, 4, 5), (1, 3, 4, 5)], ids=["", "one v for all"])
def test_tokens_that_are_columns(v):
    """v p^T, as of YOLO11 and YOLO26, is the transpose of p v^T: attention, where q, k and v have the same batches."""
    net = Net(HEADS, SHORT, v)
    weights = keys(net, net.op("softmax", plain(net), axis=3))
    ops = ops_of(rewritten(net.graph(net.op("matmul", "x2", weights))))
    assert ("attention" if v[0] == 2 else "softmax") in ops and ops.endswith("transpose")


@pytest.mark.parametrize(
    "weights",
    [
        lambda net: keys(net, net.op("softmax", plain(net), axis=2)),
        lambda net: net.op("transpose", net.op("softmax", plain(net), axis=3), perm=(1, 0, 3, 2)),
        lambda net: net.op("softmax", net.op("matmul", "x1", keys(net, "x0")), axis=2),
    ],
)
def test_other_columns_stay(weights):
    net = Net((3, 3, 7, 4), (3, 3, 5, 4), (3, 3, 4, 5))
    assert "attention" not in ops_of(rewritten(net.graph(net.op("matmul", "x2", weights(net)))))


def test_a_softmax_of_no_scores_is_not_turned():
    net = Net((1, 2, 7, 5), (1, 2, 4, 5))
    graph = rewritten(net.graph(net.op("matmul", "x1", keys(net, net.op("softmax", "x0", axis=3)))))
    assert ops_of(graph) == "softmax transpose matmul"


def plain(net):
    return net.op("matmul", "x0", keys(net, "x1"))


def test_scores_with_another_reader_stay():
    net = Net(HEADS, SHORT, SHORT)
    scores = plain(net)
    graph = net.graph(attend(net, scores, "x2"), scores)
    assert ops_of(graph) == "transpose matmul softmax matmul"


def test_probabilities_that_leave_stay():
    net = Net(HEADS, SHORT, SHORT)
    weights = net.op("softmax", plain(net), axis=3)
    assert "attention" not in ops_of(net.graph(net.op("matmul", weights, "x2"), weights))


@pytest.mark.parametrize(
    "other",
    [
        lambda net: net.op("matmul", net.op("softmax", plain(net), axis=2), "x2"),  # over queries
        lambda net: net.op("matmul", net.op("softmax", plain(net), axis=3), "x2", alpha=0.5),
        lambda net: attend(
            net, net.op("mul", net.op("add", plain(net), "x3"), number(net, 2.0)), "x2"
        ),  # scales the mask
        lambda net: attend(net, net.op("mul", plain(net), net.constant((1, 3, 1, 1))), "x2"),  # a factor for every head
        lambda net: attend(net, net.op("mul", plain(net), number(net, 0.0)), "x2"),
        lambda net: attend(net, net.op("div", plain(net), number(net, 2.0), swapped=True), "x2"),
        lambda net: attend(net, net.op("mul", plain(net), number(net, 2.0), lo=0.0), "x2"),
        lambda net: attend(net, net.op("add", net.op("add", plain(net), "x3"), "x3"), "x2"),  # computed masks
    ],
)
def test_what_is_not_attention_stays(other):
    net = Net(HEADS, SHORT, SHORT, (2, 1, 1, 5))
    assert "attention" not in ops_of(net.graph(other(net)))


def test_a_long_chain_of_masks_ends():
    net = Net(HEADS, SHORT, SHORT)
    scores = plain(net)
    for _ in range(40):
        scores = net.op("add", scores, net.constant((1, 1, 7, 5)))
    assert "attention" not in ops_of(net.graph(attend(net, scores, "x2")))
