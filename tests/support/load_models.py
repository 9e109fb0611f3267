"""Models for the tests of ``pipeall.load``, and the comparison of what is loaded with onnxruntime."""

import numpy as np
import onnx_models
from onnx import helper, numpy_helper
from onnx_models import saved

from pipeall import load
from pipeall.graph.ops import run_graph

TOLERANCE = 1e-5  # of the largest value: float32 in onnxruntime, float64 here, a few hundred products in a sum


def frames(graph, seed=0):
    """Random inputs for a graph, in its own types."""
    random = np.random.default_rng(seed)
    return {t.name: np.asarray(3 * random.standard_normal(t.shape)).astype(t.dtype) for t in graph.inputs}


def agrees(proto, tmp_path, tolerance=TOLERANCE, **options):
    """Load a model and compare it with onnxruntime; the graph."""
    graph = load(saved(proto, tmp_path), **options)
    feeds = frames(graph)
    found, expected = run_graph(graph, feeds), onnx_models.run(proto, feeds)
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].shape == array.shape
        limit = tolerance * np.abs(array.astype(np.float64)).max()
        np.testing.assert_allclose(found[name].astype(np.float64), array, rtol=0, atol=limit, err_msg=name)
    for tensor, array in zip(graph.outputs, expected.values(), strict=True):
        assert (tensor.dtype, tensor.shape) == (array.dtype.name, array.shape)
    return graph


def value(name, elem_type, shape):
    return helper.make_tensor_value_info(name, elem_type, shape)


def model(nodes, inputs, outputs, constants=None, opset=17, **more):
    """A model of ValueInfoProtos; ``more`` goes to the ModelProto."""
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", opset), *more.pop("domains", ())]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more)
