"""What ``pipeall.load`` takes beside a path: shapes, batches, names to cut at; and what it keeps of a file's types."""

import re

import numpy as np
import pytest
from commands import document, invoke
from load_models import agrees, frames, model, value
from onnx import TensorProto, helper
from onnx_models import ints, parsed, rand, refusal, saved

from pipeall import ArgumentError, ModelError, load
from pipeall.graph.ops import run_graph

HALF = 2.0**-10  # the spacing of float16 below 2, which an output is rounded to

# ---- shapes ----

CHAIN = "a = Conv<pads=[1,1,1,1]>(x, w) b = Relu(a) c = Conv(b, v) y = Sigmoid(c)"
WEIGHTS = dict(w=rand(4, 3, 3, 3), v=rand(2, 4, 1, 1))


def chain(x="float[1,3,8,8] x", outputs="y"):
    return parsed(CHAIN, x, outputs, WEIGHTS, 13)


def test_fixed_and_given_batches(tmp_path):
    assert agrees(chain("float[5,3,8,8] x"), tmp_path).outputs[0].shape == (5, 2, 8, 8)
    assert agrees(chain("float[N,3,8,8] x"), tmp_path).outputs[0].shape == (1, 2, 8, 8)
    assert agrees(chain("float[N,3,8,8] x"), tmp_path, input_shape=(4, 3, 8, 8)).inputs[0].shape == (4, 3, 8, 8)


def test_given_sizes_win_over_declared_ones(tmp_path):
    graph = load(saved(chain("float[10,3,32,32] x"), tmp_path), input_shape={"x": (1, 3, 12, 20)})
    assert graph.outputs[0].shape == (1, 2, 12, 20)


TWO = [value("x", 1, ["N", 3, "H", "W"]), value("z", 1, ["N", 1, "H", "W"])]


def two_inputs():
    return model([helper.make_node("Mul", ["x", "z"], ["y"])], TWO, [value("y", 1, None)])


def test_sizes_of_one_name_are_given_once(tmp_path):
    graph = load(saved(two_inputs(), tmp_path), input_shape={"x": (2, 3, 5, 7)})
    assert [tensor.shape for tensor in graph.inputs] == [(2, 3, 5, 7), (2, 1, 5, 7)]


def test_shapes_of_several_inputs(tmp_path):
    path = saved(two_inputs(), tmp_path)
    assert load(path, {"x": (1, 3, 4, 4), "z": (1, 1, 4, 1)}).inputs[1].shape == (1, 1, 4, 1)
    assert "give a dict by name, of x, z" in refusal(path, input_shape=(1, 3, 4, 4))
    with pytest.raises(ArgumentError, match="input_shape: there is no tensor 'images', near it: x, z"):
        load(path, {"images": (1, 3, 4, 4)})


@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (2, 1, 2, 1, 2, 1, 2, 3)])
def test_inputs_of_any_rank(shape, tmp_path):
    proto = model([helper.make_node("Sigmoid", ["x"], ["y"])], [value("x", 1, shape)], [value("y", 1, None)])
    assert agrees(proto, tmp_path).inputs[0].shape == shape


def test_inputs_of_too_many_dimensions(tmp_path):
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", 1, (1,) * 9)], [value("y", 1, None)])
    assert "has 9 dimensions, expected at most 8" in refusal(saved(proto, tmp_path))


@pytest.mark.parametrize("given", ["x=1x3x4x5,z=1x1x4x1", "x=1x3x4x5"])
def test_shapes_on_the_command_line(given, tmp_path):
    found = document("info", str(saved(two_inputs(), tmp_path)), "--input-shape", given)
    shapes = [[1, 3, 4, 5], [1, 1, 4, 1 if "z" in given else 5]]
    assert [tensor["shape"] for tensor in found["inputs"]] == shapes and found["refused"] is None


# ---- element types ----


