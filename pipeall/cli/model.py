"""The MODEL argument of every command: an .onnx file or a network of the zoo."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from ..errors import ArgumentError
from ..graph import zoo
from ..graph.ir import Graph
from ..graph.onnx.read import load

ZOO: dict[str, Callable[[], Graph]] = {
    "alexnet": zoo.alexnet,
    "googlenet": zoo.googlenet,
    "mobilenet": zoo.mobilenet,
    "resnet50": zoo.resnet50,
    "resnet50-slim": partial(zoo.resnet50, variant="slim"),
    "squeezenet": zoo.squeezenet,
}


class Numbers(click.ParamType):
    """Comma-separated numbers of one type: "1,3,227,227" or "0.485,0.456,0.406"."""

    def __init__(self, kind: type, name: str):
        self.kind, self.name = kind, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self.kind(word) for word in value.split(","))
        except ValueError:
            self.fail(f"expected numbers such as {self.name}, got {value!r}", param, ctx)


finer_option = click.option(
    "--finer",
    type=click.IntRange(1),
    help="Cut also where up to so many tensors cross: inside of modules and residual units.",
)
shape_option = click.option(
    "--input-shape", type=Numbers(int, "1,3,224,224"), help="Shape of the model's only input; default the file's."
)


def model_options(command: Callable) -> Callable:
    """How to read the model: ``load_model`` takes them."""
    return shape_option(finer_option(command))


def model_argument(command: Callable) -> Callable:
    return click.argument("model")(model_options(command))


def load_model(model: str, input_shape: tuple[int, ...] | None = None, finer: int | None = None) -> Graph:
    """The network of a path or zoo name; ArgumentError or ModelError where there is none or the shape does not fit."""
    if model in ZOO:
        graph = ZOO[model]()
        if input_shape not in (None, graph.inputs[0].shape):
            raise ArgumentError(f"--input-shape: {model} of the zoo has {graph.inputs[0].shape}, got {input_shape}")
    elif model.lower().endswith(".onnx"):
        graph = load(model, input_shape)
    else:
        raise ArgumentError(f"model {model!r}: expected an .onnx file or one of {', '.join(ZOO)}")
    return graph if finer is None else graph.finer(finer)
