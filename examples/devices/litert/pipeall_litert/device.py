"""The device: a stage of 8-bit integers is an interpreter of LiteRT, in an external delegate where one is given.

LITERT_DELEGATE   the library of a delegate and its options: "libteflon.so", "libethosu_delegate.so:device=/dev/ethosu0"
LITERT_THREADS    of an interpreter without one; default 1
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate

from pipeall._kernels.peak import Peak
from pipeall.errors import DeviceError
from pipeall.graph.ir import Tensor
from pipeall.pipeline.devices.device import Device
from pipeall.pipeline.devices.network_parts import Part, Place, network_parts
from pipeall.steps import Lowered

from .bridge import Bridge, native, view
from .ends import Ends, converted
from .peak import measured
from .tflite_file import TfliteFile, nhwc


def detect() -> dict[str, LiteRt]:
    """The one that the environment describes. Raises DeviceError where its delegate does not load."""
    path, _, text = os.environ.get("LITERT_DELEGATE", "").partition(":")
    options = tuple(tuple(word.split("=", 1)) for word in text.split(",") if word)
    threads = os.environ.get("LITERT_THREADS", "1")
    if not threads.isdecimal() or not int(threads) or any(len(option) != 2 for option in options):
        raise DeviceError(
            f"LITERT_THREADS, LITERT_DELEGATE: expected a number and FILE:KEY=VALUE,..., got {threads}, {text}"
        )
    native()
    device = LiteRt(path, options, int(threads))
    device.delegates()
    return {"npu": device}


@dataclass(frozen=True, slots=True)
class LiteRt(Device):
    """Interpreters with one delegate, or on the CPU, which then plays an accelerator."""

    kind: ClassVar[str] = "litert"
    max_mhz: ClassVar[None] = None
    int8: ClassVar[bool] = True
    delegate: str
    options: tuple[tuple[str, str], ...]
    width: int

    @property
    def core_type(self) -> str:
        return os.path.basename(self.delegate) or "CPU"

    @property
    def stand_in(self) -> bool:
        return not self.delegate

    @property
    def description(self) -> str:
        return f"LiteRT, {f'delegate {self.core_type}' if self.delegate else f'{self.width} threads of the CPU'}"

    @property
    def computes_with(self) -> str:
        return "int8"

    def details(self) -> dict[str, Any]:
        return {"delegate": self.delegate, "options": dict(self.options)}

    def delegates(self) -> list[Any]:
        """Raises DeviceError with what its library says."""
        try:
            return [load_delegate(self.delegate, dict(self.options))] if self.delegate else []
        except (ValueError, OSError) as error:
            raise DeviceError(f"LiteRT, delegate {self.delegate}: {str(error).strip() or 'it does not load'}") from None

    def unsupported(self, lowered: Lowered) -> str | None:
        try:
            for part in network_parts(lowered):
                TfliteFile(Ends.of(part.graph).inner)
        except DeviceError as error:
            return str(error)
        return None

    def compile(self, lowered: Lowered, name: str, *, record: bool = False) -> Program:
        """An interpreter; ``record``: one for each group, so that groups can be timed.

        Raises DeviceError naming a node for which TFLite has no operator on integers, or that it refuses.
        """
        return Program(self, lowered, record)

    def footprint(self, lowered: Lowered) -> dict[str, int]:
        """Weights as they are; the interpreter's own memory is about what our arena would be."""
        weights = sum(array.nbytes for array in lowered.source[0].constants.values())
        return {"weights": weights, "arena": lowered.arena_bytes, "scratch": 0}

    def peak(self) -> Peak:
        return measured(self.interpreter)

    def interpreter(self, model: bytes) -> Interpreter:
        """Raises DeviceError with what LiteRT says."""
        try:
            made = Interpreter(
                model_content=model, experimental_delegates=self.delegates() or None, num_threads=self.width
            )
            made.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise DeviceError(f"LiteRT: {' '.join(str(error).split()):.500}") from None
        return made


class Program(Bridge):
    """A stage in LiteRT (``devices.device.Program``)."""

    depth = 1

    def __init__(self, device: LiteRt, lowered: Lowered, by_group: bool):
        parts = network_parts(lowered, by_group)
        inside: dict[str, np.ndarray] = {}  # tensors that one network makes for another, in NHWC
        runs = [_Run(device, part, inside) for part in parts]
        self.labels = tuple((device.kind, part.name) for part in parts)
        self.step_of = tuple(part.step for part in parts)
        self.algorithms = (None,) * len(parts)
        super().__init__(runs, [part.segment for part in parts])


class _Run:
    """A network on the slots of a frame."""

    def __init__(self, device: LiteRt, part: Part, inside: dict[str, np.ndarray]):
        self._part, self._inside, self._ends = part, inside, Ends.of(part.graph)
        self._interpreter, self._inputs, self._outputs = None, [], []
        if self._ends.inner.nodes:
            try:
                self._interpreter = device.interpreter(TfliteFile(self._ends.inner).content())
            except DeviceError as error:
                raise DeviceError(f"{part.name}: {error}") from None
            ends = self._interpreter.get_input_details(), self._interpreter.get_output_details()
            self._inputs, self._outputs = ([end["index"] for end in some] for some in ends)
        for name in part.keeps:
            tensor: Tensor = part.graph.tensors[name]
            inside[name] = np.zeros(nhwc(tensor.shape), tensor.dtype)

    def __call__(self, bases: dict[int, int]) -> None:
        part, (before, inner, after) = self._part, self._ends
        known: dict[str, np.ndarray] = {}
        for tensor in part.graph.inputs:
            place: Place | None = part.reads.get(tensor.name)
            known[tensor.name] = view(place, bases) if place else self._inside[tensor.name]
        for node in before:
            known[node.output] = converted(node, known[node.inputs[0]])
        if self._interpreter:
            for tensor, index in zip(inner.inputs, self._inputs, strict=True):
                self._interpreter.set_tensor(index, known[tensor.name])
            self._interpreter.invoke()
            for tensor, index in zip(inner.outputs, self._outputs, strict=True):
                known[tensor.name] = self._interpreter.get_tensor(index)
        for node in after:
            known[node.output] = converted(node, known[node.inputs[0]])
        for name in part.keeps:
            self._inside[name][...] = known[name]
        for name, place in part.writes:
            view(place, bases)[...] = known[name]
        for source, target in part.passes:
            view(target, bases)[...] = view(source, bases)
