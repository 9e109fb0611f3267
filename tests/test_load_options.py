"""What ``pipeall.load`` takes beside a path: shapes, batches, names to cut at; and ONNX beyond plain nodes."""

import numpy as np
import onnx
import onnx_models
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import ints, parsed, rand, refusal, saved

from pipeall import ArgumentError, load
from pipeall.graph.ops import run_graph

TOLERANCE = 1e-5  # of the largest value: float32 in onnxruntime, float64 here, a few hundred products in a sum
HALF = 2.0**-10  # the spacing of float16 below 2, which an output is rounded to


def frames(graph, seed=0):
    """Random inputs for a graph, in its own types."""
    random = np.random.default_rng(seed)
    return {t.name: np.asarray(3 * random.standard_normal(t.shape)).astype(t.dtype) for t in graph.inputs}


def agrees(proto, tmp_path, tolerance=TOLERANCE, **options):
    """Load a model and compare it with onnxruntime; the graph."""
    graph = load(saved(proto, tmp_path), **options)
    feeds = frames(graph)
    found, expected = run_graph(graph, feeds), onnx_models.run(proto, feeds)
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].shape == array.shape
        limit = tolerance * np.abs(array.astype(np.float64)).max()
        np.testing.assert_allclose(found[name].astype(np.float64), array, rtol=0, atol=limit, err_msg=name)
    for tensor, array in zip(graph.outputs, expected.values(), strict=True):
        assert (tensor.dtype, tensor.shape) == (array.dtype.name, array.shape)
    return graph


def value(name, elem_type, shape):
    return helper.make_tensor_value_info(name, elem_type, shape)


def model(nodes, inputs, outputs, constants=None, opset=17, **more):
    """A model of ValueInfoProtos; ``more`` goes to the ModelProto."""
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", opset), *more.pop("domains", ())]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)


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
    assert "computes nothing of its input 'x'" in refusal(saved(proto, tmp_path))


# ---- old opsets ----


def test_opsets_before_6(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "n_scale", "n_bias", "n_mean", "n_var"], ["c"], is_test=1, consumed_inputs=[0, 0, 0, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"], consumed_inputs=[0]),
        helper.make_node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Dropout", ["e"], ["f"], is_test=1, consumed_inputs=[0]),
        helper.make_node("Reshape", ["f"], ["g"], shape=[1, -1], consumed_inputs=[0]),
        helper.make_node("Gemm", ["g", "m", "k"], ["h"], broadcast=1, transB=1),
        helper.make_node("Softmax", ["h"], ["y"], axis=1),
    ]  # fmt: skip
    constants = dict(w=rand(16, 8, 3, 3), b=rand(16), m=rand(5, 16 * 16), k=rand(5)) | onnx_models.norm("n", 16)
    inputs = [value("x", 1, (1, 8, 8, 8)), *(value(name, 1, array.shape) for name, array in constants.items())]
    proto = model(nodes, inputs, [value("y", 1, None)], constants, opset=1)
    proto.ir_version = 3
    graph = load(saved(proto, tmp_path))
    body = """a = Conv<pads=[1,1,1,1]>(x, w, b) c = BatchNormalization(a, n_scale, n_bias, n_mean, n_var) d = Relu(c)
        e = MaxPool<kernel_shape=[2,2], strides=[2,2]>(d) g = Flatten(e) h = Gemm<transB=1>(g, m, k)
        y = Softmax<axis=1>(h)"""
    newer = parsed(body, "float[1,8,8,8] x", "y", constants, 13)
    feeds = frames(graph)
    (found,), (expected,) = run_graph(graph, feeds).values(), onnx_models.run(newer, feeds).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE * expected.max())


def test_old_opset_that_cannot_be_converted(tmp_path):
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"], colour=1)], [value("x", 1, (1, 3))], [value("y", 1, None)], opset=5
    )
    assert "Unrecognized attribute: colour" in refusal(saved(proto, tmp_path))


# ---- functions ----


