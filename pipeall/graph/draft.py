"""A graph while ``rewrite`` changes it: what its rules ask and do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .ir import Graph, Node, Tensor
from .ops import infer_shape


class Draft:
    """A graph that rules change.

    nodes    output name -> Node, without dead nodes
    places   output name -> position in topological order
    readers  name -> how often nodes read it, and one more if it is an output of the graph; only names that are read
    """

    def __init__(self, graph: Graph):
        self.source = graph
        self.nodes = {node.output: node for node in graph.nodes}
        self.places = {node.output: place for place, node in enumerate(graph.nodes)}
        self.constants = dict(graph.constants)
        self.levels = dict(graph.levels)
        self.shapes = {name: operand.shape for name, operand in (graph.tensors | self.constants).items()}
        self.outputs = tuple(tensor.name for tensor in graph.leaving)
        self._settle()

    def _settle(self) -> None:
        self.readers = dict.fromkeys(self.outputs, 1)
        alive = []
        for output in reversed(self.ordered()):
            if output in self.readers:
                alive.append(self.nodes[output])
                self._read(self.nodes[output].inputs)
        self.nodes = {node.output: node for node in reversed(alive)}

    def _read(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.readers[name] = self.readers.get(name, 0) + 1

    def _release(self, names: tuple[str, ...]) -> None:
        """Takes back ``_read``. A node whose output then has no reader dies, and what it read is released too."""
        released = list(names)
        while released:
            name = released.pop()
            self.readers[name] -= 1
            if not self.readers[name]:
                del self.readers[name]
                if name in self.nodes:
                    released += self.nodes.pop(name).inputs

    def ordered(self) -> list[str]:
        """The outputs of the nodes in topological order."""
        return sorted(self.nodes, key=self.places.__getitem__)

    def graph(self) -> Graph:
        nodes = tuple(self.nodes[output] for output in self.ordered())
        names = {tensor.name for tensor in self.source.inputs} | self.nodes.keys()
        tensors = {name: tensor for name, tensor in self.source.tensors.items() if name in names}
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
        """The nodes that read a tensor."""
        return [node for node in self.nodes.values() if name in node.inputs]

    def private(self, node: Node) -> bool:
        """Whether a node's output has one reader, and that is a node."""
        return self.readers[node.output] == 1 and node.output not in self.outputs

    # -- what a rule does --

    def put(self, old: Node, **changes: Any) -> bool:
        """Changes fields of a node where it stands; what only it read dies."""
        new = replace(old, **changes)
        del self.nodes[old.output]
        self.nodes[new.output], self.places[new.output] = new, self.places[old.output]
        self._read(new.inputs)
        self._release(old.inputs)
        return True

    def absorb(self, node: Node, reader: Node, **changes: Any) -> bool:
        """Merges ``reader`` into ``node``, which then makes, where it stands, what the reader made."""
        del self.nodes[reader.output]
        changed = self.put(node, output=reader.output, **changes)
        self._release(reader.inputs)
        return changed

    def bypass(self, node: Node) -> bool:
        """Removes a node that copies its input. False where input and output both have a name of the model's own."""
        stays, goes = node.inputs[0], node.output
        if goes in self.outputs:
            if stays in self.outputs or stays not in self.nodes:
                return False
            stays, goes = goes, stays
        del self.nodes[node.output]
        renamed = []
        for other in self.nodes.values():
            inputs = tuple(stays if name == goes else name for name in other.inputs)
            output = stays if other.output == goes else other.output
            renamed.append(replace(other, inputs=inputs, output=output))
        if goes == node.inputs[0]:
            self.places[stays] = self.places[goes]
        self.nodes = {other.output: other for other in renamed}
        self._settle()
        return True

    def insert(self, op: str, name: str, inputs: tuple[str, ...], attrs: Mapping[str, Any], reader: Node) -> str:
        """Adds a float32 node ahead of one that will read it; returns the name, this or a longer one."""
        while name in self.constants or name in self.shapes:
            name += "'"
        self.shapes[name] = infer_shape(op, attrs, [self.shapes[x] for x in inputs], name)
        made = {name: Tensor(name, self.shapes[name])}
        self.source = replace(self.source, tensors={**self.source.tensors, **made})
        self.nodes[name] = Node(name, op, inputs, name, attrs)
        before = max((place for place in self.places.values() if place < self.places[reader.output]), default=-1)
        self.places[name] = (before + self.places[reader.output]) / 2
        self._read(inputs)
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        """Adds a constant under this name or, where it is in use, a longer one; returns the name."""
        while name in self.constants or name in self.shapes:
            name += "'"
        self.constants[name] = array.astype(np.float32)
        self.shapes[name] = array.shape
        return name
