"""ONNX's MatMul, Gemm and Einsum in canonical ops: by constant weights a fully connected layer, else a matrix product.

Axes of an Einsum have labels: a letter of the equation, or the place of an axis that an ellipsis stands for, from the
right. Its operands are multiplied one after the other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

import numpy as np

from ...ops import MAX_RANK
from ..read.build import Builder, OnnxNode, Value, operator
from .movement import taken
from .pointwise_nodes import aligned, binary, named

Shape = tuple[int, ...]

INTEGERS = ("int32", "int64")
MAX_PRODUCTS = 2**22  # of integers, before they are added up


def zeros(g: Builder, n: OnnxNode, count: int) -> str:
    """A bias of nothing."""
    return g.keep(np.zeros(count, np.float32), g.fresh(f"{n.outputs[0]}/bias"))


@operator("MatMul", limits="of floats, int32 and int64")
def _matmul(g: Builder, n: OnnxNode) -> None:
    a, b = g.value(n, 0), g.value(n, 1)
    shapes = [g.shape_of(value) for value in (a, b)]
    kinds = {g.type_of(value) for value in (a, b)}
    integers = len(kinds) == 1 and kinds <= set(INTEGERS)
    if not integers and not all(kind.startswith("float") for kind in kinds):
        n.fail(f"only products of floats, int32 or int64 are supported, got {' and '.join(sorted(kinds))}")
    if not all(shapes):
        n.fail(f"cannot multiply {shapes[0]} by {shapes[1]}")
    matrix = isinstance(b, np.ndarray) and b.ndim >= 2 and prod(b.shape[:-2]) == 1 and b.ndim <= max(2, len(shapes[0]))
    if isinstance(a, str) and matrix and not integers:
        if shapes[0][-1] != b.shape[-2]:
            n.fail(f"cannot multiply {shapes[0]} by {b.shape}")
        weight = b.reshape(b.shape[-2:]).T
        g.emit(n, "fc", [a, g.keep(weight, n.inputs[1]), zeros(g, n, len(weight))], axis=len(shapes[0]) - 1)
    else:
        matmul(g, n, a, b)


def matmul(g: Builder, n: OnnxNode, a: Value, b: Value, part: str = "") -> str:
    """The product of operands of any ranks as NumPy's ``matmul``; vectors are rows or columns on the way."""
    shapes = [g.shape_of(value) for value in (a, b)]
    rows, columns = (_matrix(g, n, v, axis) if len(g.shape_of(v)) == 1 else v for v, axis in ((a, 0), (b, 1)))
    rows, columns = aligned(g, n, (rows, columns))
    vectors = [len(shape) == 1 for shape in shapes]
    multiply = _of_integers if g.dtype(rows) in INTEGERS else _of_floats
    product = multiply(g, n, rows, columns, f"{part}product" if any(vectors) else part)
    if any(vectors):
        out = g.shape(product)
        kept = out[:-2] + (() if vectors[0] else out[-2:-1]) + (() if vectors[1] else out[-1:])
        return g.reshape(n, product, kept, part)
    return product


def _of_floats(g: Builder, n: OnnxNode, a: str, b: str, part: str) -> str:
    return g.emit(n, "matmul", [a, b], part=part)


