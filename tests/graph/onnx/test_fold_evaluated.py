"""Operators on constants give what onnxruntime gives, where ONNX's reference implementation gives something else."""

import numpy as np
import pytest
from onnx import helper
from onnx_models import ints, model, rand, run, saved

from pipeall import ModelError, load
from pipeall.graph.ops import run_graph

NONE, SIZES = np.zeros(0, np.float32), ints(1, 2, 3, 1)
CASES = {  # opset, attributes, operands
    "Resize to one pixel": (19, {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel",
                                 "exclude_outside": 1}, [rand(1, 2, 3, 3), NONE, NONE, SIZES]),
    "Resize by corners": (12, {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
                          [rand(1, 2, 5, 6), NONE, np.float32([1, 1, 0.5, 1])]),
    "ConvTranspose with an even pad": (13, {"pads": [1, 0, 0, 1], "strides": [2, 1], "output_padding": [1, 0]},
                                       [rand(1, 1, 4, 13), rand(1, 2, 2, 2)]),
    "BatchNormalization": (13, {}, [rand(1, 2, 2, 5), *(rand(2, seed=i) for i in (1, 2, 3)), np.float32([3, 2.5])]),
    "LpNormalization of absolutes": (13, {"p": 1, "axis": 1}, [rand(1, 4, 3, 3)]),
    "Hardmax of all that follows": (9, {"axis": 1}, [rand(2, 3, 4)]),
    "Pad that cuts": (13, {}, [rand(1, 2, 5, 6), ints(0, 0, 1, -1, 0, 0, -2, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_onnxruntime_gives(name, tmp_path):
    opset, attrs, operands = CASES[name]
    names = [f"c{i}" for i in range(len(operands))]
    nodes = [helper.make_node(name.split()[0], names, ["made"], **attrs), helper.make_node("Mul", ["made", "x"], ["y"])]
    proto = model(nodes, {"x": (1,)}, ["y"], dict(zip(names, operands, strict=True)), opset=opset)
    graph, one = load(saved(proto, tmp_path)), {"x": np.ones(1, np.float32)}
    assert {node.op for node in graph.nodes} <= {"mul", "reshape", "expand"}
    np.testing.assert_allclose(run_graph(graph, one)["y"], run(proto, one)["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_window_larger_than_a_constant_is_refused_as_one_larger_than_an_input(op, tmp_path):
    nodes = [
        helper.make_node(op, ["c"], ["made"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Mul", ["made", "x"], ["y"]),
    ]
    proto = model(nodes, {"x": (1,)}, ["y"], {"c": rand(1, 2, 2, 1)})
    with pytest.raises(ModelError, match=f"'pool' \\({op}\\).* exceeds the padded input"):
        load(saved(proto, tmp_path))
