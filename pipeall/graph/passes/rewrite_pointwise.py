"""Rules of ``rewrite`` for pointwise ops: one op of the several that exporters write for an activation, gates."""

from __future__ import annotations

from math import isclose, pi, prod

import numpy as np

from ..ir import Node
from ..ops import attributes, unclamped
from .editor import GraphEditor

CLOSE = 1e-4  # relative: exporters write constants in float32, or rounded by hand


def make_activation(editor: GraphEditor, node: Node) -> bool:
    """Makes swish, hardswish, mish, gelu or gelu_tanh of a product of a tensor and a gate computed of it."""
    if node.op != "mul" or not unclamped(node):
        return False
    tensors, number = _factors(editor, node)
    if len(tensors) != 2:
        return False
    for x, gate in (tensors, tensors[::-1]):
        if editor.shapes[x] == editor.shapes[gate] == editor.shapes[node.output]:
            for op, scale, matches in GATES:
                if isclose(number, scale, rel_tol=CLOSE) and matches(editor, x, gate):
                    return editor.put(node, op=op, inputs=(x,), attrs=attributes(op))
    return False


def add_to_gate(editor: GraphEditor, node: Node) -> bool:
    """Makes x (g + 1) of x + x g where the gate g, such as squeeze-excite's, is smaller than x: a pass over x less."""
    if node.op != "add" or editor.tensors[node.output].dtype != "float32":
        return False
    for x, product in (node.inputs, node.inputs[::-1]):
        gated = editor.producer(product, "mul")
        if gated is None or not unclamped(gated) or not editor.single_use(gated) or x not in gated.inputs:
            continue
        gate = gated.inputs[gated.inputs[0] == x]
        shape, whole = editor.shapes[gate], editor.shapes[node.output]
        if gate not in editor.constants and editor.shapes[x] == whole and prod(shape) < prod(whole):
            one = editor.constant(f"{gate}.one", np.ones((1,) * len(shape)))
            more = editor.insert("add", f"{gate}.and_one", (gate, one), attributes("add"), node)
            return editor.put(node, op="mul", inputs=(x, more))
    return False


def _number(editor: GraphEditor, name: str) -> float | None:
    """A constant of one element."""
    array = editor.constants.get(name)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _factors(editor: GraphEditor, root: Node) -> tuple[list[str], float]:
    """The tensors that a product multiplies, through products that only it reads, and the product of its numbers."""
    tensors, numbers, waiting = [], [], list(root.inputs)
    while waiting:
        name = waiting.pop(0)
        number, inner = _number(editor, name), editor.producer(name, "mul", "div")
        if number is not None:
            numbers.append(number)
        elif inner is not None and unclamped(inner) and editor.single_use(inner) and _is_product(editor, inner):
            if inner.op == "div":
                waiting.append(inner.inputs[0])
                numbers.append(1 / _number(editor, inner.inputs[1]))
            else:
                waiting += inner.inputs
        else:
            tensors.append(name)
    return tensors, prod(numbers)


def _is_product(editor: GraphEditor, node: Node) -> bool:
    """A product, or a division by a number."""
    return node.op == "mul" or (not node.attrs["swapped"] and bool(_number(editor, node.inputs[1])))


def _scaled(editor: GraphEditor, name: str, x: str) -> float | None:
    """The factor by which a tensor is a multiple of x; None if it is none."""
    if name == x:
        return 1.0
    node = editor.producer(name, "mul", "div")
    if node is None or not unclamped(node) or not _is_product(editor, node):
        return None
    tensors, number = (
        _factors(editor, node) if node.op == "mul" else ([node.inputs[0]], 1 / _number(editor, node.inputs[1]))
    )
    return number if tensors == [x] else None


def _of(editor: GraphEditor, name: str, *ops: str) -> str | None:
    """What an op of one operand reads, that makes a tensor which only one node reads."""
    node = editor.producer_for_one(name, *ops)
    return node.inputs[0] if node is not None else None


