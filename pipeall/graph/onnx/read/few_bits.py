"""Integers of 2 and 4 bits, several in a byte: here one in every byte, of a type that remembers how many bits."""

from __future__ import annotations

import numpy as np

# TensorProto.DataType -> what holds one, and its bits
FEW_BITS = {21: ("uint8", 4), 22: ("int8", 4), 25: ("uint8", 2), 26: ("int8", 2)}


def few_bits(elem_type: int) -> np.dtype:
    name, bits = FEW_BITS[elem_type]
    return np.dtype(name, metadata={"bits": bits})


def limits(dtype: np.dtype) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    bits = (dtype.metadata or {}).get("bits", 8 * dtype.itemsize)
    return (0, 2**bits - 1) if dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The unsigned integers in bytes along the last axis, the lowest bits first; ``bits`` divides 8."""
    places = np.arange(0, 8, bits, dtype=np.uint8)
    return (packed[..., None] >> places & np.uint8(2**bits - 1)).reshape(*packed.shape[:-1], -1)


def from_bytes(packed: np.ndarray, elem_type: int, elements: int) -> np.ndarray:
    """The integers that a file stores."""
    dtype = few_bits(elem_type)
    values = unpacked(packed, FEW_BITS[elem_type][1])[:elements]
    if dtype.kind == "i":
        half = np.uint8(limits(dtype)[1] + 1)
        values = (values ^ half) - half  # in two's complement
    return values.view(dtype)
