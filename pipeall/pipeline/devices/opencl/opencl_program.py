"""Sub-graphs on an OpenCL device: programs that replay recorded kernel launches, and the memory of their slots."""

from __future__ import annotations

import os
import weakref
from typing import Any

import numpy as np

from ...._kernels.opencl import cl_devices as opencl
from ...._kernels.opencl import queue as clqueue
from ...._kernels.opencl.launches import record as record_launches
from ...._kernels.opencl.methods import Choose, Method, modelled
from ....errors import ArgumentError, DeviceError
from ....steps import SLOT_IN, SLOT_OUT, Lowered, item_bytes
from ..device import always


class Slot:
    """A buffer that is mapped for the CPU and freed with this object; ``mem`` is its handle, ``data`` its host address.

    A driver may give another address each time a program maps the slot again; whoever ran programs on the slot says
    so by setting ``data``. PoCL gives the same.
    """

    def __init__(self, queue: Any, buffer: Any, nbytes: int):
        self.mem, self.nbytes = buffer.int_ptr, nbytes
        self._queue, self._buffer = queue, buffer
        opencl.own(self)
        self._address = [clqueue.map_buffer(queue.int_ptr, self.mem, nbytes)]
        weakref.finalize(self, _unmap, queue, buffer, self._address, os.getpid())

    @property
    def data(self) -> int:
        return self._address[0]

    @data.setter
    def data(self, address: int) -> None:
        self._address[0] = address


def _unmap(queue: Any, buffer: Any, address: list[int], process: int) -> None:
    """A buffer that stays mapped is never freed. In a fork no driver thread is left to wait for."""
    if address[0] and process == os.getpid():
        clqueue.unmap_buffer(queue.int_ptr, buffer.int_ptr, address[0])


class ClProgram:
    """A sub-graph on an OpenCL device.

    ``handle`` is the address of its ``pa_program``, valid as long as this object; ``native`` runs frames between
    slots from Python. ``record``: when each step ended can be recorded (program.h). ``choose``: see ``Recorder``.
    ``beside``: a program whose queue and arena it shares.
    """

    def __init__(
        self,
        lowered: Lowered,
        device: opencl.Device,
        record: bool = False,
        precision: str = "fp32",
        choose: Choose = modelled,
        beside: ClProgram | None = None,
    ):
        sizes = (lowered.arena_bytes, lowered.slot_in_bytes, lowered.slot_out_bytes)
        smallest = min((item_bytes(view.dtype) for step in lowered.steps for view in (*step.src, step.dst)), default=1)
        if max(sizes) // smallest > np.iinfo(np.int32).max:  # kernels index by int
            raise DeviceError(f"expected fewer than 2^31 elements in the arena and each slot; got {max(sizes)} bytes")
        if precision == "fp16" and not device.info.fp16:
            raise DeviceError(f"{device.info}: expected cl_khr_fp16 for fp16, got none; mixed only stores in it")
        clqueue.load(device.library)
        opencl.own(self)
        self._device = device
        self._in_bytes, self._out_bytes = sizes[1:]
        self._queue = beside._queue if beside else device.queue(profile=record)
        self._staging = {base: device.allocate(sizes[base], host=True) for base in (SLOT_IN, SLOT_OUT)}
        self._recorder = record_launches(lowered, device, precision, choose, beside and beside._recorder.arena)
        self.native = clqueue.LaunchProgram(
            self._queue.int_ptr,
            self._recorder.commands,
            self._recorder.patches,
            {base: (buffer.int_ptr, sizes[base]) for base, buffer in self._staging.items()},
            device.recording_platform,
            always(lowered, self.step_of),
            self._recorder.reads,
            device.importing_platform,
        )

    @property
    def handle(self) -> int:
        return self.native.handle

    @property
    def depth(self) -> int:
        """Frames that may be under way at once."""
        return self.native.depth

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """(kind, node name) of each command, in the order they run."""
        return tuple(self._recorder.labels)

    @property
    def algorithms(self) -> tuple[Method | None, ...]:
        """How the convolution of each command is computed."""
        return tuple(self._recorder.algorithms)

    @property
    def step_of(self) -> tuple[int, ...]:
        """The number of each command's step."""
        return tuple(self._recorder.step_of)

    def slot(self, nbytes: int) -> Slot:
        """Memory for a ring slot next to a stage on this device; the CPU and the device reach it without a copy."""
        return Slot(self._queue, self._device.allocate(nbytes, host=True), nbytes)

    def run(self, slot_in: np.ndarray, marks: np.ndarray | None = None) -> np.ndarray:
        """One frame through plain host memory: the input slot, of any type, gives the output slot as that type.

        marks: int64 (commands + 1), filled with the ns at which the frame was given and each command ended.
        """
        if slot_in.nbytes != self._in_bytes:
            raise ArgumentError(f"slot_in: expected {self._in_bytes} bytes, got {slot_in.nbytes}")
        source = np.ascontiguousarray(slot_in)
        target = np.empty(self._out_bytes, np.uint8)
        self.native.run((source.ctypes.data, 0, source.nbytes), (target.ctypes.data, 0, target.nbytes), marks)
        return target.view(slot_in.dtype)
