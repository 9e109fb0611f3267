"""A graph built node by node: from another graph's inputs and constants, with its nodes or new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .ir import Graph, Node, Quantization, Tensor
from .ops import attributes, infer_shape


class GraphBuilder:
    """Nodes in topological order and the constants that they read, on the inputs and constants of ``source``."""

    def __init__(self, source: Graph):
        self.source = source
        self.nodes: list[Node] = []
        self.tensors = {tensor.name: tensor for tensor in source.inputs}
        self.constants = dict(source.constants)
        self.qparams: dict[str, Quantization] = dict(source.qparams)
        self._taken = {*source.tensors, *source.constants}

    def copy(self, node: Node, **changes: Any) -> str:
        """Adds a node of the source with some fields changed; returns the name of its output."""
        copied = replace(node, **changes)
        tensor = self.source.tensors[node.output]
        self.nodes.append(copied)
        self.tensors[copied.output] = replace(tensor, name=copied.output)
        return copied.output

    def add(self, op: str, name: str, inputs: Sequence[str], output: str | None = None, **attrs: Any) -> str:
        """Adds a node of float32; returns the name of its output: ``output``, or the node's name or a longer one."""
        attrs = attributes(op, **attrs)
        shapes = [(self.constants[x] if x in self.constants else self.tensors[x]).shape for x in inputs]
        output = output or self.fresh(name)
        self.nodes.append(Node(name, op, tuple(inputs), output, attrs))
        self.tensors[output] = Tensor(output, infer_shape(op, attrs, shapes, name))
        return output

    def constant(self, name: str, array: np.ndarray) -> str:
        """Adds a float32 constant under this name or a longer one; returns the name."""
        name = self.fresh(name)
        self.constants[name] = array.astype(np.float32)
        return name

    def fresh(self, name: str) -> str:
        while name in self._taken:
            name += "'"
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
        inputs = {tensor.name for tensor in self.source.inputs}
        names = {node.output for node in needed_nodes} | inputs
        return replace(
            self.source,
            nodes=tuple(reversed(needed_nodes)),
            tensors={name: tensor for name, tensor in self.tensors.items() if name in names},
            constants={name: array for name, array in self.constants.items() if name in needed},
            qparams={name: params for name, params in self.qparams.items() if name in needed},
            outputs=tuple(self.tensors[name] for name in outputs),
            lengths=lengths,
        )
