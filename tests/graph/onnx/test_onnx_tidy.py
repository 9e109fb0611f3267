"""Files as other tools write them, out of order, with things twice, by other names; inputs that are given a value."""

import numpy as np
import pytest
from commands import document, invoke
from load_models import model, value
from onnx import TensorProto, helper, numpy_helper
from onnx_models import parsed, rand, refusal, run, saved

from pipeall import ArgumentError, cost, load
from pipeall.graph.ops import run_graph

X = "float[1,4,6,6] x"
WEIGHTS = dict(w=rand(4, 4, 3, 3), v=rand(4, 4, 1, 1))
BODY = "a = Conv<pads=[1,1,1,1]>(x, w) b = Relu(a) c = Conv(b, v) y = Add(c, a)"
FLOAT = TensorProto.FLOAT


def expected(**changed):
    """What onnxruntime makes of the network as it should be written."""
    return run(parsed(BODY, X, "y", WEIGHTS | changed, 17), {"x": frame()})["y"]


def frame():
    return np.random.default_rng(3).standard_normal((1, 4, 6, 6)).astype(np.float32)


def computed(proto, tmp_path, **args):
    graph = load(saved(proto, tmp_path), **args)
    return run_graph(graph, {"x": frame()})


def close(result, wanted):
    np.testing.assert_allclose(result["y"], wanted, rtol=0, atol=36 * 2.0**-22 * np.abs(wanted).max())


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [1, 3, 0, 2]])
def test_nodes_in_any_order(order, tmp_path):
    proto = parsed(BODY, X, "y", WEIGHTS, 17)
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes[i] for i in order)
    close(computed(proto, tmp_path), expected())


def test_nodes_of_a_branch_in_any_order(tmp_path):
    inner = [helper.make_node("Relu", ["n"], ["r"]), helper.make_node("Neg", ["x"], ["n"])]
    other = [helper.make_node("Identity", ["x"], ["o"])]
    branches = dict(
        then_branch=helper.make_graph(inner, "then", [], [value("r", FLOAT, None)]),
        else_branch=helper.make_graph(other, "else", [], [value("o", FLOAT, None)]),
    )
    nodes = [helper.make_node("Neg", ["t"], ["y"]), helper.make_node("If", ["c"], ["t"], **branches)]
    proto = model(nodes, [value("x", FLOAT, (2, 3))], [value("y", FLOAT, None)], {"c": np.array(True)})
    x = rand(2, 3)
    np.testing.assert_array_equal(run_graph(load(saved(proto, tmp_path)), {"x": x})["y"], -np.maximum(-x, 0))


def test_the_domain_of_onnx_by_its_name(tmp_path):
    proto = parsed(BODY, X, "y", WEIGHTS, 17)
    for node in proto.graph.node:
        node.domain = "ai.onnx"
    close(computed(proto, tmp_path), expected())
    proto.opset_import[0].domain = "ai.onnx"
    close(computed(proto, tmp_path), expected())


@pytest.mark.parametrize("sizes", [(16, 16), (3, 16), (16, 3)], ids=str)
def test_of_two_initializers_of_a_name_the_last_counts(sizes, tmp_path):
    """Large ones stay in the file, small ones do not."""
    proto = parsed("y = Mul(x, k)", "float[16,16,16] x", "y", {}, 17)
    arrays = [rand(*(16,) * (size == 16), 16, 16) for size in sizes]
    proto.graph.initializer.extend(numpy_helper.from_array(array, "k") for array in arrays)
    x = rand(16, 16, 16)
    np.testing.assert_allclose(run_graph(load(saved(proto, tmp_path)), {"x": x})["y"], x * arrays[1], rtol=1e-6)


def test_an_output_twice_is_one(tmp_path):
    proto = parsed(BODY, X, "y, y", WEIGHTS, 17)
    assert [tensor.name for tensor in load(saved(proto, tmp_path)).outputs] == ["y"]
    close(computed(proto, tmp_path), expected())


# ---- sparse tensors ----


def sparse(array, name="", by_element=True):
    places = np.argwhere(array) if not by_element else np.flatnonzero(array)
    return helper.make_sparse_tensor(
        numpy_helper.from_array(array[array != 0], name), numpy_helper.from_array(places.astype(np.int64)), array.shape
    )


@pytest.mark.parametrize("by_element", [True, False])
def test_sparse_initializers_and_constants(by_element, tmp_path):
    weight = WEIGHTS["v"] * (np.arange(16).reshape(4, 4, 1, 1) % 3 == 0)
    wanted = expected(v=weight)
    proto = parsed(BODY, X, "y", dict(w=WEIGHTS["w"]), 17)
    proto.graph.sparse_initializer.append(sparse(weight, "v", by_element))
    close(computed(proto, tmp_path), wanted)
    del proto.graph.sparse_initializer[:]
    constant = helper.make_node("Constant", [], ["v"], sparse_value=sparse(weight, "", by_element))
    proto.graph.node.append(constant)
    close(computed(proto, tmp_path), wanted)


@pytest.mark.parametrize("index", [-1, 16])
def test_a_sparse_index_outside(index, tmp_path):
    proto = parsed(BODY, X, "y", dict(w=WEIGHTS["w"]), 17)
    tensor = sparse(WEIGHTS["v"], "v")
    tensor.indices.CopyFrom(numpy_helper.from_array(np.array([*range(15), index])))
    proto.graph.sparse_initializer.append(tensor)
    assert "'v': an index lies outside of (4, 4, 1, 1)" in refusal(saved(proto, tmp_path))


