"""Every ONNX operator with operands of any number, rank and type: a graph, or one error that names the node."""

import random

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import pipeall
from pipeall.errors import ModelError
from pipeall.graph.onnx.read.convert import OPERATORS

TRIALS = 100
SHAPES = [(), (3,), (2, 3), (1, 2, 4), (1, 3, 4, 4), (1, 2, 3, 4, 4), (1, 1, 2, 2, 2, 2), (0,), (0, 3)]
KINDS = ("computed", "computed int64", "float32", "int64", "absent")
OPSETS = (13, 17, 19, 23)


def model(op, chosen):
    """One node whose first input is computed, and the others whatever the dice say; no attributes."""
    inputs, constants, names = [], [], []
    for i in range(chosen.randint(1, 8)):
        kind, shape = chosen.choice(KINDS) if i else "computed", chosen.choice(SHAPES)
        names.append("" if kind == "absent" else f"x{i}")
        if kind.startswith("computed"):
            dtype = TensorProto.INT64 if kind.endswith("int64") else TensorProto.FLOAT
            inputs.append(helper.make_tensor_value_info(names[-1], dtype, shape))
        elif kind != "absent":
            values = np.array([chosen.randint(-1, 3) for _ in range(int(np.prod(shape)))], kind).reshape(shape)
            constants.append(numpy_helper.from_array(values, names[-1]))
    domain, _, name = op.rpartition(".")
    node = helper.make_node(name, names, ["y"], name="the node", domain=domain)
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "one", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", chosen.choice(OPSETS)), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_operands_of_any_kind_give_a_graph_or_an_error_by_name(op):
    chosen = random.Random(op)
    for _ in range(TRIALS):
        try:
            pipeall.load(model(op, chosen).SerializeToString())
        except ModelError as error:
            assert "\n" not in str(error) and len(str(error)) < 500
