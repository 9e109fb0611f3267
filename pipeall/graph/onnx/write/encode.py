"""Messages of an ONNX file as bytes, without the onnx package. Numbers of fields are those of onnx.proto3."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

A_FLOAT, AN_INT, A_STRING, INTS = 1, 2, 3, 7  # AttributeProto.AttributeType
ELEM_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}  # DataType


def number(field: int, value: int) -> bytes:
    """A field that is an integer."""
    return _varint(field << 3) + _varint(value)


def message(field: int, content: bytes) -> bytes:
    """A field that is a message, bytes or text."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def node(op: str, inputs: Sequence[str], output: str, attributes: Mapping[str, Any]) -> bytes:
    """A NodeProto, called as its output. Attributes are tuples of integers, texts, floats or integers."""
    content = b"".join(message(1, name.encode()) for name in inputs) + message(2, output.encode())
    content += message(3, output.encode()) + message(4, op.encode())
    for name, value in attributes.items():
        if isinstance(value, tuple):
            entry = b"".join(number(8, int(size)) for size in value) + number(20, INTS)
        elif isinstance(value, str):
            entry = message(4, value.encode()) + number(20, A_STRING)
        elif isinstance(value, float):
            entry = _varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, A_FLOAT)
        else:
            entry = number(3, int(value)) + number(20, AN_INT)
        content += message(5, message(1, name.encode()) + entry)
    return content


def tensor(name: str, array: np.ndarray) -> bytes:
    """A TensorProto."""
    dims = b"".join(number(1, size) for size in array.shape)
    little = array.astype(array.dtype.newbyteorder("<"))
    return dims + number(2, ELEM_TYPES[array.dtype.name]) + message(8, name.encode()) + message(9, little.tobytes())


def value(name: str, dtype: str, shape: Sequence[int]) -> bytes:
    """A ValueInfoProto of a tensor."""
    dims = b"".join(message(1, number(1, size)) for size in shape)
    return message(1, name.encode()) + message(2, message(1, number(1, ELEM_TYPES[dtype]) + message(2, dims)))


def _varint(value: int) -> bytes:
    value &= 2**64 - 1  # negative ones are two's complements of 64 bits
    groups = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])
