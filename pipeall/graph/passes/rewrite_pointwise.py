"""Rules of ``rewrite`` for pointwise ops: one op of the several that exporters write for an activation, gates."""

from __future__ import annotations

from math import inf, isclose, pi, prod

import numpy as np

from ..ir import Node
from ..ops import attributes
from .editor import Draft

CLOSE = 1e-4  # relative: exporters write constants in float32, or rounded by hand


def make_activation(draft: Draft, node: Node) -> bool:
    """Makes swish, hardswish, mish, gelu or gelu_tanh of a product of a tensor and a gate computed of it."""
    if node.op != "mul" or not _free(node):
        return False
    tensors, number = _factors(draft, node)
    if len(tensors) != 2:
        return False
    for x, gate in (tensors, tensors[::-1]):
        if draft.shapes[x] == draft.shapes[gate] == draft.shapes[node.output]:
            for op, scale, matches in GATES:
                if isclose(number, scale, rel_tol=CLOSE) and matches(draft, x, gate):
                    return draft.put(node, op=op, inputs=(x,), attrs=attributes(op))
    return False


def add_to_gate(draft: Draft, node: Node) -> bool:
    """Makes x (g + 1) of x + x g where the gate g, such as squeeze-excite's, is smaller than x: a pass over x less."""
    if node.op != "add" or draft.tensors[node.output].dtype != "float32":
        return False
    for x, product in (node.inputs, node.inputs[::-1]):
        gated = draft.maker(product, "mul")
        if gated is None or not _free(gated) or not draft.private(gated) or x not in gated.inputs:
            continue
        gate = gated.inputs[gated.inputs[0] == x]
        shape, whole = draft.shapes[gate], draft.shapes[node.output]
        if gate not in draft.constants and draft.shapes[x] == whole and prod(shape) < prod(whole):
            one = draft.constant(f"{gate}.one", np.ones((1,) * len(shape)))
            more = draft.insert("add", f"{gate}.and_one", (gate, one), attributes("add"), node)
            return draft.put(node, op="mul", inputs=(x, more))
    return False


def _free(node: Node) -> bool:
    return node.attrs["lo"] == -inf and node.attrs["hi"] == inf


def _number(draft: Draft, name: str) -> float | None:
    """A constant of one element."""
    array = draft.constants.get(name)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _factors(draft: Draft, root: Node) -> tuple[list[str], float]:
    """The tensors that a product multiplies, through products that only it reads, and the product of its numbers."""
    tensors, numbers, waiting = [], [], list(root.inputs)
    while waiting:
        name = waiting.pop(0)
        number, inner = _number(draft, name), draft.maker(name, "mul", "div")
        if number is not None:
            numbers.append(number)
        elif inner is not None and _free(inner) and draft.private(inner) and _is_product(draft, inner):
            if inner.op == "div":
                waiting.append(inner.inputs[0])
                numbers.append(1 / _number(draft, inner.inputs[1]))
            else:
                waiting += inner.inputs
        else:
            tensors.append(name)
    return tensors, prod(numbers)


def _is_product(draft: Draft, node: Node) -> bool:
    """A product, or a division by a number."""
    return node.op == "mul" or (not node.attrs["swapped"] and bool(_number(draft, node.inputs[1])))


def _scaled(draft: Draft, name: str, x: str) -> float | None:
    """The factor by which a tensor is a multiple of x; None if it is none."""
    if name == x:
        return 1.0
    node = draft.maker(name, "mul", "div")
    if node is None or not _free(node) or not _is_product(draft, node):
        return None
    tensors, number = (
        _factors(draft, node) if node.op == "mul" else ([node.inputs[0]], 1 / _number(draft, node.inputs[1]))
    )
    return number if tensors == [x] else None


def _of(draft: Draft, name: str, *ops: str) -> str | None:
    """What an op of one operand reads, that makes a tensor which only one node reads."""
    node = draft.maker(name, *ops)
    return node.inputs[0] if node is not None and draft.private(node) else None


