"""Reading ONNX files: every operator, form and opset in small models, against onnxruntime."""

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_models
import pytest
from onnx_models import X, ints, norm, rand, saved

from pipeall.graph import ops
from pipeall.graph.onnx.read.read import load
from pipeall.graph.pointwise import UNARY

# float32 sums of up to 300 terms through up to 6 layers, relative to the largest result: 6 sqrt(300) eps = 1.2e-5
TOLERANCE = 1.2e-5


@dataclass
class Model:
    """ONNX text, the opsets it is valid in, its constants and the canonical ops expected after rewriting."""

    body: str
    opsets: tuple[int, ...]
    ops: str
    constants: dict = field(default_factory=dict)
    inputs: str = X
    outputs: str = "y"


ALL = (7, 9, 11, 13, 15, 18, 21)
ATTRS, INPUTS = (7, 9, 11, 12), (13, 15, 18, 21)  # Squeeze, Unsqueeze, Split: axes as attribute, as input

CONV_BN = """
    c = Conv<pads=[1,1,1,1], kernel_shape=[3,3]>(x, w)
    n = BatchNormalization<epsilon=0.001>(c, n_scale, n_bias, n_mean, n_var)
    y = Relu(n)
"""
RESIDUAL = """
    c1 = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w1, b1)
    r1 = Relu(c1)
    c2 = Conv<pads=[1,1,1,1]>(r1, w2, b2)
    short = Conv<strides=[2,2]>(x, w3)
    sum = Add(c2, short)
    r2 = Relu(sum)
    c3 = Conv<pads=[1,1,1,1]>(r2, w2, b1)
    sum2 = Add(r2, c3)
    y = Relu(sum2)
"""
SQUEEZE_EXCITE = """
    p = GlobalAveragePool(x)
    c1 = Conv(p, w1, b1)
    r = Relu(c1)
    c2 = Conv(r, w2, b2)
    s = Sigmoid(c2)
    y = Mul(s, x)
"""
SHUFFLE_SPLIT = {
    "": "a, b = Split<axis=1, split=[3,3]>(x)",
    "input": "a, b = Split<axis=1>(x, halves)",
    "slice": "a = Slice<axes=[1], starts=[0], ends=[3]>(x) b = Slice<axes=[1], starts=[3], ends=[9999]>(x)",
}
SHUFFLE_UNIT = """
    c1 = Conv(b, w1) r1 = Relu(c1)
    c2 = Conv<group=4, pads=[1,1,1,1]>(r1, w2)
    c3 = Conv(c2, w3) r3 = Relu(c3)
    joined = Concat<axis=1>(a, r3)
    g5 = Reshape(joined, five) t = Transpose<perm=[0,2,1,3,4]>(g5) y = Reshape(t, four)
"""
SHUFFLE_CONSTANTS = dict(
    w1=rand(4, 3, 1, 1), w2=rand(4, 1, 3, 3), w3=rand(5, 4, 1, 1), five=ints(1, 2, 4, 8, 9), four=ints(1, -1, 8, 9)
)
FLATTEN_GATHER = """
    p = GlobalAveragePool(x)
    s = Shape(p)
    zero = Constant<value_int: int = 0>()
    n = Gather<axis=0>(s, zero)
    u = Unsqueeze{axes}
    minus = Constant<value_ints: ints = [-1]>()
    target = Concat<axis=0>(u, minus)
    f = Reshape(p, target)
    y = Gemm<transB=1>(f, w, b)
"""
TORCH_PAD = """
    filler = ConstantOfShape<value: tensor = int64[1] {0}>(missing)
    all = Concat<axis=0>(given, filler)
    pairs = Reshape(all, columns)
    reversed = Slice(pairs, from, to, axis, step)
    flipped = Transpose<perm=[1,0]>(reversed)
    flat = Reshape(flipped, minus)
    pads = Cast<to=7>(flat)
    y = Pad(x, pads, value)
"""
TORCH_PAD_CONSTANTS = dict(
    given=ints(1, 2, 0, 3), missing=ints(4), columns=ints(-1, 2), axis=ints(0), step=ints(-1), minus=ints(-1),
    to=ints(-9223372036854775807), value=np.float32(0.5),
)  # fmt: skip
TORCH_PAD_CONSTANTS["from"] = ints(-1)

