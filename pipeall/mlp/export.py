"""A trained network as a graph that the pipeline runs and as an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from ..errors import ArgumentError
from ..graph.ir import Graph, Node, Tensor
from ..graph.ops import attributes

INPUT = "input"


def to_graph(layers: Sequence[tuple[np.ndarray, np.ndarray]], activations: Sequence[str], name: str = "mlp") -> Graph:
    """A trained network as a graph, batch 1, float32. ``layers``: as ``Perceptron.gather`` gives them.

    tanh z is 2 sigmoid(2 z) - 1: the factors go into the weights before and behind it. Raises ArgumentError for an
    output of tanh, which has no weights behind it.
    """
    if activations[-1] == "tanh":
        raise ArgumentError("export: expected an output of sigmoid, relu, linear or softmax, got tanh")
    tensors = {INPUT: Tensor(INPUT, (1, layers[0][0].shape[1]))}
    nodes, constants, value, after_tanh = [], {}, INPUT, False

    def node(op: str, title: str, inputs: tuple[str, ...], size: int, **attrs: object) -> str:
        tensors[title] = Tensor(title, (1, size))
        nodes.append(Node(title, op, inputs, title, attributes(op, **attrs)))
        return title

    for index, ((weight, bias), activation) in enumerate(zip(layers, activations, strict=True), 1):
        weight, bias = weight.astype(np.float64), bias.astype(np.float64)
        if after_tanh:
            weight, bias = 2 * weight, bias - weight.sum(axis=1)
        after_tanh = activation == "tanh"
        gain = 2 if after_tanh else 1
        names = f"layer{index}/weight", f"layer{index}/bias"
        constants |= {names[0]: (gain * weight).astype(np.float32), names[1]: (gain * bias).astype(np.float32)}
        value = node("fc", f"layer{index}", (value, *names), len(weight), lo=0.0 if activation == "relu" else -inf)
        if activation in ("sigmoid", "tanh"):
            value = node("sigmoid", f"layer{index}/sigmoid", (value,), len(weight))
        elif activation == "softmax":
            value = node("softmax", f"layer{index}/softmax", (value,), len(weight))
    return Graph(name, tuple(nodes), tensors, constants, (tensors[INPUT],), (tensors[value],))


def in_units(
    layers: Sequence[tuple[np.ndarray, np.ndarray]], x: tuple[np.ndarray, np.ndarray], y: tuple[np.ndarray, np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The layers of a network on standardized numbers, changed so that it takes and gives numbers as they are.

    ``x``, ``y``: (mean, deviation) of each feature and of each output, of which y is linear or (0, 1); float64.
    """
    wide = [(weight.astype(np.float64), bias.astype(np.float64)) for weight, bias in layers]
    weight, bias = wide[0]
    weight = weight / x[1]
    wide[0] = weight, bias - weight @ x[0]
    weight, bias = wide[-1]
    wide[-1] = y[1][:, None] * weight, y[1] * bias + y[0]
    return wide
