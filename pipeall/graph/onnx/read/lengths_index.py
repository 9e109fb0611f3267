"""Operators that find places by data, and those that read and write there (``lengths``)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import inf, prod

import numpy as np

from ...ir import Node
from ..operators.index_nodes import compressed, suppression
from ..operators.movement import padded
from ..operators.pointwise_nodes import binary
from .build import Builder, OnnxNode, Value, operator
from .lengths import AS_SIZES, counted, dims, dims_of, empty, integers, mark, plain, rule, with_inputs, within
from .sizes import Size, array_of, high, is_symbolic, same

DEPTH = 6  # of nodes between a mask and what it is compared by
MAX_NUMBERS = 4096  # of a constant in it

# ---- places ----


@operator("NonZero", limits="as many places as there can be, and their count")
@rule("NonZero")
def _nonzero(g: Builder, n: OnnxNode) -> None:
    x = g.x(n)
    shape = g.shape(x)
    name, count = count_true(g, n, x)
    bound = prod(shape)
    if len(shape) == 1:
        g.reshape(n, name, (1, bound))
    else:
        rows, left = [], name
        for axis in range(len(shape) - 1, -1, -1):
            size = np.array([shape[axis]])
            row = binary(g, n, "mod", left, size, part="place") if axis else left
            left = binary(g, n, "div", left, size, part="left") if axis else left
            rows.append(g.reshape(n, row, (1, bound), part="row"))
        g.emit(n, "concat", rows[::-1], axis=0)
    mark(g, n, (len(shape), count))


def set_places(g: Builder, n: OnnxNode, x: str) -> str:
    """Which elements are not 0, in a row: bools, none behind a count."""
    true, shape = dims_of(g, x), g.shape(x)
    if not shape:
        n.fail("expected a tensor with axes, got a single number")
    mask = g.cast(n, x, "bool", part="set")
    for axis, dim in enumerate(true):
        if isinstance(dim, Size):
            mask = g.emit(n, "and", [mask, within(g, n, dim, shape[axis], axis, len(shape))], part="counted")
    return g.reshape(n, mask, (prod(shape),), part="flat")


def count_true(g: Builder, n: OnnxNode, x: str) -> tuple[str, Size]:
    """The flat places of the elements that are not 0, those first, and how many they are: once for all masks that are
    computed alike, so that their counts are one."""
    alike = _formula(g, {node.output: node for node in g.nodes}, x, DEPTH)
    if alike not in g.places:
        flat = set_places(g, n, x)
        (bound,) = g.shape(flat)
        running = g.emit(n, "cumsum", [g.cast(n, flat, "int64", part="ones")], part="running", axis=0)
        count = g.emit(n, "slice", [running], part="count", axis=0, start=bound - 1, stop=bound, step=1)
        before = binary(g, n, "sub", running, np.array([1]), part="before")
        spare = g.new_constant(n, np.array([bound]), "spare")
        to = g.emit(n, "where", [flat, before, spare], part="to")
        whole = g.new_constant(n, np.zeros(bound + 1, np.int64), "none")
        steps = g.new_constant(n, np.arange(bound), "steps")
        put = g.emit(n, "scatter_elements", [whole, to, steps], part="put", axis=0, reduction="none")
        first = g.emit(n, "slice", [put], part="first", axis=0, start=0, stop=bound, step=1)
        g.places[alike] = first, counted(g, count, bound)
    return g.places[alike]


def _formula(g: Builder, producers: Mapping[str, Node], name: str, depth: int) -> Hashable:
    """What a tensor is computed of; of those that are the same, the same."""
    if name in g.constants:
        array = g.constants[name]
        return array.dtype.name, array.shape, array.tobytes() if array.size <= MAX_NUMBERS else name
    node = producers.get(name)
    if node is None or not depth:
        return name
    inputs = tuple(_formula(g, producers, part, depth - 1) for part in node.inputs)
    return node.op, repr(sorted(node.attrs.items())), g.shape(name), inputs


def _sums(g: Builder, n: OnnxNode, name: str) -> np.ndarray | None:
    """A tensor of sizes of which some are how often masks are set: the sums of bools; None for any other."""
    if name in g.constants:
        return g.constants[name].astype(object)
    node = next((node for node in reversed(g.nodes) if node.output == name), None)
    if node is None or g.dtype(name) not in ("int32", "int64"):
        return None
    if node.op in ("reshape", "cast"):
        inner = _sums(g, n, node.inputs[0])
        return None if inner is None else inner.reshape(g.shape(name))
    if node.op == "concat":
        parts = [_sums(g, n, part) for part in node.inputs]
        return None if any(part is None for part in parts) else np.concatenate(parts)
    if node.op != "reduce" or node.attrs["how"] != "sum" or len(node.attrs["axes"]) != len(g.shape(node.inputs[0])):
        return None
    producers, mask = {node.output: node for node in g.nodes}, node.inputs[0]
    while g.dtype(mask) != "bool" and mask in producers and producers[mask].op in ("reshape", "cast"):
        mask = producers[mask].inputs[0]
    if g.dtype(mask) != "bool":
        return None
    while mask in producers and producers[mask].op == "reshape":
        mask = producers[mask].inputs[0]
    return np.full(g.shape(name), count_true(g, n, mask)[1], object)


AS_SIZES.append(_sums)


@operator("Compress", "axis")
@rule("Compress")
def _compress(g: Builder, n: OnnxNode) -> None:
    x, true, chosen = g.operand(n, 0), list(dims(g, n, 0)), g.value(n, 1)
    if isinstance(chosen, np.ndarray) and not any(isinstance(dim, Size) for dim in true):
        compressed(g, n)
        return
    if "axis" not in n.attrs:
        if any(isinstance(dim, Size) for dim in true):
            n.fail("the size of its input depends on the data: give it an axis")
        true = [prod(true)]
        x, axis = g.reshape(n, x, (true[0],), part="elements"), 0
    else:
        axis = n.axis_of(len(true))
    if isinstance(chosen, np.ndarray):
        chosen = g.new_constant(n, chosen.astype(bool), "condition")
    if g.shape(chosen) != (g.shape(x)[axis],):
        n.fail(f"expected a condition for each of {g.shape(x)[axis]} elements, got {g.shape(chosen)}")
    if isinstance(true[axis], Size):
        inside = within(g, n, true[axis], g.shape(x)[axis], 0, 1)
        chosen = g.emit(n, "and", [g.cast(n, chosen, "bool", part="set"), inside], part="counted")
    name, true[axis] = count_true(g, n, chosen)
    g.emit(n, "gather", [x, name], axis=axis)
    mark(g, n, true)


@operator("NonMaxSuppression", "center_point_box", "constant limits")
@rule("NonMaxSuppression", sizes=(2,))
def _nms(g: Builder, n: OnnxNode) -> None:
    """Boxes behind the count have no score; rows of the result that are not used are -1."""
    boxes, scores = (g.operand(n, i) for i in range(2))
    lengths = [dim for dim in (dims_of(g, boxes)[1], dims_of(g, scores)[2]) if isinstance(dim, Size)]
    for name, axis in ((boxes, 1), (scores, 2)):
        if any(isinstance(dim, Size) for k, dim in enumerate(dims_of(g, name)) if k != axis):
            n.fail(f"the size of {dims_of(g, name)} depends on the data on another axis than that of boxes")
    for dim in lengths:
        bound = g.shape(scores)[2]
        none = g.new_constant(n, np.full((1, 1, 1), -inf, np.float32), "none", infinite=True)
        scores = g.emit(n, "where", [within(g, n, dim, bound, 2, 3), scores, none], part="scores")
    most = g.value(n, 2) if g.has(n, 2) else None
    if is_symbolic(most):
        size = most.item()
        if not any(same(size, dim) for dim in lengths):
            n.fail(f"max_output_boxes_per_class {size} depends on the data: expected a constant or the number of boxes")
        n = with_inputs(g, n, {2: np.array(size.high)})
    rows = g.emit(n, "nms", [boxes, scores], **suppression(g, n))
    bound = g.shape(rows)[0]
    batch = g.emit(n, "slice", [rows], part="batch", axis=1, start=0, stop=1, step=1)
    used = binary(g, n, "greaterequal", batch, np.zeros((1, 1), np.int64), part="used")
    used = g.cast(n, used, "int64", part="ones")
    count = g.emit(n, "reduce", [used], part="rows", how="sum", axes=(0,), keepdims=False)
    mark(g, n, (counted(g, count, bound), 3))


# ---- reading and writing there ----


@rule("Gather")
def _gather(g: Builder, n: OnnxNode) -> None:
    true, chosen = dims(g, n, 0), g.value(n, 1)
    axis = n.axis_of(len(true), 0)
    out = (*true[:axis], *dims_of(g, chosen), *true[axis + 1 :])
    if empty(g, n, out):
        return
    n = with_inputs(g, n, {1: _from_start(g, n, chosen, true[axis : axis + 1])}) if isinstance(true[axis], Size) else n
    plain(g, n)
    mark(g, n, out)


def _from_start(g: Builder, n: OnnxNode, chosen: Value, ends: tuple[Size | int, ...]) -> str:
    """Indices of which those below 0 count from the end of an axis: of this size, or one of these in every column."""
    if isinstance(chosen, np.ndarray) or chosen in g.constants:
        chosen = g.constants[chosen] if isinstance(chosen, str) else chosen
        kept = g.new_constant(n, chosen.astype(np.int64), "indices")
        if (chosen >= 0).all():
            return kept
        chosen = kept
    else:
        chosen = g.cast(n, chosen, "int64", part="indices")
    rank = len(g.shape(chosen))
    below = binary(g, n, "less", chosen, np.zeros((1,) * rank, np.int64), part="below")
    length = integers(g, n, array_of(ends)) if any(isinstance(end, Size) for end in ends) else np.array(ends, np.int64)
    if not rank:
        length = g.reshape(n, length, (), part="one")
    return g.emit(n, "where", [below, binary(g, n, "add", chosen, length, part="ahead"), chosen], part="places")


@rule("GatherND")
def _gather_nd(g: Builder, n: OnnxNode) -> None:
    true, chosen, batch = dims(g, n, 0), dims(g, n, 1), n.get("batch_dims", int, 0)
    if isinstance(chosen[-1], Size) or (batch and any(isinstance(dim, Size) for dim in true[:batch])):
        n.fail(f"indices {chosen} into {true}: the number of axes or of batches depends on the data")
    out = (*chosen[:-1], *true[batch + chosen[-1] :])
    if not empty(g, n, out):
        plain(g, n)
        mark(g, n, out)


@rule("GatherElements")
def _gather_elements(g: Builder, n: OnnxNode) -> None:
    true, chosen = dims(g, n, 0), dims(g, n, 1)
    axis = n.axis_of(len(true), 0)
    places = g.value(n, 1)
    n = with_inputs(g, n, {1: _from_start(g, n, places, true[axis : axis + 1])}) if isinstance(true[axis], Size) else n
    plain(g, n)
    mark(g, n, chosen)


@rule("ScatterND")
def _scatter_nd(g: Builder, n: OnnxNode) -> None:
    """Rows behind the count write beyond the end, where a row is put and taken away again."""
    x, true, chosen = g.operand(n, 0), dims(g, n, 0), dims(g, n, 1)
    updates = dims(g, n, 2)
    expected = (*chosen[:-1], *true[chosen[-1] if not isinstance(chosen[-1], Size) else 0 :])
    if tuple(map(high, updates)) != tuple(map(high, expected)):
        n.fail(f"updates must be {expected}, got {updates}, sizes that depend on the data")
    rows = [axis for axis, dim in enumerate(chosen[:-1]) if isinstance(dim, Size)]
    _written(g, n, x, 0, rows, "scatter_nd")
    mark(g, n, true)


@rule("ScatterElements Scatter")
def _scatter_elements(g: Builder, n: OnnxNode) -> None:
    x, true, chosen = g.operand(n, 0), dims(g, n, 0), dims(g, n, 1)
    axis = n.axis_of(len(true), 0)
    _written(g, n, x, axis, [k for k, dim in enumerate(chosen) if isinstance(dim, Size)], "scatter_elements", axis=axis)
    mark(g, n, true)


def _written(g: Builder, n: OnnxNode, x: str, axis: int, counted_axes: list[int], op: str, **attrs: int) -> None:
    bound, rank = g.shape(x)[axis], len(g.shape(x))
    chosen, updates = g.operand(n, 1), g.operand(n, 2)
    chosen = g.cast(n, chosen, "int64", part="indices") if chosen in g.tensors else chosen
    shape, true = g.shape(chosen), dims(g, n, 1)
    true_x = dims_of(g, g.value(n, 0))
    chosen = _from_start(g, n, chosen, true_x[: shape[-1]] if op == "scatter_nd" else true_x[axis : axis + 1])
    reduction = n.get("reduction", str, "none")
    if not counted_axes:
        g.emit(n, op, [x, chosen, updates], reduction=reduction, **attrs)
        return
    more = [int(k == axis) for k in range(rank)]
    if x in g.constants:
        wide = g.new_constant(n, np.pad(g.constants[x], [(0, k) for k in more]), "wide", infinite=True)
    else:
        wide = padded(g, n, x, [0] * rank, more, part="wide", mode="constant", value=0)
    beyond = g.new_constant(n, np.full((1,) * len(shape), bound, np.int64), "beyond")
    for k in counted_axes:
        chosen = g.emit(n, "where", [within(g, n, true[k], shape[k], k, len(shape)), chosen, beyond], part="rows")
    put = g.emit(n, op, [wide, chosen, updates], part="put", reduction=reduction, **attrs)
    g.emit(n, "slice", [put], axis=axis, start=0, stop=bound, step=1)
