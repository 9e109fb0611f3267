"""A network's outputs read as answers: which decoder, which labels, which thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import a, checked, number, one_of, optional, whole
from ..errors import ArgumentError
from ..graph.ir import Graph, Tensor
from ..graph.onnx.read.given import network
from ..graph.onnx.read.source import ModelSource
from ..picture import CHANNELS, Picture, Placed
from . import (  # noqa: F401  register their decoders
    bodypix,
    cells,
    classify,
    points,
    segment,
    ssd,
    text,
    yolo,
    yolo_heads,
)
from . import labels as known
from .answer import Answer
from .decoder import DECODERS, TASKS, Decoder, Scene, Signature, recognized, signature

Labels = str | Path | Sequence[str] | Mapping[int, str]


class Task:
    """What the outputs of one network mean. Called with outputs and where the picture lay, it gives an ``Answer``.

    decoder    the entry of the registry
    picture    how the network wants pictures
    labels     names of its classes; empty where none are known
    size       height and width of its input
    threshold  least score that counts
    """

    def __init__(
        self, graph: Graph, seen: Signature, decoder: Decoder, picture: Picture, scene: dict[str, Any]
    ) -> None:
        self.decoder, self.size, self.picture = decoder, seen.size, picture
        self.labels: tuple[str, ...] = scene["labels"]
        self.threshold: float = scene["threshold"]
        self._scene = scene
        expected = {tensor.name: tensor for tensor in graph.outputs}
        self._stored = {n.output: (n.attrs["scale"], n.attrs["zero"]) for n in graph.nodes if n.op == "quantize"}
        self._name, self._expected = graph.name, {name: expected[name] for name in decoder.order or expected}

    def with_threshold(self, threshold: float) -> Task:
        """The same, with another least score, 0 to 1."""
        other = copy(self)
        other.threshold, other._scene = threshold, {**self._scene, "threshold": threshold}
        return other

    def __repr__(self) -> str:
        return f"<Task {self.decoder.task} of {self._name} by {self.decoder.name}>"

    def __call__(self, outputs: np.ndarray | Mapping[str, np.ndarray], placed: Placed) -> Answer:
        """``outputs``: as Engine and Pipeline give them; ``placed``: where the photo lay in the input.

        Raises ArgumentError where outputs are missing or have other shapes than the graph's.
        """
        given = outputs if isinstance(outputs, Mapping) else {next(iter(self._expected)): outputs}
        a(Placed, "where the picture lies, as Picture.placed gives it")("placed", placed)
        values = [self._value(given, tensor) for tensor in self._expected.values()]
        return self.decoder.decode(values, Scene(self.size, placed, **self._scene))

    def _value(self, given: Mapping[str, np.ndarray], tensor: Tensor) -> np.ndarray:
        value = given.get(tensor.name)
        if not isinstance(value, np.ndarray) or value.shape != tensor.shape:
            got = getattr(value, "shape", f"only {', '.join(map(str, given))!s:.200}" if value is None else type(value))
            raise ArgumentError(f"{self._name}: expected output {tensor.name!r} of shape {tensor.shape}, got {got}")
        if value.dtype.kind == "f":
            return value
        if tensor.name in self._stored:
            scale, zero = self._stored[tensor.name]
            return (value.astype(np.float32) - np.float32(zero)) * np.float32(scale)
        if tensor.quantization is None:
            return value
        quantized, axis = tensor.quantization, tensor.quantization.axis
        shape = [1] * value.ndim
        if axis is not None:
            shape[axis] = -1
        scale, zero = (np.array(x, np.float32).reshape(shape) for x in (quantized.scale, quantized.zero_point))
        return (value - zero) * scale


@checked(
    graph=network,
    decoder=optional(one_of(*DECODERS)),
    task=optional(one_of(*TASKS)),
    picture=optional(a(Picture, "a pipeall.Picture")),
    threshold=optional(number(0, 1)),
    iou=optional(number(0, 1)),
    most=optional(whole(1)),
)
def task(
    graph: Graph | ModelSource,
    decoder: str | None = None,
    task: str | None = None,
    picture: Picture | None = None,
    labels: Labels | None = None,
    threshold: float | None = None,
    iou: float | None = None,
    most: int | None = None,
) -> Task:
    """What a network's outputs mean.

    decoder    name of one of ``DECODERS``; None: recognized from outputs, the file's name and its metadata
    task       classify, detect, segment, points, text or embed: only decoders of it
    picture    how the network wants pictures; None: as the decoder's networks are trained
    labels     names of the classes: a file with one a line, a list, or a dict by number; None: those of the file or of
               the data set that such networks are trained on
    threshold  least score that counts, 0 to 1; None: the decoder's
    iou        two boxes of a class that overlap by more, 0 to 1, are one thing
    most       boxes or classes given at most

    Raises ArgumentError for a bad argument, ModelError for a network that is not recognized or has no picture as input.
    """
    seen = signature(graph)
    entry = DECODERS[decoder] if decoder else recognized(graph, task)
    if task not in (None, entry.task):
        raise ArgumentError(f"decoder {entry.name!r} is of the task {entry.task}, not of {task}")
    if decoder:
        _check(graph, seen, entry)
    scene = {
        "labels": _labels(graph, entry, seen, labels),
        "threshold": entry.threshold if threshold is None else threshold,
        "iou": entry.iou if iou is None else iou,
        "most": entry.most if most is None else most,
    }
    return Task(graph, seen, entry, _picture(graph, seen, entry, picture), scene)


def _picture(graph: Graph, seen: Signature, entry: Decoder, given: Picture | None) -> Picture:
    """The one given, if it has as many channels as the network; else the decoder's, for grey pictures its fit alone.

    Networks whose input is integers read grey levels: what normalizes them is within.
    """
    if given is not None and CHANNELS[given.channels] != seen.channels:
        raise ArgumentError(f"picture: expected {seen.channels} channels, as {seen.name} has, got {given.channels}")
    own = entry.picture if seen.channels == 3 else Picture(entry.picture.fit, channels="GRAY", scale=255)
    return given or (own if graph.inputs[0].dtype == "float32" else replace(own, scale=1, mean=0, std=1))


def _check(graph: Graph, seen: Signature, entry: Decoder) -> None:
    """That a decoder can read outputs of these shapes, whatever their names and the file's."""
    if not entry.reads(seen):
        got = ", ".join(f"{tensor.name} {tensor.shape}" for tensor in graph.outputs)
        raise ArgumentError(f"{graph.name}: expected outputs for {entry.name!r} ({entry.about}), got {got:.300}")


def _labels(graph: Graph, entry: Decoder, seen: Signature, given: Labels | None) -> tuple[str, ...]:
    """The names given; else the file's, else the decoder's own, if they are as many as there are classes."""
    count = entry.classes(seen)
    if given is not None:
        names = known.given(given)
        if entry.name == "ctc" and len(names) == count - 2:
            return ("", *names, " ")
        if entry.name == "classify" and len(names) == count - 1:
            return ("background", *names)
        if count and len(names) != count:
            raise ArgumentError(f"labels: expected {count} names for the classes of {graph.name}, got {len(names)}")
        return names
    own = (known.from_metadata(graph.metadata), text.characters(graph.metadata), entry.labels)
    return next((names for names in own if names and len(names) == (count or len(names))), ())
