"""The rewrite rule of attention: softmax(scale q k^T + mask) v as one node, which keeps no matrix of all scores."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod

import numpy as np

from ..ir import Node
from ..ops import unclamped
from .editor import GraphEditor

DEPTH = 16  # nodes between the product of q and k and its softmax, at most
MASK_MAX = 2**24  # elements of a mask that is made of several, or of another shape than the scores

# The product of q and k, the factor of its result, and what is added, each with the shape of the sum
Scores = tuple[Node, float, tuple[tuple[str, tuple[int, ...]], ...]]


def fuse_attention(editor: GraphEditor, node: Node) -> bool:
    """Makes one node of softmax(factor * q k^T + masks) v, where nothing else reads the scores and probabilities.

    Factors are constant numbers, before or after the product; of several masks all are constants.
    """
    if node.op == "attention":
        return _fold_factor(editor, node)
    if node.op != "matmul" or node.attrs["alpha"] != 1:
        return False
    softmax = editor.producer_for_one(editor.before_reshapes(node.inputs[0], for_one=True), "softmax")
    if softmax is None or softmax.attrs["axis"] != len(editor.shapes[softmax.output]) - 1:
        return False
    scores = _scores(editor, softmax.inputs[0], DEPTH)
    if scores is None:
        return False
    product, scale, added = scores
    (q, q_factor), (k, k_factor) = (_unscaled(editor, name) for name in product.inputs)
    v, shape = node.inputs[1], editor.shapes[product.output]
    batches = {editor.shapes[name][:-2] for name in (q, k, v)}
    fits = shape == editor.shapes[node.inputs[0]] and editor.shapes[softmax.output][-1] == shape[-1]
    if not fits or batches != {shape[:-2]} or not all(_is_float(editor, name) for name in (q, k, v)):
        return False
    mask = _mask(editor, node, added, shape)
    if mask is None:
        return False
    inputs = (q, _transposed(editor, node, k), v, *mask)
    return editor.put(
        node, op="attention", inputs=inputs, attrs={"scale": scale * q_factor * k_factor, "causal": False}
    )


def turn_attention(editor: GraphEditor, node: Node) -> bool:
    """Makes v softmax(...)^T, as detectors whose tokens are columns write it, the transpose of softmax(...) v^T."""
    turned = editor.producer_for_one(node.inputs[1], "transpose") if node.op == "matmul" else None
    softmax = turned and editor.producer_for_one(turned.inputs[0], "softmax")
    if softmax is None or softmax.attrs["axis"] != len(turned.attrs["perm"]) - 1:
        return False
    if turned.attrs["perm"] != _swapped(turned.attrs["perm"]) or not _is_float(editor, node.inputs[0]):
        return False
    if _scores(editor, softmax.inputs[0], DEPTH) is None:
        return False
    inputs = (softmax.output, _transposed(editor, node, node.inputs[0]))
    product = editor.insert("matmul", f"{node.name}.turned", inputs, node.attrs, node)
    perm = _swapped(editor.shapes[product])
    return editor.put(node, op="transpose", inputs=(product,), attrs={"perm": perm})


def _fold_factor(editor: GraphEditor, node: Node) -> bool:
    """Takes the constant factor of q or k into the scale."""
    (q, q_factor), (k, k_factor) = (_unscaled(editor, name) for name in node.inputs[:2])
    if (q, k) == node.inputs[:2]:
        return False
    scale = node.attrs["scale"] * q_factor * k_factor
    return editor.put(node, inputs=(q, k, *node.inputs[2:]), attrs=node.attrs | {"scale": scale})


def _unscaled(editor: GraphEditor, name: str) -> tuple[str, float]:
    """The tensor of which this one is a multiple, and the factor; itself and 1 where others read it too."""
    total = 1.0
    while (node := editor.producer_for_one(name, "mul", "div")) is not None and (
        factor := _factor(editor, node)
    ) is not None:
        name, total = node.inputs[0], total * factor
    return name, total


def _is_float(editor: GraphEditor, name: str) -> bool:
    made = editor.constants.get(name)
    return (editor.tensors[name].dtype if made is None else str(made.dtype)) == "float32"


def _factor(editor: GraphEditor, node: Node) -> float | None:
    """The number by which a node multiplies its first input, if that is all it does."""
    operand = editor.constants.get(node.inputs[1]) if node.op in ("mul", "div") else None
    same = editor.shapes.get(node.inputs[0]) == editor.shapes[node.output] and _is_float(editor, node.inputs[0])
    if operand is None or operand.size != 1 or not same or not unclamped(node) or not operand.all():
        return None
    if node.op == "div" and node.attrs["swapped"]:
        return None
    number = float(operand.reshape(-1)[0])
    factor = number if node.op == "mul" else 1 / number
    return factor if isfinite(factor) else None


def _scores(editor: GraphEditor, name: str, depth: int) -> Scores | None:
    """What a tensor consists of, if it is scores: only the factor may stand before what is added."""
    node = editor.producer_for_one(name, "matmul", "reshape", "mul", "div", "add") if depth else None
    if node is None:
        return None
    if node.op == "matmul":
        return node, node.attrs["alpha"], ()
    if node.op == "reshape":
        return _scores(editor, node.inputs[0], depth - 1)
    if node.op in ("mul", "div"):
        factor = _factor(editor, node)
        scores = _scores(editor, node.inputs[0], depth - 1) if factor is not None else None
        return (scores[0], scores[1] * factor, ()) if scores is not None and not scores[2] else None
    for rest, mask in (node.inputs, node.inputs[::-1]):
        if unclamped(node) and editor.shapes[rest] == editor.shapes[node.output] and _is_float(editor, mask):
            scores = _scores(editor, rest, depth - 1)
            if scores is not None:
                return scores[0], scores[1], (*scores[2], (mask, editor.shapes[node.output]))
    return None


def _mask(
    editor: GraphEditor, node: Node, added: tuple[tuple[str, tuple[int, ...]], ...], shape: tuple[int, ...]
) -> tuple[str, ...] | None:
    """The one operand that stands for all that is added to scores of this shape; None where there is none."""
    if not added or [level for _, level in added] == [shape]:
        return tuple(name for name, _ in added)
    arrays = [editor.constants.get(name) for name, _ in added]
    if any(array is None for array in arrays) or prod(shape) > MASK_MAX:
        return None
    total = np.zeros((1,) * len(shape), np.float32)
    for array, (_, level) in zip(arrays, added, strict=True):
        total = total + (array if level == shape else np.broadcast_to(array, level).reshape(shape))
    return (editor.constant(f"{node.name}.mask", total),)


def _transposed(editor: GraphEditor, node: Node, name: str) -> str:
    """A matrix, or several, with rows and columns exchanged: of a computed tensor a view."""
    if name in editor.constants:
        return editor.constant(f"{name}.transposed", editor.constants[name].swapaxes(-1, -2))
    return editor.insert("transpose", f"{name}.transposed", (name,), {"perm": _swapped(editor.shapes[name])}, node)


def _swapped(axes: Sequence[int]) -> tuple[int, ...]:
    """The order of so many axes, with the last two exchanged."""
    *first, rows, columns = range(len(axes))
    return (*first, columns, rows)