def scaled_relu():
    """w * LeakyRelu(x) twice, by a function of a function, an attribute handed down, and a large weight."""
    domains = [helper.make_opsetid("own", 1)]
    opsets = [helper.make_opsetid("", 17), *domains]
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    once = helper.make_function("own", "Once", ["a"], ["b"], [leaky], opsets, ["slope"])
    inner = [
        helper.make_node("Once", ["a"], ["t"], domain="own", slope=0.3),
        helper.make_node("Mul", ["t", "w"], ["b"]),
    ]
    twice = helper.make_function("own", "Twice", ["a", "w"], ["b"], inner, opsets)
    nodes = [helper.make_node("Twice", [a, "w"], [b], domain="own") for a, b in ("xt", "ty")]
    weights = {"w": np.linspace(0.5, 2, 2048, dtype=np.float32)[None]}  # large enough to stay in the file
    x, y = (value(name, 1, (1, 2048)) for name in "xy")
    return model(nodes, [x], [y], weights, domains=domains, functions=[once, twice])


def test_local_functions_are_inlined(tmp_path):
    graph = agrees(scaled_relu(), tmp_path)
    assert [node.op for node in graph.nodes].count("leakyrelu") == 2


def test_function_that_calls_itself(tmp_path):
    proto = scaled_relu()
    proto.functions[1].node[0].op_type = "Twice"
    proto.functions[1].node[0].input.append("w")
    assert "function 'Twice' calls itself" in refusal(saved(proto, tmp_path))


def test_functions_that_grow(tmp_path):
    """Thirty functions, each calling the next one twice."""
    proto = scaled_relu()
    del proto.functions[:]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    for i in range(30):
        op, domain = ("Relu", "") if i == 29 else (f"f{i + 1}", "own")
        nodes = [helper.make_node(op, ["a"], ["t"], domain=domain), helper.make_node(op, ["t"], ["b"], domain=domain)]
        proto.functions.append(helper.make_function("own", f"f{i}", ["a"], ["b"], nodes, opsets))
    for node in proto.graph.node:
        node.op_type = "f0"
        del node.input[1:]
    assert "its functions grow to" in refusal(saved(proto, tmp_path))


# ---- subgraphs ----


def branch(name, op):
    node = helper.make_node(op, ["a"], [name])  # of the graph around it
    return helper.make_graph([node], name, [], [value(name, 1, None)])


