"""Graphs of many branches, operands, outputs or layers: what loading and lowering do grows as the graph does.

Time is not measured, work is: the calls that Python makes for a graph, and for one four times as large.
"""

import sys

import numpy as np
import pytest
from onnx import helper as h

from pipeall import load
from pipeall.graph.lower.lower import lower

SMALL, TIMES = 60, 4


def network(kind: str, count: int) -> bytes:
    x, shape = h.make_tensor_value_info("x", 1, [1, 4 * count if "slice" in kind else 3, 2, 2]), [1, 3, 1, 1]
    names = [f"t{i}" for i in range(count)]
    before = ["x", *names]
    ends, constants = ["y"], []
    node = h.make_node
    join = node("Concat", names, ["y"], axis=1)
    if kind == "branches":
        nodes = [*(node("Relu", ["x"], [t]) for t in names), join]
    elif kind == "sum":
        nodes = [*(node("Tanh", ["x"], [t]) for t in names), node("Sum", names, ["y"])]
    elif kind == "slices":
        constants = [h.make_tensor(f"s{i}", 7, [1], [4 * i]) for i in range(count + 1)]
        constants.append(h.make_tensor("axis", 7, [1], [1]))
        nodes = [node("Slice", ["x", f"s{i}", f"s{i + 1}", "axis"], [t]) for i, t in enumerate(names)]
        nodes += [h.make_node("Concat", names, ["c"], axis=1), node("Tanh", ["c"], ["y"])]
    elif kind == "convolutions":
        constants = [h.make_tensor(f"w{t}", 1, [3, 3, 1, 1], np.eye(3).ravel()) for t in names]
        nodes = [*(node("Conv", ["x", f"w{t}"], [t]) for t in names), join]
    elif kind == "deep":
        constants = [h.make_tensor(f"w{t}", 1, shape, [1, 2, 3]) for t in names]
        nodes = [node("Add", [a, f"w{b}"], [b]) for a, b in zip(before, names, strict=False)]
        ends = names[-1:]
    elif kind == "idle":
        nodes = [node("Identity", [a], [b]) for a, b in zip(before, names, strict=False)]
        nodes.append(node("Tanh", names[-1:], ["y"]))
    else:
        nodes, ends = [node("Tanh", [a], [b]) for a, b in zip(before, names, strict=False)], names
    outputs = [h.make_tensor_value_info(name, 1, None) for name in ends]
    graph = h.make_graph(nodes, "wide", [x], outputs, constants)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8).SerializeToString()


def steps_of(kind: str, count: int) -> int:
    """Lines of pipeall that are run to load, group and lower a network."""
    model, steps = network(kind, count), 0

    def trace(frame, event, argument):
        nonlocal steps
        steps += event == "line"
        return trace if "pipeall" in frame.f_code.co_filename else None

    load(model)  # imports
    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        graph = load(model)
        assert graph.groups
        lower(graph)
    finally:
        sys.settrace(previous)
    return steps


@pytest.mark.parametrize("kind", ["branches", "sum", "slices", "convolutions", "deep", "idle", "outputs"])
def test_work_grows_as_the_graph_does(kind):
    """Squares would be 16 times as much, sorting some 20 % more than 4."""
    assert steps_of(kind, TIMES * SMALL) < 1.5 * TIMES * steps_of(kind, SMALL)