def _plus(draft: Draft, name: str, shift: float) -> tuple[Node, str] | None:
    """A sum with this number, and the other operand."""
    node = draft.maker(name, "add")
    if node is None or not draft.private(node):
        return None
    for a, b in (node.inputs, node.inputs[::-1]):
        number = _number(draft, b)
        if number is not None and isclose(number, shift, rel_tol=CLOSE):
            return node, a
    return None


def _is_swish(draft: Draft, x: str, gate: str) -> bool:
    return _of(draft, gate, "sigmoid") == x


def _is_mish(draft: Draft, x: str, gate: str) -> bool:
    inner = _of(draft, gate, "tanh")
    return inner is not None and _of(draft, inner, "softplus") == x


def _is_hard(draft: Draft, x: str, gate: str) -> bool:
    node = draft.maker(gate, "hardsigmoid")
    fits = node is not None and draft.private(node) and node.inputs == (x,)
    return fits and isclose(node.attrs["alpha"], 1 / 6, rel_tol=CLOSE) and node.attrs["beta"] == 0.5


def _is_clipped(draft: Draft, x: str, gate: str) -> bool:
    """clip(x + 3, 0, 6)"""
    if shifted := _plus(draft, gate, 3.0):
        node, other = shifted
        return other == x and (node.attrs["lo"], node.attrs["hi"]) == (0.0, 6.0)
    return False


def _is_erf(draft: Draft, x: str, gate: str) -> bool:
    """1 + erf(x / sqrt 2)"""
    shifted = _plus(draft, gate, 1.0)
    inner = _of(draft, shifted[1], "erf") if shifted and _free(shifted[0]) else None
    scale = _scaled(draft, inner, x) if inner is not None else None
    return scale is not None and isclose(scale, 0.5**0.5, rel_tol=CLOSE)


def _is_tanh(draft: Draft, x: str, gate: str) -> bool:
    """1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))"""
    shifted = _plus(draft, gate, 1.0)
    inner = _of(draft, shifted[1], "tanh") if shifted and _free(shifted[0]) else None
    argument = draft.maker(inner, "mul") if inner is not None else None
    if argument is None or not _free(argument):
        return False
    tensors, number = _factors(draft, argument)
    if len(tensors) == 1 and isclose(number, (2 / pi) ** 0.5, rel_tol=CLOSE):
        total = draft.maker(tensors[0], "add")
        return (
            total is not None
            and _free(total)
            and any(a == x and _cubic(draft, b, x) == [x] * 3 for a, b in (total.inputs, total.inputs[::-1]))
        )
    return False


def _cubic(draft: Draft, name: str, x: str) -> list[str] | None:
    """The factors of 0.044715 times powers of x."""
    node = draft.maker(name, "mul")
    tensors, number = _factors(draft, node) if node is not None and _free(node) else ([], 0.0)
    flat = [part for t in tensors for part in _power(draft, t, x)]
    return flat if isclose(number, 0.044715, rel_tol=CLOSE) else None


def _power(draft: Draft, name: str, x: str) -> list[str]:
    node = draft.maker(name, "mul", "pow")
    if node is None or not _free(node):
        return [name]
    if node.op == "pow":
        exponent = None if node.attrs["swapped"] else _number(draft, node.inputs[1])
        return [node.inputs[0]] * int(exponent) if exponent in (2.0, 3.0) else [name]
    tensors, number = _factors(draft, node)
    return tensors if number == 1 else [name]


GATES = (  # op, the number that the product has beside the gate, whether a tensor is the gate
    ("swish", 1.0, _is_swish),
    ("mish", 1.0, _is_mish),
    ("hardswish", 1.0, _is_hard),
    ("hardswish", 1 / 6, _is_clipped),
    ("gelu", 0.5, _is_erf),
    ("gelu_tanh", 0.5, _is_tanh),
)
