"""Tensors whose sizes depend on data: each runs with the largest sizes that there can be, beside counts.

``Builder.extents`` has the true shape of each such tensor, in which a Size stands for what is counted; its shape in the
graph has the bound there. Elements within the counts are right, whatever lies behind them means nothing and is masked
where it would tell. Operators enter themselves in ``RULES``; any other refuses such a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ....errors import ModelError
from ..operators.pointwise_nodes import binary
from .build import OPERATORS, Builder, OnnxNode, Value
from .element_types import TYPES
from .fold import FOLD, RESHAPE
from .sizes import Count, Size, UndecidedError, array_of, high, is_symbolic, same, whole

Dims = tuple[Size | int, ...]

RULES: dict[str, Callable[[Builder, OnnxNode], None]] = {}
SIZED: dict[str, tuple[int, ...]] = {}  # operator -> its inputs that are sizes


def rule(names: str, sizes: tuple[int, ...] = ()) -> Callable:
    """Registers what operators do with operands of such sizes; ``sizes`` are inputs that may depend on data."""

    def register(function: Callable[[Builder, OnnxNode], None]) -> Callable[[Builder, OnnxNode], None]:
        RULES.update(dict.fromkeys(names.split(), function))
        SIZED.update(dict.fromkeys(names.split(), sizes))
        return function

    return register


def converted(g: Builder, n: OnnxNode) -> bool:
    """Converts a node that reads sizes that depend on data, or tensors of them; False for any other."""
    n = _counted(g, n)
    values = {name: g.values[name] for name in n.inputs if name}
    symbolic = [name for name, value in values.items() if is_symbolic(value)]
    bounded = [name for name, value in values.items() if isinstance(value, str) and value in g.extents]
    if symbolic and all(isinstance(value, np.ndarray) for value in values.values()) and _folded(g, n):
        return True
    as_sizes = {n.inputs[i] for i in SIZED.get(n.op, ()) if i < len(n.inputs)}.intersection(symbolic)
    made = {name: integers(g, n, g.values[name]) for name in symbolic if name not in as_sizes}
    n = replace(n, inputs=tuple(made.get(name, name) for name in n.inputs))
    if not (as_sizes or bounded):
        if made:
            g.convert(n)
        return bool(made)
    if not as_sizes and all(whole(dim) for name in bounded for dim in g.extents[values[name]]):
        _carried_or_whole(g, n, bounded)
        return True
    return _carried(g, n, bounded)


def _carried(g: Builder, n: OnnxNode, bounded: Sequence[str]) -> bool:
    if n.op in RULES:
        if n.op in OPERATORS:
            check_attributes(n)
        try:
            RULES[n.op](g, n)
        except UndecidedError as error:
            n.fail(f"the size of its result depends on the data: it would be {error}")
    elif n.op in OPERATORS:
        n.fail(f"the size of its input {bounded[0]!r} depends on the data, which {n.op} does not support")
    return n.op in RULES


def _carried_or_whole(g: Builder, n: OnnxNode, bounded: Sequence[str]) -> None:
    """Where an operator cannot do with fewer elements than there are meant to be, it gets all of them."""
    made = len(g.nodes)
    try:
        if _carried(g, n, bounded):
            return
    except ModelError:
        pass
    undone, g.nodes = g.nodes[made:], g.nodes[:made]
    for node in undone:
        g.tensors.pop(node.output)
        g.extents.pop(node.output, None)
        g.counts.discard(node.output)
        g.labels.discard(node.name)
    g.places = {key: place for key, place in g.places.items() if place[0] in g.tensors}
    changed = {}
    for i, name in enumerate(n.inputs):
        if name in bounded:
            value = g.operand(n, i)
            changed[i] = g.emit(n, "reshape", [value], part=f"whole{i}", shape=g.shape(value))
    g.convert(with_inputs(g, n, changed))


def check_attributes(n: OnnxNode) -> None:
    """Refuses a node with an attribute that its operator does not know here."""
    if unknown := sorted(n.attrs.keys() - OPERATORS[n.op].attributes):
        n.fail(f"attribute {unknown[0]} is not supported")


# ---- sizes as values ----

AS_SIZES: list[Callable[[Builder, OnnxNode, str], np.ndarray | None]] = []  # how a tensor of integers is one of sizes


def _counted(g: Builder, n: OnnxNode) -> OnnxNode:
    """The node, for whose sizes that are sums of masks their counts are."""
    changed: dict[int, Value] = {}
    for i in SIZED.get(n.op, ()):
        value = g.value(n, i) if g.has(n, i) else None
        if isinstance(value, str):
            for read in AS_SIZES:
                length = read(g, n, value)
                changed |= {} if length is None else {i: length}
    return with_inputs(g, n, changed) if changed else n


def _cast(x: np.ndarray, to: int) -> np.ndarray:
    if np.dtype(TYPES.get(to, np.float32)).kind not in "iu":
        raise UndecidedError("a cast")
    return x


SYMBOLIC: dict[str, Callable[..., np.ndarray]] = {
    "Div": lambda n, a, b: a // b,
    "Cast": lambda n, x: _cast(x, n.get("to", int)),
    "ReduceProd": lambda n, x, *_: np.prod(x, keepdims=bool(n.get("keepdims", int, 1))),
    "ReduceSum": lambda n, x, *_: np.sum(x, keepdims=bool(n.get("keepdims", int, 1))),
}
PLAIN = frozenset("Concat Gather Slice Split Transpose Add Sub Mul Neg Equal Greater Less Where Shape Size".split())


def _folded(g: Builder, n: OnnxNode) -> bool:
    """What follows of sizes whatever the counts are; False where that is not known."""
    arrays = [g.constant(n, i) for i, name in enumerate(n.inputs) if name]
    try:
        if n.op in RESHAPE:
            results = arrays[0].reshape(RESHAPE[n.op](g, n, arrays[0].shape))
        elif n.op in SYMBOLIC:
            results = SYMBOLIC[n.op](n, *arrays)
        elif n.op in PLAIN:
            results = FOLD[n.op](g, n, *arrays)
        elif n.op in ("Min", "Max") and all(array.size == 1 for array in arrays):
            results = _extreme(g, n, arrays)
        else:
            return False
    except (UndecidedError, ModelError, TypeError, ValueError, IndexError):
        return False
    for i, array in enumerate(results if isinstance(results, list) else [results]):
        array = np.asarray(array)
        g.bind(n, array_of(array) if array.dtype == object else array, i)
    return True


def _extreme(g: Builder, n: OnnxNode, arrays: Sequence[np.ndarray]) -> np.ndarray:
    bound, *others = (array.item() for array in arrays)
    for other in others:
        bound = least(g, n, bound, other) if n.op == "Min" else most(g, n, bound, other)
    return np.full(np.broadcast_shapes(*(array.shape for array in arrays)), bound, object)


def number(g: Builder, n: OnnxNode, dim: Size | int) -> str:
    """A size as a tensor of one int64, (1,)."""
    if not isinstance(dim, Size):
        return g.new_constant(n, np.array([dim], np.int64), "size")
    total = ""
    for count, times in dim.terms.items():
        term = count.name if times == 1 else binary(g, n, "mul", count.name, np.array([times]), part="times")
        total = binary(g, n, "add", total, term, part="sum") if total else term
    return binary(g, n, "add", total, np.array([dim.rest]), part="more") if dim.rest else total


def integers(g: Builder, n: OnnxNode, array: np.ndarray) -> str:
    """Sizes as a tensor of int64."""
    parts = [number(g, n, dim) for dim in array.reshape(-1)]
    whole = parts[0] if len(parts) == 1 else g.emit(n, "concat", parts, part="sizes", axis=0)
    return g.reshape(n, whole, array.shape, part="values") if array.shape != (len(parts),) else whole


def counted(g: Builder, name: str, bound: int, whole: bool = False) -> Size:
    """The size that a tensor (1,) of int64 has, at most ``bound``; ``whole`` as in Count."""
    g.counts.add(name)
    return Size({Count(name, bound, whole): 1})


def least(g: Builder, n: OnnxNode, a: Size | int, b: Size | int) -> Size | int:
    try:
        return a if a <= b else b
    except UndecidedError:
        name = binary(g, n, "min", number(g, n, a), number(g, n, b), part="least")
        return counted(g, name, min(high(a), high(b)))


def most(g: Builder, n: OnnxNode, a: Size | int, b: Size | int) -> Size | int:
    try:
        return a if a >= b else b
    except UndecidedError:
        name = binary(g, n, "max", number(g, n, a), number(g, n, b), part="most")
        return counted(g, name, max(high(a), high(b)))


# ---- what rules share ----


def dims_of(g: Builder, value: Value) -> Dims:
    """The true shape."""
    return g.extents.get(value) or g.shape(value) if isinstance(value, str) else value.shape


def dims(g: Builder, n: OnnxNode, i: int) -> Dims:
    return dims_of(g, g.value(n, i))


def sizes(g: Builder, n: OnnxNode, i: int) -> list[Size | int]:
    """An input that is a list of sizes, some of which may depend on data."""
    array = g.constant(n, i)
    return array.reshape(-1).tolist() if is_symbolic(array) else list(g.ints(n, i))


def plain(g: Builder, n: OnnxNode) -> None:
    """The node's canonical nodes on whole tensors."""
    OPERATORS[n.op].convert(g, n)


