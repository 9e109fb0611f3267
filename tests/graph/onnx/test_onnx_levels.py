"""Levels of other than 8 bits, channels whose scale is 0, and products with quantized weights, against onnxruntime."""

import numpy as np
import onnx_models
import pytest
from load_models import TOLERANCE
from onnx import TensorProto, helper, numpy_helper
from onnx_models import rand, refusal, saved

from pipeall import Engine, load
from pipeall.graph.lower.lower import lower
from pipeall.graph.partition import subgraph

MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(3)
F, U8, I8, U16, I16 = np.float32, np.uint8, np.int8, np.uint16, np.int16


def node(op, inputs, outputs=("y",), domain=MICROSOFT, **attrs):
    return helper.make_node(op, inputs, list(outputs), domain=domain, **attrs)


def of(nodes, fed, constants):
    """A model; constants are arrays or TensorProtos."""
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in fed.items()
    ]
    weights = [
        x if isinstance(x, TensorProto) else numpy_helper.from_array(np.asarray(x), n) for n, x in constants.items()
    ]
    graph = helper.make_graph(nodes, "levels", inputs, [helper.make_empty_tensor_value_info("y")], weights)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)], ir_version=10
    )


def agrees(nodes, fed, constants, quantum=0.0):
    """An engine's result against onnxruntime's, which a tie may put one quantum apart."""
    proto = of(nodes, fed, constants)
    expected = onnx_models.run(proto, fed)["y"].astype(np.float64)
    graph = load(proto.SerializeToString())
    with Engine(graph, "big", threads=1) as engine:
        found = engine(fed)
    assert found.shape == expected.shape
    np.testing.assert_allclose(
        found.astype(float), expected, rtol=0, atol=1.01 * quantum + TOLERANCE * np.abs(expected).max()
    )
    return graph


def integers(dtype, *shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape).astype(dtype)


def scales(*shape):
    return np.asarray(RNG.uniform(0.01, 0.1, shape), F)


# ---- 4 bits ----

FEW = {"int4": (TensorProto.INT4, -8, 7), "uint4": (TensorProto.UINT4, 0, 15)}
BLOCKS = {  # shape of the weights, axis, block
    "blocks of rows": ((32, 8), 0, 16),
    "blocks of columns, one shorter": ((7, 9), 1, 4),
    "an odd number": ((5, 7), 0, 0),
    "one scale": ((5, 7), None, 0),
}


