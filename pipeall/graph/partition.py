"""Where a network may be cut: groups, the cuts between them, and the sub-graphs between cuts.

A tensor crosses a position of the topological order if it exists before it and nodes after it read it. An output of the
model leaves where it is done: no node after reads it, so it crosses nothing from there on. The positions that
few enough tensors cross (one, in the networks of paper 001) divide the nodes into chunks: single nodes of a chain,
whole inception modules, residual units. A group is one chunk with Main nodes, and the chunks without Main nodes that
follow it: a cut stands as late as possible, directly before the next Main. A pooling to 1 x 1 also closes its group,
because the tensor that crosses is smallest there. A tail that has no Main is a group of its own. The positions that one
tensor crosses are the same in every topological order.

Where a network has a neck (a U-Net, a feature pyramid) nearly all of it is one such group. So a group with more than
``LARGE`` of the multiply-accumulates is divided into pieces of at most ``PIECE``, where more tensors cross: as few more
as it takes, and between two Mains where they have the fewest bytes. In a graph of ``branches`` each branch of a module
is a group too, and so is what joins them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from ..errors import ArgumentError
from .branches import in_branches
from .ir import Graph, Node, Tensor
from .ops.registry import has, work
from .ops.spec import Trait

LARGE, PIECE = 1 / 4, 1 / 16  # of the network's MACs; of paper 001's, no group with several Mains has over a fifth
MOST_CROSSING = 6  # tensors at a cut inside of a large group


@dataclass(frozen=True, slots=True)
class Group:
    """The smallest part that may be placed: ``index`` counts from 1, ``nodes`` are in the graph's order."""

    index: int
    name: str
    nodes: tuple[Node, ...]

    def __repr__(self) -> str:
        return f"<Group {self.index} {self.name}: {', '.join(node.op for node in self.nodes)}>"


