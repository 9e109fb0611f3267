"""What ``pipeall run`` reads out of a network's outputs: its task and how it wants pictures, by the options."""

from __future__ import annotations

from typing import Any

import click

from ..errors import ArgumentError, ModelError
from ..graph.ir import Graph
from ..tasks import DECODERS
from ..tasks.decoder import TASKS
from ..tasks.text_reader import Reader
from ..tasks.text_reader import reader as reader_of
from .options import KeyValues
from .preprocess import preprocessing

TASK = KeyValues(
    click.Choice(TASKS),
    decoder=(click.Choice(sorted(DECODERS)), "name of the decoder, such as yolox"),
    threshold=(click.FloatRange(0, 1), "least score that counts"),
    iou=(click.FloatRange(0, 1), "boxes that overlap more are one thing"),
    top=(click.IntRange(1), "classes (5) or boxes shown at most"),
    first_class=(int, "outputs before class 0, such as 1"),
)
SHORT = ("decoder", "threshold", "top", "first_class")  # keys that are options too


def reader(graph: Graph, chosen: dict[str, Any], labels: str | None, preprocess: dict[str, Any] | None) -> Reader:
    """``chosen``: keys of --task, its head the task; ``preprocess``: those of --preprocess, or None. Raises
    ArgumentError, and ModelError for a network that is not recognised."""
    chosen = dict(chosen)
    kind, most = chosen.pop("head", None), chosen.pop("top", None)
    try:
        found = reader_of(graph, kind, labels=labels, most=most, **chosen)
    except ModelError as error:
        raise ModelError(str(error).replace("give decoder= one of", "give --decoder one of")) from error
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("first_class:", "--first-class:")) from error
    if preprocess is not None:
        found.picture = preprocessing(found.task.size, found.own, found.grey, preprocess)
    return found