@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("with_zeros", [False, True])
def test_weights_of_four_bits(kind, name, with_zeros):
    (elem_type, least, most), (shape, axis, block) = FEW[kind], BLOCKS[name]
    parts = () if axis is None else (shape[axis],)
    if block:
        parts = tuple(-(-size // block) if i == axis else size for i, size in enumerate(shape))
    packed = {
        n: helper.make_tensor(n, elem_type, s, RNG.integers(least, most + 1, s).reshape(-1).tolist())
        for n, s in (("w", shape), ("z", parts))
    }
    attrs = {} if axis is None else dict(axis=axis) | (dict(block_size=block) if block else {})
    inputs = ["w", "s", *(["z"] if with_zeros else [])]
    nodes = [node("DequantizeLinear", inputs, ["real"], "", **attrs), node("MatMul", ["x", "real"], domain="")]
    agrees(nodes, {"x": rand(3, shape[0])}, {"s": scales(*parts), **{n: packed[n] for n in inputs if n in packed}})


@pytest.mark.parametrize("kind", FEW)
def test_levels_of_four_bits(kind):
    elem_type, *_ = FEW[kind]
    zero = helper.make_tensor("z", elem_type, (), [3])
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"], ""), node("DequantizeLinear", ["q", "s", "z"], domain="")]
    agrees(nodes, {"x": rand(4, 9)}, {"s": np.array(0.1, F), "z": zero})


def test_weights_of_four_bits_that_are_missing(tmp_path):
    tensor = helper.make_tensor("w", TensorProto.INT4, (4, 3), b"\0" * 6, raw=True)
    tensor.raw_data = b"\0" * 5
    nodes = [node("DequantizeLinear", ["w", "s"], ["r"], ""), node("MatMul", ["x", "r"], domain="")]
    message = refusal(saved(of(nodes, {"x": rand(1, 4)}, {"w": tensor, "s": scales()}), tmp_path))
    assert "'w' of shape (4, 3) needs 6 bytes, has 5" in message


@pytest.mark.parametrize(("bits", "columns", "block"), [(4, 64, 32), (4, 40, 16), (8, 130, 16), (2, 96, 32)])
@pytest.mark.parametrize("more", ["zeros", "zeros bias"])
def test_matmul_of_a_few_bits(bits, columns, block, more):
    rows, count = 6, -(-columns // block)
    constants = {"w": integers(U8, rows, count, block * bits // 8), "s": scales(rows * count)}
    constants |= {"z": integers(U8, rows * -(-count * bits // 8))} if more else {}
    constants |= {"b": rand(rows)} if "bias" in more else {}
    inputs = ["x", "w", "s", *(["z"] if more else []), *(["", "b"] if "bias" in more else [])]
    attrs = dict(K=columns, N=rows, bits=bits, block_size=block)
    agrees([node("MatMulNBits", inputs, **attrs)], {"x": rand(2, 3, columns)}, constants)


# ---- 16 bits ----


@pytest.mark.parametrize("domain", ["", MICROSOFT])
@pytest.mark.parametrize("dtype", [U16, I16])
@pytest.mark.parametrize("per_channel", [False, True])
def test_activations_of_sixteen_bits(domain, dtype, per_channel):
    parts = (3,) if per_channel else ()
    constants = {"s": scales(*parts) / 500, "z": integers(dtype, *parts)}
    attrs = {"axis": 1} if per_channel else {}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], domain, **attrs),
        node("Transpose", ["q"], ["t"], "", perm=[0, 1, 3, 2]),
        node("DequantizeLinear", ["t", "s", "z"], ["y"], domain, **attrs),
    ]
    agrees(nodes, {"x": 3 * rand(2, 3, 4, 5)}, constants, quantum=constants["s"].max())


@pytest.mark.parametrize("kinds", [(U16, I8), (I16, I8), (U16, I16), (U8, I8)], ids=str)
@pytest.mark.parametrize("empty", [False, True])
def test_a_convolution_between_levels(kinds, empty):
    """Weights for each channel, one of them of nothing but zeros, whose scale is 0; onnxruntime's own domain."""
    activations, weights = kinds
    scale, weight, zero = scales(4), integers(weights, 4, 3, 3, 3) // 2, np.iinfo(activations).max // 2
    if empty:
        scale[2] = 0
    constants = {
        "sx": np.array(0.02, F), "zx": np.array(zero, activations), "sy": np.array(0.3, F),
        "w": weight, "sw": scale, "zw": np.zeros(4, weights), "b": RNG.integers(-9999, 9999, 4).astype(np.int32),
        "sb": F(0.02) * scale,
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "sx", "zx"], ["q"]),
        node("DequantizeLinear", ["q", "sx", "zx"], ["xd"]),
        node("DequantizeLinear", ["w", "sw", "zw"], ["wd"], axis=0),
        node("DequantizeLinear", ["b", "sb"], ["bd"], axis=0),
        node("Conv", ["xd", "wd", "bd"], ["c"], "", pads=[1, 1, 1, 1]),
        node("QuantizeLinear", ["c", "sy", "zx"], ["cq"]),
        node("DequantizeLinear", ["cq", "sy", "zx"]),
    ]
    graph = agrees(nodes, {"x": rand(1, 3, 6, 6)}, constants, quantum=0.3)
    assert graph.quantized == (kinds == (U8, I8))  # an empty channel keeps no layer from 8 bits


# ---- products of com.microsoft ----


@pytest.mark.parametrize("dtype", [I8, U8])
@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_products_of_dynamic_levels(dtype, per_column, bias):
    parts = (8,) if per_column else ()
    constants = {"w": integers(dtype, 16, 8), "s": scales(*parts), "z": integers(dtype, *parts)}
    constants |= {"b": rand(8)} if bias else {}
    agrees(
        [node("DynamicQuantizeMatMul", ["x", "w", "s", "z", *(["b"] if bias else [])])],
        {"x": rand(2, 5, 16)},
        constants,
    )


@pytest.mark.parametrize("bias", [False, True])
def test_matmul_integer_to_float(bias):
    constants = {"w": integers(I8, 16, 8), "sx": F(0.1), "sw": scales(8), "zx": U8(7)} | (
        {"b": rand(8)} if bias else {}
    )
    inputs = ["x", "w", "sx", "sw", "zx", *(["", "b"] if bias else [])]
    agrees([node("MatMulIntegerToFloat", inputs)], {"x": integers(U8, 2, 5, 16) // 2}, constants)


def test_a_choice_between_levels():
    constants = {
        "sx": F(0.1),
        "zx": U8(7),
        "v": integers(U8, 1, 8),
        "sv": F(0.15),
        "zv": U8(3),
        "sy": F(0.12),
        "zy": U8(5),
    }
    fed = {"c": RNG.random((2, 1)) < 0.5, "x": integers(U8, 2, 8)}
    agrees([node("QLinearWhere", ["c", "x", "sx", "zx", "v", "sv", "zv", "sy", "zy"])], fed, constants, quantum=1)


def test_maxima_of_nhwc_pixels():
    agrees([node("NhwcMaxPool", ["x"], kernel_shape=[2, 3], pads=[1, 0, 0, 1])], {"x": integers(U8, 1, 6, 7, 3)}, {})


def test_rms_norm_in_onnx_own_domain():
    agrees(
        [node("SimplifiedLayerNormalization", ["x", "s"], domain="", epsilon=1e-5)],
        {"x": rand(2, 3, 8)},
        {"s": rand(8)},
    )


def gated(x, channels, tag, constants, between):
    """Nodes of x * sigmoid(x) behind a convolution, on levels; ``between``: those of sigmoid(x) too."""
    nodes = []

    def levels(name, scale, zero):
        constants[f"{name}.s"], constants[f"{name}.z"] = F(scale), U8(zero)
        nodes.append(node("QuantizeLinear", [name, f"{name}.s", f"{name}.z"], [f"{name}.q"], ""))
        nodes.append(node("DequantizeLinear", [f"{name}.q", f"{name}.s", f"{name}.z"], [f"{name}.d"], ""))
        return f"{name}.d"

    constants[f"{tag}.w"] = RNG.integers(-127, 128, (8, channels, 3, 3)).astype(I8)
    constants[f"{tag}.ws"], constants[f"{tag}.wz"] = RNG.uniform(0.001, 0.003, 8).astype(F), np.zeros(8, I8)
    nodes.append(node("DequantizeLinear", [f"{tag}.w", f"{tag}.ws", f"{tag}.wz"], [f"{tag}.wd"], "", axis=0))
    nodes.append(node("Conv", [x, f"{tag}.wd"], [f"{tag}.c"], "", pads=[1] * 4))
    made = levels(f"{tag}.c", 0.05, 128)
    nodes.append(node("Sigmoid", [made], [f"{tag}.g"], ""))
    gate = levels(f"{tag}.g", 1 / 255, 0) if between else f"{tag}.g"
    nodes.append(node("Mul", [made, gate], [f"{tag}.m"], ""))
    return nodes, levels(f"{tag}.m", 0.03, 10)


@pytest.mark.parametrize("between", [True, False])
def test_a_gate_is_a_table_of_its_convolution_and_equal_levels_lie_side_by_side(between):
    constants, fed = {"s": F(1 / 255), "z": U8(0)}, {"x": RNG.random((1, 4, 9, 9), F)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"], ""),
        node("DequantizeLinear", ["xq", "s", "z"], ["xd"], ""),
    ]
    one, first = gated("xd", 4, "one", constants, between)
    two, second = gated(first, 8, "two", constants, between)
    nodes += [*one, *two, node("Concat", [first, second], ["both"], "", axis=1)]
    three, last = gated("both", 16, "three", constants, between)
    nodes += [*three, node("Identity", [last], ["y"], "")]
    agrees(nodes, fed, constants)
    graph = load(of(nodes, fed, constants).SerializeToString())
    steps = lower(subgraph(graph, 0, len(graph.groups))).steps
    convolutions = [number for number, step in enumerate(steps) if step.kind == "conv"]
    inside = steps[convolutions[0] : convolutions[-1] + 1]
    assert [(step.kind, "table" in step.params) for step in inside] == [("conv", True)] * 3