@pytest.mark.parametrize("element", ["FLOAT16", "UINT8", "INT8", "INT32", "INT64", "BOOL"])
def test_inputs_keep_their_types(element, tmp_path):
    elem_type = getattr(TensorProto, element)
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    proto = model(nodes, [value("x", elem_type, (2, 6))], [value("y", elem_type, None)], {"shape": ints(3, 4)})
    graph = agrees(proto, tmp_path)
    assert graph.inputs[0].dtype == graph.outputs[0].dtype == element.lower()


def test_float16_file_computes_in_float32(tmp_path):
    half = {name: array.astype(np.float16) for name, array in WEIGHTS.items()}
    proto = parsed(CHAIN, "float16[1,3,8,8] x", "y, a", half, 13)
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT16
    graph = agrees(proto, tmp_path, tolerance=4 * HALF)
    assert {tensor.dtype for tensor in (*graph.inputs, *graph.outputs)} == {"float16"}
    assert [node.op for node in graph.nodes].count("cast") == 3
    assert {array.dtype.name for array in graph.constants.values()} == {"float32"}
    path = str(saved(proto, tmp_path))
    assert document("info", path)["file_types"] == ["float16"]
    assert "float32; the file has float16" in invoke("info", path).stdout
    within = load(saved(proto, tmp_path), inputs=["b"], outputs=["c"])
    assert [tensor.dtype for tensor in (*within.inputs, *within.outputs)] == ["float16", "float16"]


def test_float64_file_has_float32_borders(tmp_path):
    double = {name: array.astype(np.float64) for name, array in WEIGHTS.items()}
    proto = parsed(CHAIN, "double[1,3,8,8] x", "y", double, 13)
    graph = load(saved(proto, tmp_path))
    assert [tensor.dtype for tensor in (*graph.inputs, *graph.outputs)] == ["float32", "float32"]


# ---- cutting out ----


def test_heads_and_tails_are_left_out(tmp_path):
    path = saved(chain(), tmp_path)
    whole = load(path)
    part = load(path, inputs=["b"], outputs=["c"])
    assert [node.op for node in part.nodes] == ["conv"] and part.inputs[0].shape == (1, 4, 8, 8)
    values = run_graph(load(path, rewrite=False), frames(whole), all_tensors=True)
    np.testing.assert_array_equal(run_graph(part, {"b": values["b"]})["c"], values["c"])


def test_cut_through_what_is_not_supported(tmp_path):
    body = "a = Conv<pads=[1,1,1,1]>(x, w) u, i = Unique(a) b = Relu(a) s = Cast<to=1>(i) y = Add(b, s)"
    path = saved(parsed(body, "float[1,3,8,8] x", "y, u", WEIGHTS, 13), tmp_path)
    assert "Unique" in refusal(path)
    assert load(path, outputs=["b"]).outputs[0].shape == (1, 4, 8, 8)


def test_shape_of_a_cut_input_is_given(tmp_path):
    path = saved(chain("float[1,3,h,w] x"), tmp_path)
    assert "shape of 'b' cannot be inferred: give it in input_shape" in refusal(path, inputs=["b"])
    assert load(path, (1, 4, 5, 6), inputs=["b"]).outputs[0].shape == (1, 2, 5, 6)
    assert load(path, {"x": (1, 3, 9, 7)}, inputs=["b"]).inputs[0].shape == (1, 4, 9, 7)


def test_order_of_cut_borders(tmp_path):
    path = saved(
        parsed("a = Relu(x) b = Sigmoid(x) c = Sub(a, b) d = Tanh(b) y = Add(c, d)", "float[1,4] x", "y", {}, 13),
        tmp_path,
    )
    graph = load(path, inputs=["b", "a"], outputs=["d", "c"])
    assert [t.name for t in graph.inputs] == ["b", "a"] and [t.name for t in graph.outputs] == ["d", "c"]


