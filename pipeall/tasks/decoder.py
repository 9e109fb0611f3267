"""The registry of decoders: what is known of the outputs of each family of networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arguments import checked, one_of, optional
from ..errors import ModelError
from ..graph.ir import Graph, Node, Tensor
from ..graph.onnx.read.given import network
from ..picture import Picture, Placed
from .answer import Answer
from .labels import from_metadata

Outputs = list[np.ndarray]  # in the order of the graph's outputs
TASKS = ("classify", "detect", "segment", "points", "text", "embed")
# What leaves values as they are
MOVES = {"transpose", "reshape", "slice", "cast", "quantize", "dequantize", "fakequant"}


@dataclass(frozen=True, slots=True)
class Scene:
    """Where outputs come from, and what to look for in them.

    size       height and width of the network's input
    placed     where the picture lies in it
    labels     names of the classes
    threshold  least score that counts
    iou        overlap above which two boxes of a class are one thing
    most       boxes or classes that are given at most
    """

    size: tuple[int, int]
    placed: Placed
    labels: tuple[str, ...]
    threshold: float
    iou: float
    most: int

    def name(self, label: int) -> str:
        return self.labels[label] if label < len(self.labels) else str(label)

    def answer(self, task: str, **parts: Any) -> Answer:
        return Answer(task, self.placed.size, **parts)


@dataclass(frozen=True)
class Signature:
    """What a decoder may be recognized by.

    name      of the graph: its file's
    size      height and width of the input
    channels  of the input: 1 or 3
    outputs   the graph's
    metadata  what the file says of itself
    """

    name: str
    size: tuple[int, int]
    channels: int
    outputs: tuple[Tensor, ...]
    metadata: Mapping[str, str]
    made: Mapping[str, Node] = field(repr=False)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tensor.shape for tensor in self.outputs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in self.outputs)

    def called(self, *words: str) -> bool:
        """Whether the file's name has one of these words."""
        return any(word in self.name.lower() for word in words)

    def sources(self, output: int = 0) -> set[str]:
        """The ops that compute an output, behind those that only move values."""
        waiting, seen, ops = [self.outputs[output].name], set(), set()
        while waiting:
            node = self.made.get(waiting.pop())
            if node is None or node.output in seen:
                continue
            seen.add(node.output)
            if node.op in MOVES | {"concat"}:
                waiting += node.inputs if node.op == "concat" else node.inputs[:1]
            else:
                ops.add(node.op)
        return ops


@dataclass(frozen=True)
class Decoder:
    """A family of networks: how its outputs are read.

    name       what users call it
    task       one of ``TASKS``
    about      the networks, and their outputs
    picture    how they want pictures
    reads      whether outputs have shapes that it can read
    likely     whether outputs of such shapes are its own, as far as the file says
    decode     outputs -> what they say
    classes    how many classes the outputs have; 0: they have none
    threshold  the least score, unless another is given; iou, most, labels: likewise
    order      names of the outputs that ``decode`` wants; empty: all, in the graph's order
    """

    name: str
    task: str
    about: str
    picture: Picture
    reads: Callable[[Signature], bool] = field(repr=False)
    decode: Callable[[Outputs, Scene], Answer] = field(repr=False)
    likely: Callable[[Signature], bool] = field(default=lambda signature: True, repr=False)
    classes: Callable[[Signature], int] = field(default=lambda signature: 0, repr=False)
    threshold: float = 0.0
    iou: float = 0.45
    most: int = 100
    labels: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    def __reduce__(self) -> tuple:
        return _registered, (self.name,)


DECODERS: dict[str, Decoder] = {}


def _registered(name: str) -> Decoder:
    return DECODERS[name]


def decoder(
    name: str, task: str, about: str, picture: Picture, reads: Callable[[Signature], bool], **more: Any
) -> Callable:
    """Registers a function as that which decodes; ``more``: other fields of ``Decoder``."""

    def register(decode: Callable[[Outputs, Scene], Answer]) -> Callable[[Outputs, Scene], Answer]:
        DECODERS[name] = Decoder(name, task, about, picture, reads, decode, **more)
        return decode

    return register


def signature(graph: Graph) -> Signature:
    """Raises ModelError where the first input is no picture."""
    shape = graph.inputs[0].shape if graph.inputs else ()
    if len(graph.inputs) == 1 and len(shape) == 4 and shape[0] == 1 and 1 <= min(shape[1], shape[3]) <= 3:
        layout = ((2, 3), 1) if shape[1] in (1, 3) else ((1, 2), 3)
        (h, w), channels = ((shape[i] for i in layout[0]), shape[layout[1]])
        if channels in (1, 3):
            made = {node.output: node for node in graph.nodes}
            return Signature(graph.name, (h, w), channels, graph.outputs, graph.metadata, made)
    got = ", ".join(f"{tensor.name} {tensor.shape}" for tensor in graph.inputs)
    raise ModelError(f"{graph.name}: expected one input (1, 1 or 3, H, W) or (1, H, W, 1 or 3), got {got:.300}")


@checked(graph=network, task=optional(one_of(*TASKS)))
def recognized(graph: Graph, task: str | None = None) -> Decoder:
    """The one decoder that a network's outputs, its file's name and metadata are of; ``task``: one of that task.

    Raises ModelError, which lists the decoders to choose from, where none is sure or more than one.
    """
    seen = signature(graph)
    entries = [entry for entry in DECODERS.values() if task in (None, entry.task)]
    fitting = [entry for entry in entries if entry.reads(seen) and entry.likely(seen)]
    if len(fitting) > 1:  # at small sizes rows and columns may be taken for each other
        names = len(from_metadata(graph.metadata))
        fitting = [entry for entry in fitting if entry.classes(seen) == (names or len(entry.labels))] or fitting
    if len(fitting) == 1:
        return fitting[0]
    got = ", ".join(f"{tensor.name} {tensor.shape}" for tensor in graph.outputs)
    fitting = fitting or [entry for entry in entries if entry.reads(seen)]
    if not fitting:
        which = "no decoder" if task is None else f"no decoder of the task {task}"
        raise ModelError(f"{graph.name}: {which} reads its outputs: {got:.300}; an Engine gives them as they are")
    known = ", ".join(entry.name for entry in fitting)
    raise ModelError(f"{graph.name}: what its outputs mean is not clear: {got:.300}; give decoder= one of {known}")
