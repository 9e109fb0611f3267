"""What the outputs of a network mean, and how it wants pictures, by the options of ``run`` and ``quantize``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ..errors import ArgumentError, ModelError
from ..graph.ir import Graph
from ..graph.onnx.read.inputs import Shapes
from ..picture import FILTERS, FITS, Picture
from ..tasks import DECODERS
from ..tasks.decoder import TASKS
from ..tasks.preset import PRESETS, preset_picture
from ..tasks.text_reader import Reader
from ..tasks.text_reader import reader as reader_of
from . import complete
from .model_argument import Finer, load_model
from .options import Numbers, given, together, under

THREE = Numbers(float, "0.485,0.456,0.406")
TASK = ("task", "labels", "decoder", "threshold", "iou", "top", "first_class")
PIXELS = ("preprocess", "size", "resize", "fit", "filter", "channels", "scale", "mean", "std")

task_options = under(
    "What the outputs mean (default: as recognized)",
    click.option("--task", type=click.Choice(TASKS)),
    click.option(
        "--labels",
        metavar="FILE",
        shell_complete=complete.any_file,
        help="Names of the classes, one a line.",
    ),
    click.option("--decoder", type=click.Choice(sorted(DECODERS)), metavar="NAME", help="Such as yolox."),
    together(
        "Least score that counts; boxes that overlap more are one thing.",
        ("--threshold", click.FloatRange(0, 1)),
        ("--iou", click.FloatRange(0, 1)),
    ),
    together(
        "Classes (5) or boxes shown at most; outputs before class 0, such as 1.",
        ("--top", click.IntRange(1)),
        ("--first-class", click.IntRange(0)),
    ),
)
picture_options = under(
    "How the network wants pictures",
    click.option(
        "--preprocess",
        type=click.Choice(list(PRESETS)),
        help="Default: imagenet, or the decoder's.",
    ),
    together(
        "Side of the input; short side before a crop (8/7 of it).",
        ("--size", click.IntRange(1)),
        ("--resize", click.IntRange(1)),
    ),
    together(
        f"{', '.join(FITS)}; {', '.join(FILTERS)}.", ("--fit", click.Choice(FITS)), ("--filter", click.Choice(FILTERS))
    ),
    click.option("--channels", type=click.Choice(["RGB", "BGR"]), help="Mean and std are in this order too."),
    together(
        "Values of 0 to 255 become (value / scale - mean) / std.",
        ("--scale", float),
        ("--mean", THREE),
        ("--std", THREE),
    ),
)


def pixels_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options on pictures that were given. Raises ArgumentError where they replace parts of nothing."""
    keys = given(options, PIXELS)
    if keys and "preprocess" not in keys:
        raise ArgumentError(f"--{next(iter(keys))}: expected --preprocess beside it")
    return keys


def read_model(
    model: str,
    input_shape: Shapes | None,
    finer: Finer,
    task: Mapping[str, Any],
    pixels: Mapping[str, Any],
    values: Mapping[str, Any] | None = None,
) -> tuple[Graph, Reader]:
    """The network that a MODEL names, and what reads its outputs; as of ``load_model`` and ``reader``.

    Raises ArgumentError, too, where ``size`` and ``input_shape`` disagree.
    """
    if (size := pixels.get("size")) is not None:
        square = (1, 3, size, size)
        if input_shape not in (None, square):
            raise ArgumentError(f"--size {size} means --input-shape {square}, got {input_shape} beside it")
        input_shape = square
    graph = load_model(model, input_shape, finer, values)
    return graph, reader(graph, task, pixels)


def reader(graph: Graph, task: Mapping[str, Any], pixels: Mapping[str, Any]) -> Reader:
    """What reads the outputs, by the options of ``TASK`` and ``PIXELS`` that were given.

    Raises ArgumentError, and ModelError for a network that is not recognized.
    """
    keys = dict(task)
    try:
        made = reader_of(graph, keys.pop("task", None), labels=keys.pop("labels", None),
                         most=keys.pop("top", None), **keys)  # fmt: skip
    except ModelError as error:
        raise ModelError(str(error).replace("give decoder= one of", "give --decoder one of")) from error
    except ArgumentError as error:
        raise ArgumentError(str(error).replace("first_class:", "--first-class:")) from error
    if pixels:
        made.picture = preprocessing(made.task.size, made.own, made.grey, pixels)
    return made


def preprocessing(size: tuple[int, int], own: Picture, grey: bool, pixels: Mapping[str, Any]) -> Picture:
    """How pictures become an input of this height and width; fit and filter are those of ``own`` unless given.

    Raises ArgumentError where a number is out of range.
    """
    keys = {key: value for key, value in pixels.items() if key != "size"}
    try:
        return preset_picture(size, keys.pop("preprocess"), own, grey, **keys)
    except ArgumentError as error:
        raise ArgumentError(f"--preprocess {error}") from None
