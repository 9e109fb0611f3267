"""A graph that is changed node by node: what probes and quantised networks are made with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from ..graph.ir import Graph, Node, Quantization, Tensor
from ..graph.ops import attributes, infer_shape

FREE = {"lo": -inf, "hi": inf}  # no clamp


class Sheet:
    """Nodes in topological order, and the constants that they read. Starts empty, with the inputs of ``source``."""

    def __init__(self, source: Graph):
        self.source = source
        self.nodes: list[Node] = []
        self.tensors = {tensor.name: tensor for tensor in source.inputs}
        self.constants = dict(source.constants)
        self.levels: dict[str, Quantization] = dict(source.levels)
        self._taken = {*source.tensors, *source.constants}

    def copy(self, node: Node, **changes: Any) -> str:
        """Adds a node of the source with some fields changed; returns what it makes."""
        made = replace(node, **changes)
        tensor = self.source.tensors[node.output]
        self.nodes.append(made)
        self.tensors[made.output] = replace(tensor, name=made.output)
        return made.output

    def add(self, op: str, name: str, inputs: Sequence[str], output: str | None = None, **attrs: Any) -> str:
        """Adds a float32 node; what it makes is called ``output``, else as the node or longer. Returns that."""
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
        """The network with these outputs; nodes that none of them needs are left out."""
        lengths = {name: axes for name, axes in self.source.lengths.items() if name in outputs}
        needed, kept = {*outputs, *(count for axes in lengths.values() for _, count in axes)}, []
        for node in reversed(self.nodes):
            if node.output in needed:
                kept.append(node)
                needed.update(node.inputs)
        entered = {tensor.name for tensor in self.source.inputs}
        names = {node.output for node in kept} | entered
        return replace(
            self.source,
            nodes=tuple(reversed(kept)),
            tensors={name: tensor for name, tensor in self.tensors.items() if name in names},
            constants={name: array for name, array in self.constants.items() if name in needed},
            levels={name: levels for name, levels in self.levels.items() if name in needed},
            outputs=tuple(self.tensors[name] for name in outputs),
            lengths=lengths,
        )


def split_residuals(graph: Graph) -> Graph:
    """The same network, whose sums of a convolution and another tensor are nodes of their own."""
    sheet = Sheet(graph)
    for node in graph.nodes:
        if node.op == "conv" and len(node.inputs) == 4:
            *inputs, residual = node.inputs
            bounds = {name: node.attrs[name] for name in FREE}
            inner = sheet.fresh(f"{node.output}/conv")
            sheet.copy(node, inputs=tuple(inputs), output=inner, attrs={**node.attrs, **FREE})
            attrs = attributes("add", **bounds)
            sheet.copy(node, name=f"{node.name}/add", op="add", inputs=(inner, residual), attrs=attrs)
        else:
            sheet.copy(node)
    return sheet.graph([tensor.name for tensor in graph.outputs])