MODELS = {
    "conv BN relu": Model(CONV_BN, ALL, "conv", {"w": rand(8, 6, 3, 3)} | norm("n", 8)),
    "residual net": Model(
        RESIDUAL, ALL, "conv conv conv conv",
        dict(w1=rand(8, 6, 3, 3), w2=rand(8, 8, 3, 3), w3=rand(8, 6, 1, 1), b1=rand(8), b2=rand(8, seed=1)),
    ),
    "BN without conv": Model(
        "y = BatchNormalization(x, n_scale, n_bias, n_mean, n_var)", ALL, "mul add", norm("n", 6)
    ),
    "squeeze and excite": Model(
        SQUEEZE_EXCITE, ALL, "avgpool conv conv sigmoid mul",
        dict(w1=rand(2, 6, 1, 1), b1=rand(2), w2=rand(6, 2, 1, 1), b2=rand(6)),
    ),
    "hard squeeze and excite": Model(
        "p = ReduceMean<axes=[2,3]>(x) h = HardSigmoid<alpha=0.25, beta=0.4>(p) y = Mul(x, h)", (7, 11, 13),
        "avgpool hardsigmoid mul",
    ),
    "shuffle unit, Split attribute": Model(
        SHUFFLE_SPLIT[""] + SHUFFLE_UNIT, ATTRS, "slice slice conv conv conv concat shuffle", SHUFFLE_CONSTANTS
    ),
    "shuffle unit, Split input": Model(
        SHUFFLE_SPLIT["input"] + SHUFFLE_UNIT, INPUTS, "slice slice conv conv conv concat shuffle",
        SHUFFLE_CONSTANTS | dict(halves=ints(3, 3)),
    ),
    "shuffle unit, Slice attributes": Model(
        SHUFFLE_SPLIT["slice"] + SHUFFLE_UNIT, (7, 9), "slice slice conv conv conv concat shuffle", SHUFFLE_CONSTANTS
    ),
    "shuffle by rank 4": Model(
        "r = Reshape(x, four) t = Transpose<perm=[0,2,1,3]>(r) y = Reshape(t, back)", ALL, "shuffle",
        dict(four=ints(1, 3, 2, -1), back=ints(0, 6, 8, 9)),
    ),
    "flatten by Shape and Gather, attribute": Model(
        FLATTEN_GATHER.replace("{axes}", "<axes=[0]>(n)"), (12,), "avgpool fc", dict(w=rand(5, 6), b=rand(5))
    ),
    "flatten by Shape and Gather, input": Model(
        FLATTEN_GATHER.replace("{axes}", "(n, axes)"), INPUTS, "avgpool fc",
        dict(w=rand(5, 6), b=rand(5), axes=ints(0)),
    ),
    "flatten by Shape and Slice": Model(
        "s = Shape(x) n = Slice(s, zero, one) t = Concat<axis=0>(n, minus) y = Reshape(x, t)", (10, 13, 21), "reshape",
        dict(zero=ints(0), one=ints(1), minus=ints(-1)),
    ),
    "size arithmetic": Model(
        "s = Shape<start=1, end=4>(x) c, hw = Split<axis=0>(s, parts) h, w = Split<axis=0>(hw, halves)"
        "n = Mul(h, w) half = Div(c, two) pair = Concat<axis=0>(one, two, half, n) y = Reshape(x, pair)",
        (15, 18, 21), "reshape",
        dict(parts=ints(1, 2), halves=ints(1, 1), one=ints(1), two=ints(2)),
    ),
    "Clip attributes": Model("y = Clip<min=-0.5, max=0.7>(x)", (7, 9, 10), "clip"),
    "Clip without bounds": Model("a = Clip(x) y = Sigmoid(a)", (7, 10, 11, 13), "sigmoid"),
    "Clip inputs": Model("y = Clip(x, lo, hi)", (11, 12, 13, 21), "clip", dict(lo=np.float32(-0.5), hi=np.float32(1))),
    "Clip one bound": Model("y = Clip(x, , hi)", (11, 13), "clip", dict(hi=np.float32(0.7))),
    "Clip float range": Model(
        "y = Clip(x, lo, hi)", (11, 13), "clip",
        dict(lo=np.float32(0), hi=np.finfo(np.float32).max),
    ),
    "Clip of constants from nodes": Model(
        "lo = Constant<value: tensor = float {-0.25}>() hi = Constant<value: tensor = float {0.5}>()"
        "y = Clip(x, lo, hi)", (11, 13, 21), "clip",
    ),
    "relu6 after conv": Model(
        "c = Conv(x, w, b) a = Clip<min=0.0, max=6.0>(c) d = Conv(a, v) r = Relu(d) y = Clip<min=-1.0, max=0.5>(r)",
        (7, 10), "conv conv", dict(w=rand(8, 6, 1, 1), b=rand(8), v=rand(4, 8, 3, 3)),
    ),
    "LeakyRelu": Model("a = LeakyRelu(x) y = LeakyRelu<alpha=0.3>(a)", ALL, "leakyrelu leakyrelu"),
    "HardSwish": Model("y = HardSwish(x)", (14, 18, 21), "hardswish"),
    "HardSwish by parts": Model(
        "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)", (11, 13), "hardswish",
        dict(three=np.float32(3), zero=np.float32(0), six=np.float32(6)),
    ),
    "arithmetic with constants": Model(
        "a = Sub(one, x) b = Div(a, per) c = Mul(per, b) d = Sub(c, row) y = Add(two, d)", ALL,
        "sub mul mul sub add",
        dict(one=np.float32(1), per=rand(6, 1, 1) + 2, row=rand(9), two=np.array([2], np.float32)),
    ),
    "broadcast activations": Model(
        "p = GlobalMaxPool(x) a = Sub(p, x) m = MaxPool<kernel_shape=[8,9]>(x) b = Mul(m, a) y = Sum(b, x, p)",
        (8, 9, 11, 13, 21), "maxpool sub maxpool mul add add",
    ),
    "constants folded": Model(
        "s = Sqrt(v) e = Exp(s) m = Mul(e, s) p = Pow(m, two) q = Neg(p) a = Abs(q) i = Reciprocal(a) t = Transpose(t0)"
        "f = Floor(i) c = Ceil(i) g = Max(f, c, i) h = Min(g, i) d = Div(h, s) k = Sub(d, s) o = Add(k, t)"
        "y = Mul(x, o)",
        (7, 11, 13), "mul", dict(v=np.array([2.5], np.float32), two=np.array([2], np.float32), t0=rand(1)),
    ),
    "pools": Model(
        "a = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,0,1,1]>(x)"
        "b = AveragePool<kernel_shape=[3,2], pads=[1,1,0,1], count_include_pad=1>(a)"
        "y = AveragePool<kernel_shape=[2,2], pads=[0,1,1,0]>(b)", ALL, "maxpool avgpool avgpool",
    ),
    "ceil pools": Model(
        "a = MaxPool<kernel_shape=[3,2], strides=[2,2], ceil_mode=1, dilations=[1,2]>(x)"
        "y = AveragePool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(a)", (10, 11, 19, 21), "maxpool avgpool",
    ),
    "auto_pad": Model(
        'a = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(x, w)'
        'b = Conv<auto_pad="SAME_LOWER">(a, v)'
        'c = MaxPool<auto_pad="SAME_LOWER", kernel_shape=[2,2]>(b)'
        'd = AveragePool<auto_pad="SAME_UPPER", kernel_shape=[2,3], strides=[2,1]>(c)'
        'y = Conv<auto_pad="VALID">(d, u)', ALL, "conv conv maxpool avgpool conv",
        dict(w=rand(4, 6, 3, 3), v=rand(4, 4, 2, 2), u=rand(3, 4, 2, 1)),
    ),
    "LRN": Model("a = LRN<size=3>(x) y = LRN<size=5, alpha=0.3, beta=0.6, bias=1.5>(a)", ALL, "lrn lrn"),
    "ReduceMean attribute": Model(
        "a = ReduceMean<axes=[-1,-2]>(x) b = ReduceMean<axes=[2,3], keepdims=0>(x) c = ReduceMean<axes=[3]>(x)"
        "d = Reshape(a, row) e = Add(b, d) y = Gemm(e, w)", (11, 13), "avgpool avgpool reshape reshape add fc",
        dict(row=ints(1, 6), w=rand(6, 4)),
    ),
    "ReduceMean input": Model("y = ReduceMean<keepdims=0>(x, hw)", (18, 21), "avgpool reshape", dict(hw=ints(2, 3))),
    "ReduceMean of rank 3": Model(
        "r = Reshape(x, rows) y = ReduceMean<axes=[2], keepdims=0>(r)", (7, 13), "reshape reduce",
        dict(rows=ints(0, 0, -1)),
    ),
    "ReduceMean of width": Model("y = ReduceMean<axes=[3]>(x)", (7, 13), "avgpool"),
    "Softmax before 13": Model("a = Softmax(x) y = Softmax<axis=-1>(a)", (7, 9, 11, 12),
                               "reshape softmax reshape softmax"),
    "Softmax from 13": Model("a = Softmax<axis=1>(x) y = Softmax(a)", INPUTS,
                             "softmax softmax"),
    "Softmax of rows of an image": Model(
        "r = Reshape(x, three) y = Softmax<axis=1>(r)", INPUTS, "reshape softmax",
        dict(three=ints(1, 6, -1)),
    ),
    "Softmax over the batch": Model("y = Softmax<axis=0>(x)", (13, 21), "softmax"),
    "Softmax of rank 2": Model("f = Flatten(x) y = Softmax(f)", ALL, "reshape softmax"),
    "Softmax of rank 3": Model(
        "r = Reshape(x, three) y = Softmax<axis=2>(r)", ALL, "reshape softmax",
        dict(three=ints(1, 6, -1)),
    ),
    "PRelu": Model("a = PRelu(x, per) y = PRelu(a, one)", ALL, "prelu prelu",
                   dict(per=rand(6, 1, 1), one=rand(1))),
    "Elu, Tanh, Erf": Model("a = Elu<alpha=0.7>(x) b = Tanh(a) c = Erf(b) y = Elu(c)", (9, 13, 21),
                            "elu tanh erf elu"),
    "Gelu": Model('a = Gelu(x) y = Gelu<approximate="tanh">(a)', (20, 21),
                  "gelu gelu_tanh"),
    "Neg, Pow, Max, Min": Model(
        "a = Neg(x) b = Pow(a, two) c = Max(b, half) d = Min(two, c, one) e = Pow(d, one) y = Add(e, e)",
        (8, 12, 13, 21), "neg mul add", dict(two=np.float32(2), half=np.float32(0.5), one=np.float32(1)),
    ),
    "Gather of one": Model("a = Gather<axis=1>(x, last) y = Gather<axis=2>(a, pair)", (11, 13, 21),
                           "slice reshape slice", dict(last=np.array(-1), pair=ints(1))),
    "LayerNormalization": Model(
        "a = LayerNormalization<epsilon=0.01>(x, scale, bias) r = Reshape(a, three)"
        "y = LayerNormalization(r, one)", (17, 21),
        "layernorm mul add reshape layernorm mul",
        dict(scale=rand(9), bias=rand(9), one=rand(72), three=ints(1, 6, -1)),
    ),
    "MatMul of rows": Model(
        "a = MatMul(x, w) r = Reshape(a, three) y = MatMul(r, v)", (9, 13, 21),
        "fc reshape fc",
        dict(w=rand(9, 5) / 3, v=rand(40, 7) / 6, three=ints(1, 6, -1)),
    ),
    "Flatten": Model("a = Flatten<axis=0>(x) b = Flatten<axis=4>(x) y = Gemm(a, w, c)", (7, 9), "fc",
                     dict(w=rand(432, 3), c=rand(3))),
    "Flatten from the end": Model("a = Flatten<axis=-3>(x) y = Gemm(a, w)", (11, 13, 21), "fc", dict(w=rand(432, 3))),
    "Squeeze attribute": Model(
        "p = GlobalAveragePool(x) s = Squeeze<axes=[2,3]>(p) u = Unsqueeze<axes=[2,3]>(s) q = Squeeze<axes=[0]>(u)"
        "v = Unsqueeze<axes=[0]>(q) y = Sigmoid(v)", ATTRS, "avgpool sigmoid",
    ),
    "Squeeze input": Model(
        "p = GlobalAveragePool(x) s = Squeeze(p, hw) u = Unsqueeze(s, hw) a = Squeeze(u) b = Unsqueeze(a, bhw)"
        "y = Sigmoid(b)", INPUTS, "avgpool sigmoid", dict(hw=ints(-1, 2), bhw=ints(0, 2, 3)),
    ),
    "Transpose": Model(
        "t = Transpose<perm=[0,2,3,1]>(x) r = Relu(t) y = Transpose<perm=[0,3,1,2]>(r)", ALL, "transpose clip transpose"
    ),
    "Transpose there and back": Model(
        "t = Transpose<perm=[0,2,3,1]>(x) u = Transpose<perm=[0,3,1,2]>(t) y = Relu(u)", ALL, "clip"
    ),
    "Pad attribute": Model("y = Pad<pads=[0,0,1,2,0,1,0,3], value=0.5>(x)", (7, 9, 10), "pad"),
    "Pad input": Model("y = Pad(x, pads)", (11, 13, 21), "pad", dict(pads=ints(0, 0, 1, 2, 0, 1, 0, 3))),
    "Pad axes": Model(
        "y = Pad(x, pads, value, axes)", (18, 21), "pad",
        dict(pads=ints(1, 2, 0, 3), value=np.float32(-1), axes=ints(3, -2)),
    ),
    "Pad as exporters write it": Model(TORCH_PAD, (11, 13, 21), "pad", TORCH_PAD_CONSTANTS),
    "Pad folded into conv": Model(
        "p = Pad(x, pads) y = Conv<pads=[0,1,1,0]>(p, w)", (11, 13), "conv",
        dict(pads=ints(0, 0, 1, 2, 0, 0, 0, 3), w=rand(4, 6, 3, 3)),
    ),
    "Pad kept before max pooling": Model(
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[2,2]>(p)", (11, 13), "pad maxpool",
        dict(pads=ints(0, 0, 1, 1, 0, 0, 1, 1)),
    ),
    "Pad folded into average pooling": Model(
        "p = Pad(x, pads) y = AveragePool<kernel_shape=[2,3]>(p)", (11, 13), "avgpool",
        dict(pads=ints(0, 0, 1, 2, 0, 0, 0, 1)),
    ),
    "Dropout and Identity": Model(
        "a = Identity(x) b, mask = Dropout(a) c = Relu(b) y = Identity(c)", (7, 10, 12, 13), "clip"
    ),
    "outputs that are aliases": Model("a = Relu(x) y = Identity(a) z = Identity(a)", ALL, "clip reshape",
                                      outputs="y, z"),
    "output that is the input": Model("y = Identity(x) z = Relu(x)", ALL, "clip reshape", outputs="y, z"),
    "Split equal": Model("a, b, c = Split<axis=1>(x) d = Add(a, c) y = Mul(d, b)", (7, 11, 13),
                         "slice slice slice add mul"),
    "Split num_outputs": Model("a, b = Split<axis=3, num_outputs=2>(x) y = Concat<axis=3>(b, a)", (18, 21),
                               "slice slice concat"),
    "Slice attributes": Model("y = Slice<axes=[1,3], starts=[-4,2], ends=[-1,100]>(x)", (7, 9), "slice slice"),
    "Slice inputs": Model(
        "a = Slice(x, s, e, axes, steps) y = Slice(a, zero, most)", (10, 11, 13, 21), "slice slice",
        dict(s=ints(-4, 2), e=ints(-1, 100), axes=ints(1, -1), steps=ints(1, 1), zero=ints(0), most=ints(2**62)),
    ),
    "Gemm with factors": Model(
        "f = Flatten(x) a = Gemm<alpha=0.5, beta=2.0>(f, w, b) y = Gemm<transB=1, beta=0.5>(a, v, c)", ALL, "fc fc",
        dict(w=rand(432, 9) / 6, b=rand(1, 9), v=rand(4, 9), c=np.float32(0.3)),
    ),
    "Gemm without bias": Model("f = Flatten(x) y = Gemm(f, w)", (11, 13, 21), "fc", dict(w=rand(432, 9) / 6)),
    "Gemm, A transposed": Model(
        "f = Flatten(x) t = Transpose(f) y = Gemm<transA=1>(t, w)", (11, 13), "fc",
        dict(w=rand(432, 9) / 6)
    ),
    "Gemm of rows": Model(
        "f = Reshape(x, rows) a = Gemm(f, w, b) t = Transpose(a) y = Gemm<transA=1, transB=1, alpha=0.5>(t, v)",
        (11, 13, 15, 18, 21), "reshape fc fc",
        dict(rows=ints(6, 72), w=rand(72, 9) / 8, b=rand(9), v=rand(4, 9)),
    ),
    "MatMul and bias": Model(
        "f = Flatten(x) m = MatMul(f, w) a = Add(m, b) y = Relu(a)", ALL, "fc", dict(w=rand(432, 9) / 6, b=rand(9))
    ),
    "MatMul of rank 3": Model(
        "f = Reshape(x, row) y = MatMul(f, w)", ALL, "reshape fc", dict(row=ints(1, 1, -1), w=rand(432, 9) / 6)
    ),
    "fc with BN": Model(
        "f = Flatten(x) m = Gemm<transB=1>(f, w, b) y = BatchNormalization(m, n_scale, n_bias, n_mean, n_var)", ALL,
        "fc",
        dict(w=rand(7, 432), b=rand(7)) | norm("n", 7),
    ),
    "Expand, Range, Where": Model(
        "r = Range(zero, three, one) i = Cast<to=7>(r) big = Greater(r, one) e = Expand(half, shape)"
        "u = Where(big, r, e) v = Gather(u, i) k = Reshape(v, c) y = Mul(x, k)", (11, 13), "mul",
        dict(zero=np.float32(0), one=np.float32(1), three=np.float32(6), half=np.float32(0.5), shape=ints(6),
             c=ints(6, 1, 1)),
    ),
    "dead branches": Model("y = Relu(x) dead = Upsample(x, x) more = Loop(dead)", (9, 13), "clip"),
}  # fmt: skip


