"""The device: a stage is what Rockchip's tool made of its slices. Never run on hardware.

PIPEALL_RKNN_SLICES   folders that ``pipeall slice`` wrote, with a .rknn file beside each .onnx that the tool compiled
RKNN_LIBRARY          another librknnrt.so than that of the system
RKNN_CORES            how many cores the NPU has; default: what the chip's name says
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pipeall._kernels.peak import Peak
from pipeall.errors import ArgumentError, DeviceError
from pipeall.graph.ir import Graph, Tensor
from pipeall.pipeline.devices.device import Device
from pipeall.pipeline.planning.ranges import Ranges
from pipeall.steps import Lowered, item_bytes

from .native import INTERNAL, CMove, Count, CPart, Input, Output, TensorAttr, call, native
from .slices import Compiled, View, compiled, files, folders

CORES = {b"rk3588": 3, b"rk3576": 2}  # of an NPU; others have one
NCHW, NHWC, UNDEFINED = 0, 1, 3  # rknn_api.h
TYPES = {"float32": 0, "int8": 2}  # there: of what crosses
ASYMMETRIC = 2  # there: of levels by scale and zero
CLOSE = 1e-5  # relative: scales go through files as text
CHIP = Path("/proc/device-tree/compatible")


def detect() -> dict[str, Rknn]:
    """An NPU's cores. Raises DeviceError where librknnrt does not load, or no slices are named."""
    try:
        files()
    except ArgumentError as error:
        raise DeviceError(str(error)) from None
    stand_in = native().stand_in
    cores = cores_of(CHIP.read_bytes() if CHIP.exists() else b"")
    return {f"npu{core or ''}": Rknn(core, cores, stand_in) for core in range(cores)}


def cores_of(chip: bytes) -> int:
    """How many cores the NPU of a chip has, whose name is as the device tree has it."""
    default = next((count for name, count in CORES.items() if name in chip), 1)
    text = os.environ.get("RKNN_CORES", str(default))
    if text not in ("1", "2", "3"):
        raise DeviceError(f"RKNN_CORES: expected 1 to 3, got {text}")
    return int(text)


@dataclass(frozen=True, slots=True)
class Rknn(Device):
    """A core of an NPU."""

    kind: ClassVar[str] = "rknn"
    worker: ClassVar[str] = "core"
    max_mhz: ClassVar[None] = None
    int8: ClassVar[bool] = True
    core: int
    of: int
    stand_in: bool

    @property
    def core_type(self) -> str:
        return "stand-in for an NPU" if self.stand_in else "Rockchip NPU"

    @property
    def description(self) -> str:
        return f"{self.core_type}, core {self.core} of {self.of}, by librknnrt (never run on hardware)"

    def details(self) -> dict[str, Any]:
        return {"library": native().path, "slices": list(map(str, folders())), "core": self.core}

    def unsupported(self, lowered: Lowered) -> str | None:
        try:
            compiled(lowered, False)
        except (ArgumentError, DeviceError) as error:
            return str(error)
        return None

    def ranges(self, graph: Graph) -> Ranges | None:
        return files().ranges(graph)

    def compile(self, lowered: Lowered, name: str, *, record: bool = False) -> Program:
        """The slices of a stage on the NPU; ``record``: those of its groups, so that groups can be timed.

        Raises DeviceError naming the node that no file computes, or the file with what librknnrt says of it.
        """
        return Program(self, lowered, compiled(lowered, record))

    def footprint(self, lowered: Lowered) -> dict[str, int]:
        """Weights as they are; what the NPU makes of them is not known ahead, nor its memory: about our arena."""
        weights = sum(array.nbytes for array in lowered.source[0].constants.values())
        return {"weights": weights, "arena": lowered.arena_bytes, "scratch": 0}

    def peak(self) -> Peak:
        """Raises DeviceError: an NPU runs what was compiled ahead, and nothing to measure it with is."""
        raise DeviceError("npu: expected a device that compiles here, its peak cannot be measured")

    @property
    def mask(self) -> int:
        """Of the core; a chip with one core takes none."""
        return 1 << self.core if self.of > 1 else 0


