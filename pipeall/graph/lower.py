"""From a graph to the steps a device executes: where every tensor lies, and what is computed in which order.

Tensors are placed backwards, from what leaves the graph: an output lies in the slot, an operand of a channel concat
lies inside the concat's own storage (which may lie inside another), the input of a reshape lies in its output where
the order of the elements is the same. Then steps are emitted forwards: each node writes where its output was placed;
an output not placed is a view of the input (channel slice, reshape) or gets a storage of its own. Whatever cannot be
in place, because its tensor lies elsewhere already, becomes a copy step. Storages get their offsets in the arena last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..errors import ModelError
from ..steps import ARENA, SLOT_IN, SLOT_OUT, Lowered, SlotTensor, Step, View, item_bytes
from .ir import Graph, Node
from .memory import (
    Strided,
    dense,
    extent,
    is_linear,
    merged,
    part,
    plan_arena,
    reshaped,
    row_major,
    slot_elements,
    slot_layout,
    strided,
)
from .ops import attributes
from .partition import Border
from .pointwise import BINARY, UNARY

MAX_COPY_DIMS = 6
PLAIN = {  # op -> the attributes that the step of the same kind takes over
    "maxpool": ("kernel", "strides", "pads", "dilations"),
    "avgpool": ("kernel", "strides", "pads", "count_include_pad"),
    "lrn": ("size", "alpha", "beta", "bias"),
    "softmax": (),
    "layernorm": ("epsilon",),
}


def lower(graph: Graph, first_late: Border | None = None, last_early: Border | None = None) -> Lowered:
    """The graph as steps on views; the same graph always gives the same steps.

    first_late  a cut inside of the graph: frames may also arrive there, in the slot behind the graph's inputs
    last_early  a cut behind that: frames may also leave there, in the slot before the graph's outputs

    Where a sub-graph receives or transmits, its slots hold NHWC tensors that are read and written in place; at the
    model's own borders they hold the model's layout, and a copy step converts where that differs from NHWC.
    Raises ModelError naming the node that cannot be lowered.
    """
    return _Lowering(graph).lowered(first_late, last_early)


def storages(graph: Graph) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """What ``lower`` puts into the arena: bytes of each storage, and the first and last step that touch it."""
    lowering = _Lowering(graph)
    lowering.lowered()
    return lowering.sizes, lowering.lifetimes()


class _Lowering:
    """While steps are emitted, ``View.base`` is SLOT_IN, SLOT_OUT or the number of a storage, a key of ``sizes``."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.views: dict[str, View] = {}
        self.sizes: dict[int, int] = {}
        self.steps: list[Step] = []

    def lowered(self, first_late: Border | None = None, last_early: Border | None = None) -> Lowered:
        slot_in, in_bytes = slot_layout(self.graph.inputs, self.graph.receives)
        entered, in_bytes = slot_layout(first_late.tensors if first_late else (), True, in_bytes)
        left, out_bytes = slot_layout(last_early.tensors if last_early else (), True)
        slot_out, out_bytes = slot_layout(self.graph.outputs, self.graph.transmits, out_bytes)
        converted = [slot for slot in slot_in if not self._lies_in(slot, SLOT_IN)]
        passed = [slot for slot in entered if not self._lies_in(slot, SLOT_IN)]
        kept = [slot for slot in left if not self._lies_in(slot, SLOT_OUT)]
        copied = [slot for slot in slot_out if not self._lies_in(slot, SLOT_OUT)]
        for node in reversed(self.graph.nodes):
            self._place_inputs(node)
        for slot in converted:
            self._place(slot.name)
            self._copy(slot.name, slot.shape, slot_elements(slot, SLOT_IN), self._elements(slot.name))
        begin, end = (border.nodes if border else None for border in (first_late, last_early))
        self._emit(self.graph.nodes[:begin] if first_late else ())
        self._pass_on(passed, SLOT_IN)
        first = len(self.steps)
        self._emit(self.graph.nodes[begin:end])
        self._pass_on(kept, SLOT_OUT)
        last = len(self.steps)
        self._emit(self.graph.nodes[end:] if last_early else ())
        self._pass_on(copied, SLOT_OUT)
        steps, arena_bytes = self._bound()
        left_at = last if last_early else None
        return Lowered(steps, arena_bytes, slot_in, in_bytes, slot_out, out_bytes, first, left_at)

    def _emit(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node.op not in RULES:
                raise ModelError(f"node {node.name!r}: no device computes op {node.op!r}; known: {', '.join(RULES)}")
            tensors = (self.graph.tensors.get(name) for name in (*node.inputs, node.output))
            types = {tensor.dtype for tensor in tensors if tensor is not None}
            if len(types) != 1:
                found = ", ".join(sorted(types))
                raise ModelError(f"node {node.name!r} ({node.op}): expected tensors of one element type, got {found}")
            RULES[node.op](self, node)

    def _pass_on(self, slots: Sequence[SlotTensor], base: int) -> None:
        """Copies tensors that lie elsewhere into a slot. Whoever reads one later finds it there: from an incoming slot
        a frame may begin here."""
        for slot in slots:
            self._copy(slot.name, slot.shape, self._elements(slot.name), slot_elements(slot, base))
            if base == SLOT_IN:
                self.views[slot.name] = dense(slot.shape, base, slot.offset, slot.dtype)

    # ---- where tensors lie ----

    def _lies_in(self, slot: SlotTensor, base: int) -> bool:
        """Places a slot's tensor in the slot, unless it lies elsewhere already or the layouts differ."""
        view = dense(slot.shape, base, slot.offset, slot.dtype)
        fits = slot.name not in self.views and (slot.nhwc or is_linear(slot.shape, view))
        if fits:
            self.views[slot.name] = view
        return fits

    def _place_inputs(self, node: Node) -> None:
        if node.op == "concat":
            self._place(node.output)
            places = [(name, self._range(node, start, stop)) for name, start, stop in self._operands(node)]
        elif node.op == "reshape" and node.output in self.views:
            name = node.inputs[0]
            places = [(name, reshaped(self.views[node.output], self._shape(node.output), self._shape(name)))]
        else:
            places = []
        for name, view in places:
            if view is not None:
                self.views.setdefault(name, view)

    def _place(self, name: str) -> View:
        """Where a tensor that is about to be written lies: a new storage unless it was placed."""
        if name not in self.views:
            number = max(SLOT_IN, SLOT_OUT) + 1 + len(self.sizes)
            tensor = self.graph.tensors[name]
            self.sizes[number] = extent(tensor.shape, tensor.dtype)
            self.views[name] = dense(tensor.shape, number, 0, tensor.dtype)
        return self.views[name]

    def _operands(self, node: Node) -> Iterator[tuple[str, int, int]]:
        """The operands of a concat, and where each starts and stops along the axis."""
        names = [self._activation(node, index) for index in range(len(node.inputs))]
        ends = accumulate((self._shape(name)[node.attrs["axis"]] for name in names), initial=0)
        for name, (start, stop) in zip(names, pairwise(ends), strict=True):
            yield name, start, stop

    def _range(self, node: Node, start: int, stop: int) -> View | None:
        return part(self.views[node.output], self._shape(node.output), node.attrs["axis"], start, stop)

    def lifetimes(self) -> dict[int, tuple[int, int]]:
        """The first and the last step that touch each storage."""
        found: dict[int, tuple[int, int]] = {}
        for index, step in enumerate(self.steps):
            for number in {view.base for view in (*step.src, step.dst)} & self.sizes.keys():
                found[number] = (found.get(number, (index, index))[0], index)
        return found

    def _bound(self) -> tuple[tuple[Step, ...], int]:
        """The steps with their storages placed in the arena, and the arena's size."""
        offsets, arena_bytes = plan_arena(self.sizes, self.lifetimes())

        def bound(view: View) -> View:
            if view.base not in self.sizes:
                return view
            begin = offsets[view.base] // item_bytes(view.dtype)
            return replace(view, base=ARENA, offset=begin + view.offset)

        return tuple(replace(s, src=tuple(map(bound, s.src)), dst=bound(s.dst)) for s in self.steps), arena_bytes

    # ---- what nodes read and write ----

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].shape

    def _elements(self, name: str) -> Strided:
        return strided(self._shape(name), self.views[name])

    def _activation(self, node: Node, index: int) -> str:
        name = node.inputs[index]
        if name not in self.graph.tensors:
            raise ModelError(f"node {node.name!r} ({node.op}): input {index} must be an activation, got {name!r}")
        return name

    def _constant(self, node: Node, index: int) -> np.ndarray:
        name = node.inputs[index]
        if name not in self.graph.constants:
            raise ModelError(f"node {node.name!r} ({node.op}): input {index} must be a constant, got {name!r}")
        return self.graph.constants[name]

    def _element(self, node: Node, value: float) -> float:
        """``value``, where an element of the node's output can hold it."""
        dtype = np.dtype(self.graph.tensors[node.output].dtype)
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if value != int(value) or not limits.min <= value <= limits.max:
                raise ModelError(f"node {node.name!r} ({node.op}): expected a value that {dtype} can hold, got {value}")
        return value

    def _source(self, node: Node, index: int = 0) -> View:
        return self.views[self._activation(node, index)]

    # ---- steps ----

    def _step(
        self,
        kind: str,
        node: Node,
        src: tuple[View, ...],
        params: dict[str, Any],
        weight: np.ndarray | None = None,
        bias: np.ndarray | None = None,
    ) -> None:
        self.steps.append(Step(kind, node.name, src, self._place(node.output), params, weight, bias))

    def _copy(self, name: str, dims: Sequence[int], src: Strided, dst: Strided) -> None:
        sizes, src, dst = merged(dims, src, dst)
        if len(sizes) > MAX_COPY_DIMS:
            raise ModelError(f"node {name!r}: expected a copy of at most {MAX_COPY_DIMS} dimensions, got {sizes}")
        params = {"dims": sizes, "src_strides": src.strides, "dst_strides": dst.strides}
        self.steps.append(Step("copy", name, (src.reaching(sizes),), dst.reaching(sizes), params))

    def _plain(self, node: Node) -> None:
        self._step(node.op, node, (self._source(node),), _attrs(node, *PLAIN[node.op]))

    def _unary(self, node: Node) -> None:
        p0, p1 = (*_attrs(node, *UNARY[node.op].parameters).values(), 0.0, 0.0)[:2]
        self._step("unary", node, (self._source(node),), {"op": node.op, "p0": p0, "p1": p1})

    def _conv(self, node: Node) -> None:
        src = (self._source(node), *(self._source(node, index) for index in range(3, len(node.inputs))))
        weight, bias = self._constant(node, 1), self._constant(node, 2)
        attrs = _attrs(node, "strides", "pads", "dilations", "groups", "lo", "hi")
        self._step("conv", node, src, {"kernel": weight.shape[2:], **attrs}, weight, bias)

    def _fc(self, node: Node) -> None:
        x = self._source(node)
        weight = self._constant(node, 1).reshape(-1, x.c, x.h, x.w)
        attrs = attributes("conv", **_attrs(node, "lo", "hi"))
        self._step("conv", node, (x,), {"kernel": (x.h, x.w), **attrs}, weight, self._constant(node, 2))

    def _binary(self, node: Node) -> None:
        src, weight = (self._source(node),), None
        if node.inputs[1] in self.graph.constants:
            b = self.graph.constants[node.inputs[1]]
            weight = np.ascontiguousarray(b[0].transpose(1, 2, 0)) if b.ndim == 4 else b.reshape(1, 1, -1)
        else:
            src = (*src, self._source(node, 1))
        op = (node.attrs["swapped"] and BINARY[node.op].swapped) or node.op
        self._step("binary", node, src, {"op": op, **_attrs(node, "lo", "hi")}, weight)

    def _concat(self, node: Node) -> None:
        target = self._elements(node.output)
        for name, start, stop in self._operands(node):
            if self.views[name] != self._range(node, start, stop):
                index = [0] * len(target.strides)
                index[node.attrs["axis"]] = start
                self._copy(node.name, self._shape(name), self._elements(name), target.from_index(index))

    def _slice(self, node: Node) -> None:
        name, axis, start = self._activation(node, 0), node.attrs["axis"], node.attrs["start"]
        view = part(self.views[name], self._shape(name), axis, start, node.attrs["stop"])
        if view is None or self.views.setdefault(node.output, view) != view:
            index = [0] * len(self._shape(name))
            index[axis] = start
            self._place(node.output)
            source = self._elements(name).from_index(index)
            self._copy(node.name, self._shape(node.output), source, self._elements(node.output))

    def _reshape(self, node: Node) -> None:
        name = self._activation(node, 0)
        old, new, x = self._shape(name), self._shape(node.output), self.views[name]
        view = reshaped(x, old, new)
        if view is None or self.views.setdefault(node.output, view) != view:
            target = self._place(node.output)
            dims = new if is_linear(old, x) else old  # a linear side can be seen in the dimensions of the other
            if dims != new and not is_linear(new, target):
                raise ModelError(f"node {node.name!r} (reshape): {old} to {new} must pass through (1, N)")
            source, out = (
                Strided(v.base, v.offset, row_major(dims), v.dtype) if is_linear(shape, v) else strided(shape, v)
                for shape, v in ((old, x), (new, target))
            )
            self._copy(node.name, dims, source, out)

    def _transpose(self, node: Node) -> None:
        source = self._elements(self._activation(node, 0))
        permuted = replace(source, strides=tuple(source.strides[axis] for axis in node.attrs["perm"]))
        self._place(node.output)
        self._copy(node.name, self._shape(node.output), permuted, self._elements(node.output))

    def _pad(self, node: Node) -> None:
        name = self._activation(node, 0)
        self._step("fill", node, (), {"value": self._element(node, node.attrs["value"])})
        interior = self._elements(node.output).from_index(node.attrs["pads_begin"])
        self._copy(node.name, self._shape(name), self._elements(name), interior)

    def _shuffle(self, node: Node) -> None:
        """Channel i * (c / groups) + j moves to j * groups + i."""
        x, target, groups = self._source(node), self._place(node.output), node.attrs["groups"]
        per_group = x.c // groups
        source = Strided(x.base, x.offset, (x.stride, per_group, 1), x.dtype)
        shuffled = Strided(target.base, target.offset, (target.stride, 1, groups), target.dtype)
        self._copy(node.name, (x.h * x.w, groups, per_group), source, shuffled)


def _attrs(node: Node, *names: str) -> dict[str, Any]:
    return {name: node.attrs[name] for name in names}


RULES: dict[str, Callable[[_Lowering, Node], None]] = {
    **dict.fromkeys(PLAIN, _Lowering._plain),
    **dict.fromkeys(UNARY, _Lowering._unary),
    **dict.fromkeys(BINARY, _Lowering._binary),
    "conv": _Lowering._conv,
    "fc": _Lowering._fc,
    "concat": _Lowering._concat,
    "slice": _Lowering._slice,
    "reshape": _Lowering._reshape,
    "transpose": _Lowering._transpose,
    "pad": _Lowering._pad,
    "shuffle": _Lowering._shuffle,
}
