"""Which tensors of a network lie on the levels of 8-bit integers, and which of them share their levels.

Tensors lie on levels for the sake of layers that read integers. Where no such layer comes behind, numbers stay real:
the results of the last layers, and what is made of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..graph.ir import Graph, Node
from ..graph.pointwise import UNARY

MOVES = ("reshape", "transpose", "slice", "shuffle", "expand", "maxpool", "concat")  # make only values that they read
LAYERS = ("conv", "fc")  # by weights that become integers
ARITHMETIC = ("add", "mul", "avgpool", "resize")
CROWDING = ("softmax", "logsoftmax")
TABLES = tuple(op for op, entry in UNARY.items() if entry.floats and op != "fakequant")  # of 256 entries


@dataclass(frozen=True)
class Places:
    """Where a network's values are put on levels.

    layers   the nodes whose weights become integers
    share    tensor -> the one that stands for all that share its levels
    sources  stand-in -> the tensors that are put on these levels; what is moved from there lies on them already
    """

    layers: tuple[Node, ...]
    share: dict[str, str]
    sources: dict[str, tuple[str, ...]]

    @property
    def put(self) -> list[str]:
        """All tensors that are put on levels."""
        return [name for names in self.sources.values() for name in names]


def places(graph: Graph, kept: Collection[str] = ()) -> Places:
    """For a graph without residuals in its convolutions; nodes called as in ``kept`` compute with floats."""
    able = integer_nodes(graph).difference(kept)
    read: set[str] = set()  # by layers of integers, and by what leads from integers to them
    integer = set()
    for node in reversed(graph.nodes):
        if node.name in able and (node.op in LAYERS or node.output in read):
            integer.add(node.output)
            read.update(node.inputs)
        elif _is_move(graph, node) and node.output in read:
            read.update(node.inputs)
    joined = {name: name for name in graph.tensors}

    def root(name: str) -> str:
        while joined[name] != name:
            name = joined[name]
        return name

    moved = {node.output for node in graph.nodes if _is_move(graph, node) and node.output in read}
    for node in graph.nodes:
        if node.output in moved:
            for name in node.inputs:
                joined[root(name)] = root(node.output)
    share = {name: root(name) for name in graph.tensors if name in read}
    sources: dict[str, tuple[str, ...]] = {}
    for name in share:
        if name not in moved:
            sources[share[name]] = (*sources.get(share[name], ()), name)
    layers = tuple(node for node in graph.nodes if node.output in integer and node.op in LAYERS)
    return Places(layers, share, sources)


def only_reader(graph: Graph, name: str) -> Node | None:
    """The activation that alone reads a tensor."""
    readers = [node for node in graph.nodes if name in node.inputs]
    leaves = any(tensor.name == name for tensor in graph.outputs)
    return readers[0] if len(readers) == 1 and readers[0].op in TABLES and not leaves else None


def units(graph: Graph) -> dict[str, frozenset[str]]:
    """By each layer that may have weights of integers, what stays floats with it: itself and its activations."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    found = {}
    for layer in graph.nodes:
        if layer.op not in LAYERS or not _is_integer(graph, layer):
            continue
        names, last = {layer.name}, layer
        while len(after := readers.get(last.output, ())) == 1 and after[0].op in TABLES:
            last = after[0]
            names.add(last.name)
        found[layer.name] = frozenset(names)
    return found


def integer_nodes(graph: Graph) -> set[str]:
    """Names of the nodes that may compute with integers."""
    return {node.name for node in graph.nodes if _is_integer(graph, node)}


def _is_integer(graph: Graph, node: Node) -> bool:
    """Whether it may compute with integers: what it reads is put on levels, and what it makes, if a layer wants it."""
    floats = all(
        graph.tensors[name].dtype == "float32" for name in (*node.inputs, node.output) if name in graph.tensors
    )
    constants = [name for name in node.inputs if name in graph.constants]
    if not floats or _is_move(graph, node):
        return False
    if node.op in LAYERS:
        return len(constants) == 2 and node.inputs[0] not in constants
    return node.op in (*ARITHMETIC, *TABLES) and not constants


def _is_move(graph: Graph, node: Node) -> bool:
    if any(name in graph.constants for name in node.inputs) or graph.tensors[node.output].dtype != "float32":
        return False
    zeros = node.op == "pad" and (node.attrs["mode"] != "constant" or node.attrs["value"] == 0)  # 0 is a level
    return zeros or node.op in MOVES or (node.op == "resize" and node.attrs["mode"] == "nearest")


def ends(graph: Graph) -> tuple[str, ...]:
    """The tensors whose values are the network's answers, ahead of moves and softmax, which crowds them together."""
    return _ahead(graph, [tensor.name for tensor in graph.outputs])


def decisive(graph: Graph, found: Places) -> set[str]:
    """Stand-ins of tensors whose greatest values decide: layers read them, and they leave the network or go into a
    softmax too.

    Methods that clip rare values for a smaller mean error would clip just these.
    """
    read = [node.inputs[0] for node in graph.nodes if node.op in CROWDING]
    return {found.share[name] for name in (*ends(graph), *_ahead(graph, read)) if name in found.share}


def _ahead(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    makers = {node.output: node for node in graph.nodes}
    waiting, found = list(names), {}
    while waiting:
        name = waiting.pop(0)
        node = makers.get(name)
        if node is not None and (node.op in CROWDING or _is_move(graph, node)):
            waiting += node.inputs
        else:
            found[name] = True
    return tuple(found)
