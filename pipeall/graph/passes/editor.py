"""A graph while ``rewrite`` changes it: what its rules ask and do."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..builder import fresh, with_nodes
from ..ir import Graph, Node, Tensor
from ..ops import infer_shape


class GraphEditor:
    """A graph that rules change.

    nodes      output name -> Node, without dead nodes
    positions  output name -> position in topological order
    tensors    name -> Tensor, also of removed nodes
    consumers  name -> output of each node that reads it -> how often; only of names that are read, and of the outputs
    """

    def __init__(self, graph: Graph):
        self.source = graph
        self.nodes = {node.output: node for node in graph.nodes}
        self.positions: dict[str, int | Fraction] = {node.output: position for position, node in enumerate(graph.nodes)}
        self._taken = list(self.positions.values())  # positions, in order
        self.tensors = dict(graph.tensors)
        self.constants = dict(graph.constants)
        self.qparams = dict(graph.qparams)
        self.shapes = {name: operand.shape for name, operand in (graph.tensors | self.constants).items()}
        self.outputs = frozenset(tensor.name for tensor in graph.leaving)
        self.consumers: dict[str, dict[str, int]] = {name: {} for name in self.outputs}
        alive = []
        for node in reversed(graph.nodes):
            if node.output in self.consumers:
                alive.append(node)
                self._consume(node)
        self.nodes = {node.output: node for node in reversed(alive)}

    def _consume(self, node: Node) -> None:
        for name in node.inputs:
            consumers = self.consumers.setdefault(name, {})
            consumers[node.output] = consumers.get(node.output, 0) + 1

    def _release(self, node: Node) -> None:
        """Takes back ``_consume``. A node whose output then has no consumer dies, and what it read is released too."""
        released = [node]
        while released:
            consumer = released.pop()
            for name in consumer.inputs:
                consumers = self.consumers[name]
                consumers[consumer.output] -= 1
                if not consumers[consumer.output]:
                    del consumers[consumer.output]
                if not consumers and name not in self.outputs:
                    del self.consumers[name]
                    if name in self.nodes:
                        released.append(self.nodes.pop(name))

    def ordered(self) -> list[str]:
        """The outputs of the nodes in topological order."""
        return sorted(self.nodes, key=self.positions.__getitem__)

    def graph(self) -> Graph:
        nodes = tuple(self.nodes[output] for output in self.ordered())
        shapes = self.shapes | {name: array.shape for name, array in self.constants.items()}
        for node in nodes:  # every rule keeps the node table's terms
            made = infer_shape(node.op, node.attrs, [shapes[name] for name in node.inputs], node.name)
            assert made == shapes[node.output], f"rewriting changed {node.output} from {shapes[node.output]} to {made}"
        return with_nodes(self.source, nodes, self.tensors, self.constants, self.qparams)

    # -- what a rule asks --

    def producer(self, name: str, *ops: str) -> Node | None:
        """The node that makes a tensor, if it is one of ``ops``."""
        node = self.nodes.get(name)
        return node if node is not None and node.op in ops else None

    def producer_for_one(self, name: str, *ops: str) -> Node | None:
        """The same, if the tensor has one consumer, and that is a node."""
        node = self.producer(name, *ops)
        return node if node is not None and self.single_use(node) else None

    def before_reshapes(self, name: str, for_one: bool = False) -> str:
        """What reshapes make a tensor of; ``for_one``: reshapes whose output has one consumer."""
        producer = self.producer_for_one if for_one else self.producer
        while (node := producer(name, "reshape")) is not None:
            name = node.inputs[0]
        return name

    def consumers_of(self, name: str) -> list[Node]:
        """The nodes that read a tensor, in order."""
        return [self.nodes[output] for output in sorted(self.consumers.get(name, ()), key=self.positions.__getitem__)]

    def single_use(self, node: Node) -> bool:
        """Whether a node's output has one consumer, and that is a node."""
        return node.output not in self.outputs and sum(self.consumers[node.output].values()) == 1

    # -- what a rule does --

    def put(self, old: Node, **changes: Any) -> bool:
        """Changes fields of a node where it stands; what only it read dies."""
        new = replace(old, **changes)
        del self.nodes[old.output]
        self.nodes[new.output], self.positions[new.output] = new, self.positions[old.output]
        self._consume(new)
        self._release(old)
        return True

    def absorb(self, node: Node, consumer: Node, **changes: Any) -> bool:
        """Merges ``consumer`` into ``node``, which then makes, where it stands, what the consumer made."""
        del self.nodes[consumer.output]
        changed = self.put(node, output=consumer.output, **changes)
        self._release(consumer)
        return changed

    def bypass(self, node: Node) -> bool:
        """Removes a node that copies its input. False where input and output both have a name of the model's own."""
        stays, goes = node.inputs[0], node.output
        if goes in self.outputs:
            if stays in self.outputs or stays not in self.nodes:
                return False
            stays, goes = goes, stays
        others = [other for other in self.consumers_of(goes) if other is not node]
        del self.nodes[node.output]
        for other in others:
            self.put(other, inputs=tuple(stays if name == goes else name for name in other.inputs))
        if goes != node.output:
            self.put(self.nodes[goes], output=stays)
        self._release(node)
        return True

    def insert(self, op: str, name: str, inputs: tuple[str, ...], attrs: Mapping[str, Any], consumer: Node) -> str:
        """Adds a float32 node ahead of one that will read it; returns the name, this or a longer one."""
        name = fresh(name, self.constants, self.shapes)
        self.shapes[name] = infer_shape(op, attrs, [self.shapes[x] for x in inputs], name)
        self.tensors[name] = Tensor(name, self.shapes[name])
        self.nodes[name] = Node(name, op, inputs, name, attrs)
        behind = self.positions[consumer.output]
        at = bisect_left(self._taken, behind)
        self.positions[name] = Fraction((self._taken[at - 1] if at else -1) + behind) / 2
        self._taken.insert(at, self.positions[name])
        self._consume(self.nodes[name])
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        """Adds a constant under this name or, where it is in use, a longer one; returns the name."""
        name = fresh(name, self.constants, self.shapes)
        self.constants[name] = array.astype(np.float32)
        self.shapes[name] = array.shape
        return name
