"""How a component runs a sub-graph: one function per kind of component, and the memory of the rings between them.

A device is a module with ``compile(lowered, component, *, record)`` that returns a program: an object with
``handle`` (address of a pa_program, kept alive by the object), ``depth`` (frames it may have under way at once),
``labels`` ((kind, node name) of each command; a step is one on a CPU, on OpenCL it may take several), ``step_of`` (the
number of each command's step), ``algorithms`` (of each command, None where there is one way only), and, where plain
memory does not serve, ``slot(nbytes)`` (memory for a ring slot that this device and the CPU share: an object with
``data``, ``mem`` and ``nbytes``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ...steps import Lowered
from ..boards.parts import Component

DEVICES = {"cpu": "cpu", "opencl": "opencl"}


class HostSlot:
    """A ring slot in plain memory, 64-byte aligned and zeroed."""

    def __init__(self, nbytes: int):
        self._memory = np.zeros(nbytes + 64, np.uint8)
        self.data = (self._memory.ctypes.data + 63) // 64 * 64
        self.mem = 0
        self.nbytes = nbytes


def compile_program(lowered: Lowered, component: Component, *, record: bool = False) -> Any:
    """A program of ``lowered`` for all cores of ``component``; ``record``: its steps can be timed (program.h)."""
    return _device(component).compile(lowered, component, record=record)


def footprint(lowered: Lowered, component: Component) -> dict[str, int]:
    """Bytes of the weights, arena and scratch of such a program, before it is compiled."""
    return _device(component).footprint(lowered, component)


def _device(component: Component) -> Any:
    return import_module(f".{DEVICES[component.kind]}.device", __package__)


def always(lowered: Lowered, step_of: Sequence[int]) -> tuple[int, int]:
    """The commands [first, last) that every frame runs, where a program's commands are of these steps (``Lowered``)."""
    last = len(lowered.steps) if lowered.last_early is None else lowered.last_early
    return bisect_left(step_of, lowered.first_late), bisect_left(step_of, last)


def ring_slots(producer: Any | None, consumer: Any | None, nbytes: int, slots: int) -> list:
    """``slots`` slots of ``nbytes`` that both neighbours (programs, or None for the host) can use."""
    owners = [program for program in (producer, consumer) if program is not None and hasattr(program, "slot")]
    if len(owners) > 1:
        raise ArgumentError("plan: expected at most one OpenCL component at each border, got two next to each other")
    make = owners[0].slot if owners else HostSlot
    return [make(max(1, nbytes)) for _ in range(slots)]
