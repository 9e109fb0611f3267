"""A model file without its weights: the bytes of large initializers stay in the file, mapped, and are read in place.

Protobuf has one message in one string, so parsing a file as it is would hold its weights three times: the file, the
message, the arrays. Here the file is mapped, the few levels above the weights are walked, and what is left is parsed.
Field numbers: onnx.proto; wire format: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9  # of ModelProto, GraphProto, TensorProto
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
LARGE = 4096  # bytes of raw data that stay in the file


class WireError(ValueError):
    """The bytes are no protobuf message."""


def split(content: Path | bytes) -> tuple[bytes, list[memoryview | None]]:
    """A file's message without large raw data, and for each initializer that data, if it was taken out.

    The file stays mapped, read-only, as long as one of the views lives; bytes are kept. Raises OSError where it cannot
    be read, WireError where it is no message.
    """
    mapped = memoryview(content) if isinstance(content, bytes) else _mapped(content)
    taken: list[memoryview | None] = []
    kept = []
    for number, field, content in _fields(mapped):
        kept.append(with_length(number, b"".join(_graph(content, taken))) if number == GRAPH else field)
    return b"".join(kept), taken


def _mapped(path: Path) -> memoryview:
    if path.stat().st_size == 0:  # a pipe too, which would be waited for
        raise WireError("the file is empty")
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def release(array: np.ndarray | None) -> None:
    """Gives the memory of an array that lies in a mapped file back to the system; reading it maps it again."""
    if array is None:
        return
    owner = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    mapped = owner.obj if isinstance(owner, memoryview) else None
    if isinstance(mapped, mmap.mmap) and array.flags.c_contiguous:
        begin = array.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
        first = begin // mmap.PAGESIZE * mmap.PAGESIZE
        try:
            mapped.madvise(mmap.MADV_DONTNEED, first, begin + array.nbytes - first)
        except OSError as error:
            if error.errno != errno.EINVAL:  # which says that the memory is locked: it is to stay
                raise


def trim() -> None:
    """Gives freed memory back to the system where the C library can: glibc keeps what lies between pieces in use,
    100 MB after the weights of a quantized ResNet-50 were floats for a while."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(ctypes.c_size_t(0))


def _graph(content: memoryview, taken: list[memoryview | None]) -> Iterator[bytes | memoryview]:
    for number, field, tensor in _fields(content):
        if number != INITIALIZER:
            yield field
            continue
        fields = list(_fields(tensor))
        raw = [data for inner, _, data in fields if inner == RAW_DATA]
        take = len(raw) == 1 and len(raw[0]) >= LARGE
        taken.append(raw[0] if take else None)
        yield with_length(
            INITIALIZER, b"".join(whole for inner, whole, _ in fields if not (take and inner == RAW_DATA))
        )


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Number (0 where it is no string of bytes), whole and content of each field."""
    at = 0
    while at < len(message):
        key, begin = _varint(message, at)
        kind = key & 7
        if kind == BYTES:
            length, begin = _varint(message, begin)
            end = begin + length
        elif kind == VARINT:
            end = _varint(message, begin)[1]
        elif kind in (FIXED32, FIXED64):
            end = begin + (4 if kind == FIXED32 else 8)
        else:
            raise WireError(f"wire type {kind} at byte {at}")
        if end > len(message):
            raise WireError(f"a field at byte {at} ends behind its message")
        yield key >> 3 if kind == BYTES else 0, message[at:end], message[begin:end]
        at = end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise WireError("a number is cut off")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise WireError("a number has more than ten bytes")


def with_length(number: int, content: bytes) -> bytes:
    """The field ``number`` of a message, with bytes in it: tag, length, content."""
    head, length = bytearray([number << 3 | BYTES]), len(content)
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes(head) + bytes([length]) + content
