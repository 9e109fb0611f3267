"""Compiles the steps of a sub-graph for an OpenCL device: one recorded kernel launch per step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np

from .._kernels import clqueue, opencl
from ..errors import ArgumentError, DeviceError
from ..graph.steps import ARENA, SLOT_IN, SLOT_OUT, Lowered, Step, View

FLOAT_BYTES = 4

# conv.cl: output channels and pixels of a work item, and work items of a group. Each GPU thread has registers for
# 4 x 4 sums; a CPU core has 16 vectors of 8.
GPU_TILE = dict(CHANNELS=4, PIXELS=4, LOCAL_PIXELS=8, LOCAL_BLOCKS=4)
CPU_TILE = dict(CHANNELS=8, PIXELS=8, LOCAL_PIXELS=4, LOCAL_BLOCKS=1)


def compile(lowered: Lowered, device: opencl.Device) -> ClProgram:
    """A program that runs the steps on the device; weights are packed and uploaded here.

    Raises DeviceError where the device lacks memory or a step has no kernel.
    """
    return ClProgram(lowered, device)


@dataclass(frozen=True, slots=True)
class Slot:
    """A buffer mapped for the CPU; it lives as long as this object. ``data`` is its host address until the first run."""

    buffer: Any
    data: int
    nbytes: int

    @property
    def mem(self) -> int:
        return self.buffer.int_ptr


class _Base(int):
    """A kernel argument that is the memory of this base."""


class ClProgram:
    """A sub-graph on an OpenCL device. ``handle`` is the address of its ``pa_program``, valid as long as this object."""

    def __init__(self, lowered: Lowered, device: opencl.Device):
        elements = (lowered.arena_elements, lowered.slot_in_elements, lowered.slot_out_elements)
        if max(elements) > np.iinfo(np.int32).max:
            raise DeviceError(f"expected fewer than 2^31 elements in the arena and each slot; got {max(elements)}")
        clqueue.load(device.library)
        self.device = device
        self._in_elements, self._out_elements = elements[1:]
        self._queue = device.queue()
        self._arena = device.allocate(elements[0] * FLOAT_BYTES)
        self._staging = {
            SLOT_IN: device.allocate(elements[1] * FLOAT_BYTES, host=True),
            SLOT_OUT: device.allocate(elements[2] * FLOAT_BYTES, host=True),
        }
        self._zeros = device.upload(np.zeros(max([1, *map(_channels_per_group, lowered.steps)]), np.float32))
        self._kept: list[Any] = []  # kernels and their buffers: OpenCL does not keep a kernel's arguments alive
        self._commands: list[tuple] = []
        self._patches: list[tuple] = []
        for step in lowered.steps:
            if step.kind not in KINDS:
                raise DeviceError(f"no OpenCL kernel for {step.kind!r} (step {step.node}); there are {', '.join(KINDS)}")
            KINDS[step.kind](self, step)
        self._native = clqueue.Program(
            self._queue.int_ptr,
            self._commands,
            self._patches,
            {base: (buffer.int_ptr, elements[base] * FLOAT_BYTES) for base, buffer in self._staging.items()},
        )

    @property
    def handle(self) -> int:
        return self._native.handle

    def allocate_slot(self, nbytes: int) -> Slot:
        """Memory for a ring slot next to a stage on this device; the CPU and the device reach it without a copy."""
        buffer = self.device.allocate(nbytes, host=True)
        return Slot(buffer, clqueue.map_buffer(self._queue.int_ptr, buffer.int_ptr, nbytes), nbytes)

    def run(self, slot_in: np.ndarray) -> np.ndarray:
        """One frame through plain host memory: the float32 elements of the input slot give those of the output slot."""
        if slot_in.dtype != np.float32 or slot_in.size != self._in_elements:
            raise ArgumentError(
                f"slot_in: expected {self._in_elements} float32 elements; got {slot_in.size} {slot_in.dtype}"
            )
        source = np.ascontiguousarray(slot_in)
        target = np.empty(self._out_elements, np.float32)
        self._native.run((source.ctypes.data, 0, source.nbytes), (target.ctypes.data, 0, target.nbytes))
        return target

    def launch(self, step: Step, file: str, name: str, items: tuple[int, ...], *args: Any, **defines: int) -> None:
        """Records a kernel over ``items`` work items, in up to three dimensions, rounded up to whole groups.

        Arguments: int and float (32 bits), a tuple of up to 8 ints (int8), a buffer, a ``_Base``, None (NULL).
        """
        kernel, group = self.device.kernel(file, name, **defines)
        items = (*items, 1, 1)[:3]
        for index, arg in enumerate(args):
            if isinstance(arg, _Base) and arg != ARENA:
                self._patches.append((kernel.int_ptr, step.node, index, int(arg)))
            else:
                kernel.set_arg(index, self._argument(arg))
        sizes = tuple(ceil(count / size) * size for count, size in zip(items, group, strict=True))
        self._kept += [kernel, args]
        self._commands.append((kernel.int_ptr, step.node, sizes, group))

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, _Base):
            return self._arena
        if isinstance(arg, int):
            return np.int32(arg)
        if isinstance(arg, float):
            return np.float32(arg)
        if isinstance(arg, tuple):
            return np.array(arg + (1,) * (8 - len(arg)), np.int32)
        return arg

    def conv(self, step: Step) -> None:
        cout, cin, kh, kw = step.weight.shape
        groups = step.params["groups"]
        x, residual = step.src[0], _at(step.src[1]) if len(step.src) > 1 else (None, 0, 0)
        window = (kh, kw, *step.params["strides"], *step.params["pads"][:2], *step.params["dilations"])
        clamp = float(step.params["lo"]), float(step.params["hi"])
        if cin == 1 and groups == cout == x.c:
            weight = _blocks(step.weight.reshape(1, cout, kh * kw), x.c + -x.c % 4)
            bias = _blocks(step.bias.reshape(1, cout, 1), x.c + -x.c % 4)
            self.launch(
                step,
                "window.cl",
                "depthwise",
                (ceil(x.c / 4), ceil(step.dst.w / 4), step.dst.h),
                *(*_at(x), x.h, x.w, x.c, *_at(step.dst), step.dst.h, step.dst.w, *residual),
                *(self.device.upload(weight), self.device.upload(bias), *window, *clamp),
                PIXELS=4,
            )
            return
        pixels = step.dst.h * step.dst.w
        tile = dict(CPU_TILE if self.device.info.stand_in else GPU_TILE)
        if pixels == 1:
            tile |= dict(PIXELS=1, LOCAL_PIXELS=1)
        channels, cout = tile["CHANNELS"], cout // groups
        taps = step.weight.reshape(groups, cout, cin, kh * kw).transpose(0, 1, 3, 2).reshape(groups, cout, -1)
        weight, bias = _blocks(taps, channels), _blocks(step.bias.reshape(groups, cout, 1), channels)
        blocks = ceil(cout / channels)
        self.launch(
            step,
            "conv.cl",
            "conv",
            (ceil(pixels / tile["PIXELS"]), groups * blocks),
            *(*_at(x), x.h, x.w, *_at(step.dst), pixels, step.dst.w, *residual),
            *(self.device.upload(weight), self.device.upload(bias), self._zeros),
            *(groups, cin, cout, blocks, *window, *clamp),
            **tile,
        )

    def pool(self, step: Step) -> None:
        x, out, pads = step.src[0], step.dst, step.params["pads"]
        if step.kind == "maxpool":
            extra = step.params["dilations"]
        else:
            extra = pads if step.params["count_include_pad"] else (0, 0, 0, 0)
        window = (*step.params["kernel"], *step.params["strides"], *pads[:2], *extra)
        self.launch(
            step,
            "window.cl",
            step.kind,
            (ceil(x.c / 4), out.w, out.h),
            *(*_at(x), x.h, x.w, x.c, *_at(out), out.h, out.w, *window),
            PIXELS=4,
        )

    def lrn(self, step: Step) -> None:
        x = step.src[0]
        parameters = (step.params["size"], *(float(step.params[key]) for key in ("alpha", "beta", "bias")))
        self.launch(step, "channels.cl", "lrn", (x.c, x.h * x.w), *_at(x), x.c, *_at(step.dst), *parameters)

    def softmax(self, step: Step) -> None:
        x = step.src[0]
        self.launch(step, "channels.cl", "softmax", (x.h * x.w,), *_at(x), x.c, x.h * x.w, *_at(step.dst))

    def binary(self, step: Step) -> None:
        a = step.src[0]
        if len(step.src) > 1:
            b, at = step.src[1], (_Base(step.src[1].base), step.src[1].offset)
        else:
            h, w, c = step.weight.shape
            b, at = View(ARENA, 0, h, w, c, c), (self.device.upload(step.weight), 0)
        strides = (b.w * b.stride * (b.h > 1), b.stride * (b.w > 1), int(b.c > 1))
        name = "binary_reverse_sub" if step.params["swapped"] else f"binary_{step.params['op']}"
        clamp = float(step.params["lo"]), float(step.params["hi"])
        args = (*_at(a), *at, *strides, *_at(step.dst), a.c, a.w, *clamp)
        self.launch(step, "elementwise.cl", name, (a.c, a.w, a.h), *args)

    def unary(self, step: Step) -> None:
        x = step.src[0]
        parameters = float(step.params.get("p0", 0)), float(step.params.get("p1", 0))
        args = (*_at(x), *_at(step.dst), x.c, *parameters)
        self.launch(step, "elementwise.cl", f"unary_{step.params['op']}", (x.c, x.h * x.w), *args)

    def copy(self, step: Step) -> None:
        x, out = step.src[0], step.dst
        axes = zip(*(step.params[key] for key in ("dims", "src_strides", "dst_strides")), strict=True)
        # Neighbouring work items go along a dimension that is dense on one side: the longer one, if there are two.
        dims, src_strides, dst_strides = zip(*sorted(axes, key=lambda axis: (min(axis[1:]), -axis[0])), strict=True)
        items = (dims + (1, 1))[:2] + (prod(dims[2:]),)
        args = (_Base(x.base), x.offset, src_strides, _Base(out.base), out.offset, dst_strides, dims)
        self.launch(step, "elementwise.cl", "copy", items, *args)

    def fill(self, step: Step) -> None:
        out = step.dst
        args = (*_at(out), out.c, float(step.params["value"]))
        self.launch(step, "elementwise.cl", "fill", (out.c, out.h * out.w), *args)


KINDS: dict[str, Callable[[ClProgram, Step], None]] = {
    "conv": ClProgram.conv,
    "maxpool": ClProgram.pool,
    "avgpool": ClProgram.pool,
    "lrn": ClProgram.lrn,
    "softmax": ClProgram.softmax,
    "binary": ClProgram.binary,
    "unary": ClProgram.unary,
    "copy": ClProgram.copy,
    "fill": ClProgram.fill,
}


def _at(view: View) -> tuple[_Base, int, int]:
    return _Base(view.base), view.offset, view.stride


def _channels_per_group(step: Step) -> int:
    return step.weight.shape[1] if step.kind == "conv" else 0


def _blocks(rows: np.ndarray, width: int) -> np.ndarray:
    """(groups, n, k) as [group][block of n][k][width], float32; zeros fill a group's last block."""
    groups, n, k = rows.shape
    count = ceil(n / width)
    packed = np.zeros((groups, count * width, k), np.float32)
    packed[:, :n] = rows
    return np.ascontiguousarray(packed.reshape(groups, count, width, k).transpose(0, 1, 3, 2))