def test_one_output_of_several_is_cut(tmp_path):
    proto = parsed(
        "a, b = Split<axis=1>(x) c = Relu(a) d = Tanh(b) y = Concat<axis=1>(c, d)", "float[1,4] x", "y", {}, 13
    )
    graph = load(saved(proto, tmp_path), inputs=["x", "a"])
    x, a = (np.float32([[1, -2, 3, 4]]), np.float32([[-7, 8]]))
    found = run_graph(graph, {"x": x, "a": a})["y"]
    np.testing.assert_allclose(found, [[0, 8, np.tanh(3), np.tanh(4)]], rtol=1e-12)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"outputs": ["sigmoid"]}, "outputs: there is no tensor 'sigmoid', near it: "),
        ({"inputs": ["xx"]}, "inputs: there is no tensor 'xx', near it: x"),
        ({"inputs": ["w"]}, "inputs: there is no tensor 'w'"),
        ({"inputs": "x"}, "inputs: expected a list of names of tensors, got 'x'"),
        ({"outputs": []}, "outputs: expected a list of names"),
        ({"outputs": ["y", "y"]}, "outputs: a name is there twice: y, y"),
        ({"outputs": [3]}, "outputs: expected a list of names"),
        ({"inputs": ["b"], "outputs": ["a"]}, "inputs: the outputs depend on x too"),
        ({"inputs": ["x", "b"], "outputs": ["a"]}, "inputs: no output depends on b"),
    ],
)
def test_names_that_are_wrong(names, message, tmp_path):
    path = saved(chain(), tmp_path)
    with pytest.raises(ArgumentError, match=message) as error:
        load(path, **names)
    assert "\n" not in str(error.value) and str(error.value).startswith(str(path))


# ---- outputs ----


def test_output_that_is_another_name_of_the_input(tmp_path):
    proto = parsed("y = Relu(x) z = Identity(x) u = Identity(y)", "float[1,4] x", "y, z, u", {}, 13)
    agrees(proto, tmp_path)


def test_output_that_is_the_input_itself(tmp_path):
    proto = parsed("y = Relu(x)", "float[1,4] x", "y", {}, 13)
    proto.graph.output.append(proto.graph.input[0])
    agrees(proto, tmp_path)


# ---- memory ----


def test_two_loads_share_the_weights_of_the_file(tmp_path):
    """In private pages: what is mapped from a file and not written is not among them."""
    weights = {f"w{i}": np.random.default_rng(i).standard_normal((512, 512, 3, 3)).astype(np.float32) for i in range(4)}
    body = " ".join(f"{b} = Conv<pads=[1,1,1,1]>({a}, w{i})" for i, (a, b) in enumerate(("xa", "ab", "bc", "cy")))
    path = saved(parsed(body, "float[1,512,h,h] x", "y", weights, 13), tmp_path)
    nbytes = sum(array.nbytes for array in weights.values())
    del weights
    load(path, (1, 512, 4, 4))  # whatever the first load allocates for good
    before = private_bytes()
    graphs = [load(path, (1, 512, side, side)) for side in (4, 8)]
    assert sum(sum(array.nbytes for array in graph.constants.values()) for graph in graphs) >= 2 * nbytes
    assert private_bytes() - before < nbytes / 4


def private_bytes() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


@pytest.mark.parametrize(
    ("dims", "example"),
    [
        (["n", 3, "h", "w"], "(1, 3, 224, 224); of a command --input-shape 1x3x224x224"),
        ([1, "h", "w", 3], "(1, 224, 224, 3); of a command --input-shape 1x224x224x3"),
        ([1, 1, 64, "time"], "(1, 1, 64, 224); of a command --input-shape 1x1x64x224"),
    ],
)
def test_open_sizes_have_an_example_in_the_layout_of_the_file(dims, example):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "open", [x], [y])
    with pytest.raises(ModelError, match=re.escape(f"give input_shape, e.g. {example}")):
        load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))
