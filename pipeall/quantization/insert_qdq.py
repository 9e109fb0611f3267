"""A quantized network from its parameters: fakequant ops behind tensors, weights and biases on their scales."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..graph.builder import GraphBuilder
from ..graph.ir import Graph, Quantization
from .qparams import MAX_BIAS, MOST, QuantParams, on_scales, weight_scales
from .quantizable import Quantizable

IntegerWeights = Mapping[str, tuple[np.ndarray, np.ndarray]]  # layer -> weights, multiples of their scales; the scales


def integer_weights(
    graph: Graph, of: Quantizable, qparams: Mapping[str, QuantParams], weights: Mapping[str, np.ndarray]
) -> IntegerWeights:
    """Weights and scales of every layer: ``weights`` where it is among them, else the graph's, rounded to nearest."""
    made = {}
    for node in of.layers:
        x, weight, bias = (*node.inputs[:1], *(graph.constants[name] for name in node.inputs[1:]))
        scales = weight_scales(weight, bias, qparams[of.root[x]].scale)
        made[node.name] = on_scales(weights.get(node.name, weight), scales, MOST), scales
    return made


def with_qdq(
    graph: Graph,
    of: Quantizable,
    qparams: Mapping[str, QuantParams],
    weights: IntegerWeights,
    corrections: Mapping[str, np.ndarray],
) -> Graph:
    """The quantized network. ``corrections`` are subtracted from the biases of layers, by name.

    A quantized tensor keeps its name; what the node computes before is called ``.../real``.
    """
    builder = GraphBuilder(graph)
    quantized = {name: qparams[root] for root, names in of.sources.items() for name in names}
    layers = {node.output for node in of.layers}
    renamed = {}
    for tensor in graph.inputs:
        if tensor.name in quantized:
            renamed[tensor.name] = _fakequant(builder, tensor.name, quantized[tensor.name], None)
    for node in graph.nodes:
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        if node.output in layers:
            scale = qparams[of.root[node.inputs[0]]].scale
            constants = _constants(builder, node.inputs[1:], *weights[node.name], scale, corrections.get(node.name, 0))
            inputs = (inputs[0], *constants)
        if node.output in quantized:
            real = builder.copy(node, inputs=inputs, output=builder.fresh(f"{node.output}/real"))
            _fakequant(builder, real, quantized[node.output], node.output)
        else:
            builder.copy(node, inputs=inputs)
    return builder.graph([tensor.name for tensor in graph.outputs])


def _fakequant(builder: GraphBuilder, x: str, qparams: QuantParams, output: str | None) -> str:
    name = f"{x}/quantized" if output is None else output
    return builder.add("fakequant", name, [x], output, scale=qparams.scale, low=float(qparams.low))


def _constants(
    builder: GraphBuilder,
    names: tuple[str, ...],
    integers: np.ndarray,
    scales: np.ndarray,
    x_scale: float,
    correction: np.ndarray | int,
) -> tuple[str, str]:
    """Weight and bias of a layer, on their scales."""
    weight = builder.constant(f"{names[0]}/int8", integers)
    axis = None if len(scales) == 1 else 0
    builder.qparams[weight] = Quantization(tuple(scales.tolist()), (0,) * len(scales), axis)
    bias = builder.source.constants[names[1]].astype(np.float64) - correction
    return weight, builder.constant(f"{names[1]}/int32", on_scales(bias, np.float32(x_scale) * scales, MAX_BIAS))
