"""An ONNX file in the making: nodes, constants and integers that stand for floats, as bytes without the onnx package.

Numbers of fields are those of onnx.proto3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from ...ir import Graph, Quantization
from ..read.element_types import NUMBERS
from ..read.wire import with_length

MOST_BIAS = 2**31 - 1


class Writer:
    """The file in the making.

    nodes   encoded
    stored  name -> array of every initializer
    """

    def __init__(self, graph: Graph, opset: int):
        self.graph, self.opset = graph, opset
        self.nodes: list[bytes] = []
        self.stored: dict[str, np.ndarray] = {}
        self._taken = {*graph.tensors, *graph.constants}
        self._made = {node.output: node for node in graph.nodes}
        self._written: set[str] = set()  # constants
        self._shared: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.constants[name].shape if name in self.graph.constants else self.graph.tensors[name].shape

    def dtype(self, name: str) -> str:
        return self.graph.tensors[name].dtype

    def emit(self, op: str, inputs: Sequence[str], output: str, **attrs: Any) -> str:
        """Adds an ONNX node; constants among its inputs are stored."""
        for name in inputs:
            if name in self.graph.constants:
                self._operand(name)
        self.nodes.append(encoded_node(op, inputs, output, attrs))
        return output

    def clamp(self, x: str, output: str, low: float, high: float) -> None:
        if (low, high) == (0, inf):
            self.emit("Relu", [x], output)
        else:
            bounds = ("" if bound in (-inf, inf) else self.constant(np.float32(bound)) for bound in (low, high))
            self.emit("Clip", [x, *bounds], output)

    def fresh(self, name: str) -> str:
        """A name that nothing has: this or a longer one."""
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name

    def constant(self, values: Any, name: str = "constant") -> str:
        """An initializer of these values, which is shared."""
        array = np.asarray(values)
        key = (array.dtype.name, array.tobytes(), array.shape)
        if key not in self._shared:
            self._shared[key] = self.fresh(name)
            self.stored[self._shared[key]] = array
        return self._shared[key]

    # -- integers --

    def fakequant(self, x: str, output: str, scale: float, low: float) -> None:
        """uint8 and back: OpenVINO 2026.4 is far off where int8 activations have a zero point."""
        levels = self.stored_levels("QuantizeLinear", x, self.fresh(f"{output}/levels"), scale, int(-low), "uint8")
        self.stored_levels("DequantizeLinear", levels, output, scale, int(-low), "uint8")

    def stored_levels(self, op: str, x: str, output: str, scale: float, zero: int, dtype: str) -> str:
        """Integers of a type for real numbers, or the other way."""
        zero_point = self.constant(np.asarray(zero, dtype), "zero_point")
        return self.emit(op, [x, self.constant(np.float32(scale), "scale"), zero_point], output)

    def weight(self, name: str, transposed: bool = False) -> str:
        """A weight, as int8 where it lies on levels; ``transposed`` under another name."""
        array, levels = self.graph.constants[name], self.graph.qparams.get(name)
        if transposed:
            axis = None if levels is None or levels.axis is None else array.ndim - 1 - levels.axis
            levels = None if levels is None else Quantization(levels.scale, levels.zero_point, axis)
            array, name = array.T, self.fresh(f"{name}/transposed")
        if name not in self._written:
            self._written.add(name)
            self._store(name, np.ascontiguousarray(array), levels)
        return name

    def bias(self, name: str, x: str, weight: str) -> str:
        """A bias, as int32 where it lies on the levels of its layer's sums; else as it is."""
        made, levels = self._made.get(self._moved(x)), self.graph.qparams.get(weight)
        on_levels = made is not None and made.op in ("fakequant", "dequantize")
        if name in self._written or not on_levels or levels is None or any(levels.zero_point):
            return name
        array = self.graph.constants[name]
        scale = np.float32(made.attrs["scale"]) * np.asarray(levels.scale, np.float32)
        integers = np.rint(array / scale.astype(np.float64))
        if np.abs(integers).max() <= MOST_BIAS and np.array_equal(integers.astype(np.float32) * scale, array):
            self._written.add(name)
            self._dequantize(name, integers.astype(np.int32), scale, None, 0 if scale.size > 1 else None)
        return name

    def _moved(self, name: str) -> str:
        """The tensor whose values a tensor has, through reshapes."""
        while name in self._made and self._made[name].op == "reshape":
            name = self._made[name].inputs[0]
        return name

    def _operand(self, name: str) -> None:
        if name not in self._written:
            self._written.add(name)
            self._store(name, self.graph.constants[name], self.graph.qparams.get(name))

    def _store(self, name: str, array: np.ndarray, levels: Quantization | None) -> None:
        if levels is None:
            self.stored[name] = array
            return
        shape = [1] * array.ndim
        if levels.axis is not None:
            shape[levels.axis] = -1
        scale, zero = np.asarray(levels.scale, np.float32), np.asarray(levels.zero_point, np.int8)
        integers = np.rint(array / scale.reshape(shape)).astype(np.int64) + zero.reshape(shape)
        self._dequantize(name, integers.astype(np.int8), scale, zero, levels.axis)

    def _dequantize(
        self, name: str, integers: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, axis: int | None
    ) -> None:
        """Integers in the file, and the node that makes real numbers of them: one scale, or one for each on an axis."""
        stored = self.fresh(f"{name}/levels")
        self.stored[stored] = integers
        parameters = {"scale": scale} if zero is None else {"scale": scale, "zero_point": zero}
        inputs = [stored]
        for part, values in parameters.items():
            inputs.append(self.constant(values.reshape(()) if axis is None else values, f"{name}/{part}"))
        self.emit("DequantizeLinear", inputs, name, **({} if axis is None else {"axis": axis}))


