"""Devices: what turns steps into a program, and says by its traits what it can do and owns.

Each device is a folder beside this file, whose module ``device`` has a ``Device`` and a function ``detect`` that finds
those of this machine. It may have a function ``unsupported``, of a ``Lowered`` and a precision, that says what none of
its devices can compute: it is asked for boards that are not at hand. Nothing outside of the folder asks for a device's
name: what differs is a trait.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from ..._kernels.peak import Peak
from ...errors import ArgumentError, DeviceError
from ...graph.ir import Graph
from ...graph.lower.lower import lower
from ...graph.lower.tiling import Cache
from ...graph.partition import subgraph
from ...progress import Progress, silent
from ...steps import Lowered, Step
from ..planning.ranges import Ranges
from .clocks import Clock


@dataclass(frozen=True, slots=True)
class Tuned:
    """A shape, and what its default and its fastest method take, in us."""

    shape: str
    default: str
    default_us: float
    best: str
    best_us: float


class Algorithm(Protocol):
    """How a device computes a convolution; as text it is a name."""

    def products(self, step: Step) -> int:
        """Multiply-adds that it makes of the convolution."""

    def inner_bytes(self, step: Step) -> int:
        """Bytes of the weights as they are kept, and of what its kernels hand to each other."""


class Program(Protocol):
    """A sub-graph compiled for a device: what a stage runs.

    handle      address of its pa_program (program.h), valid as long as this object
    depth       frames it may have under way at once
    labels      (kind, node name) of each command, in the order they run; a step may take several
    step_of     the number of each command's step
    algorithms  of each command; None where there is one way only

    The program of a device that ``owns_slots`` also has ``slot(nbytes)``: memory for a ring slot that the device and
    the CPU share, an object like ``HostSlot``.
    """

    handle: int
    depth: int
    labels: tuple[tuple[str, str], ...]
    step_of: tuple[int, ...]
    algorithms: tuple[Algorithm | None, ...]


class Device(ABC):
    """A device that runs sub-graphs, with its traits.

    kind        what sort of device it is, for people
    precision   what it computes in: "fp32", or one of its component's ``names.Traits.precisions``
    cores       ids of the CPU cores it runs on, of which a stage may have some; None: it runs as a whole
    width       how many compute at once
    worker      what one of them is, for people: a thread, a compute unit
    core_type   what those are: "Cortex-A73", "Mali-G52"
    max_mhz     their highest clock; None: not known
    stores_fp16  all float32 tensors that it stores are in half precision
    fp16        it computes with float16 tensors, which networks are lowered to
    silu        its convolutions compute a SiLU that follows, and a sum behind it
    int8        it has kernels for 8-bit integers; quantized networks are float32 elsewhere
    stand_in    a CPU plays this device; say so wherever its results are shown
    owns_slots  the slots of rings beside its stages must be its own memory (``Program.slot``)
    queued      its commands run while the stage's thread does something else
    reads_dma_buf  it reads a picture in the dma-buf that a frame says it lies in
    page_bytes  weights take whole pages of so many bytes
    shares      ``compile`` is told of the other programs of its unit and pipeline
    """

    kind: ClassVar[str]
    precision: str = "fp32"
    stores_fp16: bool = False
    fp16: bool = False
    silu: ClassVar[bool] = False
    int8: bool = False
    cores: tuple[int, ...] | None = None
    width: int = 1
    worker: ClassVar[str] = "thread"
    core_type: str
    max_mhz: float | None
    stand_in: bool = False
    owns_slots: ClassVar[bool] = False
    queued: ClassVar[bool] = False
    reads_dma_buf: bool = False
    page_bytes: int = 1
    shares: ClassVar[bool] = False

    @property
    @abstractmethod
    def description(self) -> str:
        """One line for people."""

    @property
    def resources(self) -> tuple[int | str, ...]:
        """What two programs would share if both ran on it: ids of its cores, or its own name."""
        return self.cores or (self.description,)

    @property
    def computes_with(self) -> str:
        """Its instruction sets, or number formats, for people."""
        return self.precision

    @abstractmethod
    def details(self) -> dict[str, Any]:
        """What is known of it, ready for JSON."""

    @abstractmethod
    def compile(self, lowered: Lowered, name: str, *, record: bool = False, **shared: Any) -> Program:
        """A program of ``lowered``; ``name`` is its stage's, ``record``: its steps can be timed (program.h).

        A device that ``shares`` is also given ``beside``, another program of the same unit or None, and ``packed``, a
        weak mapping for packed weights, which all programs of a pipeline have. Programs of one unit never run at once,
        so they may share what computes them, and an arena that is large enough. One whose components' traits allow
        several frames together (``units.Traits.batch``) is given ``batch``, how many, where it is above 1.

        Raises DeviceError naming a step that it has no kernel for, or what it lacks.
        """

    def unsupported(self, lowered: Lowered) -> str | None:
        """Why it cannot compute a sub-graph: the first step without a kernel, in one line; None where it has all.

        Nothing is compiled for that. A device that finds out only when it compiles says None.
        """
        return None

    def ranges(self, graph: Graph) -> Ranges | None:
        """What its stages of a network may be, where it has some compiled ahead; None: any that it has kernels for."""
        return None

    def cache(self, timed: bool) -> Cache | None:
        """The cache for tiles of rows, where they are faster: ``timed`` here, or by a model. None: no tiles."""
        return None

    @abstractmethod
    def footprint(self, lowered: Lowered, **shared: Any) -> dict[str, int]:
        """Bytes of "weights", "arena" and "scratch" that such a program would take, as far as they are known.

        ``packed`` and ``batch`` are given as for ``compile``: weights in ``packed`` do not count again.
        """

    @abstractmethod
    def peak(self) -> Peak:
        """The most it can do, measured here and now."""

    def with_cores(self, cores: tuple[int, ...]) -> Device:
        """This device on these of its cores only."""
        raise ArgumentError(f"{self.description}: expected no number of cores, it has none to choose from")

    def with_precision(self, precision: str) -> Device:
        """This device in another precision."""
        raise ArgumentError(f"{self.description}: expected {self.precision}, got {precision!r}")

    def tune(self, graph: Graph, progress: Progress = silent) -> list[Tuned]:
        """Times every way to compute each convolution of a network and keeps the fastest for programs to come.

        progress: called with a shape, the number of shapes done, and how many there are. Raises ArgumentError on a
        device that has nothing to tune ahead.
        """
        raise ArgumentError(f"{self.description}: expected a device that is tuned ahead, such as a gpu")

    def clocks(self, root: Path) -> list[Clock]:
        """What sets its speed, of the tree with sys/ at ``root``; empty where it does not tell."""
        return []

    def kernels(self) -> list[tuple[Any, str]]:
        """Every kernel it could take (``table.KernelRow``), and why it was taken or not."""
        return []


def detect(device: str) -> Mapping[str, Device]:
    """The components of this machine that a device of this name (``names.Traits.device``) runs, by name.

    Raises DeviceError or MissingExtraError saying why there are none.
    """
    return _module(device).detect()


def unsupported(device: str, precision: str | None) -> Callable[[Lowered], str | None] | None:
    """``Device.unsupported`` of all devices of this name, in a precision; None where it has everything."""
    ask = getattr(_module(device), "unsupported", None)
    return ask and (lambda lowered: ask(lowered, precision or "fp32"))


def unsupported_groups(graph: Graph, ask: Callable[[Lowered], str | None]) -> dict[int, str]:
    """The groups of a network, from 1, that ``ask`` (``Device.unsupported``) has a reason against: a device that lacks
    kernels computes in floats."""
    if ask(lower(graph, int8=False)) is None:
        return {}
    parts = (lower(subgraph(graph, index, index + 1), int8=False) for index in range(len(graph.groups)))
    return {index: reason for index, reason in enumerate(map(ask, parts), 1) if reason}


def _module(device: str) -> Any:
    return import_module(device if "." in device else f".{device}.{device}_device", __package__)


class HostSlot:
    """A ring slot in plain memory, 64-byte aligned and zeroed."""

    def __init__(self, nbytes: int):
        self._memory = np.zeros(nbytes + 128, np.uint8)  # 64 to spare: kernels may read a little beyond an end
        self.data = (self._memory.ctypes.data + 63) // 64 * 64
        self.mem = 0
        self.nbytes = nbytes


def always(lowered: Lowered, step_of: Sequence[int]) -> tuple[int, int]:
    """The commands [first, last) that every frame runs, where a program's commands are of these steps (``Lowered``)."""
    last = len(lowered.steps) if lowered.last_early is None else lowered.last_early
    return bisect_left(step_of, lowered.first_late), bisect_left(step_of, last)