def mark(g: Builder, n: OnnxNode, true: Sequence[Size | int], output: int = 0) -> None:
    """The true shape of an output that has been made."""
    value = g.values[n.outputs[output]]
    if not any(isinstance(dim, Size) for dim in true):
        return
    if isinstance(value, np.ndarray):
        kept = g.keep(value, g.fresh(f"{n.outputs[output]}/whole"), infinite=True)
        value = g.emit(n, "expand", [kept], output=output, shape=value.shape)
    if tuple(map(high, true)) != g.shape(value):
        n.fail(f"the size of its result depends on the data: {tuple(true)} of {g.shape(value)}")
    g.extents[value] = tuple(true)


def empty(g: Builder, n: OnnxNode, true: Sequence[Size | int]) -> bool:
    """Whether the result has no elements whatever the counts are, and is a constant then."""
    if any(not isinstance(dim, Size) and dim == 0 for dim in true):
        kind = g.value(n, 0)
        dtype = kind.dtype if isinstance(kind, np.ndarray) else g.dtype(kind)
        g.bind(n, np.zeros(tuple(map(high, true)), dtype))
        return True
    return False


def broadcast(n: OnnxNode, shapes: Sequence[Dims]) -> Dims:
    """The true shape of operands that broadcast, if that is one whatever the counts are."""
    rank = max(map(len, shapes))
    out = []
    for axis in range(rank):
        met: list[Size | int] = []
        for shape in shapes:
            dim = shape[axis - rank + len(shape)] if axis >= rank - len(shape) else 1
            if (isinstance(dim, Size) or dim != 1) and not any(same(dim, other) for other in met):
                met.append(dim)
        if len(met) > 1 and all(map(whole, met)):
            met = list(dict.fromkeys(map(high, met)))
        if len(met) > 1:
            n.fail(f"operands have sizes {' and '.join(map(str, met))} on one axis, which depend on the data")
        out.append(met[0] if met else 1)
    return tuple(out)


