"""What records the launches of OpenCL kernels, and what a kind of step has for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from ...steps import ARENA, CONSTANT, SLOT_IN, Lowered, Step, Strided, View, item_bytes
from . import cl_devices as opencl
from .methods import Choose, Method, family, methods, modelled, transformed

C_TYPES = {  # element type -> how OpenCL C names it
    "float32": "float",
    "float16": "half",
    "int8": "char",
    "uint8": "uchar",
    "int32": "int",
    "int64": "long",
    "bool": "uchar",
}
FLOATS = ("float32", "float16")
Define = int | str  # value of a -D parameter


class Base(int):
    """A kernel argument that is the memory of this base."""


SLOT = Base(SLOT_IN)  # stands for memory of float32
SCRATCH = CONSTANT - 1  # base of what the kernels of a step hand to each other: float32


class Kind(NamedTuple):
    """How steps of a kind are computed.

    launch    records the launches of a step
    refusals  each says why a step has no kernel for its types, op or shape; None where it has one
    """

    launch: Callable[[Recorder, Step], None]
    refusals: tuple[Callable[[Step], str | None], ...] = ()


class Recorder:
    """Turns steps into the launches of a ``queue.LaunchProgram``, and keeps all that they refer to alive.

    precision: one of opencl.PRECISIONS. In half precision lie the arena, what lies between Winograd's kernels, and the
    weights; slots stay float32, so that whoever first reads one and last writes one converts.
    choose: picks one of the ``methods`` of a convolution.
    scratch_floats: size of SCRATCH. arena: of another program, taken where it is large enough.
    """

    def __init__(
        self,
        lowered: Lowered,
        device: opencl.Device,
        precision: str = "fp32",
        choose: Choose = modelled,
        scratch_floats: int = 0,
        arena: Any = None,
    ):
        self.commands: list[tuple] = []
        self.labels: list[tuple[str, str]] = []  # of each command
        self.algorithms: list[Method | None] = []  # likewise
        self.step_of: list[int] = []  # likewise: the number of its step
        self.patches: list[tuple] = []
        self.reads: tuple | None = None  # how frames are read (``queue.LaunchProgram``, picture)
        self._kept: list[Any] = []  # kernels and arguments: OpenCL does not keep a kernel's buffers alive
        self.device = device
        self.family = family(device.info)
        self._precision = precision
        self._stored = np.dtype(np.float32 if precision == "fp32" else np.float16)
        nbytes = lowered.arena_bytes * self._stored.itemsize // item_bytes("float32")
        self.arena = arena if arena is not None and arena.size >= nbytes else device.allocate(nbytes)
        convs = [step for step in lowered.steps if step.kind == "conv"]
        self.zeros = device.upload(np.zeros(max([1, *(step.weight.shape[1] for step in convs)]), np.float32))
        candidates = ((step, methods(step, device.info, precision)) for step in convs)
        self.methods = {id(step): choose(step, ways) for step, ways in candidates if ways}
        self._packed: dict[tuple[int, ...], Any] = {}  # weights that are uploaded: a batch's steps share them
        sizes = [transformed(step, m) for step in convs if (m := self.m(step))]
        self.transformed = [device.allocate(self._stored.itemsize * max(side)) for side in zip(*sizes, strict=True)]
        self._scratch = device.allocate(item_bytes("float32") * scratch_floats)
        self._uploaded: dict[int, tuple[np.ndarray, Any]] = {}  # id -> a constant, and its buffer

    def add(self, number: int, step: Step, kind: Kind) -> None:
        """Records what computes the step of this number."""
        kind.launch(self, step)
        launched = len(self.commands) - len(self.step_of)
        self.labels += [(step.kind, step.node)] * launched
        self.algorithms += [self.methods.get(id(step))] * launched
        self.step_of += [number] * launched

    @property
    def stand_in(self) -> bool:
        """A CPU runs the kernels."""
        return self.device.info.stand_in

    @property
    def half(self) -> int:
        """HALF_ARITHMETIC of vector.cl."""
        return int(self._precision == "fp16")

    def stored(self, operand: Strided) -> str:
        """How OpenCL C names the type of an operand as it lies in memory."""
        halved = operand.dtype == "float32" and operand.base == ARENA and self._precision != "fp32"
        return "half" if halved else C_TYPES[operand.dtype]

    def memory(self, operand: Strided) -> Any:
        """The kernel argument that is the memory of an operand: constants are uploaded once."""
        if operand.base == SCRATCH:
            return self._scratch
        return self.table(operand.array, operand.dtype) if operand.base == CONSTANT else Base(operand.base)

    def table(self, array: np.ndarray, dtype: Any) -> Any:
        """A buffer of the elements of an array, as dtype."""
        if id(array) not in self._uploaded:
            elements = array.reshape(-1) if array.size else np.zeros(1, dtype)
            self._uploaded[id(array)] = array, self.device.upload(elements, dtype)
        return self._uploaded[id(array)][1]

    def keep(self, value: Any) -> None:
        """Keeps what a launch refers to alive."""
        self._kept.append(value)

    def m(self, step: Step) -> int:
        """M of the Winograd method of a convolution; 0 where it has another."""
        return self.methods[id(step)].m if id(step) in self.methods else 0

    def types(self, **memories: Any) -> dict[str, Define]:
        """The parameters of vector.cl for where X, Y and R of a kernel lie: a ``Base``, a buffer, or None."""
        if self._precision == "fp32":
            return {}
        types = {name: "float" if isinstance(at, Base) and at != ARENA else "half" for name, at in memories.items()}
        return types | dict(W="half", HALF_ARITHMETIC=int(self._precision == "fp16"))

    def weights(self, step: Step, rows: np.ndarray, width: int, transform: np.ndarray | None = None) -> Any:
        """A buffer of a step's weights, as they are stored; ``transform`` makes other groups of those in ``rows``."""
        key = (id(step.weight), width, 0 if transform is None else len(transform), *rows.shape)
        if key not in self._packed:
            self._packed[key] = self.device.upload(blocked(rows, width), self._stored, transform)
        return self._packed[key]

    def launch(self, step: Step, file: str, name: str, items: tuple[int, ...], *args: Any, **defines: Define) -> None:
        """Records a kernel over ``items`` work items, in up to three dimensions, rounded up to whole groups; 0: none.

        Arguments: int and float (32 bits), a tuple of up to 8 ints (int8, filled up with ones), an array (uploaded),
        a buffer, a ``Base``, None (NULL).
        """
        if not all(items):
            return
        kernel, group = self.device.kernel(file, name, **defines)
        for index, arg in enumerate(args):
            if isinstance(arg, Base) and arg != ARENA:
                self.patches.append((kernel.int_ptr, step.node, index, int(arg)))
            else:
                value = self._value(arg)
                kernel.set_arg(index, value)
                self._kept.append(value)
        sizes = tuple(ceil(count / size) * size for count, size in zip((*items, 1, 1)[:3], group, strict=True))
        self._kept.append(kernel)
        self.commands.append((kernel.int_ptr, step.node, sizes, group))

    def _value(self, arg: Any) -> Any:
        if isinstance(arg, Base):
            return self.arena
        if arg is None:
            return np.uintp(0)  # pyopencl takes no None before 2026.1.4
        if isinstance(arg, np.integer):
            return arg
        if isinstance(arg, int):
            return np.int32(arg)
        if isinstance(arg, float):
            return np.float32(arg)
        if isinstance(arg, tuple):
            return np.array(arg + (1,) * (8 - len(arg)), np.int32)
        return self.device.upload(arg) if isinstance(arg, np.ndarray) else arg


