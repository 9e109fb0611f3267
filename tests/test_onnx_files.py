"""What ONNX files may hold besides the usual, and every way in which one is refused: one line that names the file."""

import os
import sys

import numpy as np
import onnx
import onnx_models
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_models import X, ints, norm, rand, saved

from pipeall.errors import ArgumentError, MissingExtraError, ModelError
from pipeall.graph.onnx.read import load


def relu_model(shape=(1, 3), elem_type=TensorProto.FLOAT, opset=13, extra_inputs=()):
    x = helper.make_tensor_value_info("x", elem_type, shape)
    y = helper.make_tensor_value_info("y", elem_type, None)
    names = ["x", *extra_inputs]
    inputs = [x, *(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in extra_inputs)]
    node = helper.make_node("Sum" if extra_inputs else "Relu", names, ["y"], name="only")
    graph = helper.make_graph([node], "g", inputs, [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def conv_model(weight, x=X, **tensor_fields) -> onnx.ModelProto:
    """y = Conv(x, w); ``tensor_fields`` overwrite fields of w's TensorProto."""
    proto = onnx_models.parsed("y = Conv(x, w)", x, "y", {"w": weight}, 13)
    proto.graph.node[0].name = "first"
    for name, value in tensor_fields.items():
        proto.graph.initializer[0].ClearField(name)
        if isinstance(value, list):
            getattr(proto.graph.initializer[0], name).extend(value)
        else:
            setattr(proto.graph.initializer[0], name, value)
    return proto


def external_model(tmp_path, location="weights.bin", offset="8", length=str(2 * 6 * 4)):
    proto = conv_model(rand(2, 6, 1, 1), raw_data=b"")
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in dict(location=location, offset=offset, length=length).items():
        tensor.external_data.add(key=key, value=value)
    return saved(proto, tmp_path)


# ---- forms of weights and inputs ----


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats_become_float32(dtype, tmp_path):
    weight = rand(2, 6, 1, 1).astype(dtype)
    graph = load(saved(conv_model(weight), tmp_path))
    assert graph.constants["w"].dtype == np.float32
    assert np.array_equal(graph.constants["w"], weight.astype(np.float32))


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("element", ["FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"])
def test_every_float_type_is_read_raw_and_from_its_field(element, typed, tmp_path):
    """Values that all four hold exactly: a sign, a subnormal-free exponent and seven bits."""
    weight = (np.arange(-64, 64, dtype=np.float32)[:12] * np.float32(2.0**-5)).reshape(2, 6, 1, 1)
    bits = {
        "FLOAT": weight, "FLOAT16": weight.astype(np.float16).view(np.uint16),
        "BFLOAT16": (weight.view(np.uint32) >> 16).astype(np.uint16), "DOUBLE": weight.astype(np.float64),
    }[element]  # fmt: skip
    proto = conv_model(weight, data_type=getattr(TensorProto, element))
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    if typed:
        fields = {"FLOAT": tensor.float_data, "DOUBLE": tensor.double_data}
        fields.get(element, tensor.int32_data).extend(bits.reshape(-1).tolist())
    else:
        tensor.raw_data = bits.tobytes()
    assert np.array_equal(load(saved(proto, tmp_path)).constants["w"], weight)


def test_weights_may_lie_in_typed_fields_and_be_listed_as_inputs(tmp_path):
    weight = rand(2, 6, 1, 1)
    proto = conv_model(weight)
    proto.graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, weight.shape, weight.ravel()))
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, weight.shape))
    graph = load(saved(proto, tmp_path))
    assert [tensor.name for tensor in graph.inputs] == ["x"]
    assert np.array_equal(graph.constants["w"], weight)


def test_external_data_is_read_at_its_offset(tmp_path):
    weight = rand(2, 6, 1, 1)
    (tmp_path / "weights.bin").write_bytes(bytes(8) + weight.tobytes() + bytes(4))
    assert np.array_equal(load(external_model(tmp_path)).constants["w"], weight)


