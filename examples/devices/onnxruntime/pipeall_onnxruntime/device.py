"""The device: a stage is a session of onnxruntime, in whichever execution provider there is.

ORT_PROVIDER   a provider and its options: "XNNPACK", "QNN:backend_path=libQnnHtp.so,htp_performance_mode=burst"
ORT_THREADS    of a session, the stage's own included; default 1
ORT_LIBRARY    another libonnxruntime.so than that of the package onnxruntime: one that has the provider
"""

from __future__ import annotations

import ctypes
import os
import weakref
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pipeall._kernels.peak import Peak
from pipeall.errors import ArgumentError, DeviceError
from pipeall.graph.onnx.read.element_types import NUMBERS
from pipeall.graph.onnx.write.write import unwritable
from pipeall.pipeline.devices.device import Device
from pipeall.pipeline.devices.network_parts import network_parts
from pipeall.steps import Lowered

from .models import End, Model, model_of
from .peak import measured

MAX_RANK, TEXT = 8, 1024  # as in native.c
INTERNAL = -1
CPU = "CPU"


def detect() -> dict[str, OnnxRuntime]:
    """The one that the environment describes. Raises DeviceError where onnxruntime does not load."""
    provider, _, text = os.environ.get("ORT_PROVIDER", "").partition(":")
    options = tuple(tuple(word.split("=", 1)) for word in text.split(",") if word)
    threads = os.environ.get("ORT_THREADS", "1")
    if not threads.isdecimal() or not int(threads) or any(len(option) != 2 for option in options):
        raise DeviceError(f"ORT_THREADS, ORT_PROVIDER: expected a number and NAME:KEY=VALUE,..., got {threads}, {text}")
    native()
    return {"npu": OnnxRuntime(provider or CPU, options, int(threads))}


@dataclass(frozen=True, slots=True)
class OnnxRuntime(Device):
    """Sessions with one provider, which has so many threads. The CPU provider only plays an accelerator."""

    kind: ClassVar[str] = "onnxruntime"
    max_mhz: ClassVar[None] = None
    int8: ClassVar[bool] = True
    provider: str
    options: tuple[tuple[str, str], ...]
    width: int

    @property
    def core_type(self) -> str:
        return self.provider

    @property
    def stand_in(self) -> bool:
        return self.provider == CPU

    @property
    def description(self) -> str:
        return f"onnxruntime, provider {self.provider}, {self.width} thread{'s' * (self.width > 1)}"

    def details(self) -> dict[str, Any]:
        return {"provider": self.provider, "options": dict(self.options), "library": str(library())}

    def unsupported(self, lowered: Lowered) -> str | None:
        return unwritable(lowered.source[0])

    def compile(self, lowered: Lowered, name: str, *, record: bool = False) -> Program:
        """A session; ``record``: one for each group, so that groups can be timed.

        Raises DeviceError with what onnxruntime says of a node, or of the provider.
        """
        return Program(self, lowered, record)

    def footprint(self, lowered: Lowered) -> dict[str, int]:
        """Weights as they are; onnxruntime's own memory is not known ahead, and about what our arena would be."""
        weights = sum(array.nbytes for array in lowered.source[0].constants.values())
        return {"weights": weights, "arena": lowered.arena_bytes, "scratch": 0}

    def peak(self) -> Peak:
        return measured(self.compile)

    def session(self, model: bytes) -> int:
        """The address of a session. Raises DeviceError with what onnxruntime says."""
        text = ctypes.create_string_buffer(TEXT)
        pairs = [(ctypes.c_char_p * max(1, len(self.options)))(*(option[i].encode() for option in self.options))
                 for i in range(2)]  # fmt: skip
        provider = b"" if self.provider == CPU else self.provider.encode()
        made = native().ort_session(model, len(model), self.width, provider, *pairs, len(self.options), text)
        if not made:
            raise DeviceError(f"onnxruntime, provider {self.provider}: {text.value.decode(errors='replace')}")
        return made


class CEnd(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("memory", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("offset", "bytes", "rank")),
        ("shape", ctypes.c_int64 * MAX_RANK),
        *((name, ctypes.c_int64) for name in ("type", "base")),
    ]


class CPart(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("session", "ends", "names", "values")),
        *((name, ctypes.c_int64) for name in ("inputs", "outputs")),
    ]