def at(view: View) -> tuple[Base, int, int]:
    """The arguments that are a view: memory, offset and stride."""
    return Base(view.base), view.offset, view.stride


def pixels(view: View) -> Strided:
    """Pixels by channels."""
    return Strided(view.base, view.offset, (view.h * view.w, view.c), (view.stride, 1), view.dtype)


def blocked(rows: np.ndarray, width: int) -> np.ndarray:
    """(groups, n, k) as [group][block of n][k][width], float32; zeros fill a group's last block."""
    groups, n, k = rows.shape
    count = ceil(n / width)
    if n % width:
        rows = np.concatenate([rows, np.zeros((groups, count * width - n, k), rows.dtype)], axis=1)
    return rows.reshape(groups, count, width, k).swapaxes(2, 3).astype(np.float32, copy=False)


def whole(operands: Iterable[Strided]) -> int:
    """1 where kernels compute in integers."""
    return int(not any(operand.dtype in FLOATS for operand in operands))


def float32_only(step: Step) -> str | None:
    """Refuses results of other types."""
    return None if step.dst.dtype == "float32" else f"has no {step.kind} kernel for {step.dst.dtype}"


def floats_only(step: Step) -> str | None:
    """Refuses operands of other types than floats."""
    others = sorted({operand.dtype for operand in (*step.src, step.dst)} - {*FLOATS})
    return f"has no {step.kind} kernel for {', '.join(others)}" if others else None
