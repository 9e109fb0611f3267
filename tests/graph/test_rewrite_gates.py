"""Rewriting of what a gate multiplies."""

import numpy as np
import pytest
from graphs import INF, Net
from rewriting import ops_of, rewritten

from pipeall.graph.ops import run_graph
from pipeall.graph.passes.rewrite import rewrite

IMAGE, GATE = (1, 6, 5, 4), (1, 6, 1, 1)


@pytest.mark.parametrize("turned", range(4))
def test_a_gated_tensor_added_to_itself_is_one_product(turned):
    net = Net(IMAGE, GATE)
    gate = net.op("sigmoid", "x1")
    product = net.op("mul", *(("x0", gate) if turned % 2 else (gate, "x0")))
    y = net.op("add", *(("x0", product) if turned // 2 else (product, "x0")), lo=0.0, hi=6.0)
    graph = rewritten(net.graph(y))
    assert [node.op for node in graph.nodes] == ["sigmoid", "add", "mul"]
    (last,) = graph.nodes[-1:]
    assert (last.inputs[0], last.output, last.attrs["lo"], last.attrs["hi"]) == ("x0", y, 0.0, 6.0)


def test_the_sum_of_gate_and_one_rounds_once_more():
    """In float32: 1 + g, then the product; each within half an ulp. Before: the product, then the sum."""
    net = Net(IMAGE, GATE)
    graph = rewrite(net.graph(net.op("add", "x0", net.op("mul", "x0", "x1"))))
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal(IMAGE).astype(np.float32), rng.random(GATE, np.float32)
    (got,) = run_graph(graph, {"x0": x, "x1": g}, dtype=np.float32).values()
    exact = x.astype(np.float64) * (1 + g.astype(np.float64))
    assert (np.abs(got - exact) <= 2.01 * 2.0**-24 * np.abs(exact)).all()


@pytest.mark.parametrize("reason", ["as large", "constant", "read twice", "clamped", "broadcast", "another"])
def test_other_sums_stay(reason):
    net = Net(GATE if reason == "broadcast" else IMAGE, IMAGE if reason in ("as large", "broadcast") else GATE, IMAGE)
    gate = net.constant(GATE) if reason == "constant" else net.op("sigmoid", "x1")
    product = net.op("mul", "x0", gate, hi=1.0 if reason == "clamped" else INF)
    y = net.op("add", "x2" if reason == "another" else "x0", product)
    found = ops_of(net.graph(y, product) if reason == "read twice" else net.graph(y))
    assert found.split()[-2:] == ["mul", "add"]
