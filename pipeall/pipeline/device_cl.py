"""Compiles the steps of a sub-graph for an OpenCL device: one recorded kernel launch per step."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np

from .._kernels import clqueue, opencl
from ..errors import ArgumentError, DeviceError
from ..graph.steps import ARENA, SLOT_IN, SLOT_OUT, Lowered, Step, View
from .board import Component

FLOAT_BYTES = 4
VECTOR = 4  # channels of a work item in window.cl
WINDOW = dict(PIXELS=4)  # parameters of window.cl

# Parameters of conv.cl. A Bifrost thread has 64 registers of 32 bits: 4 x 4 sums, 4 x 4 inputs, weights as they
# pass. A CPU core has 16 vectors of 8 floats (AVX2): on Zen 3, 16 x 4 ran up to 1.5 times as fast as 8 x 8.
GPU_TILE = dict(CHANNELS=4, PIXELS=4, LOCAL_PIXELS=8, LOCAL_BLOCKS=4)
CPU_TILE = dict(CHANNELS=16, PIXELS=4, LOCAL_PIXELS=4, LOCAL_BLOCKS=1)


def compile(lowered: Lowered, component: Component, *, record: bool) -> ClProgram:
    """A ``ClProgram`` for the component's device: weights packed for its kernels and uploaded.

    Raises DeviceError where the device lacks memory or a step has no kernel.
    """
    return ClProgram(lowered, opencl.opened(component.device), record)


class Slot:
    """A buffer that is mapped for the CPU and freed with this object; ``mem`` is its handle, ``data`` its host address.

    A driver may give another address each time a program maps the slot again; whoever ran programs on the slot says
    so by setting ``data``. PoCL gives the same.
    """

    def __init__(self, queue: Any, buffer: Any, nbytes: int):
        self.mem, self.nbytes = buffer.int_ptr, nbytes
        self._address = [clqueue.map_buffer(queue.int_ptr, self.mem, nbytes)]
        weakref.finalize(self, _unmap, queue, buffer, self._address)

    @property
    def data(self) -> int:
        return self._address[0]

    @data.setter
    def data(self, address: int) -> None:
        self._address[0] = address


def _unmap(queue: Any, buffer: Any, address: list[int]) -> None:
    """A buffer that stays mapped is never freed."""
    clqueue.unmap_buffer(queue.int_ptr, buffer.int_ptr, address[0])


class _Base(int):
    """A kernel argument that is the memory of this base."""


class ClProgram:
    """A sub-graph on an OpenCL device.

    ``handle`` is the address of its ``pa_program``, valid as long as this object; ``native`` runs frames between
    slots from Python. ``record``: when each step ended can be recorded (program.h).
    """

    algorithms = ()

    def __init__(self, lowered: Lowered, device: opencl.Device, record: bool = False):
        elements = (lowered.arena_elements, lowered.slot_in_elements, lowered.slot_out_elements)
        if max(elements) > np.iinfo(np.int32).max:
            raise DeviceError(f"expected fewer than 2^31 elements in the arena and each slot; got {max(elements)}")
        clqueue.load(device.library)
        self._device = device
        self._in_elements, self._out_elements = elements[1:]
        self._queue = device.queue(profile=record)
        self._staging = {base: device.allocate(elements[base] * FLOAT_BYTES, host=True) for base in (SLOT_IN, SLOT_OUT)}
        self._recorder = _Recorder(lowered, device)
        self.native = clqueue.Program(
            self._queue.int_ptr,
            self._recorder.commands,
            self._recorder.patches,
            {base: (buffer.int_ptr, elements[base] * FLOAT_BYTES) for base, buffer in self._staging.items()},
        )

    @property
    def handle(self) -> int:
        return self.native.handle

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """(kind, node name) of each step, in the order they run."""
        return tuple(self._recorder.labels)

    def slot(self, nbytes: int) -> Slot:
        """Memory for a ring slot next to a stage on this device; the CPU and the device reach it without a copy."""
        return Slot(self._queue, self._device.allocate(nbytes, host=True), nbytes)

    def run(self, slot_in: np.ndarray) -> np.ndarray:
        """One frame through plain host memory: the float32 elements of the input slot give those of the output slot."""
        if slot_in.dtype != np.float32 or slot_in.size != self._in_elements:
            given = f"{slot_in.size} of {slot_in.dtype}"
            raise ArgumentError(f"slot_in: expected {self._in_elements} elements of float32, got {given}")
        source = np.ascontiguousarray(slot_in)
        target = np.empty(self._out_elements, np.float32)
        self.native.run((source.ctypes.data, 0, source.nbytes), (target.ctypes.data, 0, target.nbytes))
        return target


class _Recorder:
    """Turns steps into the launches of a ``clqueue.Program``, and keeps all that they refer to alive."""

    def __init__(self, lowered: Lowered, device: opencl.Device):
        self.commands: list[tuple] = []
        self.labels: list[tuple[str, str]] = []  # of each command
        self.patches: list[tuple] = []
        self._kept: list[Any] = []  # kernels and arguments: OpenCL does not keep a kernel's buffers alive
        self._device = device
        self._arena = device.allocate(lowered.arena_elements * FLOAT_BYTES)
        convs = [step for step in lowered.steps if step.kind == "conv"]
        self._zeros = device.upload(np.zeros(max([1, *(step.weight.shape[1] for step in convs)]), np.float32))
        for step in lowered.steps:
            if step.kind not in KINDS:
                raise DeviceError(f"step {step.node}: expected one of {', '.join(KINDS)} for OpenCL, got {step.kind}")
            KINDS[step.kind](self, step)

    def launch(self, step: Step, file: str, name: str, items: tuple[int, ...], *args: Any, **defines: int) -> None:
        """Records a kernel over ``items`` work items, in up to three dimensions, rounded up to whole groups.

        Arguments: int and float (32 bits), a tuple of up to 8 ints (int8, filled up with ones), an array (uploaded),
        a buffer, a ``_Base``, None (NULL).
        """
        kernel, group = self._device.kernel(file, name, **defines)
        for index, arg in enumerate(args):
            if isinstance(arg, _Base) and arg != ARENA:
                self.patches.append((kernel.int_ptr, step.node, index, int(arg)))
            else:
                value = self._value(arg)
                kernel.set_arg(index, value)
                self._kept.append(value)
        sizes = tuple(ceil(count / size) * size for count, size in zip((*items, 1, 1)[:3], group, strict=True))
        self._kept.append(kernel)
        self.commands.append((kernel.int_ptr, step.node, sizes, group))
        self.labels.append((step.kind, step.node))

    def _value(self, arg: Any) -> Any:
        if isinstance(arg, _Base):
            return self._arena
        if isinstance(arg, int):
            return np.int32(arg)
        if isinstance(arg, float):
            return np.float32(arg)
        if isinstance(arg, tuple):
            return np.array(arg + (1,) * (8 - len(arg)), np.int32)
        return self._device.upload(arg) if isinstance(arg, np.ndarray) else arg

    def conv(self, step: Step) -> None:
        x, p = step.src[0], step.params
        residual = _at(step.src[1]) if len(step.src) > 1 else (None, 0, 0)
        window = (*step.weight.shape[2:], *p["strides"], *p["pads"][:2], *p["dilations"])
        clamp = float(p["lo"]), float(p["hi"])
        if p["groups"] == x.c == len(step.weight):
            self._depthwise(step, residual, window, clamp)
        else:
            self._gemm(step, residual, window, clamp)

    def _depthwise(self, step: Step, residual: tuple, window: tuple, clamp: tuple) -> None:
        x, out = step.src[0], step.dst
        width = ceil(x.c / VECTOR) * VECTOR
        args = (*_at(x), x.h, x.w, x.c, *_at(out), out.w, *residual)
        weight = _blocks(step.weight.reshape(1, x.c, -1), width)
        bias = _blocks(step.bias.reshape(1, x.c, 1), width)
        items = (width // VECTOR, ceil(out.w / WINDOW["PIXELS"]), out.h)
        self.launch(step, "window.cl", "depthwise", items, *args, weight, bias, *window, *clamp, **WINDOW)

    def _gemm(self, step: Step, residual: tuple, window: tuple, clamp: tuple) -> None:
        x, out, groups = step.src[0], step.dst, step.params["groups"]
        cout, cin, pixels = len(step.weight) // groups, step.weight.shape[1], out.h * out.w
        tile = dict(CPU_TILE if self._device.info.stand_in else GPU_TILE)
        if pixels == 1:
            tile |= dict(PIXELS=1, LOCAL_PIXELS=1, LOCAL_BLOCKS=tile["LOCAL_PIXELS"] * tile["LOCAL_BLOCKS"])
        blocks = ceil(cout / tile["CHANNELS"])
        taps = step.weight.reshape(groups, cout, cin, -1).swapaxes(2, 3).reshape(groups, cout, -1)
        weight = _blocks(taps, tile["CHANNELS"])
        bias = _blocks(step.bias.reshape(groups, cout, 1), tile["CHANNELS"])
        args = (*_at(x), x.h, x.w, *_at(out), pixels, out.w, *residual, weight, bias, self._zeros)
        items = (ceil(pixels / tile["PIXELS"]), groups * blocks)
        self.launch(step, "conv.cl", "conv", items, *args, groups, cin, cout, blocks, *window, *clamp, **tile)

    def pool(self, step: Step) -> None:
        x, out, p = step.src[0], step.dst, step.params
        window = (*p["kernel"], *p["strides"], *p["pads"][:2])
        if step.kind == "maxpool":
            window += p["dilations"]
        else:
            window += p["pads"] if p["count_include_pad"] else (0, 0, 0, 0)
        args = (*_at(x), x.h, x.w, x.c, *_at(out), out.w, *window)
        self.launch(step, "window.cl", step.kind, (ceil(x.c / VECTOR), out.w, out.h), *args, **WINDOW)

    def lrn(self, step: Step) -> None:
        x, p = step.src[0], step.params
        args = (*_at(x), x.c, *_at(step.dst), p["size"], float(p["alpha"]), float(p["beta"]), float(p["bias"]))
        self.launch(step, "channels.cl", "lrn", (x.c, x.h * x.w), *args)

    def softmax(self, step: Step) -> None:
        x = step.src[0]
        self.launch(step, "channels.cl", "softmax", (x.h * x.w,), *_at(x), x.c, x.h * x.w, *_at(step.dst))

    def binary(self, step: Step) -> None:
        a, p = step.src[0], step.params
        if len(step.src) > 1:
            b, memory = step.src[1], _Base(step.src[1].base)
        else:
            h, w, c = step.weight.shape
            b, memory = View(ARENA, 0, h, w, c, c), step.weight
        strides = (b.w * b.stride * (b.h > 1), b.stride * (b.w > 1), int(b.c > 1))
        args = (*_at(a), memory, b.offset, *strides, *_at(step.dst), a.c, a.w, float(p["lo"]), float(p["hi"]))
        name = "binary_reverse_sub" if p["swapped"] else f"binary_{p['op']}"
        self.launch(step, "elementwise.cl", name, (a.c, a.w, a.h), *args)

    def unary(self, step: Step) -> None:
        x, p = step.src[0], step.params
        args = (*_at(x), *_at(step.dst), x.c, float(p["p0"]), float(p["p1"]))
        self.launch(step, "elementwise.cl", f"unary_{p['op']}", (x.c, x.h * x.w), *args)

    def copy(self, step: Step) -> None:
        x, out = step.src[0], step.dst
        axes = zip(*(step.params[key] for key in ("dims", "src_strides", "dst_strides")), strict=True)
        # Neighbouring work items go along an axis that is dense on one side: the longer one, if there are two.
        dims, src_strides, dst_strides = zip(*sorted(axes, key=lambda axis: (min(axis[1:]), -axis[0])), strict=True)
        args = (_Base(x.base), x.offset, src_strides, _Base(out.base), out.offset, dst_strides, dims)
        self.launch(step, "elementwise.cl", "copy", dims[:3], *args)

    def fill(self, step: Step) -> None:
        out = step.dst
        args = (*_at(out), out.c, float(step.params["value"]))
        self.launch(step, "elementwise.cl", "fill", (out.c, out.h * out.w), *args)


KINDS: dict[str, Callable[[_Recorder, Step], None]] = {
    "conv": _Recorder.conv,
    "maxpool": _Recorder.pool,
    "avgpool": _Recorder.pool,
    "lrn": _Recorder.lrn,
    "softmax": _Recorder.softmax,
    "binary": _Recorder.binary,
    "unary": _Recorder.unary,
    "copy": _Recorder.copy,
    "fill": _Recorder.fill,
}


def _at(view: View) -> tuple[_Base, int, int]:
    return _Base(view.base), view.offset, view.stride


def _blocks(rows: np.ndarray, width: int) -> np.ndarray:
    """(groups, n, k) as [group][block of n][k][width], float32; zeros fill a group's last block."""
    groups, n, k = rows.shape
    count = ceil(n / width)
    packed = np.zeros((groups, count * width, k), np.float32)
    packed[:, :n] = rows
    return np.ascontiguousarray(packed.reshape(groups, count, width, k).swapaxes(2, 3))
