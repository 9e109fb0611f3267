"""A quantised network out of its parts: levels of tensors, weights and biases."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..graph.ir import Graph, Quantization
from .levels import MAX_BIAS, MOST, Levels, on_scales, weight_scales
from .places import Places
from .sheet import Sheet


def integer_weights(
    graph: Graph, found: Places, levels: Mapping[str, Levels], learned: Mapping[str, np.ndarray] | None = None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of every layer, by its name: weights on levels, and their scales; the nearest, or those that were learned."""
    made = {}
    for node in found.layers:
        x, weight, bias = (*node.inputs[:1], *(graph.constants[name] for name in node.inputs[1:]))
        scales = weight_scales(weight, bias, levels[found.share[x]].scale)
        made[node.name] = on_scales((learned or {}).get(node.name, weight), scales, MOST), scales
    return made


def quantised(
    graph: Graph,
    found: Places,
    levels: Mapping[str, Levels],
    weights: Mapping[str, tuple[np.ndarray, np.ndarray]],
    shifts: Mapping[str, np.ndarray],
) -> Graph:
    """The network with its values on levels. ``shifts``: what is subtracted from the biases of layers, by name.

    A tensor keeps its name where it lies on levels; what the node makes before is called ``.../real``.
    """
    sheet = Sheet(graph)
    put = {name: levels[stand_in] for stand_in, names in found.sources.items() for name in names}
    layers = {node.output for node in found.layers}
    renamed = {}
    for tensor in graph.inputs:
        if tensor.name in put:
            renamed[tensor.name] = _fakequant(sheet, tensor.name, put[tensor.name], None)
    for node in graph.nodes:
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        if node.output in layers:
            integers, scales = weights[node.name]
            own = levels[found.share[node.inputs[0]]].scale
            inputs = (inputs[0], *_constants(sheet, node.inputs[1:], integers, scales, own, shifts.get(node.name)))
        if node.output in put:
            real = sheet.copy(node, inputs=inputs, output=sheet.fresh(f"{node.output}/real"))
            _fakequant(sheet, real, put[node.output], node.output)
        else:
            sheet.copy(node, inputs=inputs)
    return sheet.graph([tensor.name for tensor in graph.outputs])


def _fakequant(sheet: Sheet, x: str, levels: Levels, output: str | None) -> str:
    name = f"{x}/quantised" if output is None else output
    return sheet.add("fakequant", name, [x], output, scale=levels.scale, low=float(levels.low))


def _constants(
    sheet: Sheet,
    names: tuple[str, ...],
    integers: np.ndarray,
    scales: np.ndarray,
    x_scale: float,
    shift: np.ndarray | None,
) -> tuple[str, str]:
    """Weight and bias of a layer, on levels."""
    weight = sheet.constant(f"{names[0]}/int8", integers)
    axis = None if len(scales) == 1 else 0
    sheet.levels[weight] = Quantization(tuple(scales.tolist()), (0,) * len(scales), axis)
    bias = sheet.source.constants[names[1]].astype(np.float64) - (0 if shift is None else shift)
    return weight, sheet.constant(f"{names[1]}/int32", on_scales(bias, np.float32(x_scale) * scales, MAX_BIAS))
