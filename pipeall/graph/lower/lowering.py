"""A graph while it is lowered: where its tensors lie, the storages they take, and the steps so far.

A tensor lies at a place with a stride for every axis (``strides``), so that transposing, slicing, broadcasting and most
reshaping only look at it in another way. Tensors are placed backwards, from what leaves the graph: an output lies in
the slot, an operand of a concat inside the concat's own storage (which may lie inside another), the input of a
transpose or reshape in its output. Then steps are emitted forwards: each node writes where its output was placed; an
output not placed is a view of the input or gets a storage of its own. Whatever cannot be in place, because its tensor
lies elsewhere already or a kernel needs it in another layout, becomes a copy step. Storages get their offsets in the
arena last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from ...errors import ModelError
from ...steps import SLOT_IN, SLOT_OUT, Lowered, SlotTensor, Step, Strided, View, item_bytes
from ..ir import Graph, Node, Tensor
from ..memory import dense, extent, slot_elements, slot_layout
from ..ops import Trait, has
from ..partition import Border
from ..pointwise import BINARY, UNARY
from .strides import (
    IMAGE_ORDER,
    broadcast,
    constant,
    cut,
    merged,
    of_view,
    ordered,
    permuted,
    pixels,
    reaching,
    reshaped,
)
from .tiling import Cache, bound, segments

MAX_COPY_DIMS = 6
FLOATS = ("float32", "float16")
MOVES = ("reshape", "transpose")  # ops that only look at a tensor in another way
Emit = Callable[["Lowering", Node], None]  # appends a node's steps
Writes = Callable[[Node, Strided, bool], bool]  # whether a node can write its output, an image or not, at a place


class Lowering:
    """A graph as it is lowered.

    While steps are emitted, the base of a place is SLOT_IN, SLOT_OUT or the number of a storage, a key of ``sizes``.
    ``places`` says where tensors lie; ``images`` where copies of them lie as pixels, for kernels that need them so.
    """

    def __init__(self, graph: Graph, emit: Emit, writes: Writes, *, silu: bool = False) -> None:
        self.graph, self.silu, self._emit_node, self._can_write = graph, silu, emit, writes
        self.places: dict[str, Strided] = {}
        self.images: dict[str, View] = {}
        self.sizes: dict[int, int] = {}
        self.steps: list[Step] = []
        self.slots: dict[str, Strided] = {}  # outputs that were not placed, and where they are copied to
        self._images = image_names(graph)
        self.producers = {node.output: node for node in graph.nodes}
        self.done: set[str] = {tensor.name for tensor in graph.inputs}  # tensors that are there by now
        self.kept = {
            tensor.name for tensor in (*graph.leaving, *graph.leaves)
        }  # what must be there to leave or to cross
        self.consumers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self.consumers.setdefault(name, []).append(node)

    def lowered(
        self, first_late: Border | None = None, last_early: Border | None = None, cache: Cache | None = None
    ) -> Lowered:
        slot_in, in_bytes = slot_layout(self.graph.inputs, self.graph.receives)
        entered, in_bytes = slot_layout(first_late.tensors if first_late else (), True, in_bytes)
        left, out_bytes = slot_layout(last_early.tensors if last_early else (), True)
        slot_out, out_bytes = slot_layout(self.graph.leaving, self.graph.transmits, out_bytes)
        leaves, out_bytes = slot_layout(self.graph.leaves, False, out_bytes)
        self.kept |= {slot.name for slot in (*entered, *left)}
        for slot in slot_in:
            self.places[slot.name] = slot_elements(slot, SLOT_IN)
        passed = [slot for slot in entered if not self._lies_in(slot, SLOT_IN)]
        kept = [slot for slot in (*left, *leaves) if not self._lies_in(slot, SLOT_OUT)]
        copied = [slot for slot in slot_out if not self._lies_in(slot, SLOT_OUT)]
        self.slots = {slot.name: slot_elements(slot, SLOT_OUT) for slot in (*kept, *copied)}
        for node in reversed(self.graph.nodes):
            self._place_inputs(node)
        begin, end = (border.nodes if border else None for border in (first_late, last_early))
        self._emit(self.graph.nodes[:begin] if first_late else ())
        self._pass_on(passed, SLOT_IN)
        self.images.clear()  # a frame that begins here has none of them
        first = len(self.steps)
        self._emit(self.graph.nodes[begin:end])
        self._pass_on(kept, SLOT_OUT)
        last = len(self.steps)
        self._emit(self.graph.nodes[end:] if last_early else ())
        self._pass_on(copied, SLOT_OUT)
        cut = segments(self.steps, self.sizes, (first, last), cache) if cache else []
        steps, arena_bytes, strips = bound(self.steps, self.sizes, cut)
        left_at = last if last_early else None
        return Lowered(
            steps, arena_bytes, slot_in, in_bytes, slot_out, out_bytes, first, left_at, leaves, strips=strips
        )

    def _emit(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node.output not in self.done:
                if self.tensor(node.output).elements:
                    self._emit_node(self, node)
                else:  # nothing is written, but a stage has a step
                    self.target(node)
                    self.step("fill", node, (), self.storage((1, 1, 1, 1)), {"value": 0.0})
                self.done.add(node.output)

    def _pass_on(self, slots: Sequence[SlotTensor], base: int) -> None:
        """Copies tensors that lie elsewhere into a slot. Whoever reads one later finds it there: from an incoming slot
        a frame may begin here."""
        for slot in slots:
            at = slot_elements(slot, base)
            if self.places[slot.name] != at:
                self.copy(slot.name, self.places[slot.name], at)
            if base == SLOT_IN:
                self.places[slot.name] = at

    # ---- where tensors lie ----

    def _lies_in(self, slot: SlotTensor, base: int) -> bool:
        """Places a slot's tensor in it, unless it lies elsewhere already or whoever makes it cannot write there."""
        at = slot_elements(slot, base)
        fits = slot.name not in self.places and self._writes(slot.name, at)
        if fits:
            self.places[slot.name] = at
        return fits

    def _writes(self, name: str, at: Strided) -> bool:
        """Whether the kernel that makes a tensor can write it at this place."""
        return name in self.producers and self._can_write(self.producers[name], at, name in self._images)

    def _place_inputs(self, node: Node) -> None:
        unplaced = node.op in MOVES and node.output in self._images and node.output not in self.places
        if unplaced and self._can_become_pixels(node):
            self.target(node, IMAGE_ORDER)
        for name, at in self._inner_places(node):
            if at is not None and name not in self.places and self._writes(name, at):
                self.places[name] = at

    def _can_become_pixels(self, node: Node) -> bool:
        """Whether reshapes and transposes alone lie between what a node computes and this image, which it can write as
        pixels."""
        made, at = node, ordered(SLOT_OUT, 0, self.shape(node.output), IMAGE_ORDER, self.type_of(node.output))
        while at is not None and made.op in MOVES:
            name = made.inputs[0]
            if name in self.places or name in self._images or self.only_consumers(name) != (made,):
                return False
            at, made = self._seen_before(made, at), self.producers.get(name, node)
        return at is not None and not has(made.op, Trait.SELECTS) and self._can_write(made, at, False)

    def _seen_before(self, node: Node, at: Strided) -> Strided | None:
        """Where the input of a reshape or transpose lies if the output lies there; None where no strides say it."""
        if node.op == "reshape":
            return reshaped(at, self.shape(node.inputs[0]))
        return permuted(at, np.argsort(node.attrs["perm"]).tolist())

    def _inner_places(self, node: Node) -> Iterator[tuple[str, Strided | None]]:
        """Inputs of a node that only moves elements, and where they would lie if nothing had to move."""
        if node.op == "concat":
            if self.graph.tensors.keys() & set(node.inputs):
                self.target(node, self.natural(node.output))
            for name, start, stop in self.operands(node):
                yield name, cut(self.places[node.output], node.attrs["axis"], start, stop)
        elif node.output in self.places and node.inputs[0] in self.graph.tensors:
            name, at = node.inputs[0], self.places[node.output]
            if node.op in MOVES:
                yield name, self._seen_before(node, at)
            elif name == self.overwrites(node):
                yield name, at

    def overwrites(self, node: Node) -> str | None:
        """The operand of a pointwise node that is computed for it alone, so that its result may lie there."""
        operands = [name for name in node.inputs if name in self.graph.tensors]
        if node.op not in UNARY and node.op not in BINARY or len(operands) != 1:
            return None
        (name,) = operands
        alone = name not in self.kept and self.consumers[name] == [node]
        op = self.producers[name].op if name in self.producers else ""
        made = has(op, Trait.WEIGHTS) or op in UNARY or op in BINARY
        alike = self.tensor(name) == replace(self.tensor(node.output), name=name)
        return name if alone and made and alike and self.type_of(name) in FLOATS else None

    def natural(self, name: str) -> Sequence[int]:
        """The order of axes in which a tensor lies best: that of pixels for an image, else row-major."""
        return IMAGE_ORDER if name in self._images else range(len(self.shape(name)))

    def operands(self, node: Node) -> Iterator[tuple[str, int, int]]:
        """The operands of a concat, and where each starts and stops along the axis."""
        ends = accumulate((self.shape(name)[node.attrs["axis"]] for name in node.inputs), initial=0)
        for name, (start, stop) in zip(node.inputs, pairwise(ends), strict=True):
            yield name, start, stop

    # ---- what the rules of ops ask ----

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.tensors[name].shape if name in self.graph.tensors else self.graph.constants[name].shape

    def type_of(self, name: str) -> str:
        return self.graph.tensors[name].dtype if name in self.graph.tensors else str(self.graph.constants[name].dtype)

    def tensor(self, name: str) -> Tensor:
        return self.graph.tensors[name]

    def activation(self, node: Node, index: int = 0) -> str:
        name = node.inputs[index]
        if name not in self.graph.tensors:
            raise ModelError(f"node {node.name!r} ({node.op}): input {index} must be an activation, got {name!r}")
        return name

    def constant(self, node: Node, index: int) -> np.ndarray:
        name = node.inputs[index]
        if name not in self.graph.constants:
            raise ModelError(f"node {node.name!r} ({node.op}): input {index} must be a constant, got {name!r}")
        return self.graph.constants[name]

    def operand(self, name: str, order: Sequence[int] | None = None) -> Strided:
        """Where a tensor or constant lies; a constant in this order of its axes."""
        if name in self.graph.constants:
            return constant(self.graph.constants[name], order)
        return self.places[name]

    def pixels(self, node: Node, index: int = 0) -> View:
        """An image as pixels; a copy of it, made once, where it does not lie so."""
        name = self.activation(node, index)
        view = pixels(self.places[name]) or self.images.get(name)
        if view is None:
            view = self.images[name] = self.storage(self.shape(name), self.tensor(name).dtype)
            self.copy(name, self.places[name], of_view(view, self.shape(name)))
        return view

    def contiguous(self, name: str) -> Strided:
        """A tensor in row-major order; where it does not lie so a copy, which whoever reads it later finds."""
        at = self.places[name]
        line = ordered(at.base, at.offset, at.shape, range(len(at.shape)), at.dtype)
        if at != line:
            self.places[name] = self.dense(at.shape, range(len(at.shape)), at.dtype)
            self.copy(name, at, self.places[name])
        return self.places[name]

    def storage(self, shape: tuple[int, ...], dtype: str = "float32") -> View:
        """A new storage for an image as pixels, or for anything else in row-major order."""
        number = max(SLOT_IN, SLOT_OUT) + 1 + len(self.sizes)
        self.sizes[number] = extent(shape, dtype)
        return dense(shape, number, 0, dtype)

    def dense(self, shape: tuple[int, ...], order: Sequence[int], dtype: str = "float32") -> Strided:
        """A new storage for a tensor in this order of its axes."""
        if tuple(order) == IMAGE_ORDER:
            return of_view(self.storage(shape, dtype), shape)
        number = max(SLOT_IN, SLOT_OUT) + 1 + len(self.sizes)
        self.sizes[number] = prod(shape) * item_bytes(dtype)
        return ordered(number, 0, shape, order, dtype)

    def only_consumers(self, name: str) -> tuple[Node, ...]:
        """Who reads a tensor that need not be there for anybody else."""
        return () if name in self.kept else tuple({id(node): node for node in self.consumers.get(name, ())}.values())

    def lies_as_pixels(self, node: Node) -> bool:
        """Whether a node's output is an image that may be written as pixels."""
        at = self.places.get(node.output)
        return len(self.shape(node.output)) == 4 and (at is None or pixels(at) is not None)

    def target(self, node: Node, order: Sequence[int] | None = None) -> Strided:
        """Where a node's output lies, which is about to be written: where it was placed, in the slot if it has this
        order of axes there, or else in a new storage. By default the order is that of an image, or row-major."""
        name, source = node.output, self.overwrites(node)
        if name not in self.places:
            tensor = self.tensor(name)
            if order is None:
                order = IMAGE_ORDER if len(tensor.shape) == 4 else range(len(tensor.shape))
            slot = self.slots.get(name)
            if slot is not None and slot == ordered(slot.base, slot.offset, slot.shape, order, slot.dtype):
                self.places[name] = slot
            elif source in self.places:  # not where it is never made: what makes it goes on to this
                self.places[name] = self.places[source]
            else:
                self.places[name] = self.dense(tensor.shape, order, tensor.dtype)
        return self.places[name]

    def look(self, node: Node, at: Strided) -> None:
        """The output of a node that moves elements lies at ``at``, or is copied from there to where it was placed."""
        if self.places.setdefault(node.output, at) != at:
            self.copy(node.name, at, self.places[node.output])

    # ---- steps ----

    def step(self, kind: str, node: Node, src: Sequence[View | Strided], dst: View | Strided, params: Any = None,
             weight: np.ndarray | None = None, bias: np.ndarray | None = None) -> None:  # fmt: skip
        self.steps.append(Step(kind, node.name, tuple(src), dst, params or {}, weight, bias))

    def copy(self, name: str, src: Strided, dst: Strided) -> None:
        """Every element of ``dst`` from the same index of ``src``, broadcast."""
        if not prod(dst.shape):
            return
        a, b = merged(dst.shape, broadcast(src, dst.shape), dst)
        if src.array is not None or len(b.shape) > MAX_COPY_DIMS:
            params = {"op": "cast", "p0": 0.0, "p1": 0.0, "lo": float("-inf"), "hi": float("inf")}
            self.steps.append(Step("pointwise", name, (a,), b, params))
            return
        params = {"dims": b.shape, "src_strides": a.strides, "dst_strides": b.strides}
        self.steps.append(Step("copy", name, (reaching(a),), reaching(b), params))


def attrs_of(node: Node, *names: str) -> dict[str, Any]:
    """Some attributes of a node, for a step."""
    return {name: node.attrs[name] for name in names}


def image_names(graph: Graph) -> frozenset[str]:
    """The tensors that should lie as pixels do: those of rank 4 that ops on images read or write, and what computes in
    their layout. Others of rank 4, as heads of attention or windows of tokens, lie better in row-major order."""
    on_pixels: set[str] = set()
    passed: set[str] = set()  # outputs of nodes that have been looked at
    nodes_of: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in (*node.inputs, node.output):
            nodes_of.setdefault(name, []).append(node)
    met = [name for node in graph.nodes if has(node.op, Trait.IMAGES) for name in (node.inputs[0], node.output)]
    while met:
        name = met.pop()
        if name in on_pixels or name not in graph.tensors or len(graph.tensors[name].shape) != 4:
            continue
        on_pixels.add(name)
        for node in nodes_of[name]:
            if not has(node.op, Trait.REORDERS) and node.output not in passed:
                passed.add(node.output)
                met += (*node.inputs, node.output)
    return frozenset(on_pixels)