@pytest.mark.parametrize("batch", [0, "N"])
def test_open_batch_is_one(batch, tmp_path):
    graph = load(saved(relu_model((batch, 3)), tmp_path))
    assert graph.inputs[0].shape == (1, 3) and graph.name == "model"


def test_input_shape_replaces_the_model_s(tmp_path):
    assert load(saved(relu_model((8, "c")), tmp_path), input_shape=(1, 5)).inputs[0].shape == (1, 5)
    path = saved(conv_model(rand(2, 6, 1, 1)), tmp_path)
    assert load(path, input_shape=[1, 6, 20, 30]).outputs[0].shape == (1, 2, 20, 30)


def test_unread_inputs_are_dropped(tmp_path):
    proto = relu_model()
    proto.graph.input.append(helper.make_tensor_value_info("training", TensorProto.BOOL, []))
    assert [tensor.name for tensor in load(saved(proto, tmp_path)).inputs] == ["x"]


def test_nodes_get_unique_names(tmp_path):
    proto = onnx_models.parsed("a = Relu(x) b = Sigmoid(a) y = Relu(b)", X, "y", {}, 13)
    for node in proto.graph.node:
        node.name = "same"
    assert [node.name for node in load(saved(proto, tmp_path)).nodes] == ["same", "b", "y"]


# ---- errors ----


