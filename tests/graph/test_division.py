"""Division by constants: quotients as float32 has them wherever something behind can tell, products elsewhere."""

import numpy as np
import pytest
from onnx import helper
from onnx_models import run, saved

from pipeall import Engine, load

WHOLE = np.arange(5000, dtype=np.float32).reshape(1, 8, 25, 25)
DIVISORS = (41, 49, 3, 255, 0.007843138)  # 41 * (1 / 41) is below 1, in float32 as in float64


def network(tmp_path, *chain, divisor):
    """x / divisor, then a chain of operators of one operand; (operator, attributes or second operand)."""
    nodes, name = [helper.make_node("Div", ["x", "divisor"], ["q"])], "q"
    constants = {"divisor": np.float32(divisor) if np.isscalar(divisor) else divisor}
    for i, (op, more) in enumerate(chain):
        operands = [name]
        if not isinstance(more, dict):
            constants[f"k{i}"], operands, more = np.asarray(more), [name, f"k{i}"], {}
        nodes.append(helper.make_node(op, operands, [f"t{i}"], **more))
        name = f"t{i}"
    graph = helper.make_graph(
        nodes,
        "quotients",
        [helper.make_tensor_value_info("x", 1, WHOLE.shape)],
        [helper.make_empty_tensor_value_info(name)],
        [helper.make_tensor(key, helper.np_dtype_to_tensor_dtype(k.dtype), k.shape, k) for key, k in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return proto, load(saved(proto, tmp_path))


@pytest.mark.parametrize(
    "chain",
    [
        (("Floor", {}),),
        (("Cast", {"to": 6}),),
        (("Round", {}), ("Mul", np.float32(0.5))),
        (("Relu", {}), ("Transpose", {"perm": [0, 2, 3, 1]}), ("Ceil", {})),
        (("Equal", np.float32(1)),),
        (("MaxPool", {"kernel_shape": [1, 1]}), ("Mod", np.float32(1))),
        (("ArgMax", {"axis": 1}),),
    ],
    ids=lambda chain: "-".join(op for op, _ in chain),
)
@pytest.mark.parametrize("divisor", DIVISORS)
def test_what_tells_a_quotient_from_a_product_gets_the_quotient(divisor, chain, tmp_path):
    if chain[-1][0] == "Mod":
        chain = (*chain[:-1], ("Floor", {}))  # ONNX has no Mod of floats but fmod
    proto, graph = network(tmp_path, *chain, divisor=divisor)
    (expected,) = run(proto, {"x": WHOLE}).values()
    with Engine(graph, "big") as engine:
        assert np.array_equal(engine(WHOLE), expected)


def test_one_divisor_that_is_no_power_of_2_keeps_the_division(tmp_path):
    divisors = np.array([2, 4, 41, 0.5, 8, 1, 16, 64], np.float32).reshape(1, 8, 1, 1)
    proto, graph = network(tmp_path, ("Floor", {}), divisor=divisors)
    assert [node.op for node in graph.nodes] == ["div", "floor"]
    with Engine(graph, "big") as engine:
        assert np.array_equal(engine(WHOLE), run(proto, {"x": WHOLE})["t0"])


@pytest.mark.parametrize(
    "chain, divisor",
    [((("Relu", {}),), 41), ((("Softmax", {"axis": 1}), ("Round", {})), 41), ((("Floor", {}),), 0.25)],
    ids=["continuous", "sums of many", "power of 2"],
)
def test_elsewhere_it_is_a_product(chain, divisor, tmp_path):
    _, graph = network(tmp_path, *chain, divisor=divisor)
    assert "div" not in [node.op for node in graph.nodes]


@pytest.mark.parametrize("divisor", [0.0, 1e-40, 1e38, np.inf])
def test_a_divisor_without_a_reciprocal_stays(divisor, tmp_path):
    proto, graph = network(tmp_path, ("Relu", {}), divisor=divisor)
    with Engine(graph, "big") as engine:
        assert np.array_equal(engine(WHOLE), run(proto, {"x": WHOLE})["t0"], equal_nan=True)