def ring_slots(owners: Sequence[Program], nbytes: int, slots: int) -> list:
    """``slots`` slots of ``nbytes``; ``owners`` are the neighbours' programs of devices that own slots.

    Raises DeviceError where both neighbours do.
    """
    if len(owners) > 1:
        raise DeviceError("plan: expected at most one stage at each cut that owns the memory of slots, got two")
    make = owners[0].slot if owners else HostSlot
    return [make(max(1, nbytes)) for _ in range(slots)]


@dataclass(frozen=True, slots=True)
class Component:
    """A device, or some of its cores, under a name.

    ``letter`` stands for the name in an order string: B, M, L, G, and M1, G1, ... where there are several.
    The name of a component that computes in another precision than its device's default says so: "gpu@fp16".
    """

    name: str
    device: Device

    def __repr__(self) -> str:
        return f"<Component {self.name}: {self.description}>"

    @property
    def letter(self) -> str:
        return re.sub("[a-z]+", self.name[0].upper(), self.name)

    @property
    def description(self) -> str:
        return self.device.description

    @property
    def precision(self) -> str:
        return self.device.precision

    @property
    def stand_in(self) -> bool:
        return self.device.stand_in

    def with_cores(self, name: str, cores: tuple[int, ...]) -> Component:
        """The unit of some of its cores."""
        return Component(name, self.device.with_cores(cores))

    def with_precision(self, precision: str) -> Component:
        return replace(self, name=f"{self.name}@{precision}", device=self.device.with_precision(precision))
