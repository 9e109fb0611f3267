"""ONNX graphs that are refused: one line that names the file and what is wrong."""

import numpy as np
import onnx_models
import pytest
from onnx_models import X, ints, norm, rand, refusal, saved

GRAPH_ERRORS = {
    "cycle": ("a = Add(x, b) b = Relu(a) y = Relu(b)", "before it is made: the nodes form a cycle"),
    "dangling": ("y = Add(x, ghost)", "reads 'ghost' that nothing makes"),
    "missing output": ("z = Relu(x)", "output 'y' is made by no node"),
    "twice": ("y = Relu(x) y = Sigmoid(x)", "tensor 'y' is made 2 times"),
    "input made": ("x = Relu(x) y = Relu(x)", "tensor 'x' is made 2 times"),
    "shape computed": ("r = Relu(x) k = Cast<to=7>(r) y = Reshape(x, k)", "must be a constant"),
    "integer weight": ("y = Conv(x, i)", "must hold floats, got int64"),
    "schema": ("y = Conv<colour=3>(x, w)", "Unrecognized attribute: colour"),
    "arity": ("y = Conv(x)", "has input size 1"),
    "operand missing": ("y = Sum(x, , x)", "input 1 is missing"),
    "weight rank": ("y = Conv(x, zero)", "a weight of that rank"),
    "weight not finite": ("y = Conv(x, void)", "constant 'void' holds values that are not finite"),
    "attribute": ("y = MaxPool<kernel_shape=[2]>(x)", "kernel_shape must be 2 integers"),
    "missing attribute": ("y = MaxPool(x)", "kernel_shape"),
    "kernel_shape": ("y = Conv<kernel_shape=[5,5]>(x, w)", "kernel_shape (5, 5) differs"),
    "auto_pad": ('y = Conv<auto_pad="FULL">(x, w)', "unknown auto_pad 'FULL'"),
    "channels": ("a = Concat<axis=1>(x, x) y = Conv(a, w)", "needs 6 input channels, got 12"),
    "rank": ("a = Reshape(x, three) y = Conv(a, w)", "a weight of that rank"),
    "train": (
        "y = BatchNormalization<training_mode=1>(x, n_scale, n_bias, n_mean, n_var)",
        "only inference",
    ),
    "variance": ("y = BatchNormalization(x, n_scale, n_bias, n_mean, negative)", "must be positive"),
    "norm channels": (
        "c = Conv(x, w) y = BatchNormalization(c, n_scale, n_bias, n_mean, n_var)",
        "must have the 2 channels",
    ),
    "gemm of images": ("y = Gemm(x, m)", "expected matrices"),
    "gemm bias": ("f = Flatten(x) y = Gemm(f, m, n_bias)", "C (6,) does not broadcast to (1, 3)"),
    "matmul rows": ("y = MatMul(x, m)", "cannot multiply (1, 6, 8, 9) by (432, 3)"),
    "dropout in training": ("y = Dropout(x, zero, true)", "only inference"),
    "dropout, perhaps in training": ("c = Cast<to=9>(x) y = Dropout(x, zero, c)", "must be a constant"),
    "norm scale": ("y = LayerNormalization(x, n7)", "(7,) do not broadcast"),
    "slopes": ("y = PRelu(x, n7)", "do not broadcast"),
    "broadcast": ("y = Add(x, n7)", "do not broadcast"),
    "integer operand": ("y = Add(x, i2)", "one element type"),
    "pad mode": ('y = Pad<mode="mirror">(x, pads)', "got 'mirror'"),
    "pad count": ("y = Pad(x, i)", "expected two pads per axis"),
    "slice step": ("y = Slice(x, i, two, i, two)", "expected as many starts"),
    "split": ("y, z = Split<axis=1>(x, pads)", "cannot split 6 into 2 parts"),
    "reshape": ("y = Reshape(x, three2)", "cannot reshape"),
    "reshape twice open": ("y = Reshape(x, open)", "cannot reshape"),
    "squeeze": ("y = Squeeze(x, one)", "cannot squeeze axes [1]"),
    "axis": ("y = Concat<axis=4>(x, x)", "axis 4 is outside of rank 4"),
    "gather index": ("g = Gather(one, i) y = Reshape(x, g)", "cannot evaluate on constants: index"),
    "gather beyond": ("y = Gather<axis=1>(x, seven)", "index 7 is outside of an axis of 6"),
    "unknown to us": ("y = Det(x)", "operator not supported"),
    "constants only": ("c = Cast<to=7>(x) y = ConstantOfShape(c)", "operator supported on constants only"),
    "concat of constants": ("y = Concat<axis=0>(x, w)", "shapes differ"),
    "cast": ("y = Cast<to=8>(x)", "cannot cast"),
    "constant bomb": ("a = ConstantOfShape(bomb) y = Add(x, a)", "constants exceed"),
    "expand bomb": ("a = Expand(zero, bomb) y = Add(x, a)", "constants exceed"),
    "range bomb": ("a = Range(zero, big, tiny) y = Add(x, a)", "constants exceed"),
    "outer product bomb": (
        "a = ConstantOfShape(wide) b = Transpose<perm=[1,0]>(a) c = Add(a, b) y = Add(x, c)",
        "constants exceed",
    ),
    "gather bomb": ("a = ConstantOfShape<value: tensor = int64[1] {0}>(wide) c = Gather(a, a) y = Add(x, c)", "exceed"),
    "concat bomb": (
        "a = ConstantOfShape(most) y0 = Concat<axis=0>(a, a) y = Add(x, y0)",
        "constants exceed",
    ),
}
ERROR_CONSTANTS = norm("n", 6) | dict(
    w=rand(2, 6, 1, 1), m=rand(432, 3), i=ints(0, 1, 2),
    i2=ints(2), one=ints(1), two=ints(2, 216), three=ints(1, 6, -1),
    three2=ints(1, 5, -1), open=ints(-1, -1), pads=ints(0, 0, 1, 1, 0, 0, 1, 1),
    negative_pads=ints(0, 0, -1, 0, 0, 0, 0, 0), negative=-np.ones(6, np.float32), zero=np.float32(0), n7=rand(7),
    void=np.full((2, 6, 1, 1), np.nan, np.float32), big=np.float32(1e30),
    true=np.array(True), n9=rand(9), seven=ints(7), three0=np.float32(3), batch3=ints(6, 9, 8),
    tiny=np.float32(1e-30), bomb=ints(2**20, 2**20), wide=ints(1, 2**20), most=ints(2**29 + 1),
)  # fmt: skip


@pytest.mark.parametrize("name", GRAPH_ERRORS)
def test_graph_error(name, tmp_path):
    body, expected, *outputs = GRAPH_ERRORS[name]
    opset = 15 if name == "train" else 19
    proto = onnx_models.parsed(body, X, *(outputs or ["y"]), ERROR_CONSTANTS, opset)
    assert expected in refusal(saved(proto, tmp_path))