def assert_same(got: dict, expected: dict, tolerance: float) -> None:
    assert got.keys() == expected.keys()
    for name, want in expected.items():
        assert got[name].shape == want.shape
        worst, limit = np.abs(got[name] - want).max(), tolerance * np.abs(want).max()
        assert worst <= limit, f"{name}: worst error {worst:.3g}, limit {limit:.3g}"


@pytest.mark.parametrize("name, opset", [(name, opset) for name, model in MODELS.items() for opset in model.opsets])
def test_model_gives_what_onnxruntime_gives(name, opset, tmp_path):
    model = MODELS[name]
    proto = onnx_models.parsed(model.body, model.inputs, model.outputs, model.constants, opset)
    path = saved(proto, tmp_path)
    graph, plain = load(path), load(path, rewrite=False)
    inputs = {"x": 2 * rand(*graph.inputs[0].shape) * np.sqrt(np.float32(432))}
    if name == "dead branches":  # onnxruntime refuses what pipeall never looks at
        del proto.graph.node[1:]
    expected = onnx_models.run(proto, inputs)
    assert " ".join(node.op for node in graph.nodes) == model.ops
    assert [tensor.name for tensor in graph.outputs] == list(expected)
    assert_same(ops.run_graph(plain, inputs), expected, TOLERANCE)
    assert_same(ops.run_graph(graph, inputs), expected, TOLERANCE)


