"""What runs frames, and its structures: those of ``native.c`` and ``rknn_api.h``."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pipeall.errors import DeviceError

INTERNAL = -1
TEXT, RANK, MAX_DIMS, MAX_NAME = 1024, 4, 16, 256  # as there
LIBRARY = "librknnrt.so"


def _fields(kind: type, *names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names]


class CMove(ctypes.Structure):
    _fields_ = [
        *_fields(ctypes.c_int64, "from_base", "begin", "to_base", "end", "size"),
        *_fields(ctypes.c_int64 * RANK, "dims", "from_strides", "to_strides"),
    ]


class CPart(ctypes.Structure):
    _fields_ = [
        ("context", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        *_fields(ctypes.c_void_p, "inputs", "outputs", "moves"),
        *_fields(ctypes.c_int64, "input_count", "output_count", "moves_before", "move_count"),
    ]


class Count(ctypes.Structure):
    _fields_ = _fields(ctypes.c_uint32, "inputs", "outputs")


class TensorAttr(ctypes.Structure):
    _fields_ = [
        *_fields(ctypes.c_uint32, "index", "n_dims"),
        ("dims", ctypes.c_uint32 * MAX_DIMS),
        ("name", ctypes.c_char * MAX_NAME),
        *_fields(ctypes.c_uint32, "n_elems", "size"),
        *_fields(ctypes.c_int32, "fmt", "type", "qnt_type"),
        ("fl", ctypes.c_int8),
        ("zp", ctypes.c_int32),
        ("scale", ctypes.c_float),
        *_fields(ctypes.c_uint32, "w_stride", "size_with_stride"),
        ("pass_through", ctypes.c_uint8),
        ("h_stride", ctypes.c_uint32),
    ]


class Input(ctypes.Structure):
    _fields_ = [
        ("index", ctypes.c_uint32),
        ("buf", ctypes.c_void_p),
        ("size", ctypes.c_uint32),
        ("pass_through", ctypes.c_uint8),
        *_fields(ctypes.c_int32, "type", "fmt"),
    ]


class Output(ctypes.Structure):
    _fields_ = [
        *_fields(ctypes.c_uint8, "want_float", "is_prealloc"),
        ("index", ctypes.c_uint32),
        ("buf", ctypes.c_void_p),
        ("size", ctypes.c_uint32),
    ]


class Native(NamedTuple):
    library: ctypes.CDLL
    path: str
    stand_in: bool


@cache
def native() -> Native:
    """What runs frames, with librknnrt loaded. Raises DeviceError where that fails."""
    (own,) = Path(__file__).parent.glob("_native*.so")
    library, path = ctypes.CDLL(str(own)), os.environ.get("RKNN_LIBRARY", LIBRARY)
    library.npu_program_bytes.restype = library.npu_sizes.restype = ctypes.c_size_t
    library.npu_open_model.restype = ctypes.c_uint64
    library.npu_count.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_char_p]
    library.npu_tensor.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p]
    sizes = (CMove, CPart, TensorAttr, Input, Output)
    assert library.npu_sizes() == sum(ctypes.sizeof(kind) * 1000**place for place, kind in enumerate(sizes))
    text = ctypes.create_string_buffer(TEXT)
    if library.npu_load(path.encode(), text):
        raise DeviceError(f"librknnrt: {text.value.decode(errors='replace')}")
    return Native(library, path, bool(library.npu_stands_in(path.encode())))


def call(name: str, *arguments: Any, fails: int = 1) -> int:
    """Calls a function of ``native.c`` that takes a text last. Raises DeviceError with it where it fails."""
    text = ctypes.create_string_buffer(TEXT)
    result = getattr(native().library, name)(*arguments, text)
    if result == fails:
        raise DeviceError(f"npu: {text.value.decode(errors='replace')}")
    return result
