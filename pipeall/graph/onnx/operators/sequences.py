"""Sequences and optional values: what they hold is known while a model is read, so that none is left in the graph.

A sequence is a tuple of constants and names of activations; an optional value is its element, or ``ABSENT``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..read.build import Builder, OnnxNode, operator
from ..read.control import MAX_TURNS, Value, at_index, run, stacked
from ..read.reader import Subgraph

ABSENT = frozenset()  # the optional value without an element
HOLDERS = frozenset(  # operators that take or make more than tensors
    "SequenceConstruct SequenceEmpty SequenceInsert SequenceErase SequenceAt SequenceLength SequenceMap "
    "ConcatFromSequence SplitToSequence Optional OptionalGetElement OptionalHasElement If Loop".split()
)


def _sequence(g: Builder, n: OnnxNode) -> tuple[Value, ...]:
    value = g.value(n, 0)
    return value if isinstance(value, tuple) else n.fail("expected a sequence, got a tensor")


def _place(g: Builder, n: OnnxNode, i: int, count: int, default: int) -> int:
    """Input i, a place in a sequence, from its end where it is below 0."""
    if not g.has(n, i):
        return default
    place = g.constant(n, i)
    if place.size != 1 or not -count <= place.item() < count:
        n.fail(f"expected a place in a sequence of {count}, got {place.tolist()!r:.40}")
    return int(place.item()) % count


@operator("SequenceConstruct", "", "sequences of known length")
def _construct(g: Builder, n: OnnxNode) -> None:
    g.hold(n, tuple(g.value(n, i) for i in range(len(n.inputs))))


@operator("SequenceEmpty", "dtype")
def _empty(g: Builder, n: OnnxNode) -> None:
    g.hold(n, ())


@operator("SequenceInsert", "", "constant place")
def _insert(g: Builder, n: OnnxNode) -> None:
    sequence = _sequence(g, n)
    at = len(sequence)
    if g.has(n, 2) and g.constant(n, 2).tolist() not in (at, [at]):
        at = _place(g, n, 2, at, at)
    g.hold(n, (*sequence[:at], g.value(n, 1), *sequence[at:]))


@operator("SequenceErase", "", "constant place")
def _erase(g: Builder, n: OnnxNode) -> None:
    sequence = _sequence(g, n)
    at = _place(g, n, 1, len(sequence), len(sequence) - 1)
    g.hold(n, sequence[:at] + sequence[at + 1 :])


@operator("SequenceAt", "", "constant place")
def _at(g: Builder, n: OnnxNode) -> None:
    sequence = _sequence(g, n)
    g.bind(n, sequence[_place(g, n, 1, len(sequence), 0)])


@operator("SequenceLength")
def _length(g: Builder, n: OnnxNode) -> None:
    g.bind(n, np.array(len(_sequence(g, n))))


@operator("SplitToSequence", "axis keepdims", f"constant sizes; at most {MAX_TURNS} parts")
def _split(g: Builder, n: OnnxNode) -> None:
    x = g.value(n, 0)
    shape = g.shape_of(x)
    axis = n.axis_of(len(shape), 0)
    size, single = shape[axis], not g.has(n, 1)
    sizes = np.ones(size, int) if single else g.constant(n, 1)
    if sizes.ndim == 0:
        each = max(int(sizes), 1)
        sizes = [min(each, size - start) for start in range(0, size, each)]
    if len(sizes) > MAX_TURNS:
        n.fail(f"expected at most {MAX_TURNS} parts, got {len(sizes)}")
    if single and not n.get("keepdims", int, 1):
        g.hold(n, tuple(at_index(g, n, x, axis, i) for i in range(size)))
        return
    given = g.named(n, np.asarray(sizes, np.int64), "sizes")
    parts = tuple(g.fresh(f"{n.outputs[0]}/part{i}") for i in range(len(sizes)))
    g.convert(OnnxNode(n.name, "Split", (n.inputs[0], given), parts, {"axis": axis}, 13))
    g.hold(n, tuple(g.values.pop(part) for part in parts))


@operator("ConcatFromSequence", "axis new_axis")
def _concat(g: Builder, n: OnnxNode) -> None:
    sequence, axis = _sequence(g, n), n.get("axis", int)
    if not sequence:
        n.fail("the sequence is empty")
    if n.get("new_axis", int, 0):
        stacked(g, n, sequence, axis, 0)
        return
    names = tuple(g.named(n, value, f"element{i}") for i, value in enumerate(sequence))
    g.convert(OnnxNode(n.name, "Concat", names, n.outputs, {"axis": axis}, 13))


@operator("SequenceMap", "body")
def _map(g: Builder, n: OnnxNode) -> None:
    """The body for each element; inputs that are no sequences are the same for all."""
    sequence, body = _sequence(g, n), n.get("body", Subgraph)
    others = [g.value(n, i) for i in range(1, len(n.inputs))]
    if len(body.inputs) != len(n.inputs) or len(body.outputs) != len(n.outputs):
        n.fail(f"expected a body with {len(n.inputs)} inputs and {len(n.outputs)} outputs")
    if any(isinstance(other, tuple) and len(other) != len(sequence) for other in others):
        n.fail("expected sequences of one length")
    results: list[Sequence[Value]] = []
    for i, value in enumerate(sequence):
        given = [value, *(other[i] if isinstance(other, tuple) else other for other in others)]
        results.append(run(g, n, body, dict(zip(body.inputs, given, strict=True)), f"{i}/"))
    for i in n.made:
        g.hold(n, tuple(values[i] for values in results), i)


# ---- optional values ----


@operator("Optional", "type")
def _optional(g: Builder, n: OnnxNode) -> None:
    g.hold(n, g.value(n, 0) if g.has(n, 0) else ABSENT)


@operator("OptionalHasElement")
def _has_element(g: Builder, n: OnnxNode) -> None:
    g.bind(n, np.array(g.has(n, 0) and g.value(n, 0) is not ABSENT))


@operator("OptionalGetElement")
def _element(g: Builder, n: OnnxNode) -> None:
    value = g.value(n, 0)
    g.hold(n, n.fail("the optional value has no element") if value is ABSENT else value)