class Program:
    """A stage on the NPU (``devices.device.Program``)."""

    depth = 1

    def __init__(self, device: Rknn, lowered: Lowered, slices: list[Compiled]):
        self._kept: list[Any] = []
        self._inside: dict[str, np.ndarray] = {}  # tensors that one slice makes for another
        self._parts = (CPart * len(slices))(*(self._part(device, one) for one in slices))
        self._program = ctypes.create_string_buffer(native().library.npu_program_bytes())
        self.handle = ctypes.addressof(self._program)
        parts = [one.part for one in slices]
        self.labels = tuple((device.kind, part.name) for part in parts)
        self.step_of = tuple(part.step for part in parts)
        self.algorithms = (None,) * len(parts)
        ways = (sum(part.segment < 1 for part in parts), sum(part.segment < 2 for part in parts))
        native().library.npu_init(ctypes.c_void_p(self.handle), self._parts, len(parts), *ways)

    def _part(self, device: Rknn, one: Compiled) -> CPart:
        context, name = 0, one.file.name.encode() if one.file else b""
        if one.file:
            context = call("npu_open_model", str(one.file).encode(), name, device.mask, fails=0)
            weakref.finalize(self, _release, context, os.getpid())
            _check_counts(context, one)
        ends = {out: list(self._ends(context, one, out)) for out in (False, True)}
        before, after = self._moves(one, *ends.values())
        moves = (CMove * (len(before) + len(after)))(*before, *after)
        inputs = (Input * len(ends[False]))(
            *(
                Input(i, array.ctypes.data, array.nbytes, array.dtype == np.int8, TYPES[array.dtype.name], layout)
                for i, (array, _, layout) in enumerate(ends[False])
            )
        )
        outputs = (Output * len(ends[True]))(
            *(
                Output(array.dtype == np.float32, 1, i, array.ctypes.data, array.nbytes)
                for i, (array, _, _) in enumerate(ends[True])
            )
        )
        self._kept += [name, moves, inputs, outputs, *ends.values()]
        addresses = map(ctypes.addressof, (inputs, outputs, moves))
        return CPart(context, name, *addresses, len(inputs), len(outputs), len(before), len(moves))

    def _ends(self, context: int, one: Compiled, out: bool) -> Iterator[tuple[np.ndarray, View, int]]:
        """The buffer of each input or output of a slice, how a tensor lies in it, and its layout."""
        for number, tensor in enumerate(one.outputs if out else one.inputs):
            about = TensorAttr(index=number)
            call("npu_tensor", context, one.file.name.encode(), int(out), ctypes.byref(about))
            view = _view(about, tensor, one.file.name)
            yield np.zeros(tensor.shape, tensor.dtype), view, about.fmt

    def _moves(self, one: Compiled, inputs: list[Any], outputs: list[Any]) -> tuple[list[CMove], list[CMove]]:
        """What happens before and after a slice runs."""
        part, before, after = one.part, [], []
        for tensor, (array, view, _) in zip(one.inputs, inputs, strict=True):
            place = part.reads.get(tensor.name)
            source = (place.base, place.offset_bytes, View.in_slot(place)) if place else self._internal(tensor)
            before.append(_move(array.itemsize, *source, INTERNAL, array.ctypes.data, view))
        for tensor, (array, view, _) in zip(one.outputs, outputs, strict=True):
            targets = [(to.base, to.offset_bytes, View.in_slot(to)) for name, to in part.writes if name == tensor.name]
            targets += [self._internal(tensor)] if tensor.name in part.keeps else []
            after += [_move(array.itemsize, INTERNAL, array.ctypes.data, view, *target) for target in targets]
        for place, to in part.passes:
            source = place.base, place.offset_bytes, View.in_slot(place)
            after.append(_move(item_bytes(to.tensor.dtype), *source, to.base, to.offset_bytes, View.in_slot(to)))
        return before, after

    def _internal(self, tensor: Tensor) -> tuple[int, int, View]:
        array = self._inside.setdefault(tensor.name, np.zeros(tensor.shape, tensor.dtype))
        return INTERNAL, array.ctypes.data, View.of(tensor.shape, False)


def _move(size: int, from_base: int, begin: int, source: View, to_base: int, end: int, target: View) -> CMove:
    dims, *strides = source.dims, source.strides, target.strides
    arrays = [(ctypes.c_int64 * 4)(*numbers) for numbers in (dims, *strides)]
    return CMove(from_base, begin, to_base, end, size, *arrays)


def _check_counts(context: int, one: Compiled) -> None:
    count = Count()
    call("npu_count", context, one.file.name.encode(), ctypes.byref(count))
    wanted, found = (len(one.inputs), len(one.outputs)), (count.inputs, count.outputs)
    if found != wanted:
        raise DeviceError(f"{one.file.name}: expected (inputs, outputs) {wanted}, got {found}")


def _view(about: TensorAttr, tensor: Tensor, file: str) -> View:
    """How a tensor lies in a buffer as the runtime takes or gives it. Raises DeviceError where it is another."""
    dims, nhwc = tuple(about.dims[: min(about.n_dims, len(about.dims))]), about.fmt == NHWC
    images, *channels_and_sides = tensor.shape
    shape = (images, *channels_and_sides[1:], *channels_and_sides[:1]) if nhwc else tensor.shape
    if tensor.dtype not in TYPES:
        raise DeviceError(f"{file}: expected {tensor.name} of {' or '.join(TYPES)}, got {tensor.dtype}")
    if tensor.dtype == "int8":
        _check_levels(about, tensor, file)
    if about.fmt not in (NCHW, NHWC, UNDEFINED) or dims != shape:
        raise DeviceError(f"{file}: expected {tensor.name} of shape {shape}, got {dims} in format {about.fmt}")
    return View.of(tensor.shape, nhwc and len(shape) == 4)


def _check_levels(about: TensorAttr, tensor: Tensor, file: str) -> None:
    """Bytes cross as they are, so both sides must mean the same by them."""
    scale, zero = tensor.quantization.single
    same = (about.type, about.qnt_type, about.zp) == (TYPES["int8"], ASYMMETRIC, zero)
    if not same or abs(about.scale - scale) > CLOSE * scale:
        raise DeviceError(
            f"{file}: expected {tensor.name} of int8 with scale {scale:g} and zero {zero}, "
            f"got type {about.type} with scale {about.scale:g} and zero {about.zp}"
        )


def _release(context: int, process: int) -> None:
    """A fork's context is its parent's."""
    if os.getpid() == process:
        native().library.npu_close_model(ctypes.c_uint64(context))
