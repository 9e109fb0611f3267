"""What ``pipeall run`` reads out of a network's outputs: its task, by the options, and a classifier's classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import numpy as np

from ..errors import ArgumentError, ModelError
from ..graph.ir import Graph
from ..picture import Picture, Placed
from ..tasks import DECODERS, Answer, Task
from ..tasks import task as task_of
from ..tasks.decoder import TASKS, recognised, signature
from ..tasks.labels import read
from .options import KeyValues
from .preprocess import CROP, preprocessing

TASK = KeyValues(
    click.Choice(TASKS),
    decoder=(click.Choice(sorted(DECODERS)), "name of the decoder, such as yolox"),
    threshold=(click.FloatRange(0, 1), "least score that counts"),
    iou=(click.FloatRange(0, 1), "boxes that overlap more are one thing"),
    top=(click.IntRange(1), "classes (5) or boxes shown at most"),
    first_class=(int, "outputs before class 0, such as 1"),
)
SHORT = ("decoder", "threshold", "top", "first_class")  # keys that are options too


class Reader:
    """The task of a network, whose classes begin at output ``first``.

    picture  how the network wants pictures
    """

    def __init__(self, task: Task, picture: Picture, first: int, named: bool):
        self.task, self.picture = task, picture
        self._first, self._named = first, named

    def __call__(self, outputs: dict[str, np.ndarray], placed: Placed) -> Answer:
        """Raises ArgumentError for scores of classes with a NaN or an infinity."""
        if self.task.decoder.name != "classify":
            return self.task(outputs, placed)
        if not all(np.isfinite(values).all() for values in outputs.values()):
            raise ArgumentError("output of the network: expected finite numbers, got NaN or infinity")
        answer = self.task(outputs, placed)
        kept = [found for found in answer.classes if found.label >= self._first]
        return replace(answer, classes=tuple(map(self._counted, kept[: len(answer.classes) - self._first])))

    def fed(self, layout: str) -> Picture:
        """``picture`` for frames of this pixel format."""
        return replace(self.picture, frames=layout)

    def _counted(self, found: Any) -> Any:
        label = found.label - self._first
        return replace(found, label=label, name=found.name if self._named else str(label))


def reader(graph: Graph, chosen: dict[str, Any], labels: str | None, preprocess: dict[str, Any] | None) -> Reader:
    """``chosen``: keys of --task, its head the task; ``preprocess``: those of --preprocess, or None.

    A row of numbers that nothing is known of is a classifier's. Raises ArgumentError, and ModelError for a network
    that is not recognised.
    """
    chosen = dict(chosen)
    kind, decoder = chosen.pop("head", None), chosen.pop("decoder", None)
    first, most = chosen.pop("first_class", 0), chosen.pop("top", None)
    decoder = decoder or _decoder(graph, kind)
    seen = signature(graph)
    names: tuple[str, ...] | None = None if labels is None else read(labels)
    if decoder == "classify":
        count = DECODERS[decoder].classes(seen)
        if not 0 <= first < count:
            raise ArgumentError(f"--first-class: expected 0 to {count - 1}, got {first}")
        names = _class_names(names, labels, count, first)
        most = (most or DECODERS[decoder].most) + first
    elif first:
        raise ArgumentError(f"--first-class: expected it with a classifier, got the decoder {decoder}")
    task = task_of(graph, decoder, kind, labels=names, most=most, **chosen)
    levels = graph.inputs[0].dtype != "float32"
    return Reader(task, _picture(task, seen.channels == 1, levels, preprocess), first, bool(task.labels))


def _decoder(graph: Graph, kind: str | None) -> str:
    """The decoder of what is recognised."""
    try:
        return recognised(graph, kind).name
    except ModelError as error:
        seen = signature(graph)
        if kind in (None, "classify") and DECODERS["classify"].reads(seen):
            return "classify"
        raise ModelError(str(error).replace("give decoder= one of", "give --decoder one of")) from error


def _class_names(names: tuple[str, ...] | None, labels: str | None, count: int, first: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    names = tuple(name.strip() for name in names if name.strip())
    expected = {count - first} | ({count - 1} if not first else set())  # the task knows a background class
    if len(names) not in expected:
        raise ArgumentError(f"labels {labels}: expected {count - first} lines, one per class, got {len(names)}")
    return ("",) * first + names


def _picture(task: Task, grey: bool, levels: bool, preprocess: dict[str, Any] | None) -> Picture:
    """The task's own, for a classifier that does not read grey ``levels`` the preset imagenet, unless one is given."""
    classifier = task.decoder.name == "classify"
    if preprocess is None and (levels or not classifier):
        return task.picture
    given = dict(preprocess or {})
    given.pop("size", None)
    return preprocessing(task.size, given.pop("head", "imagenet"), CROP if classifier else task.picture, grey, **given)