def _plus(editor: GraphEditor, name: str, shift: float) -> tuple[Node, str] | None:
    """A sum with this number, and the other operand."""
    node = editor.producer_for_one(name, "add")
    if node is None:
        return None
    for a, b in (node.inputs, node.inputs[::-1]):
        number = _number(editor, b)
        if number is not None and isclose(number, shift, rel_tol=CLOSE):
            return node, a
    return None


def _is_swish(editor: GraphEditor, x: str, gate: str) -> bool:
    return _of(editor, gate, "sigmoid") == x


def _is_mish(editor: GraphEditor, x: str, gate: str) -> bool:
    inner = _of(editor, gate, "tanh")
    return inner is not None and _of(editor, inner, "softplus") == x


def _is_hard(editor: GraphEditor, x: str, gate: str) -> bool:
    node = editor.producer(gate, "hardsigmoid")
    fits = node is not None and editor.single_use(node) and node.inputs == (x,)
    return fits and isclose(node.attrs["alpha"], 1 / 6, rel_tol=CLOSE) and node.attrs["beta"] == 0.5


def _is_clipped(editor: GraphEditor, x: str, gate: str) -> bool:
    """clip(x + 3, 0, 6)"""
    if shifted := _plus(editor, gate, 3.0):
        node, other = shifted
        return other == x and (node.attrs["lo"], node.attrs["hi"]) == (0.0, 6.0)
    return False


def _is_erf(editor: GraphEditor, x: str, gate: str) -> bool:
    """1 + erf(x / sqrt 2)"""
    shifted = _plus(editor, gate, 1.0)
    inner = _of(editor, shifted[1], "erf") if shifted and unclamped(shifted[0]) else None
    scale = _scaled(editor, inner, x) if inner is not None else None
    return scale is not None and isclose(scale, 0.5**0.5, rel_tol=CLOSE)


def _is_tanh(editor: GraphEditor, x: str, gate: str) -> bool:
    """1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))"""
    shifted = _plus(editor, gate, 1.0)
    inner = _of(editor, shifted[1], "tanh") if shifted and unclamped(shifted[0]) else None
    argument = editor.producer(inner, "mul") if inner is not None else None
    if argument is None or not unclamped(argument):
        return False
    tensors, number = _factors(editor, argument)
    if len(tensors) == 1 and isclose(number, (2 / pi) ** 0.5, rel_tol=CLOSE):
        total = editor.producer(tensors[0], "add")
        return (
            total is not None
            and unclamped(total)
            and any(a == x and _cubic(editor, b, x) == [x] * 3 for a, b in (total.inputs, total.inputs[::-1]))
        )
    return False


def _cubic(editor: GraphEditor, name: str, x: str) -> list[str] | None:
    """The factors of 0.044715 times powers of x."""
    node = editor.producer(name, "mul")
    tensors, number = _factors(editor, node) if node is not None and unclamped(node) else ([], 0.0)
    flat = [part for t in tensors for part in _power(editor, t, x)]
    return flat if isclose(number, 0.044715, rel_tol=CLOSE) else None


def _power(editor: GraphEditor, name: str, x: str) -> list[str]:
    node = editor.producer(name, "mul", "pow")
    if node is None or not unclamped(node):
        return [name]
    if node.op == "pow":
        exponent = None if node.attrs["swapped"] else _number(editor, node.inputs[1])
        return [node.inputs[0]] * int(exponent) if exponent in (2.0, 3.0) else [name]
    tensors, number = _factors(editor, node)
    return tensors if number == 1 else [name]


GATES = (  # op, the number that the product has beside the gate, whether a tensor is the gate
    ("swish", 1.0, _is_swish),
    ("mish", 1.0, _is_mish),
    ("hardswish", 1.0, _is_hard),
    ("hardswish", 1 / 6, _is_clipped),
    ("gelu", 0.5, _is_erf),
    ("gelu_tanh", 0.5, _is_tanh),
)
