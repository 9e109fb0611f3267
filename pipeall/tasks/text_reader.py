"""What a network says of a picture, as its user counts classes: the task as recognized, or a plain classifier's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, ModelError
from ..graph.ir import Graph
from ..picture import Picture, Placed
from . import labels as known
from .answer import Answer, Class
from .choose import Labels, Task, task
from .classify import IMAGENET
from .decoder import DECODERS, recognized, signature
from .preset import preset_picture


class Reader:
    """The task of a network, whose classes begin at output ``first``.

    picture  how the network wants pictures: the task's own, of a grey classifier by floats that of the preset imagenet
    own      the same, as the start of another preset
    grey     whether the network reads one channel
    """

    def __init__(self, task: Task, grey: bool, floats: bool, first: int):
        self.task, self.grey = task, grey
        classifier = task.decoder.name == "classify"
        self.own = IMAGENET if classifier else task.picture
        self.picture = preset_picture(task.size, "imagenet", grey=grey) if classifier and floats else task.picture
        self._first, self._named = first, bool(task.labels)

    def __call__(self, outputs: np.ndarray | Mapping[str, np.ndarray], placed: Placed) -> Answer:
        """Raises ArgumentError for scores of classes with a NaN or an infinity."""
        if self.task.decoder.name != "classify":
            return self.task(outputs, placed)
        values = outputs.values() if isinstance(outputs, Mapping) else [outputs]
        if not all(np.isfinite(array).all() for array in values):
            raise ArgumentError("output of the network: expected finite numbers, got NaN or infinity")
        answer = self.task(outputs, placed)
        kept = [one for one in answer.classes if one.label >= self._first]
        return replace(answer, classes=tuple(map(self._counted, kept[: len(answer.classes) - self._first])))

    def fed(self, layout: str) -> Picture:
        """``picture`` for frames of this pixel format."""
        return replace(self.picture, frames=layout)

    def _counted(self, one: Class) -> Class:
        label = one.label - self._first
        return replace(one, label=label, name=one.name if self._named else str(label))


def reader(
    graph: Graph,
    kind: str | None = None,
    decoder: str | None = None,
    labels: Labels | None = None,
    most: int | None = None,
    first_class: int = 0,
    **scores: Any,
) -> Reader:
    """``kind``: the task; ``scores``: threshold and iou; the rest as for ``task``.

    A row of numbers that nothing is known of is a classifier's, whose classes begin at output ``first_class``. Raises
    ArgumentError, and ModelError for a network that is not recognized.
    """
    decoder = decoder or _decoder(graph, kind)
    seen = signature(graph)
    if decoder == "classify":
        count = DECODERS[decoder].classes(seen)
        if not 0 <= first_class < count:
            raise ArgumentError(f"first_class: expected 0 to {count - 1}, got {first_class}")
        labels = _class_names(labels, count, first_class)
        most = (most or DECODERS[decoder].most) + first_class
    elif first_class:
        raise ArgumentError(f"first_class: expected it with a classifier, got the decoder {decoder}")
    decode = task(graph, decoder, kind, labels=labels, most=most, **scores)
    return Reader(decode, seen.channels == 1, graph.inputs[0].dtype == "float32", first_class)


def _decoder(graph: Graph, kind: str | None) -> str:
    """The decoder of what is recognized."""
    try:
        return recognized(graph, kind).name
    except ModelError:
        if kind in (None, "classify") and DECODERS["classify"].reads(signature(graph)):
            return "classify"
        raise


def _class_names(labels: Labels | None, count: int, first: int) -> tuple[str, ...] | None:
    if labels is None:
        return None
    names = tuple(name.strip() for name in known.given(labels) if name.strip())
    expected = {count - first} | ({count - 1} if not first else set())  # the task knows a background class
    if len(names) not in expected:
        where = f"labels {labels}" if isinstance(labels, (str, Path)) else "labels"
        raise ArgumentError(f"{where}: expected {count - first} lines, one per class, got {len(names)}")
    return ("",) * first + names
