"""Pictures into networks whose input is integers: the levels are known from the file, and classes come out."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pipeall import ModelError, Picture, Pipeline, load, tasks

SIDE, CLASSES = 12, 4
TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


def quantized(dtype, layout, scale, zero, kind="DequantizeLinear"):
    """A classifier of integers: what it reads stands for (integer - zero) * scale."""
    rng, kind_of = np.random.default_rng(3), TYPES[dtype]
    shape = (1, SIDE, SIDE, 3) if layout == "NHWC" else (1, 3, SIDE, SIDE)
    values = {
        "scale": np.float32(scale),
        "zero": np.array(zero, dtype),
        "w": rng.standard_normal((CLASSES, 3, SIDE, SIDE)).astype(np.float32) / SIDE / (1 if scale < 0.1 else 128),
        "out scale": np.float32(1 / 256),
        "out zero": np.array(-128 if dtype == "int8" else 0, dtype),
    }
    read = (
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["real"])
        if kind == "DequantizeLinear"
        else helper.make_node("Cast", ["x"], ["real"], to=TensorProto.FLOAT)
    )
    nodes = [
        read,
        helper.make_node("Transpose", ["real"], ["nchw"], perm=(0, 3, 1, 2) if layout == "NHWC" else (0, 1, 2, 3)),
        helper.make_node("Conv", ["nchw", "w"], ["scores"]),
        helper.make_node("Flatten", ["scores"], ["flat"]),
        helper.make_node("Softmax", ["flat"], ["p"], axis=1),
        helper.make_node("QuantizeLinear", ["p", "out scale", "out zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "levels",
        [helper.make_tensor_value_info("x", kind_of, shape)],
        [helper.make_tensor_value_info("y", kind_of, (1, CLASSES))],
        [numpy_helper.from_array(array, name) for name, array in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def expected(model, frame, dtype, layout):
    levels = (frame.astype(int) - (128 if dtype == "int8" else 0)).astype(dtype)
    x = levels[None] if layout == "NHWC" else levels.transpose(2, 0, 1)[None]
    return onnxruntime.InferenceSession(model).run(None, {"x": x})[0].astype(int)


@pytest.mark.parametrize("kind", ["DequantizeLinear", "Cast"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype, zero", [("int8", -128), ("int8", 0), ("uint8", 0), ("uint8", 127)])
def test_grey_levels_are_the_integers(board, dtype, zero, layout, kind):
    model = quantized(dtype, layout, 1 / 255 if zero in (-128, 0) and kind == "DequantizeLinear" else 1.0, zero, kind)
    frames = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE, 3), np.uint8)
    with Pipeline(model, "big", board, input=Picture(filter="nearest")) as pipe:
        for frame, y in zip(frames, pipe.map(frames), strict=True):
            assert y.dtype == dtype
            right = expected(model, frame, dtype, layout)
            assert np.abs(y.astype(int) - right).max() <= 1 and np.ptp(right) > 20  # a sum may round the other way


def test_what_normalizes_gives_the_numbers_that_the_integers_stand_for(board):
    model = quantized("int8", "NHWC", 1 / 255, -128)
    frame = np.random.default_rng(2).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    with Pipeline(model, "big", board, input=Picture(filter="nearest", scale=255)) as pipe:
        (y,) = pipe.map([frame])
    assert np.abs(y.astype(int) - expected(model, frame, "int8", "NHWC")).max() <= 1


@pytest.mark.parametrize("dtype, zero", [("int8", -128), ("uint8", 0)])
def test_classes_come_out(board, dtype, zero):
    """The task wants grey levels, though floats of such a classifier would be normalized; scores are probabilities."""
    model = quantized(dtype, "NHWC", 1 / 255, zero)
    find = tasks.task(load(model), "classify")
    frame = np.random.default_rng(4).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    with Pipeline(model, "big", board, input=find.picture) as pipe:
        (seen,) = pipe.stream([frame], "none", find)
    levels = find.picture.placed(frame.shape[:2], find.size)
    assert levels.inner == (0, 0, SIDE, SIDE) and not find.picture.normalizes
    found = {entry.label: entry.score for entry in seen.result.classes}
    assert sum(found.values()) == pytest.approx(1, abs=CLASSES / 256) and len(found) == CLASSES


def test_other_types_are_named():
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.INT32, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 8, 8))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    with pytest.raises(ModelError, match=r"\(1, H, W, 3\) of float32, uint8, int8, got x int32 \(1, 3, 8, 8\)"):
        Pipeline(model, input=Picture())