@dataclass(frozen=True, slots=True)
class Cut:
    """A legal border, after group ``index`` (from 1), and the tensors that cross it, as they were produced."""

    index: int
    tensors: tuple[Tensor, ...]

    def __repr__(self) -> str:
        return f"<Cut after group {self.index}: {', '.join(map(str, self.tensors))}>"

    @property
    def elements(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class Border:
    """A cut inside of a sub-graph: how many of its nodes come before, and the tensors that cross."""

    nodes: int
    tensors: tuple[Tensor, ...]


def groups_of(graph: Graph) -> tuple[Group, ...]:
    """The groups in order. Where ``graph.max_crossing`` is None, cuts are those that the fewest tensors cross, and
    those that divide large groups."""
    borders = [0, *_Positions(graph).cuts(), len(graph.nodes)]
    in_groups = [graph.nodes[start:stop] for start, stop in pairwise(borders)]
    return tuple(Group(index, _name(nodes), nodes) for index, nodes in enumerate(in_groups, 1))


def cuts_of(graph: Graph) -> tuple[Cut, ...]:
    """The legal cuts, one fewer than groups."""
    positions = _Positions(graph)
    crossings = positions.crossings(positions.cuts())
    return tuple(Cut(index, tensors) for index, tensors in enumerate(crossings, 1))


def subgraph(graph: Graph, first: int, last: int, early: int | None = None) -> Graph:
    """The groups between cuts ``first`` and ``last`` (0 is the start), with only their own constants.

    Its borders inside the graph are a Receiver and a Transmitter that carry the crossing tensors as they were
    produced; one that is needed only later passes straight through. Outputs of the model that are done here leave.

    early  where the cut at its end floats, the first place of it. What is done between the two does not leave here but
           crosses: the next sub-graph, which begins at ``early``, lets it leave whichever way the frame came.

    Raises ArgumentError for an illegal range.
    """
    positions = _Positions(graph)
    borders = positions.borders(first, last)
    groups = len(borders) - 1
    start, stop, end = borders[first], borders[last if early is None else early], borders[last]
    inputs = positions.crossing(start) if first else graph.inputs
    leaves = positions.leaving(start, stop)
    transmits = graph.transmits or last < groups
    if last < groups:
        outputs = positions.crossing(end, stop)
    else:
        outputs = graph.leaving if transmits else leaves
    return _part(graph, (first, last), graph.nodes[start:end], inputs, outputs, leaves, transmits)


def branch(graph: Graph, first: int, last: int, fork: tuple[int, int]) -> Graph:
    """The groups between two cuts as one of the branches between the two cuts of ``fork``.

    The first branch receives all that crosses there, and passes on what is needed behind; another receives what it
    reads. Each transmits what it makes that crosses the cut behind the branches.
    Raises ArgumentError for an illegal range.
    """
    positions = _Positions(graph)
    borders = positions.borders(first, last)
    start, end = borders[first], borders[last]
    nodes, leaves = graph.nodes[start:end], positions.leaving(start, end)
    wanted = {name for node in nodes for name in node.inputs} | {tensor.name for tensor in leaves}
    inputs = positions.crossing(borders[fork[0]])
    own = {node.output for node in nodes}
    if first == fork[0]:
        own |= {tensor.name for tensor in inputs}
    else:
        inputs = tuple(tensor for tensor in inputs if tensor.name in wanted)
    outputs = tuple(tensor for tensor in positions.crossing(borders[fork[1]]) if tensor.name in own)
    return _part(graph, (first, last), nodes, inputs, outputs, leaves, True)


def joined(part: Graph, branches: Sequence[Graph]) -> Graph:
    """The sub-graph behind branches: it receives what each transmits, one after the other."""
    return replace(part, inputs=tuple(tensor for branch in branches for tensor in branch.outputs))


def ordered_by_branches(graph: Graph) -> tuple[Node, ...]:
    """The nodes, so that those of each branch of a module follow each other."""
    return tuple(node for part in _Positions(graph).parts() for node in part)


def needs(graph: Graph) -> list[frozenset[int]]:
    """Of each group, the groups (from 0) that make what it reads."""
    made = {node.output: index for index, group in enumerate(graph.groups) for node in group.nodes}
    read = ({name for node in group.nodes for name in node.inputs} for group in graph.groups)
    return [frozenset(made[name] for name in names if name in made) - {index} for index, names in enumerate(read)]


def _part(
    graph: Graph,
    groups: tuple[int, int],
    nodes: tuple[Node, ...],
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    leaves: tuple[Tensor, ...],
    transmits: bool,
) -> Graph:
    """Groups [first, last) as a graph, with only their own constants."""
    names = {tensor.name for tensor in inputs} | {node.output for node in nodes}
    read = {name for node in nodes for name in node.inputs}
    return Graph(
        name=f"{graph.name}[{groups[0]}:{groups[1]}]",
        nodes=nodes,
        tensors={name: tensor for name, tensor in graph.tensors.items() if name in names},
        constants={name: array for name, array in graph.constants.items() if name in read},
        inputs=inputs,
        outputs=outputs,
        leaves=leaves if transmits else (),
        receives=graph.receives or groups[0] > 0,
        transmits=transmits,
        max_crossing=graph.max_crossing,
        branches=graph.branches,
        metadata=graph.metadata,
        qparams={name: params for name, params in graph.qparams.items() if name in read},
    )


def border(graph: Graph, first: int, cut: int, early: int | None = None) -> Border:
    """Where cut ``cut`` lies inside of a sub-graph that starts at cut ``first``. ``early``: as for ``subgraph``."""
    positions = _Positions(graph)
    borders = [0, *positions.cuts(), len(graph.nodes)]
    tensors = positions.crossing(borders[cut], borders[cut if early is None else early])
    return Border(borders[cut] - borders[first], tensors)


def split(graph: Graph, cuts: Sequence[int]) -> list[Graph]:
    """The sub-graphs between ``cuts``, cumulative numbers of groups: (3, 5) makes three, no cut makes one.

    Raises ArgumentError where the numbers do not increase or are not cuts of the graph.
    """
    groups = len(graph.groups)
    for before, cut in pairwise([0, *cuts]):
        if not before < cut < groups:
            legal = f"increasing numbers from 1 to {groups - 1}" if groups > 1 else "none, it has a single group"
            raise ArgumentError(f"cut {cut} of {graph.name} in {tuple(cuts)}: legal cuts are {legal}")
    return [subgraph(graph, first, last) for first, last in pairwise([0, *cuts, groups])]


def configurations(n_cuts: int) -> int:
    """Three-stage pipelines over N cuts: 6 orders of the components and N (N - 1) / 2 pairs of cuts (paper 001, 5)."""
    return 3 * n_cuts * (n_cuts - 1)


def main_layers(graph: Graph) -> int:
    """Convolutions and products with weights as ARM-CL counts layers: a grouped one is several, a depthwise one one.

    It is the column "layers" of paper 001's Table 1.
    """

    def count(node: Node) -> int:
        groups = node.attrs.get("groups", 1)
        return 1 if groups == graph.tensors[node.output].shape[1] else groups

    return sum(count(node) for node in graph.nodes if node.is_main)


class _Positions:
    """The positions of a graph's order, and what crosses each. Position p lies between nodes p - 1 and p."""

    def __init__(self, graph: Graph) -> None:
        count = len(graph.nodes)
        self.graph = graph
        self.born = {tensor.name: 0 for tensor in graph.inputs}  # the first position that a tensor can cross
        self.last = {}  # the last position that it crosses
        for index, node in enumerate(graph.nodes):
            self.born[node.output] = index + 1
            self.last |= dict.fromkeys(node.inputs, index)
        self._leaves = graph.leaves if graph.transmits else graph.leaving
        if graph.transmits:
            self.last |= {tensor.name: count for tensor in graph.leaving}
        self._done = {}  # the first position from which no node reads it; a tensor crosses [born, done)
        tensors, nbytes = [0] * (count + 2), [0] * (count + 2)  # how many come, how many go
        for name, born in self.born.items():
            end, size = max(born, self.last.get(name, -1) + 1), graph.tensors[name].nbytes
            self._done[name] = end
            tensors[born] += 1
            tensors[end] -= 1
            nbytes[born] += size
            nbytes[end] -= size
        self.counts, self.nbytes = list(accumulate(tensors)), list(accumulate(nbytes))

    def _work(self, node: Node) -> int:
        shapes = [
            self.graph.tensors[name].shape if name in self.graph.tensors else self.graph.constants[name].shape
            for name in (node.output, *node.inputs)
        ]
        return work(node.op, shapes[0], shapes[1:])

    def crossings(self, positions: Sequence[int]) -> list[tuple[Tensor, ...]]:
        """The tensors that cross each of these increasing positions, graph inputs first, then in the nodes' order."""
        entering: list[list[Tensor]] = [[] for _ in positions]
        for name, born in self.born.items():
            first, end = bisect_left(positions, born), bisect_right(positions, self.last.get(name, -1))
            for tensors in entering[first:end]:
                tensors.append(self.graph.tensors[name])
        return [tuple(tensors) for tensors in entering]

    def crossing(self, position: int, early: int | None = None) -> tuple[Tensor, ...]:
        """The tensors that cross a position; behind them those that leave between ``early`` and it."""
        return self.crossings([position])[0] + (() if early is None else self._leaving(early, position))

    def leaving(self, start: int, stop: int) -> tuple[Tensor, ...]:
        """The outputs of the model that leave in nodes [start, stop), in the model's order."""
        return self._leaving(start if start else -1, stop)  # an input that no node reads is done before the first

    def _leaving(self, after: int, last: int) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self._leaves if after < self._done[tensor.name] <= last)

    def borders(self, first: int, last: int) -> list[int]:
        """Start, cuts and end. Raises ArgumentError unless groups [first, last) are some of those between."""
        borders = [0, *self.cuts(), len(self.graph.nodes)]
        if not 0 <= first < last < len(borders):
            raise ArgumentError(
                f"groups [{first}:{last}] of {self.graph.name}: expected a range within [0:{len(borders) - 1}]"
            )
        return borders

    def cuts(self) -> list[int]:
        """The positions of the cuts."""
        cuts, crossing = self._between_modules()
        if self.graph.branches:
            cuts = list(accumulate(map(len, self.parts())))[:-1]
        return cuts if crossing is None else self._divided(cuts, crossing)

    def parts(self) -> list[list[Node]]:
        """The nodes of each branch of a module, and of what lies between them."""
        borders = pairwise([0, *self._between_modules()[0], len(self.graph.nodes)])
        return [part for start, stop in borders for part in in_branches(self.graph.nodes[start:stop])]

    def _between_modules(self) -> tuple[list[int], int | None]:
        """The cuts without those inside of large groups, and how many tensors cross them; None: no group is divided."""
        if self.graph.max_crossing is not None:
            return list(self._legal(self.graph.max_crossing)), None
        crossings = sorted(set(self.counts[1:-2]))
        fewest = bisect_left(crossings, True, key=lambda crossing: any(self._legal(crossing)))
        if fewest == len(crossings):
            return [], None
        return list(self._legal(crossings[fewest])), crossings[fewest]

    def _legal(self, max_crossing: int) -> Iterator[int]:
        """One position between each Main and the next: the last of those that the fewest tensors cross."""
        nodes = self.graph.nodes
        ends = [p for p in range(1, len(nodes)) if self.counts[p] <= max_crossing]
        between: list[int] = []  # positions since the latest chunk with a Main, once there has been one
        main_before = False
        for start, stop in pairwise([0, *ends, len(nodes)]):
            main_here = any(node.is_main for node in nodes[start:stop])
            if main_before:
                between.append(start)
                if main_here or self._pools_to_one_pixel(nodes[start - 1]):
                    yield min(reversed(between), key=self.counts.__getitem__)
                    main_before = False
            if main_here:
                between, main_before = [], True

    def _divided(self, cuts: list[int], crossing: int) -> list[int]:
        """These cuts, and those inside of large groups."""
        done = [0, *accumulate(map(self._work, self.graph.nodes))]
        cuts_within = list(cuts)
        for start, stop in pairwise([0, *cuts, len(self.graph.nodes)]):
            if done[stop] - done[start] > LARGE * done[-1]:
                cuts_within += self._pieces(start, stop, crossing, done)
        return sorted(cuts_within)

    def _pieces(self, start: int, stop: int, crossing: int, done: list[int]) -> list[int]:
        """Cuts of one group: one tensor more may cross, and again, until no piece is more than ``PIECE``."""
        borders = [start, stop]
        for more in range(crossing + 1, MOST_CROSSING + 1):
            large = [(a, b) for a, b in pairwise(borders) if done[b] - done[a] > PIECE * done[-1]]
            borders = sorted({*borders, *(cut for a, b in large for cut in self._inside(a, b, more))})
        return borders[1:-1]

    def _inside(self, start: int, stop: int, max_crossing: int) -> Iterator[int]:
        """A cut between each Main of a group and the next, if ``max_crossing`` tensors need cross: where the fewest
        bytes do."""
        mains = [p for p in range(start, stop) if self.graph.nodes[p].is_main]
        for before, main in pairwise(mains):
            between = range(main, before, -1)  # of equal ones the last
            if min(self.counts[p] for p in between) <= max_crossing:
                narrow = (p for p in between if self.counts[p] <= MOST_CROSSING)
                yield min(narrow, key=lambda p: (self.nbytes[p], self.counts[p]))

    def _pools_to_one_pixel(self, node: Node) -> bool:
        if not has(node.op, Trait.POOLS):  # of others the first operand may be a constant
            return False
        shape = self.graph.tensors[node.inputs[0]].shape
        return shape[2:] != (1, 1) == self.graph.tensors[node.output].shape[2:]


def _name(nodes: Sequence[Node]) -> str:
    """The Main's name; of several Mains the folder they share ("fire2/"), or the first and the last."""
    names = [node.name for node in nodes if node.is_main] or [node.name for node in nodes[:1]]
    folders = {name.rpartition("/")[0] for name in names}
    if len(names) < 2:
        return "".join(names)  # none where a graph computes nothing
    return folders.pop() if len(folders) == 1 and "" not in folders else f"{names[0]}..{names[-1]}"
