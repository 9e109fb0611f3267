"""Element types of a file (TensorProto.DataType): how they are stored, and what they are in constants and in tensors.

Floats are float32 in tensors; in constants doubles stay doubles until one is kept: sizes are computed with them. No
device has integers of 16 bits or unsigned ones of 32 and 64: they are computed in the next type that holds them. Of
those of 2 and 4 bits, several in a byte, there is here one in every byte, of a type that remembers how many bits.
"""

from __future__ import annotations

import numpy as np

FLOAT, FLOAT16, BFLOAT16 = 1, 10, 16
NAMES = {
    FLOAT: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    FLOAT16: "float16", 11: "float64", 12: "uint32", 13: "uint64",
}  # fmt: skip
NUMBERS = {name: number for number, name in NAMES.items()}
WIDER = {"uint16": "int32", "int16": "int32", "uint32": "int64", "uint64": "int64"}  # what they are computed in
FEW_BITS = {21: ("uint8", 4), 22: ("int8", 4), 25: ("uint8", 2), 26: ("int8", 2)}  # what holds one, and its bits

_STORED = NAMES | {BFLOAT16: "uint16"} | dict.fromkeys(FEW_BITS, "uint8")
STORED = {number: f"<{np.dtype(name).str[1:]}" for number, name in _STORED.items()}
TYPES = {number: np.dtype(name).type for number, name in NAMES.items()} | dict.fromkeys((FLOAT16, BFLOAT16), np.float32)
TYPE_NAMES = {number: "float32" if "float" in kind.__name__ else np.dtype(kind).name for number, kind in TYPES.items()}
INPUT_TYPES = {number: WIDER.get(name, name) for number, name in TYPE_NAMES.items()} | {FLOAT16: "float16"}
WIDENED = {number: name for number, name in NAMES.items() if name != INPUT_TYPES[number]}  # what NumPy has of those
LEVELS = {number: NAMES[number] for number in (2, 3, 4, 5)}  # what QuantizeLinear makes


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
