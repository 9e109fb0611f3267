"""Splitting a model file from its weights: the same model in the end, and no crash on whatever bytes there are."""

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from pipeall.graph.onnx.read import wire as onnx_wire
from pipeall.graph.onnx.read.wire import LARGE, WireError

RANDOM = np.random.default_rng(0)
BIG = RANDOM.standard_normal(LARGE // 4).astype(np.float32)  # just large enough to stay in the file
SMALL = RANDOM.standard_normal(LARGE // 4 - 1).astype(np.float32)


def model():
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    weights = [numpy_helper.from_array(BIG, "big"), numpy_helper.from_array(SMALL, "small"), typed]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y], weights)
    return helper.make_model(graph)


def written(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    return path


def test_large_weights_stay_and_the_rest_is_the_same(tmp_path):
    whole = model()
    message, raw = onnx_wire.split(written(tmp_path, whole.SerializeToString()))
    assert [data is not None for data in raw] == [True, False, False] and len(message) < LARGE + 500
    assert np.array_equal(np.frombuffer(raw[0], np.float32), BIG)
    parsed = onnx.ModelProto.FromString(message)
    assert not parsed.graph.initializer[0].HasField("raw_data")
    parsed.graph.initializer[0].raw_data = bytes(raw[0])
    assert parsed == whole


def test_released_memory_reads_the_same_again(tmp_path):
    _, raw = onnx_wire.split(written(tmp_path, model().SerializeToString()))
    array = np.frombuffer(raw[0], np.float32)
    onnx_wire.release(array)
    onnx_wire.release(array.reshape(2, -1)[1:])
    onnx_wire.release(BIG)  # not of a file: nothing happens
    onnx_wire.release(None)
    assert np.array_equal(array, BIG)


def test_a_tensor_with_two_contents_is_left_to_protobuf(tmp_path):
    """The last one counts, which only the parser may decide."""
    whole = model()
    twice = (
        whole.graph.initializer[0].SerializeToString()
        + numpy_helper.from_array(BIG[::-1].copy(), "").SerializeToString()
    )
    content = whole.SerializeToString() + onnx_wire.with_length(7, onnx_wire.with_length(5, twice))
    message, raw = onnx_wire.split(written(tmp_path, content))
    assert raw[-1] is None and len(raw) == 4
    last = onnx.ModelProto.FromString(message).graph.initializer[-1]
    assert last.raw_data == BIG[::-1].tobytes()


@pytest.mark.parametrize(
    "content", [b"", b"\x3a", b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xff" * 11, b"\x3b"]
)
def test_bytes_that_are_no_message(tmp_path, content):
    with pytest.raises(WireError):
        onnx_wire.split(written(tmp_path, content))


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_files_are_split_like_whole_ones_or_refused(tmp_path_factory, data):
    """Whatever the parser makes of the bytes, it makes of the two parts."""
    content = bytearray(model().SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, min(200, len(content) - 1)))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(len(content) // 2, len(content))) :]
    path = written(tmp_path_factory.getbasetemp(), bytes(content))
    try:
        expected = onnx.ModelProto.FromString(bytes(content))
    except DecodeError:
        expected = None
    try:
        message, raw = onnx_wire.split(path)
        found = onnx.ModelProto.FromString(message)
    except (WireError, DecodeError):
        assert expected is None
        return
    assert expected is not None
    tensors = found.graph.initializer
    assert len(raw) == len(tensors) == len(expected.graph.initializer)
    for tensor, data_of in zip(tensors, raw, strict=True):
        if data_of is not None:
            tensor.raw_data = bytes(data_of)
    assert found.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)
