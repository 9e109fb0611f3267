"""A graph built node by node: from another graph's inputs and constants, with its nodes or new ones."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .ir import Graph, Node, Quantization, Tensor
from .ops import attributes, infer_shape


def fresh(name: str, *known: Container[str]) -> str:
    """This name or a longer one, which none of these knows."""
    while any(name in names for names in known):
        name += "'"
    return name


def with_nodes(
    source: Graph,
    nodes: Iterable[Node],
    tensors: Mapping[str, Tensor],
    constants: Mapping[str, np.ndarray],
    qparams: Mapping[str, Quantization],
    **changes: Any,
) -> Graph:
    """The graph with these nodes in place of its own; of the tensors and constants it has those that they name."""
    nodes = tuple(nodes)
    read = {name for node in nodes for name in node.inputs}
    made = {tensor.name for tensor in changes.get("inputs", source.inputs)} | {node.output for node in nodes}
    tensors = {name: tensor for name, tensor in tensors.items() if name in made}
    constants = {name: array for name, array in constants.items() if name in read}
    qparams = {name: params for name, params in qparams.items() if name in read}
    return replace(source, nodes=nodes, tensors=tensors, constants=constants, qparams=qparams, **changes)


class GraphBuilder:
    """Nodes in topological order and the constants that they read, on the inputs and constants of ``source``."""

    def __init__(self, source: Graph):
        self.source = source
        self.nodes: list[Node] = []
        self.tensors = {tensor.name: tensor for tensor in source.inputs}
        self.constants = dict(source.constants)
        self.qparams: dict[str, Quantization] = dict(source.qparams)
        self._taken = {*source.tensors, *source.constants}

    def put(self, node: Node, tensor: Tensor) -> str:
        """Adds a node as it is and the tensor that it makes; returns the tensor's name."""
        self.nodes.append(node)
        self.tensors[tensor.name] = tensor
        return tensor.name

    def copy(self, node: Node, **changes: Any) -> str:
        """Adds a node of the source with some fields changed; returns the name of its output."""
        copied = replace(node, **changes)
        return self.put(copied, replace(self.source.tensors[node.output], name=copied.output))

    def add(self, op: str, name: str, inputs: Sequence[str], output: str | None = None, **attrs: Any) -> str:
        """Adds a node of float32; returns the name of its output: ``output``, or the node's name or a longer one."""
        attrs = attributes(op, **attrs)
        shapes = [(self.constants[x] if x in self.constants else self.tensors[x]).shape for x in inputs]
        output = output or self.fresh(name)
        return self.put(
            Node(name, op, tuple(inputs), output, attrs), Tensor(output, infer_shape(op, attrs, shapes, name))
        )

    def constant(self, name: str, array: np.ndarray) -> str:
        """Adds a float32 constant under this name or a longer one; returns the name."""
        name = self.fresh(name)
        self.constants[name] = array.astype(np.float32)
        return name

    def fresh(self, name: str) -> str:
        """A name that nothing has yet, this or a longer one, which is taken from now on."""
        name = fresh(name, self._taken)
        self._taken.add(name)
        return name

    def graph(self, outputs: Sequence[str]) -> Graph:
        """The graph with these outputs, without nodes that none of them needs."""
        lengths = {name: axes for name, axes in self.source.lengths.items() if name in outputs}
        needed, needed_nodes = {*outputs, *(count for axes in lengths.values() for _, count in axes)}, []
        for node in reversed(self.nodes):
            if node.output in needed:
                needed_nodes.append(node)
                needed.update(node.inputs)
        leaving = tuple(self.tensors[name] for name in outputs)
        nodes = reversed(needed_nodes)
        return with_nodes(
            self.source, nodes, self.tensors, self.constants, self.qparams, outputs=leaving, lengths=lengths
        )
