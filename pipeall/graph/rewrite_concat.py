"""Rules of ``rewrite`` that let concats share storage, with each other and with what they join."""

from __future__ import annotations

from .draft import Draft
from .ir import Node


def nest_concat(draft: Draft, node: Node) -> bool:
    """Makes concat(a, b, c) of concat(a, b), where that is there already, and c: its storage is then a part of this
    one's
    (DenseNet)."""
    if node.op != "concat":
        return False
    longest = None
    for reader in draft.reading(node.inputs[0]):
        count = len(reader.inputs)
        fits = reader.op == "concat" and reader.attrs == node.attrs and 1 < count < len(node.inputs)
        if fits and node.inputs[:count] == reader.inputs and draft.places[reader.output] < draft.places[node.output]:
            longest = reader if longest is None or count > len(longest.inputs) else longest
    return longest is not None and draft.put(node, inputs=(longest.output, *node.inputs[len(longest.inputs) :]))


def join_slices(draft: Draft, node: Node) -> bool:
    """Joins slices of one tensor that a concat puts together as they were: of all of them, the tensor (C2f in YOLO)."""
    if node.op != "concat":
        return False
    axis = node.attrs["axis"]
    for i, (a, b) in enumerate(zip(node.inputs, node.inputs[1:], strict=False)):
        first, second = draft.maker(a, "slice"), draft.maker(b, "slice")
        if first is None or second is None or first.inputs != second.inputs:
            continue
        apart = first.attrs["stop"] != second.attrs["start"] or {first.attrs["step"], second.attrs["step"]} != {1}
        if apart or not first.attrs["axis"] == second.attrs["axis"] == axis:
            continue
        (x,) = first.inputs
        start, stop = first.attrs["start"], second.attrs["stop"]
        joined = x
        if stop - start < draft.shapes[x][axis]:
            if draft.source.tensors[x].dtype != "float32":
                continue
            attrs = {"axis": axis, "start": start, "stop": stop, "step": 1}
            joined = draft.insert("slice", f"{a}+", (x,), attrs, node)
        return draft.put(node, inputs=(*node.inputs[:i], joined, *node.inputs[i + 2 :]))
    return False
