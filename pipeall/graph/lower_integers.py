"""What ops on quantised tensors become (``lower_ops`` has the others): steps on 8-bit integers, with the levels of what
they read and write. Ops that move elements, and maxima, are those of any type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .ir import Node, Quantization
from .lowering import Lowering
from .pointwise import UNARY
from .strides import broadcast, order_of

ENTRIES = np.arange(-128, 128)


def levels(to: Lowering, node: Node) -> dict[str, Any]:
    """Of a step: scale and zero point of each operand and of the result, and of a layer the scale of each output's
    weights; nothing where the node does not compute with integers."""
    if to.tensor(node.output).quantization is None:
        return {}
    found: dict[str, Any] = {"levels": tuple(_single(of) for of in _quantizations(to, node))}
    if node.op in ("conv", "fc"):
        found["scales"] = to.graph.levels[node.inputs[1]].scale
    return found


def _quantizations(to: Lowering, node: Node) -> list[Quantization]:
    layer = node.op in ("conv", "fc")
    names = (*node.inputs[: 1 if layer else None], node.output)
    return [to.tensor(x).quantization if x in to.graph.tensors else to.graph.levels[x] for x in names]


def _single(levels: Quantization) -> tuple[float, int]:
    return levels.scale[0], levels.zero_point[0]


def _table(to: Lowering, node: Node) -> None:
    """A function of one element: one of 256."""
    (scale, zero), (y_scale, y_zero) = levels(to, node)["levels"]
    x = ((ENTRIES - zero) * np.float32(scale)).astype(np.float32)
    parameters = [np.float32(node.attrs[name]) for name in UNARY[node.op].parameters]
    with np.errstate(all="ignore"):
        y = np.nan_to_num(UNARY[node.op].compute(x, *parameters) / np.float32(y_scale), posinf=np.inf, neginf=-np.inf)
    table = np.clip(np.rint(y) + y_zero, -128, 127).astype(np.int8)
    at = to.places[to.activation(node)]
    to.step("table", node, (at,), to.target(node, order_of(at)), {"table": table})


def _of_two(to: Lowering, node: Node) -> None:
    shape = to.shape(node.output)
    full = next((to.places[n] for n in node.inputs if n in to.places and to.shape(n) == shape), None)
    order = order_of(full) if full is not None else to.natural(node.output)
    src = [broadcast(to.operand(name, order), shape) for name in node.inputs]
    params = {"op": node.op, "lo": node.attrs["lo"], "hi": node.attrs["hi"], **levels(to, node)}
    to.step("integers", node, src, to.target(node, order), params)


def stored(to: Lowering, node: Node) -> None:
    """Integers of real numbers, or these of integers, as they lie."""
    at = to.places[to.activation(node)]
    params = {"scale": node.attrs["scale"], "zero": node.attrs["zero"]}
    to.step(node.op, node, (at,), to.target(node, order_of(at)), params)


RULES: dict[str, Callable[[Lowering, Node], None]] = {
    **{op: _table for op, entry in UNARY.items() if entry.floats},
    **dict.fromkeys(("add", "mul"), _of_two),
}
