"""Shapes of files whose exporter computes sizes, takes branches or cuts out nothing, and of quantized files.

Shapes are compared with those of what onnxruntime computes, weights with those that the file was written with.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import OPSET, parsed, run
from quantized_files import Photos, real

import pipeall
from pipeall.errors import ModelError
from pipeall.sizing import onnx_shapes

ANY = "float[n,c,h,w]"


def ones(*shape: int) -> str:
    """A constant in ONNX text form."""
    return f"Constant<value=float{list(shape)} {{{', '.join(['1'] * np.prod(shape))}}}>()"


def branches(inner: str = "out = Relu(a)") -> str:
    """Two branches that use the same names, on a condition that the input's shape decides."""
    return f"""
        high = Shape<start=2, end=3>(x) eight = Constant<value_ints=[8]>() equal = Equal(high, eight)
        condition = Squeeze(equal)
        y = If(condition) <
            then_branch = g1() => ({ANY} out) {{ k = {ones(2, 6, 1, 1)} a = Conv(x, k) {inner} }},
            else_branch = g2() => ({ANY} out) {{ k = {ones(1, 6, 1, 1)} a = Conv(x, k) out = Sigmoid(a) }}>
        z = Concat<axis=1>(y, x)"""


NESTED = f"""
    out = If(condition) <then_branch = g3() => ({ANY} inner) {{ b = Relu(a) inner = Add(b, a) }},
                         else_branch = g4() => ({ANY} inner) {{ inner = Identity(x) }}>"""

CASES = {
    # the side of a square of as many positions as there are (vision transformers)
    "sizes by floats": (
        """
        shape = Shape(w) count = Slice(shape, zero, one) f = Cast<to=1>(count) half = Constant<value_float=0.5>()
        root = Pow(f, half) side = Cast<to=7>(root) c = Constant<value_ints=[-1]>() b = Constant<value_ints=[1]>()
        to = Concat<axis=0>(b, side, side, c) grid = Reshape(w, to)
        last = Transpose<perm=[0, 3, 1, 2]>(grid) z = Concat<axis=1>(x, last)""",
        "float[1,6,4,4] x",
        {"w": np.ones((16, 32), np.float32), "zero": np.array([0]), "one": np.array([1])},
        16 * 32,
    ),
    # positions counted in floats, as many as the picture is high
    "a range of floats": (
        """
        shape = Shape<start=2, end=3>(x) n = Squeeze(shape) f = Cast<to=1>(n) a = Constant<value_float=0.0>()
        b = Constant<value_float=1.0>() places = Range(a, f, b) sines = Sin(places)
        to = Constant<value_ints=[1, 1, -1, 1]>() column = Reshape(sines, to) z = Add(x, column)""",
        "float[1,6,8,9] x",
        {},
        0,
    ),
    "a branch": (branches(), "float[1,6,8,9] x", {}, 12),
    "the other branch": (branches(), "float[1,6,7,9] x", {}, 6),
    "a branch in a branch": (branches(NESTED), "float[1,6,8,9] x", {}, 12),
    # the sizes of one output are computed from another
    "the shape of an output": (
        "y = Relu(x) shape = Shape(y) flat = Constant<value_ints=[1, -1]>() to = Identity(flat) two = Reshape(y, to) "
        "n = ReduceProd<keepdims=0>(shape) m = Constant<value_ints=[1]>() k = Reshape(n, m) z = Expand(y, shape)",
        "float[1,6,8,9] x",
        {},
        0,
    ),
    # rotary positions of all channels leave none to pass (GPT-J)
    "a slice of nothing": (
        "a = Slice(x, zero, six, axis) b = Slice(x, six, nine, axis) c = Neg(b) z = Concat<axis=1>(a, c)",
        "float[1,6,8,9] x",
        {"zero": np.array([0]), "six": np.array([6]), "nine": np.array([9]), "axis": np.array([1])},
        0,
    ),
    # a learnt scale is bounded before it is used (Swin v2)
    "bounds of weights": (
        "top = Constant<value_float=4.6>() c = Clip(w, , top) e = Exp(c) s = Constant<value_float=1.5>() "
        "t = Clip(s, , top) m = Mul(x, e) z = Mul(m, t)",
        "float[1,6,8,9] x",
        {"w": np.ones((6, 1, 1), np.float32)},
        6,
    ),
    "numbers in typed fields": (
        "to = Add(a, a) z = Reshape(x, to)",
        "float[1,6,8,9] x",
        {"a": helper.make_tensor("a", TensorProto.INT64, [2], [3, 36])},
        0,
    ),
}  # fmt: skip


def file_of(case: str, tmp_path) -> tuple[str, onnx.ModelProto]:
    body, inputs, constants, _ = CASES[case]
    arrays = {name: array for name, array in constants.items() if isinstance(array, np.ndarray)}
    proto = parsed(body, inputs, "z", arrays, OPSET)
    proto.graph.initializer.extend(tensor for tensor in constants.values() if not isinstance(tensor, np.ndarray))
    onnx.save(proto, tmp_path / "net.onnx")
    return str(tmp_path / "net.onnx"), proto


@pytest.mark.parametrize("case", CASES)
def test_sizes_are_those_that_onnxruntime_computes(case, tmp_path):
    path, proto = file_of(case, tmp_path)
    size = pipeall.cost(path)
    (x,) = onnx_shapes.read(path).inputs
    found = run(proto, {x: np.zeros(size.network.shapes[x], np.float32)})
    assert size.network.shapes["z"] == found["z"].shape
    assert size.total.parameters == CASES[case][3]
    assert size.largest_batch(1e9, "adam") > 0


