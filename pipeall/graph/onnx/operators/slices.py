"""Slice and Range whose starts or ends are computed while a frame runs, as gathers with computed indices.

What is known of their length is known by formula: where the end is the start and a number, that is the length, unless
the slice is cut short by the end of its axis. Its true length then is a count of which the number is the bound
(``lengths``), and operators that need one length take it as whole, with the nearest elements in place of those beyond.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from ...ir import Node
from ..read.build import Builder, OnnxNode, Value, operator
from ..read.fold import slices
from ..read.lengths import counted, mark
from ..read.sizes import Count, Size, UndecidedError
from .movement import cut_out, taken
from .pointwise_nodes import binary

MOST_NUMBERS = 64  # of a tensor of starts or ends
DEPTH = 200  # of what they are computed by
UNKNOWN = 2**62  # the bound of a number that is only a name here
Limits = tuple[float, float]


class _Formulas:
    """Computed integers as sums of others; ``limits`` has what each of those may be, where that is known."""

    def __init__(self, g: Builder):
        self.g = g
        self.producers: Mapping[str, Node] = {node.output: node for node in g.nodes}
        self.limits: dict[Count, Limits] = {}

    def of(self, value: Value, depth: int = DEPTH) -> np.ndarray:
        """An array of objects: integers, and Sizes of names."""
        array = value if isinstance(value, np.ndarray) else self.g.constants.get(value)
        if array is not None:
            return array.astype(object)
        node = self.producers.get(value)
        try:
            made = self._made(node, depth) if node and depth and self._are_integers(node) else None
        except UndecidedError:
            made = None
        return self._named(value, (-inf, inf)) if made is None else made

    def _are_integers(self, node: Node) -> bool:
        return all(self.g.dtype(name) in ("int32", "int64") for name in node.inputs) or node.op == "arg"

    def _made(self, node: Node, depth: int) -> np.ndarray | None:
        if node.op == "arg":
            return self._named(node.output, (0, self.g.shape(node.inputs[0])[node.attrs["axis"]] - 1))
        if any(np.prod(self.g.shape(name)) > MOST_NUMBERS for name in node.inputs):
            return None
        if node.op not in ("reshape", "cast", "neg", "concat", "slice", "add", "sub", "mul", "mod", "clip"):
            return None
        a, *others = (self.of(name, depth - 1) for name in node.inputs)
        attrs = node.attrs
        if node.op == "concat":
            return np.concatenate([a, *others], attrs["axis"])
        if node.op == "slice":
            return a[(slice(None),) * attrs["axis"] + (slice(attrs["start"], attrs["stop"], attrs["step"]),)]
        if node.op in ("reshape", "cast"):
            return a.reshape(self.g.shape(node.output))
        if node.op == "neg":
            return np.asarray(-1 * a, object)
        if node.op == "clip":
            within = [self._range(number) for number in a.reshape(-1)]
            low, high = min(low for low, _ in within), max(high for _, high in within)
            limits = max(low, attrs["lo"]), min(max(high, attrs["lo"]), attrs["hi"])
            return self._named(node.output, limits)
        a, b = (others[0], a) if attrs["swapped"] else (a, others[0])
        if (attrs["lo"], attrs["hi"]) != (-inf, inf):
            return None
        if node.op == "mod":
            most = max((number if isinstance(number, int) else 0 for number in b.reshape(-1)), default=0)
            low = min((number if isinstance(number, int) else 0 for number in b.reshape(-1)), default=0)
            return self._named(node.output, (0, most - 1)) if low > 0 else None
        return np.asarray({"add": np.add, "sub": np.subtract, "mul": np.multiply}[node.op](a, b), object)

    def _named(self, name: str, limits: Limits) -> np.ndarray:
        shape = self.g.shape(name)
        made = np.empty(shape, object)
        for place in np.ndindex(shape):
            count = Count(f"{name}{list(place)}", UNKNOWN)
            self.limits[count] = limits
            made[place] = Size({count: 1})
        return made

    def _range(self, number: Size | int) -> Limits:
        if not isinstance(number, Size):
            return number, number
        ends = [sorted(times * end for end in self.limits[count]) for count, times in number.terms.items()]
        return number.rest + sum(low for low, _ in ends), number.rest + sum(high for _, high in ends)

    def inside(self, start: Size | int, stop: Size | int, size: int) -> bool:
        """Whether a slice lies within an axis whatever is computed."""
        return self._range(start)[0] >= 0 and self._range(stop)[1] <= size


@operator("Slice", "axes ends starts", "constant axes and steps")
def _slice(g: Builder, n: OnnxNode) -> None:
    if "starts" in n.attrs or not any(isinstance(g.value(n, i), str) for i in (1, 2)):
        cut_out(g, n)
        return
    x, formulas = g.x(n), _Formulas(g)
    true: list[Size | int] = list(g.shape(x))
    ends = [g.value(n, i) for i in (1, 2)]
    if any(len(g.shape_of(value)) != 1 or "int" not in g.type_of(value) for value in ends):
        n.fail(f"starts and ends must be lists of integers, got {' and '.join(str(g.shape_of(v)) for v in ends)}")
    known = [formulas.of(value).tolist() for value in ends]
    cuts = slices(g, n, len(true), known)
    if len({axis for axis, *_ in cuts}) < len(cuts):
        n.fail(f"expected different axes, got {[axis for axis, *_ in cuts]}")
    for i, (axis, start, stop, step) in enumerate(cuts):
        if isinstance(start, Size) or isinstance(stop, Size):
            if step < 1:
                n.fail(f"expected a step of at least 1 where starts or ends are computed, got {step}")
            computed = [_element(g, n, value, i, part) for value, part in zip(ends, ("start", "stop"), strict=True)]
            x, true[axis] = _along(g, n, formulas, x, axis, (start, stop), computed, step)
        else:
            chosen = range(true[axis])[slice(start, stop, step)]
            x = taken(g, n, x, axis, chosen, part=f"axis{axis}") if chosen else x
            true[axis] = len(chosen)
        if not isinstance(true[axis], Size) and true[axis] == 0:
            n.fail(f"nothing is left of axis {axis} of {g.shape(x)}")
    g.reshape(n, x, g.shape(x))
    mark(g, n, true)


def _element(g: Builder, n: OnnxNode, value: Value, i: int, part: str) -> Value:
    """One number of a list, (1,) of int64."""
    if isinstance(value, np.ndarray):
        return value[i : i + 1].astype(np.int64)
    one = value if g.shape(value) == (1,) else taken(g, n, value, 0, range(i, i + 1), part=part)
    return g.cast(n, one, "int64", part=f"{part}64")


def _along(
    g: Builder,
    n: OnnxNode,
    formulas: _Formulas,
    x: str,
    axis: int,
    known: tuple[Size | int, Size | int],
    computed: list[Value],
    step: int,
) -> tuple[str, Size | int]:
    """The elements of one axis, and how many those are."""
    size, apart = g.shape(x)[axis], known[1] - known[0]
    whole = not isinstance(apart, Size)
    if whole and apart < 1:
        n.fail(f"the slice ends {-apart} elements ahead of its start")
    bound = -(-min(apart if whole else size, size) // step)
    start, stop = computed
    if whole and formulas.inside(*known, size):
        return _picked(g, n, x, axis, start, bound, step), bound
    start, stop = (_place(g, n, at, size, part) for at, part in ((start, "from"), (stop, "to")))
    length = binary(g, n, "sub", stop, start, part="length")
    if step > 1:
        length = binary(g, n, "add", length, np.array([step - 1]), part="more")
        length = binary(g, n, "div", length, np.array([step]), part="steps")
    length = binary(g, n, "max", length, np.array([0]), part="count")
    return _picked(g, n, x, axis, start, bound, step), counted(g, length, bound, whole)


def _picked(g: Builder, n: OnnxNode, x: str, axis: int, start: Value, count: int, step: int) -> str:
    places = binary(g, n, "add", start, np.arange(count) * step, part="indices")
    places = binary(g, n, "min", places, np.array([g.shape(x)[axis] - 1]), part="nearest")
    return g.emit(n, "gather", [x, places], part=f"axis{axis}", axis=axis)


def _place(g: Builder, n: OnnxNode, at: Value, size: int, part: str) -> Value:
    """Where a slice begins or ends on an axis: below 0 it counts from the end, and it ends with the axis."""
    if isinstance(at, np.ndarray):
        place = at.item()
        return np.array([min(max(place + size if place < 0 else place, 0), size)])
    below = binary(g, n, "less", at, np.array([0]), part=f"{part}/below")
    behind = binary(g, n, "add", at, np.array([size]), part=f"{part}/behind")
    place = g.emit(n, "where", [below, behind, at], part=part)
    return binary(
        g, n, "min", binary(g, n, "max", place, np.array([0]), part=part), np.array([size]), part=f"{part}/least"
    )


@operator("Range", limits="computed start and end, a constant number of steps between them")
def _range(g: Builder, n: OnnxNode) -> None:
    start, stop = (g.value(n, i) for i in (0, 1))
    step, formulas = g.constant(n, 2), _Formulas(g)
    if any("int" not in g.type_of(value) or np.prod(g.shape_of(value)) != 1 for value in (start, stop, step)):
        n.fail("expected integers, one each, where start or end is computed")
    first, last = (formulas.of(value).item() for value in (start, stop))
    if isinstance(last - first, Size):
        g.constant(n, 0 if isinstance(start, str) else 1)
    count = len(range(0, last - first, step.item()))
    g.afford(n, count)
    if not count:
        n.fail(f"a range of {last - first} by {step.item()} has no elements")
    dtype = np.int64 if isinstance(start, np.ndarray) else g.dtype(start)
    start = g.reshape(n, start, (1,), part="start")
    binary(g, n, "add", start, (np.arange(count) * step.item()).astype(dtype))