def _of_integers(g: Builder, n: OnnxNode, a: str, b: str, part: str) -> str:
    """Sums of the products, modulo 2^bits; of some columns of a and rows of b at a time."""
    (*outer, rows, depth), (*inner, _, columns) = g.shape(a), g.shape(b)
    if g.shape(b)[-2] != depth or len(outer) + 3 > MAX_RANK:
        n.fail(f"cannot multiply {g.shape(a)} by {g.shape(b)}")
    a = g.reshape(n, a, (*outer, rows, depth, 1), part="columns")
    b = g.reshape(n, b, (*inner, 1, depth, columns), part="rows")
    axis = len(outer) + 1
    each = max(1, MAX_PRODUCTS // max(prod(g.shape(a)) // depth * columns, prod(g.shape(b)) // depth * rows))
    total = ""
    for start in range(0, depth, each):
        stop = min(start + each, depth)
        x, y = (taken(g, n, v, axis, range(start, stop), "few") if each < depth else v for v in (a, b))
        last, first = stop == depth, start == 0
        products = g.emit(n, "mul", [x, y], part="products")
        sums = g.emit(n, "reduce", [products], part=part if last and first else "sums", how="sum", axes=(axis,),
                      keepdims=False)  # fmt: skip
        total = sums if first else g.emit(n, "add", [total, sums], part=part if last else "total")
    return total


def _matrix(g: Builder, n: OnnxNode, vector: Value, axis: int) -> Value:
    """A vector as a matrix with one row (axis 0) or column."""
    if isinstance(vector, np.ndarray):
        return g.keep(np.expand_dims(vector, axis), named(g, n, vector))
    (size,) = g.shape(vector)
    return g.reshape(n, vector, (1, size) if axis == 0 else (size, 1), part="vector")


@operator("Gemm", "alpha beta broadcast transA transB")
def _gemm(g: Builder, n: OnnxNode) -> None:
    """alpha A B + beta C"""
    a, b = (_oriented(g, n, i) for i in (0, 1))
    shapes = g.shape_of(a), g.shape_of(b)
    if shapes[0][1] != shapes[1][0]:
        n.fail(f"cannot multiply {shapes[0]} by {shapes[1]}")
    out = (shapes[0][0], shapes[1][1])
    bias = g.value(n, 2) if g.has(n, 2) and n.get("beta", float, 1.0) else None
    if bias is not None:
        shape = g.shape_of(bias)
        fits = len(shape) <= 2 and all(size in (1, whole) for size, whole in zip(shape[::-1], out[::-1], strict=False))
        if not fits:
            n.fail(f"C {shape} does not broadcast to {out}")
    row = isinstance(bias, np.ndarray) and prod(bias.shape[:-1]) == 1
    if isinstance(a, str) and isinstance(b, np.ndarray):
        weight = b.T * n.get("alpha", float, 1.0) if n.get("alpha", float, 1.0) != 1 else b.T
        if row or bias is None:
            g.emit(n, "fc", [a, g.keep(weight, n.inputs[1]), _row(g, n, bias, out[1])])
            return
        product = g.emit(n, "fc", [a, g.keep(weight, n.inputs[1]), zeros(g, n, out[1])], part="product")
    else:
        names = aligned(g, n, (a, b))
        part = "" if bias is None else "product"
        product = g.emit(n, "matmul", names, part=part, alpha=n.get("alpha", float, 1.0))
    if bias is not None:
        binary(g, n, "add", product, _scaled(g, n, bias))


def _oriented(g: Builder, n: OnnxNode, i: int) -> Value:
    """Operand A or B, transposed if the node says so."""
    value = g.value(n, i)
    if len(g.shape_of(value)) != 2:
        n.fail(f"expected matrices, got {g.shape_of(value)}")
    if isinstance(value, np.ndarray) and value.dtype.kind != "f":
        n.fail(f"only products of floats are supported, got {value.dtype}")
    if not n.get(f"trans{'AB'[i]}", int, 0):
        return value
    if isinstance(value, np.ndarray):
        return value.T
    return g.emit(n, "transpose", [value], part="AB"[i], perm=(1, 0))


def _row(g: Builder, n: OnnxNode, bias: np.ndarray | None, count: int) -> str:
    """beta C as the bias of a layer."""
    beta = n.get("beta", float, 1.0)
    if bias is None:
        return zeros(g, n, count)
    if bias.dtype.kind != "f":
        n.fail(f"only sums of floats are supported, got {bias.dtype}")
    if bias.shape == (count,) and beta == 1:
        return g.weight(n, 2)
    return g.keep(np.broadcast_to(bias * beta, (1, count))[0], n.inputs[2])


def _scaled(g: Builder, n: OnnxNode, bias: Value) -> Value:
    beta = n.get("beta", float, 1.0)
    if beta == 1:
        return bias
    return np.asarray(bias * beta) if isinstance(bias, np.ndarray) else g.with_number(n, "mul", bias, beta, "scaled")


# ---- Einsum: transposes, reductions and products of two operands ----

Label = str | int
Labels = tuple[Label, ...]


@dataclass(frozen=True)
class Term:
    """An operand and the labels of its axes."""

    name: str
    labels: Labels

    def sizes(self, g: Builder) -> dict[Label, int]:
        return dict(zip(self.labels, g.shape(self.name), strict=True))


@operator("Einsum", "equation", "of floats where axes are summed over together")
def _einsum(g: Builder, n: OnnxNode) -> None:
    values = [g.value(n, i) for i in range(len(n.inputs))]
    ranks = [len(g.shape_of(value)) for value in values]
    inputs, output = _parsed(n, n.get("equation", str), ranks)
    terms = []
    for place, (value, labels) in enumerate(zip(values, inputs, strict=True)):
        kept = value if isinstance(value, str) else g.keep(value, named(g, n, value))
        terms.append(_without_repeats(g, n, Term(kept, labels), f"operand{place}"))
    _check_sizes(g, n, terms)
    result, *others = sorted(terms, key=lambda term: term.name in g.constants)  # so that no product is of constants
    for i, other in enumerate(others, 1):
        kept = (*output, *(label for term in others[i:] for label in term.labels))
        result, other = _summed(g, n, result, (*other.labels, *kept)), _summed(g, n, other, (*result.labels, *kept))
        result = _product(g, n, result, other, tuple(dict.fromkeys(kept)))
    result = _summed(g, n, result, output)
    perm = tuple(result.labels.index(label) for label in output)
    if perm == tuple(range(len(perm))):
        g.reshape(n, result.name, g.shape(result.name))
    else:
        g.emit(n, "transpose", [result.name], perm=perm)


def _parsed(n: OnnxNode, equation: str, ranks: list[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the output."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = left.replace(",", "") + right
    if len(terms) != len(ranks) or not all(c.isalpha() or c == "." for c in letters):
        n.fail(f"equation {equation!r:.80} does not fit {len(ranks)} operands")
    inputs = [_labels(n, term, rank) for term, rank in zip(terms, ranks, strict=True)]
    spread = max((sum(isinstance(label, int) for label in labels) for labels in inputs), default=0)
    dots = tuple(range(-spread, 0))
    if arrow:
        if right.count(".") != (3 if "..." in right else 0):
            n.fail(f"equation {equation!r:.80} has stray dots")
        before, ellipsis, after = right.partition("...")
        output = (*before, *(dots if ellipsis else ()), *after)
    else:
        counts = Counter(c for c in left if c.isalpha())
        output = (*dots, *sorted(letter for letter, count in counts.items() if count == 1))
    known = {label for labels in inputs for label in labels}
    if len(set(output)) != len(output) or not set(output) <= known or not set(dots) <= set(output):
        n.fail(f"equation {equation!r:.80} has an output that its operands do not make")
    return inputs, output


def _labels(n: OnnxNode, term: str, rank: int) -> Labels:
    before, ellipsis, after = term.partition("...")
    spread = rank - len(before) - len(after)
    if "." in before + after or spread < 0 or (spread and not ellipsis):
        n.fail(f"term {term!r:.80} does not fit rank {rank}")
    return (*before, *range(-spread, 0), *after)


def _without_repeats(g: Builder, n: OnnxNode, term: Term, part: str) -> Term:
    """Of axes of one label the diagonal: they become one axis, of which every (size + 1)th element stays."""
    repeated = [label for label, count in Counter(term.labels).items() if count > 1]
    for label in repeated:
        while term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            rest = [axis for axis in range(len(term.labels)) if axis not in (first, second)]
            shape = g.shape(term.name)
            size = shape[first]
            if shape[second] != size:
                n.fail(f"axes {label!r} have sizes {size} and {shape[second]}")
            labels = (*(term.labels[axis] for axis in rest), label)
            if term.name in g.constants:
                diagonal = g.constants[term.name].diagonal(axis1=first, axis2=second)
                term = Term(g.new_constant(n, diagonal, f"{part}/diagonal", infinite=True), labels)
                continue
            kept = tuple(shape[axis] for axis in rest)
            x = g.emit(n, "transpose", [term.name], part=f"{part}/last", perm=(*rest, first, second))
            x = g.reshape(n, x, (*kept, size * size), part=f"{part}/flat")
            if size > 1:
                x = g.emit(
                    n, "slice", [x], part=f"{part}/diagonal", axis=len(rest), start=0, stop=size * size, step=size + 1
                )
            term = Term(x, labels)
    return term


def _check_sizes(g: Builder, n: OnnxNode, terms: list[Term]) -> None:
    """Axes of one letter have one size; those of an ellipsis are broadcast."""
    known: dict[Label, int] = {}
    for label, size in (pair for term in terms for pair in term.sizes(g).items()):
        other = known.get(label, size)
        if other != size and not (isinstance(label, int) and 1 in (size, other)):
            n.fail(f"axes {label!r} have sizes {other} and {size}")
        known[label] = max(size, other)


def _summed(g: Builder, n: OnnxNode, term: Term, kept: Labels) -> Term:
    """The term without the axes that nothing else has."""
    axes = tuple(axis for axis, label in enumerate(term.labels) if label not in kept)
    if not axes:
        return term
    x = g.emit(n, "reduce", [term.name], part="sum", how="sum", axes=axes, keepdims=False)
    return Term(x, tuple(label for label in term.labels if label in kept))


def _product(g: Builder, n: OnnxNode, a: Term, b: Term, output: Labels) -> Term:
    """Every axis of ``a`` and ``b`` is in the other or in the output."""
    summed = [label for label in a.labels if label not in output]
    shared = [label for label in output if label in a.labels and label in b.labels]
    own_a = [label for label in output if label in a.labels and label not in b.labels]
    own_b = [label for label in output if label in b.labels and label not in a.labels]
    labels = (*shared, *own_a, *own_b)
    left, right = a.sizes(g), b.sizes(g)
    sizes = tuple(max(left.get(label, 1), right.get(label, 1)) for label in labels)
    if not summed:
        x = _arranged(g, n, a, [*shared, *own_a], (*_sizes(left, [*shared, *own_a]), *(1,) * len(own_b)), "a")
        y = _arranged(
            g, n, b, [*shared, *own_b], (*_sizes(right, shared), *(1,) * len(own_a), *_sizes(right, own_b)), "b"
        )
        return Term(g.emit(n, "mul", [x, y], part="product"), labels)
    depth = prod(_sizes(left, summed))
    rows, columns = prod(_sizes(left, own_a)), prod(_sizes(right, own_b))
    x = _arranged(g, n, a, [*shared, *own_a, *summed], (*_sizes(left, shared), rows, depth), "a")
    y = _arranged(g, n, b, [*shared, *summed, *own_b], (*_sizes(right, shared), depth, columns), "b")
    return Term(g.reshape(n, g.emit(n, "matmul", [x, y], part="product"), sizes, part="axes"), labels)


def _sizes(sizes: dict[Label, int], labels: list[Label]) -> tuple[int, ...]:
    return tuple(sizes[label] for label in labels)


def _arranged(g: Builder, n: OnnxNode, term: Term, order: list[Label], shape: tuple[int, ...], part: str) -> str:
    """The term with its axes in another order, some of them joined."""
    perm = tuple(term.labels.index(label) for label in order)
    x = term.name
    if x in g.constants:
        return g.keep(g.constants[x].transpose(perm).reshape(shape), x, infinite=True)
    if perm != tuple(range(len(perm))):
        x = g.emit(n, "transpose", [x], part=f"{part}/order", perm=perm)
    return g.reshape(n, x, shape, part=f"{part}/axes")