# ---- functions with an opset of their own ----


@pytest.mark.parametrize(
    "own, nodes, wanted",
    [
        (12, [("ReduceSum", dict(axes=[1], keepdims=1))], lambda x: x.sum(1, keepdims=True)),
        (11, [("Unsqueeze", dict(axes=[0])), ("Squeeze", dict(axes=[0]))], lambda x: x),
        (15, [("HardSwish", {})], lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
        (11, [("Softmax", dict(axis=0))], lambda x: np.exp(x) / np.exp(x).sum()),  # of all axes from the first on
    ],
    ids=["axes in an attribute", "two nodes", "newer", "coerced"],
)
def test_functions_of_another_opset(own, nodes, wanted, tmp_path):
    names = ["a", *(f"t{i}" for i in range(len(nodes) - 1)), "c"]
    made = [helper.make_node(op, [names[i]], [names[i + 1]], **attrs) for i, (op, attrs) in enumerate(nodes)]
    function = helper.make_function("own", "Act", ["a"], ["c"], made, [helper.make_opsetid("", own)])
    node = helper.make_node("Act", ["x"], ["y"], domain="own")
    graph = helper.make_graph([node], "g", [value("x", FLOAT, (2, 3))], [value("y", FLOAT, None)])
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    proto = helper.make_model(graph, opset_imports=domains, functions=[function], ir_version=8)
    x = rand(2, 3)
    np.testing.assert_allclose(run_graph(load(saved(proto, tmp_path)), {"x": x})["y"], wanted(x), rtol=1e-6, atol=1e-6)


# ---- values ----

HALF_SIZE = 's = Concat<axis=0>(ones, r, r) y = Resize<mode="linear">(x, , s)'


def resized(rank=1):
    size = "[1]" if rank else ""
    body = HALF_SIZE if rank else f"k = Unsqueeze(r, zero) {HALF_SIZE.replace('r, r)', 'k, k)')}"
    return parsed(body, f"{X}, float{size} r", "y", dict(ones=np.ones(2, np.float32), zero=np.array([0])), 17)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("ratio", [0.5, [0.5], np.float64(0.5)], ids=repr)
def test_an_input_that_sizes_depend_on(ratio, rank, tmp_path):
    path = saved(resized(rank), tmp_path)
    graph = load(path, values={"r": ratio})
    assert [tensor.name for tensor in graph.inputs] == ["x"] and graph.outputs[0].shape == (1, 4, 3, 3)
    given = {"x": frame(), "r": np.full((1,) * rank, 0.5, np.float32)}
    np.testing.assert_allclose(run_graph(graph, {"x": frame()})["y"], run(resized(rank), given)["y"], atol=1e-6)
    assert cost(load(path, values={"r": 0.25})).network.outputs == ("y",)


def test_values_on_the_command_line(tmp_path):
    path = str(saved(resized(), tmp_path))
    for command in ("info", "cost"):
        assert document(command, path, "--value", "r=0.5")["inputs" if command == "info" else "layers"]
    found = document("info", path, "--value", "r=0.5")
    assert found["outputs"][0]["shape"] == [1, 4, 3, 3] and found["refused"] is None
    for given, said in [
        ("r", "such as sr=16000"),
        ("r=x", "such as sr=16000"),
        ("q=1", "no tensor 'q', near it: x, r"),
    ]:
        assert said in invoke("info", path, "--value", given).stderr


@pytest.mark.parametrize(
    "values, said",
    [
        (dict(q=1), "values: there is no tensor 'q', near it: x, n"),
        (dict(n=0.5), "values: input 'n': expected int64, got 0.5"),
        (dict(n="3"), "values: input 'n': expected numbers, got '3'"),
        (dict(n=[1, 2]), "values: input 'n': expected shape (), got (2,)"),
        (dict(x=[1, 2]), "values: input 'x': expected shape (2, 3), got (2,)"),
        ([1], "values: expected a dict of numbers by input name, got [1]"),
    ],
    ids=str,
)
def test_values_that_do_not_fit(values, said, tmp_path):
    ends = [value("x", FLOAT, (2, 3)), value("n", TensorProto.INT64, ())], [value("y", FLOAT, None)]
    nodes = [helper.make_node("CastLike", ["n", "x"], ["f"]), helper.make_node("Mul", ["x", "f"], ["y"])]
    path = saved(model(nodes, *ends), tmp_path)
    with pytest.raises(ArgumentError) as error:
        load(path, values=values)
    assert said in str(error.value)
    graph = load(path, values={"n": 3})
    np.testing.assert_allclose(run_graph(graph, {"x": (x := rand(2, 3))})["y"], 3 * x, rtol=1e-6)


def test_no_opset_but_that_of_microsoft(tmp_path):
    node = helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")
    proto = model([node], [value("x", FLOAT, (1, 4, 6, 6))], [value("y", FLOAT, None)], {})
    del proto.opset_import[:]
    proto.opset_import.add(domain="com.microsoft", version=1)
    close(computed(proto, tmp_path), run(proto, {"x": frame()})["y"])


def test_early_file_whose_weights_are_no_inputs(tmp_path):
    shape = np.array([4, 36], np.int64)
    proto = parsed("y = Reshape(x, s)", X, "y", {"s": shape}, 5)
    proto.ir_version = 3
    np.testing.assert_array_equal(computed(proto, tmp_path)["y"], frame().reshape(shape).astype(np.float64))
