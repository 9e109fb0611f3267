"""ONNX beyond plain nodes: old opsets, functions, subgraphs, constant expressions, operators of com.microsoft."""

import numpy as np
import onnx
import onnx_models
import pytest
from load_models import TOLERANCE, agrees, frames, model, value
from onnx import helper, numpy_helper
from onnx_models import ints, parsed, rand, refusal, saved

from pipeall import Board, Engine, load
from pipeall.graph.ops import run_graph

# ---- old opsets ----


NORM = ("n_scale", "n_bias", "n_mean", "n_var")


def test_opsets_before_6(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", *NORM], ["c"], is_test=1, consumed_inputs=[0] * 5),
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
        ('t = Einsum<equation="ij,jk->ik">(m, m) y = Mul(x, t)', "(Einsum): cannot evaluate on constants"),
        ("t = StringNormalizer(m) y = Mul(x, t)", "cannot evaluate on constants"),
    ],
)
def test_constants_that_cannot_be(body, message, tmp_path):
    proto = parsed(body, "float[1,8] x", "y", dict(m=rand(2, 3), many=ints(2**20, 2**10)), 13)
    assert message in refusal(saved(proto, tmp_path))


def test_unused_and_shared_initializers(tmp_path):
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


def test_definition_with_an_operand_left_out(tmp_path):
    """Rows of keys and values summed up to the query's place, decayed before each: x_t = e^d_t x_(t-1) + k_t v_t."""
    if onnx.defs.onnx_opset_version() < 27:
        pytest.skip("this onnx package has no LinearAttention")
    names = ("q", "k", "v", "d")
    node = helper.make_node(
        "LinearAttention", ["q", "k", "v", "", "d"], ["y", "state"],
        q_num_heads=1, kv_num_heads=1, update_rule="gated", scale=1.0,
    )  # fmt: skip
    inputs = [value(name, 1, (1, 5, 4)) for name in names]
    graph = load(saved(model([node], inputs, [value("y", 1, None)], opset=27), tmp_path))
    fed = dict(zip(names, 0.5 * rand(4, 1, 5, 4), strict=True))
    state, expected = np.zeros((4, 4)), np.empty((5, 4))
    for t in range(5):
        q, k, v, decay = (fed[name][0, t].astype(np.float64) for name in names)
        state = np.exp(decay)[:, None] * state + k[:, None] * v
        expected[t] = q @ state
    np.testing.assert_allclose(run_graph(graph, fed)["y"][0], expected, rtol=1e-6, atol=1e-6)


def test_a_part_without_elements(tmp_path):
    body = "a, b, c = Split<axis=1>(x, sizes) r = Relu(a) y = Concat<axis=1>(c, r, b)"
    agrees(parsed(body, "float[1,8] x", "y", dict(sizes=ints(3, 5, 0)), 13), tmp_path)


# ---- outputs that do not depend on the input ----


@pytest.mark.parametrize("component", ["big", "gpu"])
def test_outputs_that_are_constants(component, tmp_path):
    board = Board.detect(gpu=component == "gpu")
    if component not in board.components:
        pytest.skip(f"no OpenCL device: {board.gpu_missing}")
    body = "y = Relu(x) n = Shape(x) same = Shape(x) w = Identity(k) two = ReduceSum<keepdims=0>(n)"
    types = {"n": 7, "same": 7, "w": 1, "two": 7}
    proto = parsed(body, "float[1,3,5,4] x", "y, " + ", ".join(types), dict(k=np.float32([[1, -np.inf], [0.5, 2]])), 13)
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = types.get(output.name, 1)
    graph = load(saved(proto, tmp_path))
    x = rand(1, 3, 5, 4)
    with Engine(graph, component, board=board) as engine:
        found = engine(x)
    for name, expected in onnx_models.run(proto, {"x": x}).items():
        assert found[name].dtype == expected.dtype
        np.testing.assert_array_equal(found[name], expected)


def test_a_model_without_inputs(tmp_path):
    body = "y = Constant<value_floats=[1.0, 2.5]>()"
    graph = load(saved(parsed(body, "", "y", {}, 13), tmp_path))
    with Engine(graph, board=Board.detect(gpu=False)) as engine:
        np.testing.assert_array_equal(engine({}), [1, 2.5])


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
