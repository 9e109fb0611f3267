"""A third device, as a folder beside cpu/ and opencl/ would be: its programs are those of npu.c."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pipeall._kernels.peak import Peak
from pipeall.errors import DeviceError
from pipeall.pipeline.devices.device import Device, always
from pipeall.steps import Lowered, Step, View, item_bytes

LIBRARY = "NPU_LIBRARY"  # environment variable: where npu.c was compiled to
DIMS = 6


def detect() -> dict[str, Npu]:
    """The one that there is. Raises DeviceError where its library was not compiled."""
    if LIBRARY not in os.environ:
        raise DeviceError(f"npu: expected the path of its library in {LIBRARY}, got none")
    return {"npu": Npu(os.environ[LIBRARY])}


class CView(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("base", "offset", "h", "w", "c", "stride")]

    @classmethod
    def of(cls, view: View) -> CView:
        return cls(view.base, view.offset, view.h, view.w, view.c, view.stride)


class CStep(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int64),
        ("src", CView),
        ("dst", CView),
        *((name, ctypes.c_int64 * 2) for name in ("kernel", "strides", "pads", "dilations")),
        ("groups", ctypes.c_int64),
        ("lo", ctypes.c_float),
        ("hi", ctypes.c_float),
        ("weight", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("item_bytes", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        *((name, ctypes.c_int64 * DIMS) for name in ("dims", "src_strides", "dst_strides")),
    ]


@dataclass(frozen=True, slots=True)
class Npu(Device):
    """One unit that computes convolutions without a residual, and moves elements; nothing else."""

    kind: ClassVar[str] = "npu"
    worker: ClassVar[str] = "unit"
    core_type: ClassVar[str] = "toy NPU"
    max_mhz: ClassVar[None] = None
    library: str

    @property
    def description(self) -> str:
        return "a toy NPU"

    def details(self) -> dict[str, Any]:
        return {"library": self.library}

    def compile(self, lowered: Lowered, name: str, *, record: bool = False) -> NpuProgram:
        return NpuProgram(self.library, lowered)

    def footprint(self, lowered: Lowered) -> dict[str, int]:
        weights = sum(step.weight.nbytes + step.bias.nbytes for step in lowered.steps if step.weight is not None)
        return {"weights": weights, "arena": lowered.arena_bytes, "scratch": 0}

    def peak(self) -> Peak:
        return Peak(1e9, 1e9)


class NpuProgram:
    """A sub-graph for the npu (``devices.device.Program``). Raises DeviceError naming a step that it cannot compute."""

    depth = 1

    def __init__(self, library: str, lowered: Lowered):
        native = ctypes.CDLL(library)
        native.npu_program_bytes.restype = native.npu_step_bytes.restype = ctypes.c_size_t
        assert native.npu_step_bytes() == ctypes.sizeof(CStep)
        self._kept: list[Any] = [native]
        self._steps = (CStep * max(1, len(lowered.steps)))(*map(self._step, lowered.steps))
        self._arena = np.zeros(lowered.arena_bytes + 64, np.uint8)
        self._program = ctypes.create_string_buffer(native.npu_program_bytes())
        arguments = [
            ctypes.c_void_p(address) for address in (ctypes.addressof(self._program), ctypes.addressof(self._steps))
        ]
        arena = ctypes.c_void_p(-(-self._arena.ctypes.data // 64) * 64)
        ways = always(lowered, range(len(lowered.steps)))
        native.npu_init(*arguments, len(lowered.steps), arena, *ways)
        self.handle = ctypes.addressof(self._program)
        self.labels = tuple((step.kind, step.node) for step in lowered.steps)
        self.step_of = tuple(range(len(lowered.steps)))
        self.algorithms = (None,) * len(lowered.steps)

    def _step(self, step: Step) -> CStep:
        p = step.params
        if step.kind == "copy":
            strides = {key: (ctypes.c_int64 * DIMS)(*p[key]) for key in ("dims", "src_strides", "dst_strides")}
            rank, size = len(p["dims"]), item_bytes(step.dst.dtype)
            return CStep(1, CView.of(step.src[0]), CView.of(step.dst), item_bytes=size, rank=rank, **strides)
        if step.kind != "conv" or len(step.src) > 1:
            raise DeviceError(f"step {step.node}: the npu has no kernel for {step.kind}")
        constants = [np.ascontiguousarray(array, np.float32) for array in (step.weight, step.bias)]
        self._kept += constants
        pairs = {key: (ctypes.c_int64 * 2)(*p[key][:2]) for key in ("kernel", "strides", "pads", "dilations")}
        weight, bias = (array.ctypes.data for array in constants)
        numbers = {"groups": p["groups"], "lo": p["lo"], "hi": p["hi"]}
        views = (CView.of(step.src[0]), CView.of(step.dst))
        return CStep(0, *views, weight=weight, bias=bias, item_bytes=4, **pairs, **numbers)
