"""What a stage computes as networks of its own, for devices whose compilers take a network: where their ends lie.

A stage is one network, unless a cut floats inside of it: then it is two or three, of which a frame may leave out the
first or the last. One that is timed is a network for each of its groups. Between these networks tensors lie in memory
of the device's own, at cuts and at the model's borders in slots.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import prod
from typing import NamedTuple

from ...graph.ir import Graph, Node, Tensor
from ...graph.memory import dense, slot_layout
from ...graph.partition import Border
from ...steps import SLOT_IN, SLOT_OUT, Lowered, SlotTensor, item_bytes


class Place(NamedTuple):
    """Where a tensor of the model's shape lies in a slot: ``base`` is SLOT_IN or SLOT_OUT.

    ``nhwc``: as pixels, each ``stride`` elements from the one before; else in row-major order.
    """

    base: int
    offset_bytes: int
    tensor: Tensor
    nhwc: bool
    stride: int

    @classmethod
    def of(cls, base: int, slot: SlotTensor) -> Place:
        pixels = slot.nhwc and len(slot.shape) == 4
        stride = dense(slot.shape, base, 0, slot.dtype).stride if pixels else 0
        return cls(base, slot.offset_bytes, Tensor(slot.name, slot.shape, slot.dtype), pixels, stride)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Of its elements in memory, what lies between pixels included."""
        if not self.nhwc:
            return self.tensor.shape
        images, _, height, width = self.tensor.shape
        return images, height, width, self.stride

    @property
    def nbytes(self) -> int:
        return prod(self.stored_shape) * item_bytes(self.tensor.dtype)


class Part(NamedTuple):
    """A network, where its inputs are read and its outputs go, and what only passes.

    reads    by the name of an input where it lies in a slot; others are made by parts before
    writes   an output, and where it goes in a slot
    keeps    outputs that later parts read
    passes   from where to where a tensor is copied that the network does not make
    segment  0: frames that come in late leave it out; 2: those that go out early; 1: always computed
    step     the number of its first step
    """

    graph: Graph
    reads: dict[str, Place]
    writes: tuple[tuple[str, Place], ...]
    keeps: tuple[str, ...]
    passes: tuple[tuple[Place, Place], ...]
    segment: int
    step: int

    @property
    def name(self) -> str:
        """Of its first node; of a tensor where there is none."""
        return self.graph.nodes[0].name if self.graph.nodes else self.passes[0][0].tensor.name


def network_parts(lowered: Lowered, by_group: bool = False, at: Collection[int] = ()) -> list[Part]:
    """The networks of a stage in their order; ``by_group``: one for each group, whose ends can be timed; else ``at``:
    divided behind so many groups."""
    graph, first_late, last_early = lowered.source
    parts: list[Part] = []
    ends = _ends(graph, first_late, last_early)
    for segment, ((first, reads), (last, writes)) in enumerate(pairwise(ends), 0 if first_late else 1):
        places = [first, *(_group_ends(graph, first, last, None if by_group else at)), last]
        known = {place.tensor.name: place for place in reads}
        for nodes in pairwise(places):
            step = _first_step(lowered, graph.nodes[slice(*nodes)], segment, parts)
            parts.append(Part(*_part(graph, nodes, (first, last), known, writes), segment, step))
    return parts


def _first_step(lowered: Lowered, nodes: Sequence[Node], segment: int, before: Sequence[Part]) -> int:
    """The number of the first step of these nodes; where none bears a name of theirs, of the part before."""
    least = (0, lowered.first_late, lowered.last_early or 0)[segment]
    least = max([least, *(part.step for part in before[-1:])])
    names = {name for node in nodes for name in (node.name, node.output)}
    return next((i for i in range(least, len(lowered.steps)) if lowered.steps[i].node in names), least)


def _ends(graph: Graph, first_late: Border | None, last_early: Border | None) -> list[tuple[int, tuple[Place, ...]]]:
    """Where segments begin and end: how many nodes come before, and the places of the tensors there."""
    read, nbytes = slot_layout(graph.inputs, graph.receives)
    entered, _ = slot_layout(first_late.tensors if first_late else (), True, nbytes)
    left, nbytes = slot_layout(last_early.tensors if last_early else (), True)
    written, nbytes = slot_layout(graph.leaving, graph.transmits, nbytes)
    leaves, _ = slot_layout(graph.leaves, False, nbytes)
    ends = [(0, _at(SLOT_IN, read))]
    if first_late:
        ends.append((first_late.nodes, _at(SLOT_IN, entered)))
    if last_early:
        ends.append((last_early.nodes, _at(SLOT_OUT, left)))
    ends.append((len(graph.nodes), _at(SLOT_OUT, written)))
    place = -2 if last_early else -1
    nodes, places = ends[place]
    ends[place] = nodes, (*places, *_at(SLOT_OUT, leaves))  # which are there before the last nodes that float
    return ends


def _made(nodes: Iterable[Node]) -> set[str]:
    return {node.output for node in nodes}


def _at(base: int, slots: Iterable[SlotTensor]) -> tuple[Place, ...]:
    return tuple(Place.of(base, slot) for slot in slots)


def _group_ends(graph: Graph, first: int, last: int, at: Collection[int] | None) -> list[int]:
    """The nodes between which groups end, within a segment; ``at``: those behind so many groups alone."""
    ends = enumerate(accumulate(len(group.nodes) for group in graph.groups), 1)
    return [end for groups, end in ends if first < end < last and (at is None or groups in at)]


def _part(
    graph: Graph,
    nodes: tuple[int, int],
    segment: tuple[int, int],
    reads: dict[str, Place],
    writes: Sequence[Place],
) -> tuple[Graph, dict[str, Place], tuple[tuple[str, Place], ...], tuple[str, ...], tuple[tuple[Place, Place], ...]]:
    """The first five fields of a Part: nodes [first, last) of those of a segment."""
    own, later = graph.nodes[slice(*nodes)], graph.nodes[nodes[1] : segment[1]]
    made, before = _made(own), _made(graph.nodes[segment[0] : nodes[0]])
    read = dict.fromkeys(name for node in own for name in node.inputs if name in graph.tensors and name not in made)
    written = tuple((place.tensor.name, place) for place in writes if place.tensor.name in made)
    kept = dict.fromkeys(name for node in later for name in node.inputs if name in made)
    wanted = {name for name, _ in written} | kept.keys()
    through = () if later else (place for place in writes if place.tensor.name not in made | before)
    passes = tuple((reads[place.tensor.name], place) for place in through)
    network = replace(
        graph,
        nodes=own,
        inputs=tuple(graph.tensors[name] for name in read),
        outputs=tuple(graph.tensors[node.output] for node in own if node.output in wanted),
        constants={name: graph.constants[name] for node in own for name in node.inputs if name in graph.constants},
        receives=False,
        transmits=False,
        leaves=(),
        lengths={},
    )
    from_slots = {name: reads[name] for name in read if name not in before}
    return network, from_slots, written, tuple(kept), passes
