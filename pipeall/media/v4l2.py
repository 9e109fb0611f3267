"""Cameras of Linux (V4L2): what they offer, and their images as they lie in the driver's memory.

FFmpeg's reader knows neither devices of several planes (``V4L2_CAP_VIDEO_CAPTURE_MPLANE``: the cameras of RK3588 and
i.MX) nor rows that lie apart, and OpenCV's none of the second. The structures are those of linux/videodev2.h, of 32
bits too.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from ctypes import c_char, c_int32, c_long, c_uint8, c_uint16, c_uint32, c_ulong, c_void_p
from fcntl import ioctl
from typing import Any, NamedTuple

import numpy as np

CAPTURE, CAPTURE_MPLANE, STREAMING, OWN_CAPABILITIES = 0x1, 0x1000, 0x4000000, 0x80000000
ONE_PLANE, SEVERAL_PLANES = 1, 9  # types of buffers
MMAP, DAMAGED = 1, 0x40  # memory of a buffer, and its flag
BUFFERS, PLANES = 8, 8  # that are asked for, and the most of a buffer
LEAST = 2  # that stay with the camera, which stands still without: images are copied before
DISCRETE = 1  # of intervals


class Capability(ctypes.Structure):
    _fields_ = [
        ("driver", c_char * 16), ("card", c_char * 32), ("bus", c_char * 32), ("version", c_uint32),
        ("capabilities", c_uint32), ("device", c_uint32), ("reserved", c_uint32 * 3),
    ]  # fmt: skip


class FormatDescription(ctypes.Structure):
    _fields_ = [
        ("index", c_uint32), ("type", c_uint32), ("flags", c_uint32), ("description", c_char * 32),
        ("fourcc", c_uint32), ("bus_code", c_uint32), ("reserved", c_uint32 * 3),
    ]  # fmt: skip


class Fraction(ctypes.Structure):
    _fields_ = [("numerator", c_uint32), ("denominator", c_uint32)]


class Interval(ctypes.Structure):
    _fields_ = [
        ("index", c_uint32), ("fourcc", c_uint32), ("width", c_uint32), ("height", c_uint32), ("type", c_uint32),
        ("shortest", Fraction), ("longest", Fraction), ("step", Fraction), ("reserved", c_uint32 * 2),
    ]  # fmt: skip


class Pixels(ctypes.Structure):
    _fields_ = [
        (name, c_uint32)
        for name in (
            "width", "height", "fourcc", "field", "row_bytes", "size_bytes", "colorspace", "private", "flags",
            "encoding", "quantization", "transfer",
        )
    ]  # fmt: skip


class PlaneFormat(ctypes.Structure):
    _fields_ = [("size_bytes", c_uint32), ("row_bytes", c_uint32), ("reserved", c_uint16 * 6)]


class PixelsOfPlanes(ctypes.Structure):
    _fields_ = [
        ("width", c_uint32), ("height", c_uint32), ("fourcc", c_uint32), ("field", c_uint32), ("colorspace", c_uint32),
        ("planes", PlaneFormat * PLANES), ("count", c_uint8), ("flags", c_uint8), ("encoding", c_uint8),
        ("quantization", c_uint8), ("transfer", c_uint8), ("reserved", c_uint8 * 7),
    ]  # fmt: skip


class AnyFormat(ctypes.Union):
    _fields_ = [("one", Pixels), ("several", PixelsOfPlanes), ("words", c_void_p * (200 // ctypes.sizeof(c_void_p)))]


class Format(ctypes.Structure):
    _fields_ = [("type", c_uint32), ("of", AnyFormat)]


class BuffersRequest(ctypes.Structure):
    _fields_ = [
        ("count", c_uint32), ("type", c_uint32), ("memory", c_uint32), ("capabilities", c_uint32),
        ("flags", c_uint8), ("reserved", c_uint8 * 3),
    ]  # fmt: skip


class Place(ctypes.Union):
    _fields_ = [("offset", c_uint32), ("address", c_ulong), ("planes", c_void_p), ("descriptor", c_int32)]


class Plane(ctypes.Structure):
    _fields_ = [
        ("used_bytes", c_uint32), ("size_bytes", c_uint32), ("place", Place), ("begin", c_uint32),
        ("reserved", c_uint32 * 11),
    ]  # fmt: skip


class Buffer(ctypes.Structure):
    _fields_ = [
        ("index", c_uint32), ("type", c_uint32), ("used_bytes", c_uint32), ("flags", c_uint32), ("field", c_uint32),
        ("s", c_long), ("us", c_long), ("timecode", c_uint32 * 4), ("sequence", c_uint32), ("memory", c_uint32),
        ("place", Place), ("length", c_uint32), ("reserved", c_uint32 * 2),
    ]  # fmt: skip


class Export(ctypes.Structure):
    _fields_ = [
        ("type", c_uint32), ("index", c_uint32), ("plane", c_uint32), ("flags", c_uint32), ("descriptor", c_int32),
        ("reserved", c_uint32 * 11),
    ]  # fmt: skip


def _code(direction: int, number: int, given: type) -> int:
    """Of an ioctl that writes (1), reads (2) or both."""
    return direction << 30 | ctypes.sizeof(given) << 16 | ord("V") << 8 | number


QUERY_CAPABILITY, LIST_FORMATS = _code(2, 0, Capability), _code(3, 2, FormatDescription)
GET_FORMAT, SET_FORMAT, LIST_INTERVALS = _code(3, 4, Format), _code(3, 5, Format), _code(3, 75, Interval)
REQUEST_BUFFERS, QUERY_BUFFER = _code(3, 8, BuffersRequest), _code(3, 9, Buffer)
GIVE_BUFFER, TAKE_BUFFER, EXPORT = _code(3, 15, Buffer), _code(3, 17, Buffer), _code(3, 16, Export)
START, STOP = _code(1, 18, c_int32), _code(1, 19, c_int32)


class Layout(NamedTuple):
    """How images lie in memory. row_bytes: from row to row, for each plane of memory; colours: the numbers of
    colorspace, encoding and quantization."""

    fourcc: str
    width: int
    height: int
    row_bytes: tuple[int, ...]
    colours: tuple[int, int, int]


class Image(NamedTuple):
    """The bytes of each plane of memory (uint8): in place, and the camera gets the buffer back when nobody has them any
    more; copies where it would have too few. time_s: of CLOCK_MONOTONIC, for nearly all drivers. damaged: the driver
    found them so. dma_buf: of one plane in place, as ``pipeall.Picture`` has it."""

    planes: list[np.ndarray]
    time_s: float
    damaged: bool
    dma_buf: tuple[int, int, int] | None = None


class _Memory:
    """A buffer in this process, and as a dma-buf where the driver exports it, as long as anybody has this."""

    def __init__(self, maps: list[mmap.mmap], descriptor: int | None):
        self.maps = maps
        self.dma_buf: tuple[int, int, int] | None = None
        self.out = 0  # planes that somebody has
        if descriptor is not None:
            weakref.finalize(self, os.close, descriptor)
            self.dma_buf = descriptor, np.frombuffer(maps[0], np.uint8).ctypes.data, len(maps[0])

    def plane(self, number: int, begin: int, end: int) -> np.ndarray:
        """Bytes of a plane. Views of the array keep it, for its base is no array."""
        end = min(end, len(self.maps[number]))
        begin = min(begin, end)
        return np.frombuffer(self.maps[number], np.uint8, end - begin, begin)


class Device:
    """A camera, open until ``close``. Raises OSError, also where it is no camera (ENODEV)."""

    def __init__(self, path: str):
        self._file = open(path, "r+b", buffering=0)
        try:
            about = self._ask(QUERY_CAPABILITY, Capability())
            can = about.device if about.capabilities & OWN_CAPABILITIES else about.capabilities
            if not can & STREAMING or not can & (CAPTURE | CAPTURE_MPLANE):
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        except BaseException:
            self.close()
            raise
        self.name = about.card.decode(errors="replace")
        self.type = ONE_PLANE if can & CAPTURE else SEVERAL_PLANES

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the camera back. Safe to call twice."""
        self._file.close()

    def _ask(self, code: int, given: Any) -> Any:
        ioctl(self._file, code, given)
        return given

    def formats(self) -> list[str]:
        """The fourccs that it offers, in its own order."""
        found: list[str] = []
        try:
            while True:
                asked = FormatDescription(index=len(found), type=self.type)
                found.append(_text(self._ask(LIST_FORMATS, asked).fourcc))
        except OSError as error:
            if error.errno != errno.EINVAL:  # the end of the list
                raise
        return found

    def fps(self, fourcc: str, width: int, height: int) -> float:
        """Most images a second; 0 where it does not say."""
        asked = Interval(fourcc=_number(fourcc), width=width, height=height)
        most = 0.0
        try:
            while True:
                period = self._ask(LIST_INTERVALS, asked).shortest
                most = max(most, period.denominator / max(period.numerator, 1))
                if asked.type != DISCRETE:
                    break
                asked.index += 1
        except OSError:  # the end of the list, or none for this size
            pass
        return most

    def layout(self) -> Layout:
        """As it is set."""
        return self._layout(self._ask(GET_FORMAT, Format(type=self.type)))

    def set(self, fourcc: str, width: int, height: int) -> Layout:
        """Asks for a format and a size; what it gives instead may be of another size."""
        asked = self._ask(GET_FORMAT, Format(type=self.type))
        pixels = self._pixels(asked)
        pixels.fourcc, pixels.width, pixels.height = _number(fourcc), width, height
        for plane in [pixels] if self.type == ONE_PLANE else pixels.planes:
            plane.row_bytes = plane.size_bytes = 0  # for the driver to say
        return self._layout(self._ask(SET_FORMAT, asked))

    def _pixels(self, given: Format) -> Any:
        return given.of.one if self.type == ONE_PLANE else given.of.several

    def _layout(self, given: Format) -> Layout:
        pixels = self._pixels(given)
        planes = [pixels] if self.type == ONE_PLANE else pixels.planes[: pixels.count]
        row_bytes = tuple(plane.row_bytes for plane in planes)
        colours = pixels.colorspace, pixels.encoding, pixels.quantization
        return Layout(_text(pixels.fourcc), pixels.width, pixels.height, row_bytes, colours)

    def images(self, timeout_s: float) -> Iterator[Image]:
        """As they come, from the first one after the call, each the caller's as long as it likes. Raises TimeoutError
        after so long without one."""
        count = self._ask(REQUEST_BUFFERS, BuffersRequest(count=BUFFERS, type=self.type, memory=MMAP)).count
        memory = [self._memory(index) for index in range(count)]
        back: deque[_Memory] = deque()  # one for each plane that nobody has any more
        for index in range(count):
            self._ask(GIVE_BUFFER, self._buffer(index)[0])
        self._ask(START, c_int32(self.type))
        try:
            while True:
                while back:
                    self._return(memory, back.popleft())
                if not select.select([self._file], [], [], timeout_s)[0]:
                    raise TimeoutError
                taken, planes = self._buffer(0)
                self._ask(TAKE_BUFFER, taken)
                used = [(plane.begin, plane.used_bytes) for plane in planes] or [(0, taken.used_bytes)]
                yield self._image(memory, taken, used, back)
        finally:
            with suppress(OSError):  # of a camera that is gone
                self._ask(STOP, c_int32(self.type))

    def _image(self, memory: list[_Memory], taken: Buffer, used: list[tuple[int, int]], back: deque[_Memory]) -> Image:
        """An image in place, or its copy; planes that are let go come to ``back``."""
        own, time_s, damaged = memory[taken.index], taken.s + taken.us / 1e6, bool(taken.flags & DAMAGED)
        planes = [own.plane(number, *place) for number, place in enumerate(used[: len(own.maps)])]
        own.out = len(planes)
        lend = sum(not other.out for other in memory) >= LEAST
        for plane in planes:
            weakref.finalize(plane, back.append, own)
        if lend:
            return Image(planes, time_s, damaged, own.dma_buf)
        return Image([plane.copy() for plane in planes], time_s, damaged)

    def _return(self, memory: list[_Memory], returned: _Memory) -> None:
        returned.out -= 1
        if not returned.out:
            self._ask(GIVE_BUFFER, self._buffer(memory.index(returned))[0])

    def _buffer(self, index: int) -> tuple[Buffer, Any]:
        """To ask about a buffer, with where its planes are told. The one keeps the other."""
        buffer = Buffer(index=index, type=self.type, memory=MMAP)
        planes: Any = ()
        if self.type == SEVERAL_PLANES:
            planes = buffer.held = (Plane * PLANES)()
            buffer.place.planes, buffer.length = ctypes.addressof(planes), PLANES
        return buffer, planes

    def _memory(self, index: int) -> _Memory:
        buffer, planes = self._buffer(index)
        self._ask(QUERY_BUFFER, buffer)
        parts = [(plane.place.offset, plane.size_bytes) for plane in planes[: buffer.length]]
        maps = [
            mmap.mmap(self._file.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ, offset=offset)
            for offset, size in parts or [(buffer.place.offset, buffer.length)]
        ]
        descriptor = None
        if len(maps) == 1:
            with suppress(OSError):  # of a driver that exports none
                descriptor = self._ask(EXPORT, Export(type=self.type, index=index, flags=os.O_CLOEXEC)).descriptor
        return _Memory(maps, descriptor)


def _text(fourcc: int) -> str:
    return fourcc.to_bytes(4, "little").decode("latin-1").rstrip()


def _number(fourcc: str) -> int:
    return int.from_bytes(fourcc.ljust(4).encode("latin-1"), "little")
