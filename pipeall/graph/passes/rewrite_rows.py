"""Rewrites of what normalizes rows: the shape in which a tensor is normalized matters less than which elements are."""

from __future__ import annotations

from ..ir import Node
from ..lower.strides import runs
from ..ops.spec import Shape
from .editor import GraphEditor


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