# ---- what is not known, and what does not fit ----


@pytest.mark.parametrize(
    "body, words",
    [
        ("s = ReduceSum<keepdims=0>(x) c = Cast<to=9>(s) "
         "z = If(c) <then_branch = a() => (float o) { o = Relu(x) }, else_branch = b() => (float o) { o = Neg(s) }>",
         "node 'z' .If.: 'c' is computed, so tensors of one shape are expected"),
        ("c = Constant<value=bool {1}>() "
         "z, y = If(c) <then_branch = a() => (float o) { o = Relu(x) }, else_branch = b() => (float o) { o = Neg(x) }>",
         "node 'z' .If.: expected a branch without inputs and with 2 outputs"),
        ("c = Constant<value=bool[2] {1, 0}>() "
         "z = If(c) <then_branch = a() => (float o) { o = Relu(x) }, else_branch = b() => (float o) { o = Neg(x) }>",
         "node 'z' .If.: the condition must be one integer or bool, got bool .2,."),
    ],
)  # fmt: skip
def test_branches_that_cannot_be_taken(body, words, tmp_path):
    onnx.save(parsed(body, "float[1,6,8,9] x", "z", {}, OPSET), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match=words):
        _ = pipeall.cost(str(tmp_path / "net.onnx")).total


def test_as_many_indices_as_the_data_says(tmp_path):
    """They cost as much as there can be of them; what has no rule for that is refused."""
    proto = parsed("n = NonZero(x) p = Transpose(n) v = GatherND(x, p) z = Mul(v, v)", "float[1,6] x", "z", {}, OPSET)
    onnx.save(proto, tmp_path / "net.onnx")
    sizes = pipeall.cost(str(tmp_path / "net.onnx"))
    assert sizes.network.shapes["z"] == (6,)
    onnx.save(parsed("z = Unique<sorted=1>(x)", "float[1,6] x", "z", {}, OPSET), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="the size of its result depends on the data"):
        pipeall.cost(str(tmp_path / "net.onnx"))


def test_weights_beyond_float32_are_not_read(tmp_path):
    """The least float64, which masks are made of, has no meaning for shapes."""
    least = np.array([np.finfo(np.float64).min])
    proto = parsed("a = Cast<to=11>(x) b = Add(a, w) z = Cast<to=1>(b)", "float[1,6] x", "z", {"w": least}, OPSET)
    onnx.save(proto, tmp_path / "net.onnx")
    assert pipeall.cost(str(tmp_path / "net.onnx")).total.parameters == 1


# ---- what operators compute, by hand ----


@pytest.mark.parametrize(
    "node, macs, others",
    [
        ("z = MeanVarianceNormalization<axes=[2, 3]>(x)", 0, 4 * 432), ("z = LpNormalization(x)", 0, 2 * 432),
        ("z = Hardmax(x)", 0, 432), ("z = Bernoulli(x)", 0, 432), ("z = GlobalLpPool(x)", 0, 432),
        ("z = CastLike(x, w)", 0, 0), ("s = Constant<value_ints=[4, 4]>() z = CenterCropPad<axes=[2, 3]>(x, s)", 0, 0),
        ("o = Concat<axis=1>(x, x, x) z = DeformConv(x, w, o)", 2 * 8 * 9 * 6, 0),
    ],
)  # fmt: skip
def test_operations_by_hand(node, macs, others, tmp_path):
    """Of 1 x 6 x 8 x 9 elements; the convolution has two filters of 1 x 1."""
    proto = parsed(node, "float[1,6,8,9] x", "z", {"w": np.ones((2, 6, 1, 1), np.float32)}, OPSET)
    onnx.save(proto, tmp_path / "net.onnx")
    total = pipeall.cost(str(tmp_path / "net.onnx")).total
    assert (total.macs, total.element_ops) == (macs, others)


# ---- integers ----


@pytest.mark.parametrize("form", ["QDQ", "QOperator", "dynamic"])
def test_a_quantized_file_has_the_weights_of_the_one_it_was_made_of(form, tmp_path):
    from onnxruntime import quantization as tool

    body = "a = Conv<pads=[1, 1, 1, 1]>(x, w, b) c = Relu(a) p = GlobalAveragePool(c) f = Flatten(p) z = Gemm(f, v, u)"
    random = np.random.default_rng(0)
    shapes = {"w": (8, 3, 3, 3), "b": (8,), "v": (8, 5), "u": (5,)}
    weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    floats, made = tmp_path / "floats.onnx", tmp_path / "made.onnx"
    onnx.save(parsed(body, "float[1,3,16,16] x", "z", weights, 13), floats)
    if form == "dynamic":
        tool.quantize_dynamic(floats, made)
    else:
        tool.quantize_static(floats, made, Photos("x", [real(1, 3, 16, 16)] * 3), quant_format=tool.QuantFormat[form])
    size, before = pipeall.cost(str(made)), pipeall.cost(str(floats))
    assert size.total.macs == before.total.macs == 8 * 27 * 256 + 40
    assert size.notes == ()
    if form != "dynamic":  # which keeps a scale and a zero point beside
        assert size.total.parameters == before.total.parameters
        integers = 8 * 27 + 40
        assert size.total.weight_bytes == integers + 4 * 13  # biases are floats
