"""Devices that break their contract in one way each: those of faulty.c, and those whose Python is wrong."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

from pipeall.steps import Lowered
from third_device.device import Npu, NpuProgram

IN_C = (
    "stale result", "late write", "stays busy", "leaves a thread", "no marks", "another clock", "shared weights",
    "leak", "tired", "hangs",
)  # fmt: skip
BREACH = "NPU_BREACH"  # environment variable: one of IN_C or of FAILS


def detect() -> dict[str, Npu]:
    return {"npu": FaultyNpu(os.environ["NPU_LIBRARY"])}


@dataclass(frozen=True, slots=True)
class FaultyNpu(Npu):
    """A toy NPU with the breach that the environment names."""

    @property
    def width(self) -> int:
        return 0 if os.environ[BREACH] == "no width" else 1

    def compile(self, lowered: Lowered, name: str, *, record: bool = False) -> NpuProgram:
        breach = os.environ[BREACH]
        if breach == "refuses without a name" and any(step.kind not in ("conv", "copy") for step in lowered.steps):
            raise KeyError(lowered.steps[0].kind)
        program = NpuProgram(self.library, lowered)
        if breach in IN_C:
            native = ctypes.CDLL(self.library)
            native.faulty_init(ctypes.c_void_p(program.handle), IN_C.index(breach))
        if breach == "too deep":
            program.depth = 3
        if breach == "fewer labels":
            program.labels = program.labels[1:]
        return program

    def footprint(self, lowered: Lowered) -> dict[str, int]:
        sizes = Npu.footprint(self, lowered)
        return sizes | {"weights": 0} if os.environ[BREACH] == "no weights" else sizes


def _in_fork() -> None:
    if os.environ.get(BREACH) == "ends a fork":
        os._exit(7)


os.register_at_fork(after_in_child=_in_fork)