# ---- messages ----

A_FLOAT, AN_INT, A_STRING, INTS = 1, 2, 3, 7  # AttributeProto.AttributeType


def number(field: int, value: int) -> bytes:
    """A field that is an integer."""
    return _varint(field << 3) + _varint(value)


def encoded_node(op: str, inputs: Sequence[str], output: str, attributes: Mapping[str, Any]) -> bytes:
    """A NodeProto, called as its output. Attributes are tuples of integers, texts, floats or integers."""
    content = b"".join(with_length(1, name.encode()) for name in inputs) + with_length(2, output.encode())
    content += with_length(3, output.encode()) + with_length(4, op.encode())
    for name, value in attributes.items():
        if isinstance(value, tuple):
            entry = b"".join(number(8, int(size)) for size in value) + number(20, INTS)
        elif isinstance(value, str):
            entry = with_length(4, value.encode()) + number(20, A_STRING)
        elif isinstance(value, float):
            entry = _varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, A_FLOAT)
        else:
            entry = number(3, int(value)) + number(20, AN_INT)
        content += with_length(5, with_length(1, name.encode()) + entry)
    return content


def encoded_tensor(name: str, array: np.ndarray) -> bytes:
    """A TensorProto."""
    dims = b"".join(number(1, size) for size in array.shape)
    little = array.astype(array.dtype.newbyteorder("<"))
    return (
        dims + number(2, NUMBERS[array.dtype.name]) + with_length(8, name.encode()) + with_length(9, little.tobytes())
    )


def encoded_value(name: str, dtype: str, shape: Sequence[int]) -> bytes:
    """A ValueInfoProto of a tensor."""
    dims = b"".join(with_length(1, number(1, size)) for size in shape)
    return with_length(1, name.encode()) + with_length(
        2, with_length(1, number(1, NUMBERS[dtype]) + with_length(2, dims))
    )


def _varint(value: int) -> bytes:
    value &= 2**64 - 1  # negative ones are two's complements of 64 bits
    groups = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])
