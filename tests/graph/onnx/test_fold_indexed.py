"""Gathers and scatters of constants: folded by NumPy at once, as ONNX's reference does element by element."""

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_models import model, saved

from pipeall import load
from pipeall.errors import ModelError
from pipeall.graph.ops import run_graph

NUMBERS = np.random.default_rng(0)
X = NUMBERS.standard_normal((4, 5, 6)).astype(np.float32)


def unlike(shape, *sizes):
    """Different tuples of indices, some of which count from the end."""
    flat = NUMBERS.permutation(np.prod(sizes))[: np.prod(shape)]
    tuples = np.stack(np.unravel_index(flat, sizes), -1).reshape(*shape, len(sizes))
    return tuples - np.array(sizes) * NUMBERS.integers(0, 2, tuples.shape)


CASES = {
    "GatherND": ({}, [unlike((2, 3), 4, 5)]),
    "GatherND of batches": ({"batch_dims": 1}, [NUMBERS.integers(-5, 5, (4, 3, 1))]),
    "ScatterND": ({}, [unlike((2, 3), 4, 5), NUMBERS.random((2, 3, 6), np.float32)]),
    "ScatterND add": ({"reduction": "add"}, [NUMBERS.integers(0, 4, (7, 2)), NUMBERS.random((7, 6), np.float32)]),
    "ScatterND max": ({"reduction": "max"}, [NUMBERS.integers(0, 4, (7, 1)), NUMBERS.random((7, 5, 6), np.float32)]),
    "ScatterElements": ({"axis": 1}, [NUMBERS.permuted(np.tile(np.arange(-5, 0), (3, 2, 1)), axis=2).swapaxes(1, 2),
                                      NUMBERS.random((3, 5, 2), np.float32)]),
    "ScatterElements mul": ({"axis": -1, "reduction": "mul"}, [NUMBERS.integers(-6, 6, (4, 5, 6)), X]),
}  # fmt: skip


def folded(name, tmp_path, operands, attrs):
    names = [f"c{i}" for i in range(len(operands) + 1)]
    made = helper.make_node(name.split()[0], names, ["made"], name="indexed", **attrs)
    nodes = [made, helper.make_node("Mul", ["made", "x"], ["y"])]
    proto = model(nodes, {"x": (1,)}, ["y"], dict(zip(names, [X, *operands], strict=True)), opset=18)
    return proto, load(saved(proto, tmp_path))


@pytest.mark.parametrize("name", CASES)
def test_what_the_reference_gives(name, tmp_path):
    attrs, operands = CASES[name]
    proto, graph = folded(name, tmp_path, operands, attrs)
    one = {"x": np.ones(1, np.float32)}
    (expected,) = ReferenceEvaluator(proto).run(None, one)
    assert {node.op for node in graph.nodes} <= {"mul", "reshape"}
    np.testing.assert_allclose(run_graph(graph, one)["y"], expected, rtol=1e-6)


def test_an_index_beyond_its_axis_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"node 'indexed' \(GatherND\): cannot evaluate on constants: index 4"):
        folded("GatherND", tmp_path, [np.array([[4, 0]])], {})
