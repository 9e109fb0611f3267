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
from onnx_models import X, ints, rand, refusal, saved

from pipeall.errors import ArgumentError, MissingExtraError, ModelError
from pipeall.graph.onnx.read.read import load


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


def test_missing_file(tmp_path):
    assert "No such file" in refusal(tmp_path / "no.onnx")


def test_model_that_computes_nothing(tmp_path):
    proto = onnx_models.model([], {"x": (1, 3)}, ["x"])
    with pytest.raises(ModelError, match="expected a network, got a model that computes nothing"):
        load(saved(proto, tmp_path))


def test_folder(tmp_path):
    assert "expected a file, got a folder" in refusal(tmp_path)


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


@pytest.mark.parametrize("opset", [0, 29])
def test_opset(opset, tmp_path):
    assert f"opset {opset} is not supported, expected 1 to 28" in refusal(saved(relu_model(opset=opset), tmp_path))


@pytest.mark.parametrize("domain, shown", [("", "Cauchy"), ("com.acme", "com.acme.Cauchy")])
def test_unknown_operator(domain, shown, tmp_path):
    proto = relu_model()
    proto.graph.node[0].op_type, proto.graph.node[0].domain = "Cauchy", domain
    message = refusal(saved(proto, tmp_path))
    assert f"node 'only' ({shown}): operator not supported; the part behind it may load with inputs=['y']" in message


@pytest.mark.parametrize("element", ["STRING", "COMPLEX64"])
def test_input_type(element, tmp_path):
    message = refusal(saved(relu_model(elem_type=getattr(TensorProto, element)), tmp_path))
    assert f"input 'x' has element type {element}, expected one of FLOAT, UINT8" in message


def test_input_that_is_no_tensor(tmp_path):
    proto = relu_model()
    proto.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(proto.graph.input[0].type))
    assert "input 'x' is a sequence, expected a tensor" in refusal(saved(proto, tmp_path))


@pytest.mark.parametrize("shape", [(1, "c"), (1, 3, 0, 4), None])
def test_open_sizes(shape, tmp_path):
    assert "give input_shape" in refusal(saved(relu_model(shape), tmp_path))


@pytest.mark.parametrize("shape", [(1, 0), (1, 3.0), ("1", 3), "13", 5, (1,) * 9, {"x": (0,)}, {"x": 3}])
def test_bad_input_shape(shape, tmp_path):
    with pytest.raises(ArgumentError, match="input_shape: expected at most 8 positive integers"):
        load(saved(relu_model(), tmp_path), input_shape=shape)


def test_input_shape_of_another_rank(tmp_path):
    assert "has 2 dimensions" in refusal(saved(relu_model(), tmp_path), input_shape=(1, 3, 4))


def test_input_shape_for_two_inputs(tmp_path):
    path = saved(relu_model(extra_inputs=["z"]), tmp_path)
    assert "this one has 2" in refusal(path, input_shape=(1, 3))


def test_absurd_input(tmp_path):
    assert "elements" in refusal(saved(relu_model((1, 2**20, 2**20)), tmp_path))


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
    assert "constant 'w' has values beyond float32" in refusal(path)


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