@pytest.mark.parametrize("condition", [False, True])
def test_if_becomes_the_branch_that_is_taken(condition, tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ReduceMax", ["shape"], ["size"], keepdims=0),
        helper.make_node("Greater", ["size", "limit"], ["large"]),
        helper.make_node("If", ["large"], ["b"], then_branch=branch("p", "Tanh"), else_branch=branch("q", "Sigmoid")),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    limit = np.array(3 if condition else 4)
    proto = model(nodes, [value("x", 1, (1, 4))], [value("b", 1, None), value("y", 1, None)], {"limit": limit})
    graph = agrees(proto, tmp_path)
    assert [node.op for node in graph.nodes] == ["clip", "tanh" if condition else "sigmoid", "add"]


def loop(turns, scanned=True, condition=None):
    """s = s * w + x in every turn, and the turn's number added to what leaves."""
    nodes = [
        helper.make_node("Mul", ["s", "w"], ["t"]),
        helper.make_node("Add", ["t", "x"], ["next"]),
        helper.make_node("Cast", ["i"], ["f"], to=1),
        helper.make_node("Add", ["next", "f"], ["out"]),
        condition or helper.make_node("Identity", ["going"], ["still"]),
    ]
    inputs = [value("i", 7, ()), value("going", 9, ()), value("s", 1, None)]
    outputs = [value("still", 9, ()), value("next", 1, None), *([value("out", 1, None)] if scanned else [])]
    weights = [
        numpy_helper.from_array(np.array([0.5, -1, 2], np.float32), "w"),
        numpy_helper.from_array(np.array(3), "most"),
    ]
    body = helper.make_graph(nodes, "body", inputs, outputs, weights)
    names = ["state", "all"] if scanned else ["state"]
    node = helper.make_node("Loop", [turns, "", "x"], names, body=body)
    results = [value(name, 1, None) for name in names]
    return model([node], [value("x", 1, (2, 3))], results, {"four": np.array(4), "many": np.array(5000)})


def test_loop_is_unrolled(tmp_path):
    graph = agrees(loop("four"), tmp_path)
    assert graph.outputs[1].shape == (4, 2, 3)


def test_loop_ends_by_its_condition(tmp_path):
    proto = loop("", condition=helper.make_node("Less", ["i", "most"], ["still"]))
    assert agrees(proto, tmp_path).outputs[1].shape == (5 - 1, 2, 3)


def test_loops_that_are_refused(tmp_path):
    assert "more than 1000 turns" in refusal(saved(loop("many"), tmp_path))
    computed = loop("turns")
    computed.graph.input.append(value("turns", 7, ()))
    assert "only a number of turns that is known before" in refusal(saved(computed, tmp_path))
    ghost = loop("four")
    ghost.graph.node[0].attribute[0].g.node[0].input[1] = "ghost"
    assert "reads 'ghost' that nothing makes" in refusal(saved(ghost, tmp_path))


def test_nested_loops_are_bounded(tmp_path):
    """900 turns of 900 turns: each within the limit, not both together."""
    proto = loop("turns", scanned=False)
    proto.graph.initializer.append(numpy_helper.from_array(np.array(900), "turns"))
    inner = proto.graph.node[0]
    nodes = [
        helper.make_node("Loop", ["turns", "", "u"], ["v"], body=inner.attribute[0].g),
        helper.make_node("Identity", ["on"], ["still_on"]),
    ]
    inputs = [value("j", 7, ()), value("on", 9, ()), value("u", 1, None)]
    body = helper.make_graph(nodes, "outer", inputs, [value("still_on", 9, ()), value("v", 1, None)])
    outer = helper.make_node("Loop", ["turns", "", "x"], ["state"], body=body)
    proto.graph.node[0].CopyFrom(outer)
    assert "unroll to more than 20000 nodes" in refusal(saved(proto, tmp_path))


@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (1, -1)])
@pytest.mark.parametrize("backward", [0, 1])
def test_scan_is_unrolled(axes, backward, tmp_path):
    nodes = [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Tanh", ["t"], ["out"])]
    shape = (3,) if axes[0] == 1 else (4,)
    body = helper.make_graph(
        nodes, "body", [value("s", 1, shape), value("e", 1, shape)], [value("t", 1, shape), value("out", 1, shape)]
    )
    scan = helper.make_node(
        "Scan", ["zero", "x"], ["last", "all"], body=body, num_scan_inputs=1, scan_input_axes=[axes[0]],
        scan_output_axes=[axes[1]], scan_input_directions=[backward], scan_output_directions=[1 - backward],
    )  # fmt: skip
    results = [value("last", 1, None), value("all", 1, None)]
    agrees(model([scan], [value("x", 1, (3, 4))], results, {"zero": np.zeros(shape, np.float32)}), tmp_path)


# ---- constants ----


def test_any_operator_on_constants_is_evaluated(tmp_path):
    body = """n = NonZero(mask) t = Transpose(n) f = Cast<to=1>(t) e = Einsum<equation="ij,jk->ik">(f, m)
        k = Tile(e, twice) s = ReduceSum(k, axis) y = Mul(x, s)"""
    constants = dict(mask=np.float32([[0, 1], [1, 1]]), m=rand(2, 4), twice=ints(1, 2), axis=ints(0))
    graph = agrees(parsed(body, "float[1,8] x", "y", constants, 13), tmp_path)
    assert [node.op for node in graph.nodes] == ["mul"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("t = Tile(m, many) y = Mul(x, t)", "elements, expected at most 16777216"),
        ("t = RandomNormalLike(m) y = Mul(x, t)", "(RandomNormalLike): operator not supported"),
        ('t = Einsum<equation="ij,jk->ik">(m, m) y = Mul(x, t)', "(Einsum): cannot evaluate on constants"),
        ("t = StringNormalizer(m) y = Mul(x, t)", "cannot evaluate on constants"),
    ],
)
def test_constants_that_cannot_be(body, message, tmp_path):
    proto = parsed(body, "float[1,8] x", "y", dict(m=rand(2, 3), many=ints(2**20, 2**10)), 13)
    assert message in refusal(saved(proto, tmp_path))


