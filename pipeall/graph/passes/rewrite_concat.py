"""Rules of ``rewrite`` that let concats share storage, with each other and with what they join."""

from __future__ import annotations

from ..ir import Node
from .editor import GraphEditor


def nest_concat(editor: GraphEditor, node: Node) -> bool:
    """Makes concat(a, b, c) of concat(a, b), where that is there already, and c: its storage is then a part of this
    one's (DenseNet)."""
    if node.op != "concat":
        return False
    inputs = node.inputs
    while (begun := _begins(editor, node, inputs)) is not None:
        inputs = (begun.output, *inputs[len(begun.inputs) :])
    return inputs != node.inputs and editor.put(node, inputs=inputs)


def _begins(editor: GraphEditor, node: Node, inputs: tuple[str, ...]) -> Node | None:
    """The longest concat before ``node`` of the first of these operands, but not of all."""
    concats = [
        consumer
        for consumer in editor.consumers_of(inputs[0])
        if consumer.op == "concat"
        and 1 < len(consumer.inputs) < len(inputs)
        and consumer.attrs == node.attrs
        and inputs[: len(consumer.inputs)] == consumer.inputs
        and editor.positions[consumer.output] < editor.positions[node.output]
    ]
    return max(concats, key=lambda consumer: len(consumer.inputs), default=None)


def join_slices(editor: GraphEditor, node: Node) -> bool:
    """Joins slices of one tensor that a concat puts together as they were: of all of them, the tensor (C2f in YOLO)."""
    if node.op != "concat":
        return False
    axis, inputs = node.attrs["axis"], []
    for run in _runs(editor, node):
        first, last = editor.producer(run[0], "slice"), editor.producer(run[-1], "slice")
        if len(run) == 1:
            inputs += run
            continue
        (x,), start, stop = first.inputs, first.attrs["start"], last.attrs["stop"]
        if stop - start == editor.shapes[x][axis]:
            inputs.append(x)
        elif editor.tensors[x].dtype == "float32":
            attrs = {"axis": axis, "start": start, "stop": stop, "step": 1}
            inputs.append(editor.insert("slice", f"{run[0]}+", (x,), attrs, node))
        else:
            inputs += run
    return len(inputs) < len(node.inputs) and editor.put(node, inputs=tuple(inputs))


def _runs(editor: GraphEditor, node: Node) -> list[list[str]]:
    """The operands of a concat, those together that are slices of one tensor which lie side by side in it."""
    runs: list[list[str]] = []
    before = None
    for name in node.inputs:
        made = editor.producer(name, "slice")
        if made is not None and (made.attrs["step"] != 1 or made.attrs["axis"] != node.attrs["axis"]):
            made = None
        follows = made is not None and before is not None and made.inputs == before.inputs
        if follows and before.attrs["stop"] == made.attrs["start"]:
            runs[-1].append(name)
        else:
            runs.append([name])
        before = made
    return runs