class Program:
    """A stage in onnxruntime (``devices.device.Program``)."""

    depth = 1

    def __init__(self, device: OnnxRuntime, lowered: Lowered, by_group: bool):
        parts = network_parts(lowered, by_group)
        self._kept: list[Any] = []
        self._inside: dict[str, np.ndarray] = {}  # tensors that one network makes for another
        made = []
        for part in parts:
            try:
                model = model_of(part)
                session = device.session(model.content)
            except (ArgumentError, DeviceError) as error:
                raise DeviceError(f"{part.name}: {error}") from None
            weakref.finalize(self, _release, session, os.getpid())
            made.append(self._part(session, model))
        self._parts = (CPart * len(made))(*made)
        self._program = ctypes.create_string_buffer(native().ort_program_bytes())
        self.handle = ctypes.addressof(self._program)
        self.labels = tuple((device.kind, part.name) for part in parts)
        self.step_of = tuple(part.step for part in parts)
        self.algorithms = (None,) * len(parts)
        ways = (sum(part.segment < 1 for part in parts), sum(part.segment < 2 for part in parts))
        native().ort_init(ctypes.c_void_p(self.handle), ctypes.byref(self._parts), len(made), *ways)

    def run(self, slot_in: np.ndarray, slot_out: np.ndarray) -> None:
        """One frame from Python, between slots in plain memory. Raises DeviceError with what onnxruntime says."""
        addresses = [ctypes.c_void_p(address) for address in (self.handle, slot_in.ctypes.data, slot_out.ctypes.data)]
        if native().ort_frame(*addresses):
            raise DeviceError(f"onnxruntime: {native().ort_text(addresses[0]).decode(errors='replace')}")

    def _part(self, session: int, model: Model) -> CPart:
        ends = [*model.inputs, *model.outputs]
        rows = (CEnd * len(ends))(*map(self._end, ends))
        names = (ctypes.c_char_p * len(ends))(*(row.name for row in rows))
        values = (ctypes.c_void_p * len(ends))()
        self._kept += [rows, names, values]
        addresses = [ctypes.addressof(array) for array in (rows, names, values)]
        return CPart(session, *addresses, len(model.inputs), len(model.outputs))

    def _end(self, end: End) -> CEnd:
        tensor, place = end
        if place is None and tensor.name not in self._inside:
            self._inside[tensor.name] = np.zeros(tensor.shape, tensor.dtype)
        memory = None if place else self._inside[tensor.name].ctypes.data
        where = (place.offset_bytes, place.nbytes) if place else (0, tensor.nbytes)
        shape = (ctypes.c_int64 * MAX_RANK)(*tensor.shape)
        base = place.base if place else INTERNAL
        return CEnd(tensor.name.encode(), memory, *where, len(tensor.shape), shape, NUMBERS[tensor.dtype], base)


def _release(session: int, process: int) -> None:
    """In a fork no thread of onnxruntime is left to be told."""
    if os.getpid() == process:
        native().ort_release(ctypes.c_void_p(session))


def library() -> Path:
    """The file of onnxruntime. Raises DeviceError where there is none."""
    if given := os.environ.get("ORT_LIBRARY"):
        return Path(given)
    found = find_spec("onnxruntime")
    folder = Path(found.origin).parent / "capi" if found else None
    for file in sorted(folder.glob("libonnxruntime.so*")) if folder else ():
        return file
    raise DeviceError("onnxruntime: expected its package with a libonnxruntime.so, or ORT_LIBRARY with the path of one")


@cache
def native() -> ctypes.CDLL:
    """What runs frames, with onnxruntime loaded. Raises DeviceError where that fails."""
    (path,) = Path(__file__).parent.glob("_native*.so")
    made = ctypes.CDLL(str(path))
    made.ort_program_bytes.restype = made.ort_sizes.restype = ctypes.c_size_t
    made.ort_session.restype, made.ort_text.restype = ctypes.c_void_p, ctypes.c_char_p
    made.ort_session.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p,
                                 ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]  # fmt: skip
    assert made.ort_sizes() == ctypes.sizeof(CEnd) * 1000 + ctypes.sizeof(CPart)
    text = ctypes.create_string_buffer(TEXT)
    if made.ort_load(str(library()).encode(), text):
        raise DeviceError(f"onnxruntime: {text.value.decode(errors='replace')}")
    return made