@pytest.mark.parametrize("op", [op for op, entry in UNARY.items() if entry.onnx and entry.floats])
def test_defaults_are_those_of_onnx(op, tmp_path):
    proto = onnx_models.parsed(f"y = {UNARY[op].onnx}(x)", X, "y", {}, 21)
    lo, hi = UNARY[op].domain
    x = 3 * rand(6, 8, 9).reshape(1, 6, 8, 9) * np.sqrt(np.float32(72))
    inputs = {"x": x if lo == -np.inf else np.clip(lo + np.abs(x) % (hi - lo), lo, hi).astype(np.float32)}
    graph = load(saved(proto, tmp_path))
    assert [node.op for node in graph.nodes] == [op]
    assert_same(ops.run_graph(graph, inputs), onnx_models.run(proto, inputs), TOLERANCE)


NETWORKS = ["googlenet", "mobilenet_v1_0.75_192", "resnet50", "squeezenet1.0", "squeezenet1.1"]


@pytest.mark.parametrize("network", NETWORKS)
def test_trained_network_gives_what_onnxruntime_gives(network, data_dir):
    path = data_dir / "models" / f"{network}.onnx"
    graph = load(path)
    x = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
    expected = onnx_models.run(onnx.load(path), {"input": x})["prob"]
    assert np.abs(ops.run_graph(graph, {"input": x}, np.float32)["prob"] - expected).max() < 1e-4 * expected.max()
