"""The network that a MODEL names: an .onnx file, one of the zoo, or a trained one of the extra ``demo``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import click

from ..errors import ArgumentError, ModelError
from ..graph import zoo
from ..graph.ir import Graph
from ..graph.onnx.demo import TRAINED
from ..graph.onnx.read.inputs import Shapes
from ..graph.onnx.read.read import load
from ..sizing import onnx_shapes
from ..sizing.exports import with_doubts
from ..sizing.size_network import Network, of_graph

ZOO: dict[str, Callable[[], Graph]] = {
    "alexnet": zoo.alexnet,
    "googlenet": zoo.googlenet,
    "mobilenet": zoo.mobilenet,
    "resnet50": zoo.resnet50,
    "resnet50-slim": partial(zoo.resnet50, variant="slim"),
    "squeezenet": zoo.squeezenet,
}
NAMES = (*ZOO, *TRAINED)
VALUES = f"{__name__}.values"  # of a context's ``meta``
BRANCHES = "branches"
Finer = int | Literal["branches"] | None  # how --finer divides groups: where so many tensors cross, or into branches


def load_model(
    model: str, input_shape: Shapes | None = None, finer: Finer = None, values: Mapping[str, Any] | None = None
) -> Graph:
    """The network of a path or name; ArgumentError or ModelError where there is none or the shape does not fit.

    ``values``: of its inputs by name, where --value does not give them.
    """
    model, input_shape = _file(model, input_shape)
    values = values or given_values()
    if model in ZOO:
        if values:
            raise ArgumentError(f"--value: {model} of the zoo has no input that takes one, got {', '.join(values)}")
        graph = ZOO[model]()
        (x,) = graph.inputs
        if input_shape not in (None, x.shape, {x.name: x.shape}):
            raise ArgumentError(f"--input-shape: {model} of the zoo has {x.shape}, got {input_shape}")
    elif model.lower().endswith(".onnx"):
        graph = load(model, input_shape, values=values)
    else:
        raise ArgumentError(f"model {model!r}: expected an .onnx file or one of {', '.join(NAMES)}")
    if finer == BRANCHES:
        return graph.in_branches()
    return graph if finer is None else graph.finer(finer)


def read_network(
    model: str, input_shape: Shapes | None = None, finer: Finer = None, folded: bool = False
) -> tuple[Network, Graph | None, str]:
    """The network as it was exported, the graph that would run, and why there is none.

    With ``folded`` the network is the graph: BatchNorm is part of convolutions there. Without, the network's ``notes``
    tell of BatchNorm that was folded before, or may have been.
    """
    model, input_shape = _file(model, input_shape)
    if model in ZOO or folded or not model.lower().endswith(".onnx"):
        graph = load_model(model, input_shape, finer)
        network = of_graph(graph)
        return network if folded else with_doubts(network), graph, ""
    network = with_doubts(onnx_shapes.read(model, input_shape, given_values()))
    try:
        graph = load_model(model, input_shape, finer)
    except ModelError as error:
        return network, None, str(error)
    return network, graph, ""


def _file(model: str, input_shape: Shapes | None) -> tuple[str, Shapes | None]:
    """The file of a trained network's name, and its own shape where none is given; another name as it is."""
    trained = TRAINED.get(model)
    return (model, input_shape) if trained is None else (str(trained.path()), input_shape or trained.shape)


def given_values() -> dict[str, Any]:
    """What --value gives in the command that runs, by input name."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.get(VALUES, {})
