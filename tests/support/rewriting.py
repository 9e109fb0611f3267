"""A graph rewritten, after checking what every rewrite must keep."""

from dataclasses import replace

import numpy as np
from graphs import inputs_of

from pipeall.graph.ir import Graph
from pipeall.graph.ops import run_graph
from pipeall.graph.passes.rewrite import rewrite

IMAGE = (1, 6, 5, 4)


def rewritten(graph: Graph) -> Graph:
    """The rewritten graph, after checking what every rewrite must keep.

    Constants are rounded to quarters, so that folding them is exact in float32: what is left to differ is the order
    of float64 operations, 1e-9 of the largest result covers millions of them.
    """
    graph = replace(graph, constants={k: (np.round(v * 4) / 4).astype(v.dtype) for k, v in graph.constants.items()})
    result, inputs = rewrite(graph), inputs_of(graph)
    assert (result.name, result.inputs, result.outputs) == (graph.name, graph.inputs, graph.outputs)
    known = {tensor.name for tensor in graph.inputs} | result.constants.keys()
    for node in result.nodes:
        assert known.issuperset(node.inputs)
        known.add(node.output)
    assert result.tensors.keys() | result.constants.keys() == known
    assert {name for node in result.nodes for name in node.inputs} >= result.constants.keys()
    expected = run_graph(graph, inputs)
    for name, got in run_graph(result, inputs).items():
        assert np.abs(got - expected[name]).max() <= 1e-9 * max(1, np.abs(expected[name]).max())
    assert rewrite(result).nodes == result.nodes, "rewriting again finds nothing more to do"
    assert rewrite(graph).nodes == result.nodes, "the same graph gives the same result"
    return result


def ops_of(graph: Graph) -> str:
    return " ".join(node.op for node in rewritten(graph).nodes)
