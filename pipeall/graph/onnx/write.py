"""A graph as an ONNX file, written without the onnx package. The inverse of the import for the ops listed here.

The numbers of ``_number`` and ``_field`` are those of the fields in onnx.proto3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ..ir import Graph, Node, Tensor
from ..pointwise import BINARY, UNARY, Unary

OPSET, IR_VERSION = 13, 8
FLOAT = 1  # TensorProto.DataType
A_FLOAT, AN_INT, INTS = 1, 2, 7  # AttributeProto.AttributeType


def onnx_bytes(graph: Graph) -> bytes:
    """The file's content: opset 13, or the first that has all operators; batch 1, float32, names as in the graph.

    Raises ArgumentError naming the node for an op without a rule here, and for a clamp other than that of a ReLU.
    """
    body = b"".join(_field(1, node) for node in graph.nodes for node in _nodes(node, graph))
    body += _field(2, graph.name.encode())
    body += b"".join(_field(5, _tensor(name, array)) for name, array in graph.constants.items())
    body += b"".join(_field(11, _value(tensor)) for tensor in graph.inputs)
    body += b"".join(_field(12, _value(tensor)) for tensor in graph.outputs)
    opset = max([OPSET, *(UNARY[node.op].opset for node in graph.nodes if node.op in UNARY)])
    return _number(1, IR_VERSION) + _field(2, b"pipeall") + _field(7, body) + _field(8, _number(2, opset))


def _conv(node: Node, graph: Graph) -> list[tuple[str, dict[str, Any]]]:
    attrs = {key: node.attrs[key] for key in ("strides", "pads", "dilations")}
    kernel = graph.constants[node.inputs[1]].shape[2:]
    return [("Conv", attrs | {"group": node.attrs["groups"], "kernel_shape": kernel})]


def _fc(node: Node, graph: Graph) -> list[tuple[str, dict[str, Any]]]:
    flat = [("Flatten", {"axis": 1})] if len(graph.tensors[node.inputs[0]].shape) > 2 else []
    return [*flat, ("Gemm", {"transB": 1})]


def _pool(op: str, *extra: str) -> Callable[[Node, Graph], list[tuple[str, dict[str, Any]]]]:
    def rule(node: Node, graph: Graph) -> list[tuple[str, dict[str, Any]]]:
        attrs = {key: node.attrs[key] for key in ("strides", "pads", *extra)}
        return [(op, attrs | {"kernel_shape": node.attrs["kernel"], "ceil_mode": node.attrs["ceil"]})]

    return rule


def _same(op: str, *names: str) -> Callable[[Node, Graph], list[tuple[str, dict[str, Any]]]]:
    return lambda node, graph: [(op, {name: node.attrs[name] for name in names})]


def _unary(entry: Unary) -> Callable[[Node, Graph], list[tuple[str, dict[str, Any]]]]:
    return lambda node, graph: [(entry.onnx, {name: float(node.attrs[name]) for name in entry.parameters})]


# op -> the chain of ONNX nodes it becomes; the last one but for a Flatten reads the node's further inputs
RULES: dict[str, Callable[[Node, Graph], list[tuple[str, dict[str, Any]]]]] = {
    "conv": _conv,
    "fc": _fc,
    "maxpool": _pool("MaxPool", "dilations"),
    "avgpool": _pool("AveragePool", "count_include_pad"),
    "concat": _same("Concat", "axis"),
    "softmax": _same("Softmax", "axis"),
    # but for Mod, which takes floats only as fmod
    **{op: _same(entry.onnx) for op, entry in BINARY.items() if entry.onnx and entry.floats and op != "mod"},
    **{op: _unary(entry) for op, entry in UNARY.items() if entry.onnx and entry.floats},
}


def _nodes(node: Node, graph: Graph) -> list[bytes]:
    if node.op not in RULES:
        raise ArgumentError(f"node {node.name!r}: expected one of {', '.join(RULES)} to write as ONNX, got {node.op!r}")
    chain = RULES[node.op](node, graph)
    inputs, residual = list(node.inputs), []
    if node.attrs.get("swapped"):
        inputs.reverse()
    if node.op == "conv":
        inputs, residual = inputs[:3], inputs[3:]
    if node.op == "prelu":
        x, slopes = (({**graph.tensors, **graph.constants})[name].shape for name in inputs)
        if graph.tensors[node.output].shape != x:
            raise ArgumentError(f"node {node.name!r}: expected slopes that broadcast to {x}, got {slopes}")
    if residual:
        chain.append(("Add", {}))
    low, high = node.attrs.get("lo", -inf), node.attrs.get("hi", inf)
    if (low, high) == (0, inf):
        chain.append(("Relu", {}))
    elif (low, high) != (-inf, inf):
        raise ArgumentError(f"node {node.name!r}: expected a ReLU or no clamp to write as ONNX, got {low} to {high}")
    made, value = [], inputs[0]
    for place, (op, attrs) in enumerate(chain, 1):
        further = {"Flatten": [], "Relu": [], "Add": residual or inputs[1:]}.get(op, inputs[1:])
        output = node.output if place == len(chain) else f"{node.output}/{op.lower()}"
        made.append(_node(op, (value, *further), output, attrs))
        value = output
    return made


def _varint(value: int) -> bytes:
    groups = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _node(op: str, inputs: Sequence[str], output: str, attributes: dict[str, Any]) -> bytes:
    content = b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode())
    content += _field(3, output.encode()) + _field(4, op.encode())
    for name, value in attributes.items():
        if isinstance(value, tuple):
            entry = b"".join(_number(8, int(size)) for size in value) + _number(20, INTS)
        elif isinstance(value, float):
            entry = _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, A_FLOAT)
        else:
            entry = _number(3, int(value)) + _number(20, AN_INT)
        content += _field(5, _field(1, name.encode()) + entry)
    return content


def _tensor(name: str, array: np.ndarray) -> bytes:
    dims = b"".join(_number(1, size) for size in array.shape)
    return dims + _number(2, FLOAT) + _field(8, name.encode()) + _field(9, array.astype("<f4").tobytes())


def _value(tensor: Tensor) -> bytes:
    dims = b"".join(_field(1, _number(1, size)) for size in tensor.shape)
    return _field(1, tensor.name.encode()) + _field(2, _field(1, _number(1, FLOAT) + _field(2, dims)))
