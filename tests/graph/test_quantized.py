"""Quantized ONNX files against onnxruntime: each operator alone, and what its own tool quantizes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from quantized_files import (
    I8,
    MICROSOFT,
    U8,
    F,
    Photos,
    computed,
    integers,
    one_node,
    parameters,
    real,
    reference,
    small_network,
)

from pipeall import Board, Engine, Pipeline, load
from pipeall.errors import ModelError
from pipeall.graph.onnx.write.write import onnx_bytes

TIES = np.concatenate([np.arange(-300, 300) + 0.5, [1e9, -1e9, 0.0, -0.0]]).astype(F)
PER_CHANNEL = np.array([0.01, 0.02, 0.5], F)
A, B, Y = (parameters(scale, zero, U8) for scale, zero in ((0.02, 120), (0.03, 7), (0.05, 131)))
S, T, Z = (parameters(scale, zero, I8) for scale, zero in ((0.02, -5), (0.03, 7), (0.05, 11)))

# ---- what one rounding decides: equal in every bit ----

EXACT = {
    "int8": ("QuantizeLinear", [TIES, *parameters(1.0, 0, I8)], {}),
    "uint8": ("QuantizeLinear", [TIES, *parameters(0.7, 3, U8)], {}),
    "no zero point": ("QuantizeLinear", [real(5, 7), np.array(0.03, F)], {}),
    "one element as a list": ("QuantizeLinear", [real(5, 7), *parameters([0.03], [3], U8)], {}),
    "per channel": ("QuantizeLinear", [real(2, 3, 4, 5), *parameters(PER_CHANNEL, [1, -2, 3], I8)], {"axis": 1}),
    "last axis": ("QuantizeLinear", [real(4, 3), *parameters(PER_CHANNEL, [1, 2, 3], U8)], {"axis": -1}),
    "of the attribute's type": ("QuantizeLinear", [real(4, 3), np.array(0.05, F)], {"output_dtype": TensorProto.INT8}),
    "back from int8": ("DequantizeLinear", [integers(I8, 2, 3, 5), *parameters(0.1, -7, I8)], {}),
    "back from uint8": ("DequantizeLinear", [integers(U8, 2, 3, 5), *parameters(PER_CHANNEL, [1, 2, 3], U8)], {}),
    "back from int32": ("DequantizeLinear", [integers(np.int32, 9) // 256, np.array(0.001, F)], {}),
    "back without zero point": ("DequantizeLinear", [integers(U8, 4), np.array(0.1, F)], {}),
}


@pytest.mark.parametrize("name", EXACT)
def test_rounding(name):
    op, operands, attrs = EXACT[name]
    content = one_node(op, operands, **attrs)
    (expected,), (found,) = reference(content, operands[0]), computed(content, operands[0])
    assert found.dtype == expected.dtype and np.array_equal(found, expected)


# ---- operators on integers: within one quantum ----

COLUMNS = parameters(PER_CHANNEL, [0] * 3, I8)
IMAGE, KERNEL = (1, 4, 9, 8), (6, 4, 3, 3)
QOPERATORS = {
    "conv": ("QLinearConv", [integers(U8, *IMAGE), *A, integers(U8, *KERNEL), *B, *Y], {"pads": [1, 1, 1, 1]}),
    "conv, signed, per channel, bias": (
        "QLinearConv",
        [integers(I8, *IMAGE), *S, integers(I8, *KERNEL), *parameters(np.linspace(0.01, 0.03, 6), [0] * 6, I8), *Z,
         integers(np.int32, 6) >> 20],
        {"strides": [2, 2]},
    ),
    "depthwise": ("QLinearConv", [integers(U8, *IMAGE), *A, integers(I8, 4, 1, 3, 3), *T, *Y], {"group": 4}),
    "matmul": ("QLinearMatMul", [integers(U8, 2, 5, 7), *A, integers(U8, 7, 3), *B, *Y], {}),
    "matmul per column": (
        "QLinearMatMul", [integers(U8, 5, 7), *A, integers(I8, 7, 3), *COLUMNS, *Y], {}),
    "gemm": (
        "QGemm",
        [integers(U8, 5, 7), *A, integers(I8, 3, 7), *COLUMNS, integers(np.int32, 3) >> 20, *Y],
        {"transB": 1, "domain": MICROSOFT},
    ),
    "add": ("QLinearAdd", [integers(U8, 2, 3, 4), *A, integers(U8, 3, 1), *B, *Y], {"domain": MICROSOFT}),
    "mul": ("QLinearMul", [integers(I8, 2, 3, 4), *S, integers(I8, 2, 3, 4), *T, *Z], {"domain": MICROSOFT}),
    "concat": (
        "QLinearConcat", [*Y, integers(U8, 2, 3), *A, integers(U8, 2, 5), *B], {"axis": 1, "domain": MICROSOFT}),
    "conv of pixels": (
        "QLinearConv",
        [integers(U8, 1, 9, 8, 4), *A, integers(U8, *KERNEL), *B, *Y],
        {"channels_last": 1, "domain": MICROSOFT},
    ),
    "average of pixels": (
        "QLinearAveragePool",
        [integers(U8, 1, 9, 8, 4), *A, *Y],
        {"kernel_shape": [3, 3], "channels_last": 1, "domain": MICROSOFT},
    ),
    "sigmoid": ("QLinearSigmoid", [integers(U8, 30), *A, *parameters(1 / 256, 0, U8)], {"domain": MICROSOFT}),
    "leakyrelu": ("QLinearLeakyRelu", [integers(I8, 30), *S, *Z], {"alpha": 0.1, "domain": MICROSOFT}),
    "softmax": (
        "QLinearSoftmax",
        [integers(U8, 4, 9), *A, *parameters(1 / 256, 0, U8)],
        {"axis": -1, "opset": 13, "domain": MICROSOFT},
    ),
    "average": (
        "QLinearAveragePool",
        [integers(U8, *IMAGE), *A, *Y],
        {"kernel_shape": [3, 3], "strides": [2, 2], "domain": MICROSOFT},
    ),
    "global average": ("QLinearGlobalAveragePool", [integers(U8, *IMAGE), *A, *Y], {"domain": MICROSOFT}),
    "conv integer": ("ConvInteger", [integers(U8, *IMAGE), integers(U8, *KERNEL), np.uint8(9), np.uint8(3)], {}),
    "matmul integer": (
        "MatMulInteger", [integers(U8, 5, 7), integers(I8, 7, 3), np.array(9, U8), np.array([1, 2, 3], I8)], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", QOPERATORS)
def test_operators_on_integers(name):
    op, operands, attrs = QOPERATORS[name]
    fed = {"QLinearConcat": (2, 5)} | dict.fromkeys(("QGemm", "QLinearConv", "ConvInteger", "MatMulInteger"), (0,))
    fed = fed.get(op)
    fed = fed or tuple(i for i, x in enumerate(operands) if x.size > 3 and x.dtype in (I8, U8))
    content = one_node(op, operands, fed, **attrs)
    frames = [operands[i] for i in fed]
    (expected,), (found,) = reference(content, *frames), computed(content, *frames)
    quanta = np.abs(found.astype(int) - expected.astype(int))
    assert found.dtype == expected.dtype and quanta.max() <= (0 if "Integer" in op else 1)
    assert (quanta > 0).mean() <= 0.02  # ties alone


def test_dynamic_quantization():
    x = real(6, 9)
    content = one_node("DynamicQuantizeLinear", [x], outputs=3)
    levels, scale, zero = reference(content, x)
    found = computed(content, x)
    np.testing.assert_allclose(found[1], scale, rtol=2**-22)
    assert found[2] == zero and np.abs(found[0].astype(int) - levels).max() <= 1


# ---- networks ----


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
def test_what_onnxruntime_quantizes(form, signed, per_channel, tmp_path):
    from onnxruntime import quantization as tool

    path, made = tmp_path / "net.onnx", tmp_path / "int8.onnx"
    path.write_bytes(onnx_bytes(small_network()))
    frames = [real(1, 3, 24, 24, reach=1.0) for _ in range(8)]
    kind = tool.QuantType.QInt8 if signed else tool.QuantType.QUInt8
    tool.quantize_static(
        path, made, Photos("x0", frames), quant_format=tool.QuantFormat[form], per_channel=per_channel,
        activation_type=kind, weight_type=tool.QuantType.QInt8,
    )  # fmt: skip
    content = made.read_bytes()
    for frame in frames[:4]:
        (expected,), (found,) = reference(content, frame), computed(content, frame)
        assert np.abs(found - expected).max() <= 0.02 * np.abs(expected).max()
        assert found.argmax() == expected.argmax()


def test_stages_compute_the_same(board):
    content = one_node("QLinearConv", *QOPERATORS["conv"][1:2], **QOPERATORS["conv"][2])
    x = QOPERATORS["conv"][1][0]
    graph = load(content)
    assert graph.inputs[0].dtype == graph.outputs[0].dtype == "uint8"
    with Pipeline(graph, "big", board=board) as pipe:
        (found,) = pipe.map([x])
    assert np.array_equal(found, computed(content, x)[0])


def test_levels_on_the_way(data_dir):
    """Of the first layers, where no tie has gone astray yet: at most one in a thousand is one quantum off."""
    path = data_dir / "edge" / "nanodet_m_320_int8_qdq.onnx"
    model = onnx.load(path)
    names = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"][:60]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    frame = np.random.default_rng(0).uniform(-2, 2, (1, 3, 320, 320)).astype(F)
    expected = reference(model.SerializeToString(), frame, outputs=names)
    graph = load(path, outputs=names)
    with Engine(graph, "big", board=Board.detect(gpu=False), threads=1) as engine:
        found = engine(frame)
    for name, z in zip(names, expected, strict=True):
        quanta = np.abs(found[name].astype(int) - z)
        assert found[name].dtype == z.dtype and quanta.max() <= 1 and (quanta > 0).mean() <= 1e-3, name


def test_resnet8_knows_cifar10(data_dir, board):
    """Its authors measured 87.7 % of these thousand pictures; two are what ties may cost."""
    with np.load(data_dir / "datasets" / "cifar10_10k.npz") as data:
        pictures, classes = data["x_test"], data["y_test"]
    graph = load(data_dir / "edge" / "mlperf_tiny_ic_resnet8_int8.onnx")
    with Engine(graph, "big", board=board, threads=1) as engine:
        found = [engine((picture.astype(int) - 128).astype(I8)[None]).argmax() for picture in pictures]
    assert (found == classes).mean() >= 0.875


# ---- refusals ----

REFUSED = {
    "scale 0": (("QuantizeLinear", [real(3), *parameters(0.0, 0, U8)], {}), "above 0"),
    "negative scale": (("QuantizeLinear", [real(3), *parameters(-1.0, 0, U8)], {}), "from 0 on"),
    "scale NaN": (("DequantizeLinear", [integers(U8, 3), *parameters(np.nan, 0, U8)], {}), "finite"),
    "three scales for five": (
        ("QuantizeLinear", [real(2, 5), *parameters(PER_CHANNEL, [0] * 3, U8)], {}),
        "axis 1",
    ),
    "an axis too many": (("QuantizeLinear", [real(5), *parameters(PER_CHANNEL, [0] * 3, U8)], {"axis": 1}), "axis 1"),
    "32 bits": (
        ("QuantizeLinear", [real(5), *parameters(1.0, 0, np.int32)], {}),
        "at most 16 bits are supported, got int32",
    ),
    "zero point of another type": (("DequantizeLinear", [integers(I8, 5), *parameters(1.0, 0, U8)], {}), "zero point"),
    "blocks": (
        ("QuantizeLinear", [real(4, 4), np.ones((2, 4), F)], {"axis": 0, "block_size": 2}),
        "blocked quantization",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    (op, operands, attrs), words = REFUSED[name]
    with pytest.raises(ModelError, match=words) as refusal:
        load(one_node(op, operands, **attrs))
    assert "node" in str(refusal.value) and "\n" not in str(refusal.value)
