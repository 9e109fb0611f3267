"""Rules of ``rewrite`` on what moves elements: concats share storage with each other and with what they join, and a
reshape matters less than the elements that are normalized."""

from __future__ import annotations

from ..ir import Node
from ..lower.strides import runs
from ..ops.spec import Shape
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


def normalize_as_it_is(editor: GraphEditor, node: Node) -> bool:
    """Makes one node of a layernorm between two reshapes, the second of which undoes the first: GroupNorm of one group
    is one over all axes but the first."""
    norm = editor.producer(node.inputs[0], "layernorm") if node.op == "reshape" else None
    flat = editor.producer(norm.inputs[0], "reshape") if norm is not None and editor.single_use(norm) else None
    if flat is None or editor.shapes[flat.inputs[0]] != editor.shapes[node.output]:
        return False
    axes = _axes_of(editor.shapes[node.output], editor.shapes[flat.output], norm.attrs["axes"])
    return axes is not None and editor.put(node, op="layernorm", inputs=flat.inputs, attrs={**norm.attrs, "axes": axes})


def _axes_of(shape: Shape, flat: Shape, normalized: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of ``shape`` that are one behind the other along those of ``flat``; None where one is cut into parts."""
    old, new = ([axis for axis, size in enumerate(each) if size > 1] for each in (shape, flat))
    axes: list[int] = []
    for count, sizes in runs([shape[axis] for axis in old], [flat[axis] for axis in new]):
        along = {axis in normalized for axis in new[: len(sizes)]}
        if along == {True, False}:
            return None
        axes += old[:count] if True in along else ()
        old, new = old[count:], new[len(sizes) :]
    return tuple(axes) or None