def test_unused_and_shared_initialisers(tmp_path):
    proto = parsed(
        "a = Mul(x, w) b = Relu(a) y = Mul(b, w)", "float[1,3] x", "y", dict(w=rand(1, 3), unread=rand(5)), 13
    )
    graph = agrees(proto, tmp_path)
    assert list(graph.constants) == ["w"]


def test_operator_that_onnx_defines_by_others(tmp_path):
    """Not in the table of operators: its definition is read."""
    node = helper.make_node("CenterCropPad", ["x", "size"], ["y"], axes=[2, 3])
    proto = model([node], [value("x", 1, (1, 2, 5, 9))], [value("y", 1, None)], {"size": ints(8, 4)}, opset=18)
    agrees(proto, tmp_path)


# ---- com.microsoft ----

MICROSOFT = {
    "FusedConv": ("Relu", ["x", "w", "b"], dict(pads=[1, 1, 1, 1], activation="Relu")),
    "FusedConv of a sum": (
        "conv",
        ["x", "w", "b", "z"],
        dict(pads=[1, 1, 1, 1], activation="LeakyRelu", activation_params=[0.2]),
    ),
    "FusedMatMul": ("product", ["x", "m"], dict(alpha=0.5, transB=1)),
    "FusedGemm": ("product", ["r", "g", "k"], dict(activation="Relu", alpha=2.0)),
    "Gelu": ("gelu", ["x"], {}),
    "BiasGelu": ("gelu", ["x", "k7"], {}),
    "FastGelu": ("gelu", ["x", "k7"], {}),
    "QuickGelu": ("gelu", ["x"], dict(alpha=1.5)),
    "SkipLayerNormalization": ("norm", ["s", "s2", "k7", "l7", "k7"], dict(epsilon=1e-5)),
}


@pytest.mark.parametrize("name", MICROSOFT)
def test_operators_of_microsoft(name, tmp_path):
    _, inputs, attrs = MICROSOFT[name]
    constants = dict(
        w=rand(4, 3, 3, 3),
        b=rand(4),
        z=rand(1, 4, 6, 7),
        m=rand(5, 7),
        g=rand(6, 5),
        k=rand(5),
        k7=rand(7),
        l7=rand(7, seed=1),
    )
    shapes = dict(x=(1, 3, 6, 7), r=(1, 6), s=(1, 4, 7), s2=(1, 4, 7))
    outputs = ["y", "", "", "sum"] if name.startswith("Skip") else ["y"]
    node = helper.make_node(name.split()[0], inputs, outputs, domain="com.microsoft", **attrs)
    proto = model(
        [node], [value(n, 1, shapes[n]) for n in inputs if n in shapes], [value(n, 1, None) for n in outputs if n],
        {n: constants[n] for n in inputs if n in constants}, domains=[helper.make_opsetid("com.microsoft", 1)],
    )  # fmt: skip
    agrees(proto, tmp_path)


@pytest.mark.parametrize("op", ["NhwcConv", "NhwcFusedConv"])
def test_convolution_of_nhwc_pixels(op, tmp_path):
    """onnxruntime has no kernel for these: the same with transposes."""
    w = rand(4, 3, 3, 3)
    domain = [helper.make_opsetid("com.microsoft", 1)]
    node = helper.make_node(op, ["x", "w"], ["y"], domain="com.microsoft", pads=[1, 1, 1, 1])
    proto = model([node], [value("x", 1, (1, 6, 7, 3))], [value("y", 1, None)], {"w": w}, domains=domain)
    body = "t = Transpose<perm=[0,3,1,2]>(x) c = Conv<pads=[1,1,1,1]>(t, w) y = Transpose<perm=[0,2,3,1]>(c)"
    graph = load(saved(proto, tmp_path))
    feeds = frames(graph)
    expected = onnx_models.run(parsed(body, "float[1,6,7,3] x", "y", {"w": w}, 13), feeds)["y"]
    np.testing.assert_allclose(run_graph(graph, feeds)["y"], expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


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
