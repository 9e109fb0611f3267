"""Operators that carry sizes that depend on data from their operands to their results (``lengths``)."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from ..operators.masks import FILL, fill
from ..operators.movement import padded, pads_of
from ..operators.pointwise_nodes import CANONICAL, NAMED, REDUCED, aligned, binary
from ..operators.reductions import HOW, reduced_axes
from .build import Builder, OnnxNode
from .fold import RESHAPE, permutation, shape_of, slices
from .lengths import (
    broadcast,
    column,
    dims,
    dims_of,
    empty,
    least,
    mark,
    masked,
    most,
    number,
    plain,
    reshaped,
    rule,
    sizes,
    with_inputs,
    within,
)  # fmt: skip
from .sizes import Size, UndecidedError, array_of, high, same

ALIKE = (*NAMED, *REDUCED, *CANONICAL, *"Pow Mod BitShift PRelu Where Cast CastLike Relu Clip Gelu IsInf Swish".split())
ROWS = (
    "Conv ConvTranspose BatchNormalization InstanceNormalization MaxPool AveragePool GlobalAveragePool GlobalMaxPool "
    "Gemm Resize Upsample LRN"
)
NEUTRAL = {"sum": 0, "l1": 0, "l2": 0, "sumsquare": 0, "logsum": 0, "logsumexp": -inf, "prod": 1}


# ---- element by element, row by row ----


@rule(" ".join(ALIKE))
def _alike(g: Builder, n: OnnxNode) -> None:
    values = [g.value(n, i) for i, name in enumerate(n.inputs) if name]
    values = values[:1] if n.op in ("Clip", "CastLike") else values
    true = broadcast(n, [dims_of(g, value) for value in values])
    if not empty(g, n, true):
        plain(g, n)
        mark(g, n, true)


@rule(ROWS)
def _rows(g: Builder, n: OnnxNode) -> None:
    """Samples are independent."""
    true = dims(g, n, 0)
    if any(isinstance(dim, Size) for dim in true[1:]) or n.get("transA", int, 0):
        n.fail(f"the size of its input {n.inputs[0]!r} {true} depends on the data beyond its samples")
    if any(isinstance(g.values[name], str) and g.values[name] in g.extents for name in n.inputs[1:] if name):
        n.fail("only the size of its first input may depend on the data")
    plain(g, n)
    mark(g, n, (true[0], *g.shape_of(g.values[n.outputs[0]])[1:]))


@rule("MatMul")
def _matmul(g: Builder, n: OnnxNode) -> None:
    a, b = dims(g, n, 0), dims(g, n, 1)
    if len(b) != 2 or any(isinstance(dim, Size) for dim in (*b, a[-1])):
        n.fail(f"the sizes of {a} and {b} depend on the data: only rows of the first may")
    plain(g, n)
    mark(g, n, (*a[:-1], b[1]))


@rule("RoiAlign")
def _roi_align(g: Builder, n: OnnxNode) -> None:
    rows = dims(g, n, 1)[0]
    plain(g, n)
    mark(g, n, (rows, *g.shape_of(g.values[n.outputs[0]])[1:]))


@rule("Softmax LogSoftmax LayerNormalization CumSum")
def _along(g: Builder, n: OnnxNode) -> None:
    """Along an axis on which elements behind the count are masked, or that has none."""
    true = dims(g, n, 0)
    axis = n.get("axis", int, -1 if n.opset >= 13 or n.op == "LayerNormalization" else 1)
    axis = n.axis(g.ints(n, 1)[0] if n.op == "CumSum" else axis, len(true))
    normal, running = n.op == "LayerNormalization", n.op == "CumSum"
    axes = range(axis, len(true)) if normal or (n.opset < 13 and not running) else (axis,)
    if any(isinstance(true[axis], Size) for axis in axes) and (normal or n.get("reverse", int, 0)):
        n.fail(f"the size of an axis of {true} depends on the data, along which it computes")
    x = g.x(n) if normal or running else masked(g, n, g.x(n), axes, -inf)
    plain(g, with_inputs(g, n, {0: x}))
    mark(g, n, true)


@rule(FILL)
def _fill(g: Builder, n: OnnxNode) -> None:
    true, mask = dims(g, n, 0), dims(g, n, 1)
    if not all(map(same, true, mask)):
        n.fail(f"the mask {mask} does not fit {true}, sizes that depend on the data")
    fill(g, n)
    mark(g, n, true)


# ---- the same elements elsewhere ----


@rule("Reshape Flatten Squeeze Unsqueeze Identity Dropout", sizes=(1,))
def _reshape(g: Builder, n: OnnxNode) -> None:
    old = dims(g, n, 0)
    target = _target(g, n, old) if n.op == "Reshape" else RESHAPE[n.op](g, n, old)
    if empty(g, n, target):
        return
    reshaped(n, old, target)
    x = g.operand(n, 0)
    y = g.reshape(n, x, tuple(map(high, target)))
    if y in g.constants:
        g.bind(n, g.constants[y])
    mark(g, n, target)


def _target(g: Builder, n: OnnxNode, old: tuple[Size | int, ...]) -> list[Size | int]:
    target = sizes(g, n, 1)
    if not n.get("allowzero", int, 0):
        target = [old[i] if not isinstance(dim, Size) and dim == 0 else dim for i, dim in enumerate(target)]
    open_ = [i for i, dim in enumerate(target) if not isinstance(dim, Size) and dim == -1]
    if len(open_) > 1:
        n.fail(f"cannot reshape {old} to {target}")
    for i in open_:
        rest = target[:i] + target[i + 1 :]
        total = list(old)
        for dim in rest:  # sizes that are on both sides divide each other
            if isinstance(dim, Size) and any(same(dim, other) for other in total):
                total.pop(next(k for k, other in enumerate(total) if same(dim, other)))
                rest = [other for other in rest if other is not dim]
        target[i] = prod(total, start=1) // prod(rest, start=1)
    return target


@rule("Transpose")
def _transpose(g: Builder, n: OnnxNode) -> None:
    true = dims(g, n, 0)
    plain(g, n)
    mark(g, n, [true[axis] for axis in permutation(n, len(true))])


@rule("Shape")
def _shape(g: Builder, n: OnnxNode) -> None:
    true = dims(g, n, 0)
    chosen = shape_of(n, tuple(range(len(true))))
    g.bind(n, array_of([true[axis] for axis in chosen]))


@rule("Size")
def _size(g: Builder, n: OnnxNode) -> None:
    g.bind(n, array_of(prod(dims(g, n, 0), start=1)))


@rule("Split")
def _split(g: Builder, n: OnnxNode) -> None:
    true = dims(g, n, 0)
    axis = n.axis_of(len(true), 0)
    if isinstance(true[axis], Size):
        n.fail(f"the size of axis {axis} of {true}, which it splits, depends on the data")
    plain(g, n)
    for i in n.made:
        mark(g, n, [g.shape_of(g.values[n.outputs[i]])[axis] if k == axis else dim for k, dim in enumerate(true)], i)


@rule("Concat")
def _concat(g: Builder, n: OnnxNode) -> None:
    """Where operands have counts along the axis, those behind them move up."""
    used = [i for i in range(len(n.inputs)) if 0 not in g.shape_of(g.value(n, i))]
    shapes = [dims(g, n, i) for i in used]
    axis = n.axis_of(len(shapes[0]))
    others = [(*shape[:axis], 1, *shape[axis + 1 :]) for shape in shapes]
    rest = broadcast(n, others)
    lengths = [shape[axis] for shape in shapes]
    true = (*rest[:axis], sum(lengths), *rest[axis + 1 :])
    if not any(isinstance(length, Size) for length in lengths[:-1]):
        plain(g, n)
        mark(g, n, true)
        return
    whole = g.emit(n, "concat", [g.operand(n, i) for i in used], part="whole", axis=axis)
    steps = np.arange(g.shape(whole)[axis])
    index, begin, start = g.new_constant(n, steps, "places"), 0, 0
    for length, bound in zip(lengths[:-1], map(high, lengths[:-1]), strict=True):
        begin, start = begin + bound, start + length
        if isinstance(start, Size):
            behind = binary(g, n, "greaterequal", steps, number(g, n, start), part="behind")
            moved = binary(g, n, "add", steps, number(g, n, begin - start), part="moved")
            index = g.emit(n, "where", [behind, moved, index], part="places")
    g.emit(n, "gather", [whole, index], axis=axis)
    mark(g, n, true)


@rule("Slice", sizes=(1, 2))
def _slice(g: Builder, n: OnnxNode) -> None:
    x, true = g.operand(n, 0), list(dims(g, n, 0))
    bounds = None if "starts" in n.attrs else (sizes(g, n, 1), sizes(g, n, 2))
    for axis, start, end, step in slices(g, n, len(true), bounds):
        y, true[axis] = _cut(g, n, x, axis, true[axis], start, end, step)
        x = y or x
    if not empty(g, n, true):
        g.reshape(n, x, g.shape(x))
        mark(g, n, true)


def _cut(
    g: Builder, n: OnnxNode, x: str, axis: int, dim: Size | int, start: Size | int, end: Size | int, step: int
) -> tuple[str, Size | int]:
    """The elements of one axis, and how many those are; no tensor where there are none."""
    bound = g.shape(x)[axis]
    if not any(isinstance(size, Size) for size in (dim, start, end)):
        chosen = range(bound)[slice(start, end, step)]
        if chosen == range(bound):
            return x, dim
        if not chosen:
            return "", 0
        index = g.new_constant(n, np.array(chosen, np.int64), "places")
        if step < 0:
            return g.emit(n, "gather", [x, index], part="cut", axis=axis), len(chosen)
        bounds = dict(start=chosen[0], stop=chosen[-1] + 1, step=step if len(chosen) > 1 else 1)
        return g.emit(n, "slice", [x], part="cut", axis=axis, **bounds), len(chosen)
    if step != 1:
        n.fail(f"steps of {step} on an axis whose size depends on the data are not supported")
    begin, stop = (_place(g, n, size, dim) for size in (start, end))
    count = most(g, n, stop - begin, 0)
    if high(count) < 1:
        return "", 0
    if not isinstance(begin, Size):
        stop = begin + high(count)
        if (begin, stop) == (0, bound):
            return x, count
        return g.emit(n, "slice", [x], part="cut", axis=axis, start=begin, stop=min(stop, bound)), count
    index = binary(g, n, "add", np.arange(high(count)), number(g, n, begin), part="places")
    return g.emit(n, "gather", [x, index], part="cut", axis=axis), count


def _place(g: Builder, n: OnnxNode, at: Size | int, dim: Size | int) -> Size | int:
    """Where a slice begins or ends on an axis of this size; below 0 it counts from the end."""
    if at < 0:
        at = at + dim
    return least(g, n, most(g, n, at, 0), dim)


@rule("Tile")
def _tile(g: Builder, n: OnnxNode) -> None:
    true, repeats = dims(g, n, 0), g.ints(n, 1)
    if len(repeats) != len(true) or any(isinstance(dim, Size) and k != 1 for dim, k in zip(true, repeats, strict=True)):
        n.fail(f"cannot repeat {true} by {repeats}, whose sizes depend on the data")
    plain(g, n)
    mark(g, n, [dim * k for dim, k in zip(true, repeats, strict=True)])


@rule("Expand", sizes=(1,))
def _expand(g: Builder, n: OnnxNode) -> None:
    x, old, target = g.operand(n, 0), dims(g, n, 0), sizes(g, n, 1)
    true = broadcast(n, [old, tuple(target)])
    (x,) = aligned(g, n, [x], len(true))
    g.emit(n, "expand", [x], shape=tuple(map(high, true)))
    mark(g, n, true)


@rule("ConstantOfShape", sizes=(0,))
def _filled(g: Builder, n: OnnxNode) -> None:
    true = sizes(g, n, 0)
    value = n.get("value", np.ndarray, np.zeros(1, np.float32)).reshape((1,) * len(true))
    g.afford(n, prod(map(high, true)))
    g.emit(n, "expand", [g.new_constant(n, value, "value")], shape=tuple(map(high, true)))
    mark(g, n, true)


@rule("Range", sizes=(0, 1, 2))
def _range(g: Builder, n: OnnxNode) -> None:
    start, stop, step = (g.constant(n, i).item() for i in range(3))
    if not isinstance(stop, Size) or isinstance(start, Size) or step != 1:
        raise UndecidedError("a range from or by a count")
    g.afford(n, stop.high)
    g.bind(n, np.arange(start, max(stop.high, start + 1)))
    mark(g, n, [most(g, n, stop - start, 0)])


@rule("Pad", sizes=(1,))
def _pad(g: Builder, n: OnnxNode) -> None:
    """What is added lies behind the counts: as much as the largest result needs is added, and numbers put in."""
    x, true = g.operand(n, 0), dims(g, n, 0)
    pads = list(n.get("pads", list)) if "pads" in n.attrs else sizes(g, n, 1)
    pads, value = pads_of(g, n, len(true), pads)
    if n.get("mode", str, "constant") != "constant":
        n.fail("only a constant can be put around a tensor whose size depends on the data")
    out = list(true)
    for axis, before, after in pads:
        if isinstance(before, Size):
            n.fail("the number of elements put before a tensor depends on the data")
        if not isinstance(after, Size) and after == before == 0:
            continue
        out[axis] = true[axis] + before + after
        inner, bound = true[axis] + before, high(out[axis])
        if bound < 1:
            n.fail("nothing is left of an axis")
        x = _widened(g, n, x, axis, before, bound, value)
        if isinstance(inner, Size):
            mask = within(g, n, inner, bound, axis, len(true))
            like = g.number(n, value, x, "value")
            x = g.emit(n, "where", [mask, x, like], part="padded")
    g.reshape(n, x, g.shape(x))
    mark(g, n, out)


def _widened(g: Builder, n: OnnxNode, x: str, axis: int, before: int, bound: int, value: float) -> str:
    """As ``bound`` elements along an axis, the first ``before`` of them new."""
    begin, end = [0] * len(g.shape(x)), [0] * len(g.shape(x))
    begin[axis], end[axis] = before, bound - before - g.shape(x)[axis]
    if begin[axis] or end[axis]:
        x = padded(g, n, x, begin, end, part="wide", mode="constant", value=value)
    return x


# ---- along an axis ----


def _lowest(dtype: str, sign: int = 1) -> float | int | bool:
    kind = np.dtype(dtype).kind
    if kind == "f":
        return -inf * sign
    return sign < 0 if kind == "b" else int(np.iinfo(dtype).min if sign > 0 else np.iinfo(dtype).max)


@rule(" ".join(HOW))
def _reduce(g: Builder, n: OnnxNode) -> None:
    x, true, how = g.x(n), dims(g, n, 0), HOW[n.op]
    axes = reduced_axes(g, n, len(true))
    mean = how == "mean" and any(isinstance(true[axis], Size) for axis in axes)
    low = _lowest(g.dtype(x), 1 if how == "max" else -1)
    x = masked(g, n, x, axes, NEUTRAL.get("sum" if how == "mean" else how, low))
    keep = n.get("keepdims", int, 1)
    out = [1 if axis in axes else dim for axis, dim in enumerate(true) if keep or axis not in axes]
    if not mean:
        plain(g, with_inputs(g, n, {0: x}))
        mark(g, n, out)
        return
    inner = with_inputs(g, n, {0: x}, op="ReduceSum", outputs=(g.fresh(f"{n.outputs[0]}/sum"),))
    plain(g, inner)
    total = g.values[inner.outputs[0]]
    some = most(g, n, prod(true[axis] for axis in axes), 1)  # of nothing the mean is 0, as onnxruntime has it
    count = g.cast(n, number(g, n, some), g.dtype(total), part="count")
    binary(g, n, "div", total, column(g, n, count, len(out)) if out else g.reshape(n, count, (), part="one"))
    mark(g, n, out)


@rule("ArgMax ArgMin")
def _arg(g: Builder, n: OnnxNode) -> None:
    x, true = g.x(n), dims(g, n, 0)
    axis = n.axis_of(len(true), 0)
    x = masked(g, n, x, [axis], _lowest(g.dtype(x), 1 if n.op == "ArgMax" else -1))
    plain(g, with_inputs(g, n, {0: x}))
    keep = n.get("keepdims", int, 1)
    mark(g, n, [1 if k == axis else dim for k, dim in enumerate(true) if keep or k != axis])


@rule("TopK", sizes=(1,))
def _topk(g: Builder, n: OnnxNode) -> None:
    x, true = g.x(n), list(dims(g, n, 0))
    axis, largest = n.axis_of(len(true), -1), bool(n.get("largest", int, 1))
    k = n.get("k", int) if "k" in n.attrs else sizes(g, n, 1)[0]
    if high(k) > g.shape(x)[axis]:
        n.fail(f"k is up to {high(k)}, but axis {axis} has at most {g.shape(x)[axis]} elements")
    x = masked(g, n, x, [axis], _lowest(g.dtype(x), 1 if largest else -1))
    true[axis] = k
    for i in n.made:
        g.emit(n, "topk", [x], output=i, axis=axis, k=high(k), largest=largest, indices=i == 1)
        mark(g, n, true, i)
