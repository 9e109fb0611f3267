"""A graph while ``rewrite`` changes it: what its rules ask and do."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..ir import Graph, Node, Tensor
from ..ops import infer_shape


class Draft:
    """A graph that rules change.

    nodes    output name -> Node, without dead nodes
    places   output name -> position in topological order
    tensors  name -> Tensor, also of what is gone
    readers  name -> output of each node that reads it -> how often; only names that are read, and outputs of the graph
    """

    def __init__(self, graph: Graph):
        self.source = graph
        self.nodes = {node.output: node for node in graph.nodes}
        self.places: dict[str, int | Fraction] = {node.output: place for place, node in enumerate(graph.nodes)}
        self._taken = list(self.places.values())  # places, in order
        self.tensors = dict(graph.tensors)
        self.constants = dict(graph.constants)
        self.levels = dict(graph.levels)
        self.shapes = {name: operand.shape for name, operand in (graph.tensors | self.constants).items()}
        self.outputs = frozenset(tensor.name for tensor in graph.leaving)
        self.readers: dict[str, dict[str, int]] = {name: {} for name in self.outputs}
        alive = []
        for node in reversed(graph.nodes):
            if node.output in self.readers:
                alive.append(node)
                self._read(node)
        self.nodes = {node.output: node for node in reversed(alive)}

    def _read(self, node: Node) -> None:
        for name in node.inputs:
            readers = self.readers.setdefault(name, {})
            readers[node.output] = readers.get(node.output, 0) + 1

    def _release(self, node: Node) -> None:
        """Takes back ``_read``. A node whose output then has no reader dies, and what it read is released too."""
        released = [node]
        while released:
            reader = released.pop()
            for name in reader.inputs:
                readers = self.readers[name]
                readers[reader.output] -= 1
                if not readers[reader.output]:
                    del readers[reader.output]
                if not readers and name not in self.outputs:
                    del self.readers[name]
                    if name in self.nodes:
                        released.append(self.nodes.pop(name))

    def ordered(self) -> list[str]:
        """The outputs of the nodes in topological order."""
        return sorted(self.nodes, key=self.places.__getitem__)

    def graph(self) -> Graph:
        nodes = tuple(self.nodes[output] for output in self.ordered())
        names = {tensor.name for tensor in self.source.inputs} | self.nodes.keys()
        tensors = {name: tensor for name, tensor in self.tensors.items() if name in names}
        constants = {name: array for name, array in self.constants.items() if name in self.readers}
        shapes = self.shapes | {name: array.shape for name, array in constants.items()}
        for node in nodes:  # every rule keeps the node table's terms
            made = infer_shape(node.op, node.attrs, [shapes[name] for name in node.inputs], node.name)
            assert made == shapes[node.output], f"rewriting changed {node.output} from {shapes[node.output]} to {made}"
        levels = {name: levels for name, levels in self.levels.items() if name in constants}
        return replace(self.source, nodes=nodes, tensors=tensors, constants=constants, levels=levels)

    # -- what a rule asks --

    def maker(self, name: str, *ops: str) -> Node | None:
        """The node that makes a tensor, if it is one of ``ops``."""
        node = self.nodes.get(name)
        return node if node is not None and node.op in ops else None

    def reading(self, name: str) -> list[Node]:
        """The nodes that read a tensor, in order."""
        return [self.nodes[output] for output in sorted(self.readers.get(name, ()), key=self.places.__getitem__)]

    def private(self, node: Node) -> bool:
        """Whether a node's output has one reader, and that is a node."""
        return node.output not in self.outputs and sum(self.readers[node.output].values()) == 1

    # -- what a rule does --

    def put(self, old: Node, **changes: Any) -> bool:
        """Changes fields of a node where it stands; what only it read dies."""
        new = replace(old, **changes)
        del self.nodes[old.output]
        self.nodes[new.output], self.places[new.output] = new, self.places[old.output]
        self._read(new)
        self._release(old)
        return True

    def absorb(self, node: Node, reader: Node, **changes: Any) -> bool:
        """Merges ``reader`` into ``node``, which then makes, where it stands, what the reader made."""
        del self.nodes[reader.output]
        changed = self.put(node, output=reader.output, **changes)
        self._release(reader)
        return changed

    def bypass(self, node: Node) -> bool:
        """Removes a node that copies its input. False where input and output both have a name of the model's own."""
        stays, goes = node.inputs[0], node.output
        if goes in self.outputs:
            if stays in self.outputs or stays not in self.nodes:
                return False
            stays, goes = goes, stays
        others = [other for other in self.reading(goes) if other is not node]
        del self.nodes[node.output]
        for other in others:
            self.put(other, inputs=tuple(stays if name == goes else name for name in other.inputs))
        if goes != node.output:
            self.put(self.nodes[goes], output=stays)
        self._release(node)
        return True

    def insert(self, op: str, name: str, inputs: tuple[str, ...], attrs: Mapping[str, Any], reader: Node) -> str:
        """Adds a float32 node ahead of one that will read it; returns the name, this or a longer one."""
        while name in self.constants or name in self.shapes:
            name += "'"
        self.shapes[name] = infer_shape(op, attrs, [self.shapes[x] for x in inputs], name)
        self.tensors[name] = Tensor(name, self.shapes[name])
        self.nodes[name] = Node(name, op, inputs, name, attrs)
        behind = self.places[reader.output]
        at = bisect_left(self._taken, behind)
        self.places[name] = Fraction((self._taken[at - 1] if at else -1) + behind) / 2
        self._taken.insert(at, self.places[name])
        self._read(self.nodes[name])
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        """Adds a constant under this name or, where it is in use, a longer one; returns the name."""
        while name in self.constants or name in self.shapes:
            name += "'"
        self.constants[name] = array.astype(np.float32)
        self.shapes[name] = array.shape
        return name