def places(count: int, axis: int, rank: int) -> np.ndarray:
    """0, 1, 2, ... along an axis."""
    return np.arange(count).reshape((1,) * axis + (count,) + (1,) * (rank - 1 - axis))


def column(g: Builder, n: OnnxNode, name: str, rank: int) -> str:
    """A tensor (1,) with as many axes as another."""
    return name if rank == 1 else g.reshape(n, name, (1,) * rank, part="aligned")


def within(g: Builder, n: OnnxNode, dim: Size, bound: int, axis: int, rank: int) -> str:
    """Which places along an axis come before the size: bools that broadcast."""
    count = column(g, n, number(g, n, dim), rank)
    return binary(g, n, "less", places(bound, axis, rank), count, part="within")


def masked(g: Builder, n: OnnxNode, x: str, axes: Sequence[int], instead: float | bool) -> str:
    """``x`` with a number behind the counts of these axes."""
    true, shape = dims_of(g, x), g.shape(x)
    for axis in axes:
        if isinstance(true[axis], Size):
            inside = within(g, n, true[axis], shape[axis], axis, len(shape))
            x = g.emit(n, "where", [inside, x, g.number(n, instead, x, "behind")], part="masked")
    return x


def with_inputs(g: Builder, n: OnnxNode, changed: dict[int, Value], **changes: Any) -> OnnxNode:
    """The node on other values: canonical names or constants."""
    inputs = list(n.inputs)
    for i, value in changed.items():
        inputs[i] = value if isinstance(value, str) else g.fresh(f"{n.outputs[0]}/input{i}")
        g.values[inputs[i]] = g.constants[value] if isinstance(value, str) and value in g.constants else value
    return replace(n, inputs=tuple(inputs), **changes)


def lengths_of(g: Builder, outputs: Sequence[str]) -> dict[str, tuple[tuple[int, str], ...]]:
    """``Graph.lengths``; outputs that are sizes are computed from here on."""
    axes_of = {}
    for output in outputs:
        node, value = OnnxNode(output, "Identity", (), (output,), {}, 0), g.values.get(output)
        if is_symbolic(value):
            g.values[output] = integers(g, node, value)
        elif isinstance(value, str) and value in g.extents:
            axes = [(axis, dim) for axis, dim in enumerate(g.extents[value]) if isinstance(dim, Size)]
            axes_of[output] = tuple((axis, number(g, node, dim)) for axis, dim in axes)
    return axes_of


def reshaped(n: OnnxNode, old: Dims, target: Sequence[Size | int]) -> None:
    """Refuses another shape where elements behind a count would come between those before it."""

    def ahead(shape: Dims) -> list[tuple[int, Size]]:
        dims, before = [], 1
        for dim in shape:
            if isinstance(dim, Size):
                dims.append((before, dim))
                before = 1
            else:
                before *= dim
        return dims

    a, b = ahead(old), ahead(tuple(target))
    first = [side[:1] for side in (a, b)]
    leading = len(a) <= 1 and len(b) <= 1 and all(not side or side[0][0] == 1 for side in first)
    alike = len(a) == len(b) and all(p == q and same(s, t) for (p, s), (q, t) in zip(a, b, strict=True))
    total = prod(old, start=1) if leading else 0
    if not (alike or (leading and same(total, prod(target, start=1)))):
        n.fail(f"cannot reshape {old} to {tuple(target)}, whose sizes depend on the data")
