"""What ops on quantized tensors become (``lower_ops`` has the others): steps on 8-bit integers, with the levels of what
they read and write. Ops that move elements, and maxima, are those of any type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir import Node, Quantization
from ..ops import Trait, has
from ..passes.int8 import SUMS
from ..pointwise import UNARY
from .lowering import Lowering
from .strides import broadcast, order_of

ENTRIES = np.arange(-128, 128)
Table = np.ndarray  # of the 256 integers that those of a tensor become, the lowest first


def qparams(to: Lowering, node: Node) -> dict[str, Any]:
    """Of a step: scale and zero point of each operand and of the result, if that is of integers, and of a layer the
    scale of each output's weights; nothing where the node does not compute with integers."""
    if not on_integers(to, node):
        return {}
    params: dict[str, Any] = {"qparams": tuple(of.single for of in _quantizations(to, node))}
    if has(node.op, Trait.INT8_WEIGHTS):
        params["scales"] = to.graph.qparams[node.inputs[1]].scale
    return params


def on_integers(to: Lowering, node: Node) -> bool:
    """Whether a node makes integers, or is a layer that makes real numbers of them."""
    made_of = to.graph.tensors.get(node.inputs[0]) if has(node.op, Trait.INT8_WEIGHTS) else None
    return to.tensor(node.output).quantization is not None or (made_of is not None and made_of.quantization is not None)


def _quantizations(to: Lowering, node: Node) -> list[Quantization]:
    names = (*node.inputs[: 1 if has(node.op, Trait.INT8_WEIGHTS) else None], node.output)
    quantizations = (to.tensor(x).quantization if x in to.graph.tensors else to.graph.qparams[x] for x in names)
    return [of for of in quantizations if of is not None]


def _floats(entries: np.ndarray, of: tuple[float, int]) -> np.ndarray:
    return ((entries.astype(np.int32) - of[1]) * np.float32(of[0])).astype(np.float32)


def _stored(floats: np.ndarray, of: tuple[float, int]) -> Table:
    levels = np.nan_to_num(floats / np.float32(of[0]), posinf=np.inf, neginf=-np.inf)
    return np.clip(np.rint(levels) + of[1], -128, 127).astype(np.int8)


def _table(to: Lowering, node: Node) -> Table:
    """A function of one element."""
    x, y = qparams(to, node)["qparams"]
    parameters = [np.float32(node.attrs[name]) for name in UNARY[node.op].parameters]
    with np.errstate(all="ignore"):
        return _stored(UNARY[node.op].compute(_floats(ENTRIES, x), *parameters), y)


def _table_of_two(to: Lowering, node: Node, tables: Mapping[str, Table]) -> Table:
    """A sum or product of functions of one element."""
    a, b = (_floats(tables[x], of) for x, of in zip(node.inputs, qparams(to, node)["qparams"][:-1], strict=True))
    made = (a + b if node.op == "add" else a * b).clip(node.attrs["lo"], node.attrs["hi"])
    return _stored(made, qparams(to, node)["qparams"][-1])


def _function(to: Lowering, node: Node) -> bool:
    quantized = to.tensor(node.output).quantization is not None
    return quantized and node.op in UNARY and RULES.get(node.op) is _unary


def _gate(to: Lowering, node: Node) -> tuple[Node, Table] | None:
    """The sum or product of a function of one element and that element, x * sigmoid(x), where nobody else reads the
    function: its node and table."""
    (x,), consumers = node.inputs, to.only_consumers(node.output)
    if len(consumers) != 1 or consumers[0].op not in SUMS or set(consumers[0].inputs) != {x, node.output}:
        return None
    return consumers[0], _table_of_two(to, consumers[0], {x: ENTRIES, node.output: _table(to, node)})


def _function_behind(to: Lowering, name: str) -> tuple[list[Node], Table]:
    """The functions of one element, one behind the other, of a tensor that nobody else reads, and the table of all."""
    absorbed_nodes: list[Node] = []
    table, made = ENTRIES.astype(np.int8), name
    while True:
        consumers = to.only_consumers(made)
        functions = [node for node in consumers if _function(to, node)]
        gate = _gate(to, functions[0]) if len(consumers) == 2 and functions else None
        if gate is not None and gate[0] in consumers:
            follows, entries = gate
        elif len(consumers) == len(functions) == 1:
            follows, entries = functions[0], _table(to, functions[0])
        else:
            return absorbed_nodes, table
        absorbed_nodes += [*functions, follows]
        made, table = follows.output, entries[table.astype(int) + 128]


def _unary(to: Lowering, node: Node) -> None:
    last, table = _gate(to, node) or (node, _table(to, node))
    behind, entries = _function_behind(to, last.output)
    to.done |= {other.output for other in (last, *behind)}
    last, at = (*[last], *behind)[-1], to.places[to.activation(node)]
    to.step("table", last, (at,), to.target(last, order_of(at)), {"table": entries[table.astype(int) + 128]})


def absorbed(to: Lowering, node: Node) -> tuple[Node, list[str], dict[str, Any]]:
    """What a convolution on integers does with its results while they are in a cache: the last node it computes, the
    tensor that is added, and the parameters of both."""
    params: dict[str, Any] = {}
    behind, table = _function_behind(to, node.output)
    if behind and to.lies_as_pixels(behind[-1]):
        params["table"], last = table, behind[-1]
    else:
        behind, last = [], node
    added = []
    consumers = to.only_consumers(last.output)
    if len(consumers) == 1 and consumers[0].op == "add" and to.tensor(consumers[0].output).quantization is not None:
        others = [name for name in consumers[0].inputs if name != last.output]
        here = [name for name in others if name in to.done and to.shape(name) == to.shape(last.output)]
        if len(here) == 1 and to.lies_as_pixels(consumers[0]):
            own, *rest = qparams(to, consumers[0])["qparams"]
            if consumers[0].inputs[0] != last.output:
                own, rest[0] = rest[0], own
            last, added = consumers[0], here
            params["add"] = {"qparams": (own, *rest), "lo": last.attrs["lo"], "hi": last.attrs["hi"]}
            behind = [*behind, last]
    to.done |= {other.output for other in behind}
    return last, added, params


def _of_two(to: Lowering, node: Node) -> None:
    shape = to.shape(node.output)
    full = next((to.places[n] for n in node.inputs if n in to.places and to.shape(n) == shape), None)
    order = order_of(full) if full is not None else to.natural(node.output)
    src = [broadcast(to.operand(name, order), shape) for name in node.inputs]
    params = {"op": node.op, "lo": node.attrs["lo"], "hi": node.attrs["hi"], **qparams(to, node)}
    to.step("integers", node, src, to.target(node, order), params)


def stored(to: Lowering, node: Node) -> None:
    """Integers of real numbers, or these of integers, as they lie."""
    at = to.places[to.activation(node)]
    params = {"scale": node.attrs["scale"], "zero": node.attrs["zero"]}
    to.step(node.op, node, (at,), to.target(node, order_of(at)), params)


def _softmax(to: Lowering, node: Node) -> None:
    at = to.places[to.activation(node)]
    params = {"axis": node.attrs["axis"], **qparams(to, node)}
    to.step("softmax_nd", node, (at,), to.target(node, order_of(at)), params)


RULES: dict[str, Callable[[Lowering, Node], None]] = {
    **{op: _unary for op, entry in UNARY.items() if entry.floats},
    **dict.fromkeys(SUMS, _of_two),
    "softmax": _softmax,
}