def refusal(path, **args) -> str:
    """The one line with which a model is refused; it names the file."""
    with pytest.raises(ModelError) as error:
        load(path, **args)
    message = str(error.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message.removeprefix(str(path))


def test_missing_file(tmp_path):
    assert "No such file" in refusal(tmp_path / "no.onnx")


def test_model_that_computes_nothing(tmp_path):
    proto = onnx_models.model([], {"x": (1, 3)}, ["x"])
    with pytest.raises(ModelError, match="expected a network, got a model that computes nothing"):
        load(saved(proto, tmp_path))


def test_folder(tmp_path):
    assert "directory" in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello world, this is text", b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_not_an_onnx_file(content, tmp_path):
    path = tmp_path / "picture.onnx"
    path.write_bytes(content)
    assert "not an ONNX file" in refusal(path)


def test_truncated_file_at_every_length(tmp_path):
    whole = conv_model(rand(2, 6, 1, 1)).SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert refusal(path)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_corrupt_bytes_are_read_or_refused_but_never_crash(tmp_path, changes):
    content = bytearray(CORRUPTIBLE)
    for position, byte in changes:
        content[position % len(content)] = byte
    path = tmp_path / "corrupt.onnx"
    path.write_bytes(content)
    try:
        load(path)
    except ModelError as error:
        assert str(path) in str(error)


CORRUPTIBLE = onnx_models.parsed(
    "s = Shape(x) c = Conv<pads=[1,1,1,1], strides=[2,1]>(x, w) p = MaxPool<kernel_shape=[2,2], ceil_mode=1>(c)"
    "t = Concat<axis=0>(one, rest) y = Reshape(p, t)",
    "float[1,2,5,4] x",
    "y",
    dict(w=rand(2, 2, 2, 2), one=ints(1), rest=ints(-1)),
    13,
).SerializeToString()


@pytest.mark.parametrize("opset", [5, 29])
def test_opset(opset, tmp_path):
    assert f"opset {opset} is not supported, expected 6 to 28" in refusal(saved(relu_model(opset=opset), tmp_path))


@pytest.mark.parametrize("domain, shown", [("", "Cauchy"), ("com.acme", "com.acme.Cauchy")])
def test_unknown_operator(domain, shown, tmp_path):
    proto = relu_model()
    proto.graph.node[0].op_type, proto.graph.node[0].domain = "Cauchy", domain
    message = refusal(saved(proto, tmp_path))
    assert f"node 'only' ({shown}): operator not supported; supported are Add, AveragePool" in message


def test_input_type(tmp_path):
    assert "input 'x' has element type INT64, expected FLOAT" in refusal(
        saved(relu_model(elem_type=TensorProto.INT64), tmp_path)
    )


def test_batch(tmp_path):
    message = refusal(saved(relu_model((8, 3)), tmp_path))
    assert "input 'x' has batch 8, expected 1" in message


@pytest.mark.parametrize("shape", [(1, "c"), (1, 3, 0, 4), None])
def test_open_sizes(shape, tmp_path):
    assert "give input_shape" in refusal(saved(relu_model(shape), tmp_path))


@pytest.mark.parametrize("shape", [(), (2, 3), (1, 0), (1, 3.0), ("1", 3)])
def test_bad_input_shape(shape, tmp_path):
    with pytest.raises(ArgumentError, match="input_shape must be positive integers with batch 1"):
        load(saved(relu_model(), tmp_path), input_shape=shape)


def test_input_shape_of_another_rank(tmp_path):
    assert "has 2 dimensions" in refusal(saved(relu_model(), tmp_path), input_shape=(1, 3, 4))


def test_input_shape_for_two_inputs(tmp_path):
    path = saved(relu_model(extra_inputs=["z"]), tmp_path)
    assert "this one has 2" in refusal(path, input_shape=(1, 3))


def test_absurd_input(tmp_path):
    assert "elements" in refusal(saved(relu_model((1, 2**20, 2**20)), tmp_path))


GRAPH_ERRORS = {
    "cycle": ("a = Add(x, b) b = Relu(a) y = Relu(b)", "reads 'b' before it is made"),
    "order": ("y = Relu(b) b = Relu(x)", "reads 'b' before it is made"),
    "dangling": ("y = Add(x, ghost)", "reads 'ghost' that nothing makes"),
    "missing output": ("z = Relu(x)", "output 'y' is made by no node"),
    "twice": ("y = Relu(x) y = Sigmoid(x)", "tensor 'y' is made 2 times"),
    "input made": ("x = Relu(x) y = Relu(x)", "tensor 'x' is made 2 times"),
    "output twice": ("y = Relu(x)", "tensor 'y' is an output 2 times", "y, y"),
    "constant output": ("y = Constant<value_float: float = 1.0>()", "output 'y' is a constant"),
    "weight computed": ("y = Conv(x, x)", "must be a constant, got a tensor computed at run time"),
    "fc weight computed": ("f = Flatten(x) t = Transpose(f) y = MatMul(f, t)", "must be a constant"),
    "shape computed": ("r = Relu(x) k = Cast<to=7>(r) y = Reshape(x, k)", "activations stay float32"),
    "integer weight": ("y = Conv(x, i)", "must hold floats, got int64"),
    "schema": ("y = Conv<colour=3>(x, w)", "Unrecognized attribute: colour"),
    "arity": ("y = Conv(x)", "has input size 1"),
    "operand missing": ("y = Sum(x, , x)", "input 1 is missing"),
    "weight rank": ("y = Conv(x, zero)", "only 2-D images"),
    "weight not finite": ("y = Add(x, infinite)", "constant 'infinite' holds values that are not finite"),
    "attribute": ("y = MaxPool<kernel_shape=[2]>(x)", "kernel_shape must be 2 integers"),
    "missing attribute": ("y = MaxPool(x)", "kernel_shape"),
    "kernel_shape": ("y = Conv<kernel_shape=[5,5]>(x, w)", "kernel_shape (5, 5) differs"),
    "auto_pad": ('y = Conv<auto_pad="FULL">(x, w)', "unknown auto_pad 'FULL'"),
    "channels": ("a = Concat<axis=1>(x, x) y = Conv(a, w)", "needs 6 input channels, got 12"),
    "rank": ("a = Reshape(x, three) y = Conv(a, w)", "only 2-D images"),
    "indices": ("y, z = MaxPool<kernel_shape=[2,2]>(x) q = Cast<to=1>(z)", "its output 'z' is not supported", "y, q"),
    "avgpool dilation": ("y = AveragePool<kernel_shape=[2,2], dilations=[2,2]>(x)", "dilated average"),
    "train": (
        "y = BatchNormalization<training_mode=1>(x, n_scale, n_bias, n_mean, n_var)",
        "only inference",
    ),
    "variance": ("y = BatchNormalization(x, n_scale, n_bias, n_mean, negative)", "must be positive"),
    "norm channels": ("c = Conv(x, w) y = BatchNormalization(c, n_scale, n_bias, n_mean, n_var)", "must have the (2,)"),
    "gemm of images": ("y = Gemm(x, m)", "expected rows times a matrix"),
    "gemm bias": ("f = Flatten(x) y = Gemm(f, m, n_bias)", "bias (6,) does not fit 3 outputs"),
    "matmul rows": ("y = MatMul(x, m)", "expected rows times a matrix"),
    "batch in matmul": ("r = Reshape(x, batch3) y = MatMul(x, r)", "must be a constant"),
    "dropout in training": ("y = Dropout(x, zero, true)", "only inference"),
    "dropout, perhaps in training": ("c = Cast<to=9>(x) y = Dropout(x, zero, c)", "activations stay float32"),
    "norm axis": ("y = LayerNormalization<axis=1>(x, n9)", "only the last axis"),
    "norm scale": ("y = LayerNormalization(x, n7)", "the 9 elements of a row"),
    "slopes": ("y = PRelu(x, n7)", "do not broadcast"),
    "cube": ("y = Pow(x, three0)", "only the exponents 1 and 2"),
    "bounds": ("y = Max(x, x)", "expected one computed tensor"),
    "broadcast": ("y = Add(x, n7)", "do not broadcast"),
    "mutual broadcast": ("h = ReduceMean<axes=[2]>(x) w1 = ReduceMean<axes=[3]>(x) y = Add(h, w1)", "one operand must"),
    "computed divisor": ("y = Div(x, x)", "must be a constant"),
    "division by zero": ("y = Div(x, zero)", "division by zero"),
    "integer operand": ("y = Add(x, i2)", "operands must be floats"),
    "mean of channels": ("y = ReduceMean<axes=[1]>(x)", "only means over height and width"),
    "pad mode": ('y = Pad<mode="reflect">(x, pads)', "got mode 'reflect'"),
    "negative pad": ("y = Pad(x, negative_pads)", "pads_begin must be 4 integers >= 0"),
    "pad count": ("y = Pad(x, i)", "expected two pads per axis"),
    "slice step": ("y = Slice(x, i, two, i, two)", "expected as many starts"),
    "slice by steps": ("y = Slice(x, one, i2, one, i2)", "only steps of 1 are supported, got 2"),
    "empty slice": ("y = Slice(x, one, one, one)", "stop must be"),
    "split": ("y, z = Split<axis=1>(x, pads)", "cannot split 6 into 2 parts"),
    "reshape": ("y = Reshape(x, three2)", "cannot reshape"),
    "reshape twice open": ("y = Reshape(x, open)", "cannot reshape"),
    "batch folded into channels": ("y = Reshape(x, batch)", "batch must be 1"),
    "squeeze": ("y = Squeeze(x, one)", "cannot squeeze axes [1]"),
    "axis": ("y = Concat<axis=4>(x, x)", "axis 4 is outside of rank 4"),
    "gather index": ("g = Gather(one, i) y = Reshape(x, g)", "cannot evaluate on constants: index"),
    "gather of several": ("y = Gather(x, i)", "indices must be one integer"),
    "gather beyond": ("y = Gather<axis=1>(x, seven)", "axis 7 is outside of rank 6"),
    "constants only": ("y = Exp(x)", "operator supported on constants only"),
    "concat of constants": ("y = Concat<axis=0>(x, w)", "must be computed from the model's input, got a constant"),
    "cast": ("y = Cast<to=10>(x)", "activations stay float32"),
    "constant overflow": ("a = Mul(big, big) y = Add(x, a)", "overflow"),
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
    three2=ints(1, 5, -1), open=ints(-1, -1), batch=ints(6, 1, 8, 9), pads=ints(0, 0, 1, 1, 0, 0, 1, 1),
    negative_pads=ints(0, 0, -1, 0, 0, 0, 0, 0), negative=-np.ones(6, np.float32), zero=np.float32(0), n7=rand(7),
    infinite=np.array([np.inf], np.float32), big=np.float32(1e30),
    true=np.array(True), n9=rand(9), seven=ints(7), three0=np.float32(3), batch3=ints(6, 9, 8),
    tiny=np.float32(1e-30), bomb=ints(2**20, 2**20), wide=ints(1, 2**20), most=ints(2**29 + 1),
)  # fmt: skip


@pytest.mark.parametrize("name", GRAPH_ERRORS)
def test_graph_error(name, tmp_path):
    body, expected, *outputs = GRAPH_ERRORS[name]
    opset = 15 if name in ("train", "mutual broadcast", "mean of channels") else 19
    proto = onnx_models.parsed(body, X, *(outputs or ["y"]), ERROR_CONSTANTS, opset)
    assert expected in refusal(saved(proto, tmp_path))


def test_node_is_named_in_the_message(tmp_path):
    path = saved(conv_model(rand(2, 5, 1, 1)), tmp_path)
    assert "node 'first' (conv): weight (2, 5, 1, 1) needs 5 input channels, got 6" in refusal(path)


TENSOR_ERRORS = {
    "raw bytes": (dict(raw_data=b"1234"), "initializer 'w' of shape (2, 6, 1, 1) needs 48 bytes, has 4"),
    "typed values": (dict(raw_data=None, float_data=[1.0]), "needs 12 values, has 1"),
    "negative size": (dict(dims=[-2, 6, 1, 1]), "absurd shape"),
    "too many dimensions": (dict(dims=[2, 6] + [1] * 40), "absurd shape"),
    "too many elements": (dict(dims=[2**20, 2**20, 1, 1]), "initializers have 1099511627776 elements"),
    "strings": (dict(data_type=TensorProto.STRING), "element type STRING"),
}


@pytest.mark.parametrize("name", TENSOR_ERRORS)
def test_initializer_error(name, tmp_path):
    fields, expected = TENSOR_ERRORS[name]
    clear = [field for field, value in fields.items() if value is None]
    proto = conv_model(rand(2, 6, 1, 1), **{field: value for field, value in fields.items() if value is not None})
    for field_name in clear:
        proto.graph.initializer[0].ClearField(field_name)
    assert expected in refusal(saved(proto, tmp_path))


def test_double_beyond_float32(tmp_path):
    path = saved(conv_model(np.full((2, 6, 1, 1), 1e300)), tmp_path)
    assert "initializer 'w' has values beyond float32" in refusal(path)


def test_sparse_initializer(tmp_path):
    proto = conv_model(rand(2, 6, 1, 1))
    values = proto.graph.initializer.pop()
    proto.graph.sparse_initializer.add(values=values, dims=values.dims)
    assert "sparse initializers are not supported" in refusal(saved(proto, tmp_path))


@pytest.mark.parametrize(
    "change, expected",
    [
        ({}, "expected a file beside the model"),
        ({"location": "../secret"}, "lies outside of the model's folder"),
        ({"location": "/etc/passwd"}, "lies outside of the model's folder"),
        ({"location": "link"}, "lies outside of the model's folder"),
        ({"location": "pipe"}, "expected a file beside the model"),
        ({"location": "a\0b"}, "cannot be read"),
        ({"location": "n" * 5000}, "cannot be read"),
        ({"location": "there", "offset": "-4"}, "cannot be read"),
        ({"location": "there", "offset": "x"}, "cannot be read"),
        ({"location": "there", "offset": "9" * 30}, "cannot be read"),
        ({"location": "there", "offset": "0", "length": "-1"}, "needs 48 bytes, has 49"),
    ],
)
def test_external_data_error(change, expected, tmp_path):
    (tmp_path / "there").write_bytes(bytes(100))
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    assert expected in refusal(external_model(tmp_path, **change))


def test_external_data_too_short(tmp_path):
    (tmp_path / "weights.bin").write_bytes(bytes(20))
    assert "needs 48 bytes, has 12" in refusal(external_model(tmp_path))


def test_onnx_not_installed(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'pipeall\[onnx\]'"):
        load(tmp_path / "any.onnx")
