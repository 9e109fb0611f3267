"""The branch of an If in place of its node, in protobuf: for shapes, where a model is not converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .build import OnnxNode
from .control import branch
from .tensors import package


def inlined(n: OnnxNode, condition: np.ndarray) -> Any:
    """A GraphProto of the nodes and initializers that the If becomes.

    What it makes within goes by names that begin with the name of the node's output, for both branches, and several
    nodes, may use the same ones. Raises ModelError for a branch that does not fit.
    """
    body = package().GraphProto()
    body.CopyFrom(branch(n, condition).proto)
    within = [tensor.name for tensor in body.initializer] + [name for node in body.node for name in node.output]
    label = next(filter(None, n.outputs), n.name)
    _rename(body, {name: f"{label}/{name}" for name in within if name})
    for made, wanted in zip(body.output, n.outputs, strict=True):
        if wanted:
            body.node.append(package().helper.make_node("Identity", [made.name], [wanted], name=f"{n.name}/{wanted}"))
    return body


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Within a GraphProto and those within its nodes, which may read what is made around them."""
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for part in (node.input, node.output):
            part[:] = [names.get(name, name) for name in part]
        for attr in node.attribute:
            for inner in (attr.g, *attr.graphs) if attr.type in (attr.GRAPH, attr.GRAPHS) else ():
                _rename(inner, names)
