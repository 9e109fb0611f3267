"""Graphs whose sizes depend on data, compared with onnxruntime."""

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx_models import run

import pipeall
from pipeall.graph.ops import run_graph


def proto(body: str, inputs: str, outputs: str, constants: dict, opset: int = 17) -> onnx.ModelProto:
    graph = onnx.parser.parse_graph(f"test ({inputs}) => ({outputs}) {{ {body} }}")
    graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items())
    for tensor in graph.output:
        tensor.type.tensor_type.ClearField("shape")  # of any rank
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def compared(model: onnx.ModelProto, frames: list[dict], tolerance: float = 1e-5) -> pipeall.Graph:
    """Whether engine, pipeline and references give the arrays of onnxruntime, their lengths too."""
    graph = pipeall.load(model.SerializeToString())
    with pipeall.Pipeline(graph) as pipe, pipeall.Engine(graph) as engine:
        for frame in frames:
            expected = run(model, frame)
            single = next(iter(frame.values())) if len(frame) == 1 else frame
            for got in (run_graph(graph, frame), engine(single), next(iter(pipe.map([single])))):
                got = got if isinstance(got, dict) else {next(iter(expected)): got}
                assert got.keys() == expected.keys()
                for name, value in expected.items():
                    assert got[name].shape == value.shape and got[name].dtype.kind == value.dtype.kind, name
                    np.testing.assert_allclose(got[name], value, tolerance, tolerance, err_msg=name)
    return graph
