"""Quantized ONNX files, of one node or small, and onnxruntime's results of them."""

import numpy as np
import onnx
import pytest
from graphs import Net
from onnx import helper, numpy_helper

from pipeall import Board, Engine, load

ort = pytest.importorskip("onnxruntime", reason="the reference: pip install onnxruntime")
MICROSOFT = "com.microsoft"
F, I8, U8 = np.float32, np.int8, np.uint8
RNG = np.random.default_rng(0)
WEIGHTS = {  # operator -> its operand of weights; the zero points of the other operand and of the weights
    "QLinearConv": (3, 2, 5), "QLinearMatMul": (3, 2, 5), "QGemm": (3, 2, 5),
    "ConvInteger": (1, 2, 3), "MatMulInteger": (1, 2, 3),
}  # fmt: skip


def unsigned(content):
    """The file with int8 weights as uint8 where they meet uint8: onnxruntime's sums of such saturate on AVX2."""
    model = onnx.load_from_string(content)
    kept = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for number, node in enumerate(model.graph.node):
        weights, *zeros = WEIGHTS.get(node.op_type, (0, 0, 0))
        zero, own = (kept.get(node.input[i]) if i < len(node.input) else None for i in zeros)
        if weights and node.input[weights] in kept and (zero is not None and own is not None):
            if (zero.dtype, own.dtype) == (U8, I8):
                for i in (weights, zeros[1]):
                    shifted = (kept[node.input[i]].astype(int) + 128).astype(U8)
                    node.input[i] = f"unsigned {number}, {i}"
                    model.graph.initializer.append(numpy_helper.from_array(shifted, node.input[i]))
    return model.SerializeToString()


def session(content):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    return ort.InferenceSession(unsigned(content), options, providers=["CPUExecutionProvider"])


def reference(content, *frames, outputs=None):
    made = session(content)
    return made.run(outputs, dict(zip((value.name for value in made.get_inputs()), frames, strict=True)))


def computed(content, *frames):
    """Of an engine, its outputs in order."""
    graph = load(content)
    with Engine(graph, "big", board=Board.detect(gpu=False), threads=1) as engine:
        made = engine(dict(zip((tensor.name for tensor in graph.inputs), frames, strict=True)))
    return [made] if isinstance(made, np.ndarray) else [made[tensor.name] for tensor in graph.outputs]


def one_node(op, operands, computed=(0,), outputs=1, domain="", **attrs):
    """A file of one node; the operands are arrays, None where absent, and those numbered in ``computed`` are fed."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(operands)]
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in zip(names, operands, strict=True) if name}
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], "node", domain=domain, **attrs)
    inputs = [helper.make_tensor_value_info(names[i], kinds[names[i]], operands[i].shape) for i in computed]
    kept = [i for i, name in enumerate(names) if name and i not in computed]
    constants = [numpy_helper.from_array(np.asarray(operands[i]), names[i]) for i in kept]
    values = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    graph = helper.make_graph([node], "one", inputs, values, constants)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def real(*shape, reach=3.0):
    return np.asarray(RNG.uniform(-reach, reach, shape), F)


def integers(dtype, *shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def parameters(scale, zero, dtype):
    return [np.asarray(scale, F), np.asarray(zero, dtype)]


class Photos:
    """Frames to calibrate with, as onnxruntime's tool reads them."""

    def __init__(self, name, frames):
        self.left = [{name: frame} for frame in frames]

    def get_next(self):
        return self.left.pop() if self.left else None


def small_network():
    net = Net((1, 3, 24, 24))
    a = net.conv("x0", 16, 3, strides=(2, 2), lo=0.0)
    b = net.conv(a, 16, 3, groups=16, lo=0.0)
    c = net.conv(b, 16, 1)
    d = net.op("concat", net.op("add", a, c), net.op("maxpool", a, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4))
    e = net.op("avgpool", net.conv(d, 24, 1), kernel=(12, 12), strides=(1, 1))
    return net.graph(net.op("fc", e, net.constant((10, 24)), net.constant((10,)), axis=1))
