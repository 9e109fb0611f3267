"""ONNX's Einsum as transposes, reductions and products of two operands, the first with each of the others in turn.

Axes have labels: a letter of the equation, or the place of an axis that an ellipsis stands for, from the right.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

from ..read.build import Builder, OnnxNode, operator
from .pointwise_nodes import named

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
                term = Term(g.keep(diagonal, f"{n.outputs[0]}/{part}/diagonal", infinite=True), labels)
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
