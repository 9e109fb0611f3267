"""Rules of ``rewrite`` on quantized tensors: integers that are only read as real numbers are never stored, and values
that lie on levels already stay as they are."""

from __future__ import annotations

from math import inf

from ..ir import Node
from ..ops import selects
from .editor import GraphEditor


def read_what_was_stored(editor: GraphEditor, node: Node) -> bool:
    """Makes dequantize(quantize(x)) x, which lies on the levels."""
    stored = editor.producer(node.inputs[0], "quantize") if node.op == "dequantize" else None
    if stored is None or any(stored.attrs[name] != node.attrs[name] for name in ("scale", "zero")):
        return False
    put_there = editor.producer(stored.inputs[0], "fakequant")
    if put_there is not None and editor.single_use(put_there) and editor.single_use(stored):
        return editor.absorb(put_there, node, name=node.name)
    return editor.put(node, op="reshape", inputs=stored.inputs, attrs={"shape": editor.shapes[node.output]})


def store_later(editor: GraphEditor, node: Node) -> bool:
    """Makes of a move of integers the integers of a move."""
    stored = [editor.producer(name, "quantize") for name in node.inputs] if selects(node) else [None]
    if None in stored or any(other.attrs != stored[0].attrs for other in stored):
        return False
    floats = tuple(other.inputs[0] for other in stored)
    moved = editor.insert(node.op, f"{node.output}/floats", floats, node.attrs, node)
    return editor.put(node, op="quantize", inputs=(moved,), attrs=stored[0].attrs)


def take_maxima_of_floats(editor: GraphEditor, node: Node) -> bool:
    """Makes of integers, whose maxima were taken as floats, the integers of maxima: a level is the greater for both."""
    maxima = editor.producer(node.inputs[0], "maxpool") if node.op == "cast" else None
    floats = editor.producer(maxima.inputs[0], "cast") if maxima is not None and editor.single_use(maxima) else None
    stored = editor.producer(floats.inputs[0], "quantize") if floats is not None else None
    if stored is None or floats.attrs["to"] != "float32" or stored.attrs["to"] != node.attrs["to"]:
        return False
    pooled = editor.insert("maxpool", f"{node.output}/floats", stored.inputs, maxima.attrs, node)
    return editor.put(node, op="quantize", inputs=(pooled,), attrs=stored.attrs)


def drop_fakequant(editor: GraphEditor, node: Node) -> bool:
    """Removes a fakequant of values that moves, maxima and ReLU have taken from fakequants of the same levels."""
    return node.op == "fakequant" and _on_levels(editor, node) and editor.bypass(node)


def _on_levels(editor: GraphEditor, node: Node) -> bool:
    waiting, seen = [node.inputs[0]], set()
    while waiting:
        made = editor.nodes.get(waiting.pop())
        if made is None:
            return False
        if made.output in seen or _puts_there(made, node):
            continue
        seen.add(made.output)
        relu = made.op == "clip" and made.attrs["lo"] in (0, -inf) and made.attrs["hi"] == inf  # 0 is a level
        if not relu and not selects(made):
            return False
        waiting += made.inputs
    return True


def _puts_there(made: Node, node: Node) -> bool:
    """Whether a node's values lie on the levels of a fakequant."""
    return made.op == "fakequant" and made.attrs == node.attrs
