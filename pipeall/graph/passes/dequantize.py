"""A quantized network in ops on real numbers: what a device without kernels for integers computes.

Values lie on the same levels (``fakequant``); integers are where the graph's inputs and outputs have them, and where a
tensor crosses a cut inside. They become real numbers there, and those integers, by ops that every device has; in a
network that is written as a file, by ``quantize`` and ``dequantize``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..builder import GraphBuilder, with_nodes
from ..ir import Graph, Node, Tensor
from ..ops import attributes, selects
from ..partition import Border
from .int8 import LOWEST


def dequantized(graph: Graph) -> Graph:
    """The network in float32 between its inputs and outputs; itself where it has no quantized tensors."""
    return dequantized_between(graph, ())[0]


def dequantized_between(graph: Graph, borders: Sequence[Border]) -> tuple[Graph, tuple[Border, ...]]:
    """The same with cuts inside, in the order of their nodes, and where these lie then."""
    quantized = graph.quantized
    stored = any(node.op in ("quantize", "dequantize") for node in graph.nodes)
    if not (quantized or stored):
        return graph, tuple(borders)
    made = _FloatGraph(graph, borders)
    return made.graph(), tuple(made.borders)


def on_levels(graph: Graph) -> Graph:
    """The same as it is written as a file, whose weights keep their levels: read again, it computes with integers."""
    return _WrittenGraph(graph, ()).graph() if graph.quantized else graph


def _plain(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(replace(tensor, quantization=None) for tensor in tensors)


class _FloatGraph(GraphBuilder):
    """A graph becoming one on real numbers: ``named`` says which tensor has those of a quantized one by now."""

    def __init__(self, graph: Graph, borders: Sequence[Border]) -> None:
        super().__init__(graph)
        self.inner = borders
        crossing = [tensor for border in borders for tensor in border.tensors]
        self.left = {tensor.name for tensor in (*graph.leaving, *graph.leaves, *crossing)}
        self.named: dict[str, str] = {}
        self.tensors = {tensor.name: tensor for tensor in _plain(graph.inputs)}
        self.constants = {name: self._constant(name) for name in graph.constants}
        self.qparams = {}

    def graph(self) -> Graph:
        self._enter(self.source.inputs)
        self.borders = []
        for place, node in enumerate(self.source.nodes):
            self.borders += [self._cross(border) for border in self.inner if border.nodes == place]
            self._add(node)
        ends = {end: _plain(getattr(self.source, end)) for end in ("inputs", "outputs", "leaves")}
        return with_nodes(self.source, self.nodes, self.tensors, self.constants, self.qparams, **ends)

    def _enter(self, tensors: Sequence[Tensor]) -> None:
        """Makes real numbers of the integers that come in."""
        for tensor in tensors:
            if tensor.quantization:
                self.named[tensor.name] = self._fresh(f"{tensor.name}/floats")
                self._dequantize(tensor.name, self.named[tensor.name], tensor.shape, *tensor.quantization.single)

    def _cross(self, border: Border) -> Border:
        """A cut inside, where frames may leave or come in: what crosses has been stored, and is read again."""
        crossed = Border(len(self.nodes), _plain(border.tensors))
        self._enter(border.tensors)
        return crossed

    def _constant(self, name: str) -> np.ndarray:
        array, levels = self.source.constants[name], self.source.qparams.get(name)
        if levels is None or array.dtype != np.int8:
            return array
        shape = [-1 if axis == levels.axis else 1 for axis in range(array.ndim)]
        scale, zero = (np.reshape(values, shape if levels.axis is not None else ())
                       for values in (np.asarray(levels.scale, np.float32), np.asarray(levels.zero_point)))  # fmt: skip
        return (array - zero).astype(np.float32) * scale

    def _add(self, node: Node) -> None:
        inputs = tuple(self.named.get(name, name) for name in node.inputs)
        tensor = self.source.tensors[node.output]
        levels = tensor.quantization and tensor.quantization.single
        if node.op == "dequantize" and node.inputs[0] in self.named:
            self._put("reshape", inputs, tensor, {"shape": tensor.shape})
        elif node.op == "dequantize":
            self._dequantize(inputs[0], node.output, tensor.shape, node.attrs["scale"], node.attrs["zero"])
        elif levels is None and node.op == "quantize":
            self._quantize(inputs[0], tensor, node.attrs["scale"], node.attrs["zero"])
        elif levels is None:
            self._put(node.op, inputs, tensor, node.attrs, node.name)
        else:
            self._on_levels(node, inputs, tensor, *levels)

    def _on_levels(self, node: Node, inputs: tuple[str, ...], tensor: Tensor, scale: float, zero: int) -> None:
        """What a node makes of the real numbers, put on its levels; stored only where it leaves or crosses a cut."""
        leaves = tensor.name in self.left
        name = self._fresh(f"{tensor.name}/floats") if leaves else tensor.name
        real = Tensor(name, tensor.shape)
        kept = selects(node) and len({self.source.tensors[x].quantization for x in (*node.inputs, tensor.name)}) == 1
        if kept:
            self._put(node.op, inputs, real, node.attrs, node.name)
        else:
            before = inputs[0]
            if node.op != "quantize":
                before = self._fresh(f"{name}/before")
                self._put(node.op, inputs, Tensor(before, tensor.shape), node.attrs, node.name)
            self._put("fakequant", (before,), real, {"scale": scale, "low": float(LOWEST - zero)})
        self.named[tensor.name] = name
        if leaves:
            self._quantize(name, _plain([tensor])[0], scale, zero)

    def _fresh(self, name: str) -> str:
        """A name that nothing has, nor is named after."""
        while not self._taken.isdisjoint((name, f"{name}/steps", f"{name}/number")):
            name += "'"
        return self.fresh(name)

    def _put(self, op: str, inputs: tuple[str, ...], out: Tensor, attrs: Mapping[str, Any], name: str = "") -> str:
        return self.put(Node(name or out.name, op, inputs, out.name, attrs), out)

    def _step(self, op: str, x: str, number: float | None, shape: tuple[int, ...], name: str, **attrs: Any) -> str:
        inputs = (x,)
        if number is not None:
            inputs = (x, f"{name}/number")
            self.constants[inputs[1]] = np.full((1,) * len(shape), number, np.float32)
        dtype = attrs.get("to", "float32")
        return self._put(op, inputs, Tensor(name, shape, dtype), attributes(op, **attrs))

    def _dequantize(self, x: str, name: str, shape: tuple[int, ...], scale: float, zero: int) -> None:
        """By ops that every device has."""
        made = self._step("cast", x, None, shape, f"{name}/cast", to="float32")
        made = self._step("sub", made, zero, shape, f"{name}/steps")
        self._step("mul", made, scale, shape, name)

    def _quantize(self, x: str, tensor: Tensor, scale: float, zero: int) -> None:
        lo, hi = (0.0, 255.0) if tensor.dtype == "uint8" else (-128.0, 127.0)
        name, shape = self._fresh(f"{tensor.name}/stored"), tensor.shape
        made = self._step("div", x, scale, shape, f"{name}/steps")
        made = self._step("round", made, None, shape, f"{name}/rounded")
        made = self._step("add", made, zero, shape, f"{name}/shifted")
        made = self._step("clip", made, None, shape, name, lo=lo, hi=hi)
        self._put("cast", (made,), tensor, {"to": tensor.dtype})


class _WrittenGraph(_FloatGraph):
    """One whose integers at its borders are those of ``quantize`` and ``dequantize``."""

    def __init__(self, graph: Graph, borders: Sequence[Border]) -> None:
        super().__init__(graph, borders)
        self.qparams = dict(graph.qparams)

    def _dequantize(self, x: str, name: str, shape: tuple[int, ...], scale: float, zero: int) -> None:
        self._put("dequantize", (x,), Tensor(name, shape), {"scale": scale, "zero": zero})

    def _quantize(self, x: str, tensor: Tensor, scale: float, zero: int) -> None:
        self._put("quantize", (x,), tensor, {"scale": scale, "zero": zero, "to": tensor.dtype})
