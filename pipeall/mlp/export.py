"""A trained network as a graph that the pipeline runs, and as an ONNX file, written without the onnx package."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

import numpy as np

from ..atomic import write_whole
from ..errors import ArgumentError
from ..graph.ir import Graph, Node, Tensor

INPUT = "input"
FLOAT, INT_ATTRIBUTE, OPSET, IR_VERSION = 1, 2, 13, 8


def to_graph(layers: Sequence[tuple[np.ndarray, np.ndarray]], activations: Sequence[str], name: str = "mlp") -> Graph:
    """``layers``: (weights (n_out, n_in), biases), as ``Network.gather`` gives; batch 1, float32.

    tanh z is 2 sigmoid(2 z) - 1: the factors go into the weights on both sides. Raises ArgumentError for an output of
    tanh, which has no weights behind it.
    """
    if activations[-1] == "tanh":
        raise ArgumentError("export: expected an output of sigmoid, relu or softmax, got tanh")
    tensors = {INPUT: Tensor(INPUT, (1, layers[0][0].shape[1]))}
    nodes, constants, value, after_tanh = [], {}, INPUT, False

    def node(op: str, title: str, inputs: tuple[str, ...], size: int, **attrs: object) -> str:
        tensors[title] = Tensor(title, (1, size))
        nodes.append(Node(title, op, inputs, title, attrs))
        return title

    for index, ((weight, bias), activation) in enumerate(zip(layers, activations, strict=True), 1):
        weight, bias = weight.astype(np.float64), bias.astype(np.float64)
        if after_tanh:
            weight, bias = 2 * weight, bias - weight.sum(axis=1)
        after_tanh = activation == "tanh"
        gain = 2 if after_tanh else 1
        names = f"layer{index}/weight", f"layer{index}/bias"
        constants |= {names[0]: (gain * weight).astype(np.float32), names[1]: (gain * bias).astype(np.float32)}
        low = 0.0 if activation == "relu" else -inf
        value = node("fc", f"layer{index}", (value, *names), len(weight), lo=low, hi=inf)
        if activation in ("sigmoid", "tanh"):
            value = node("sigmoid", f"layer{index}/sigmoid", (value,), len(weight))
        elif activation == "softmax":
            value = node("softmax", f"layer{index}/softmax", (value,), len(weight), axis=1)
    return Graph(name, tuple(nodes), tensors, constants, (tensors[INPUT],), (tensors[value],))


def write_onnx(path: str | Path, graph: Graph) -> None:
    """Writes a graph of ``to_graph`` as ONNX, opset 13, batch 1 (onnx.proto3: the numbers are its fields)."""
    nodes = []
    for node in graph.nodes:
        source, *inputs = node.inputs
        if node.op == "fc":
            relu = node.attrs["lo"] == 0
            target = f"{node.output}/sum" if relu else node.output
            nodes.append(_node("Gemm", (source, *inputs), target, transB=1))
            if relu:
                nodes.append(_node("Relu", (target,), node.output))
        elif node.op == "sigmoid":
            nodes.append(_node("Sigmoid", (source,), node.output))
        else:
            nodes.append(_node("Softmax", (source,), node.output, axis=1))
    body = b"".join(_field(1, node) for node in nodes) + _field(2, graph.name.encode())
    body += b"".join(_field(5, _tensor(name, array)) for name, array in graph.constants.items())
    body += b"".join(_field(11, _value(tensor)) for tensor in graph.inputs)
    body += b"".join(_field(12, _value(tensor)) for tensor in graph.outputs)
    model = _number(1, IR_VERSION) + _field(2, b"pipeall") + _field(7, body) + _field(8, _number(2, OPSET))
    write_whole(path, lambda file: file.write(model))


def _varint(value: int) -> bytes:
    groups = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _node(op: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    content = b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode())
    content += _field(3, output.encode()) + _field(4, op.encode())
    for name, value in attributes.items():
        content += _field(5, _field(1, name.encode()) + _number(3, value) + _number(20, INT_ATTRIBUTE))
    return content


def _tensor(name: str, array: np.ndarray) -> bytes:
    dims = b"".join(_number(1, size) for size in array.shape)
    return dims + _number(2, FLOAT) + _field(8, name.encode()) + _field(9, array.astype("<f4").tobytes())


def _value(tensor: Tensor) -> bytes:
    dims = b"".join(_field(1, _number(1, size)) for size in tensor.shape)
    return _field(1, tensor.name.encode()) + _field(2, _field(1, _number(1, FLOAT) + _field(2, dims)))
