"""A quantised network in ops on integers, and back in ops on real numbers.

As it is read, a quantised network computes real numbers that ``fakequant`` puts on levels, 256 of them. Where all
that an op reads and writes lies on levels, its tensors become int8 with a ``Quantization``, its weights too: the op
still means what it does to the real numbers, and it makes the nearest level. ``quantize`` and ``dequantize`` stand
between such ops and the others, so that a network may be quantised in part.

A device without kernels for integers computes ``reals(graph)``: the same levels, in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np

from .ir import Graph, Node, Quantization, Tensor
from .ops import attributes
from .pointwise import UNARY
from .rewrite_quantised import MOVES

LOWEST = -128
LAYERS = ("conv", "fc")
SUMS = ("add", "mul")
WEIGHT_MAX = 127  # of either sign: kernels add two products in 16 bits
DEPTH_MAX = 2**16  # products of a sum: 2^16 of 2^14 are below 2^31 by half
Levels = tuple[float, int]  # scale and zero point of int8


def integers(graph: Graph) -> Graph:
    """The graph with int8 tensors wherever there are kernels for them; itself where nothing lies on levels."""
    return _Integers(graph).graph() if any(node.op == "fakequant" for node in graph.nodes) else graph


def reals(graph: Graph) -> Graph:
    """The same network in float32 between its inputs and outputs; itself where it has no quantised tensors."""
    quantised = any(tensor.quantization for tensor in graph.tensors.values())
    stored = any(node.op in ("quantize", "dequantize") for node in graph.nodes)
    return _Reals(graph).graph() if quantised or stored else graph


class _Integers:
    """A graph becoming one on integers.

    levels   name of a float tensor whose values lie on levels -> these
    integer  what computes with integers alone: name of its output -> the node
    """

    def __init__(self, graph: Graph) -> None:
        self.source = graph
        self.makers = {node.output: node for node in graph.nodes}
        self.left = {tensor.name for tensor in (*graph.outputs, *graph.leaves)}
        self.count: dict[str, int] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self.count[name] = self.count.get(name, 0) + 1
        self.levels: dict[str, Levels] = {}
        self.integer: dict[str, Node] = {}
        self.merged: set[str] = set()  # what an integer node puts on levels itself: outputs that are never stored
        for node in graph.nodes:
            self._look(node)
        self._stored, self._read = self._needs()

    def _look(self, node: Node) -> None:
        """Finds the levels of a node's output, and which node makes it of integers alone."""
        attrs, first = node.attrs, node.inputs[0]
        if node.op == "fakequant":
            self.levels[node.output] = (attrs["scale"], int(LOWEST - attrs["low"]))
            maker = self.makers.get(first)
            if maker is not None and self.count[first] == 1 and first not in self.left and self._computes(maker):
                self.merged.add(first)
                self.integer[node.output] = replace(maker, output=node.output)
        elif node.op == "dequantize" and self.source.tensors[first].dtype in ("int8", "uint8"):
            shift = LOWEST if self.source.tensors[first].dtype == "uint8" else 0
            self.levels[node.output] = (attrs["scale"], attrs["zero"] + shift)
        elif node.op in MOVES:
            found = {self.levels.get(name) for name in node.inputs}
            if len(found) == 1 and None not in found:
                self.levels[node.output] = found.pop()
                self.integer[node.output] = node

    def _computes(self, node: Node) -> bool:
        """Whether there is a kernel for what this node makes of integers."""
        computed = [name for name in node.inputs if name in self.source.tensors]
        if any(name not in self.levels for name in computed):
            return False
        if node.op in LAYERS:
            return len(node.inputs) == 3 and self._weights(node) is not None
        if node.op in SUMS:
            constants = [name for name in node.inputs if name not in computed]
            return all(self._constant(name) is not None for name in constants)
        if node.op == "concat":
            return len(computed) == len(node.inputs)
        return node.op == "avgpool" or (node.op in UNARY and UNARY[node.op].floats and node.op != "fakequant")

    def _weights(self, node: Node) -> tuple[np.ndarray, Quantization] | None:
        """A layer's weights as integers around 0, a scale for each output."""
        levels, weight = self.source.levels.get(node.inputs[1]), self.source.constants.get(node.inputs[1])
        if levels is None or weight is None or levels.axis not in (None, 0) or prod(weight.shape[1:]) > DEPTH_MAX:
            return None
        scale = np.broadcast_to(np.asarray(levels.scale, np.float32), len(weight))
        whole = np.rint(weight / scale.reshape(-1, *(1,) * (weight.ndim - 1)))
        if not np.abs(whole).max() <= WEIGHT_MAX:
            return None
        return whole.astype(np.int8), Quantization(tuple(scale.tolist()), (0,) * len(weight), 0)

    def _constant(self, name: str) -> tuple[np.ndarray, Quantization] | None:
        levels = self.source.levels.get(name)
        if levels is None or levels.axis is not None:
            return None
        return np.rint(self.source.constants[name] / levels.scale[0] + levels.zero_point[0]).astype(np.int8), levels

    def _needs(self) -> tuple[set[str], set[str]]:
        """The tensors on levels that must be there as integers, and those that must as real numbers."""
        stored, read = set(self.integer), set(self.left)
        for node in self.integer.values():
            stored |= {name for name in node.inputs if name in self.levels}
        for node in self.source.nodes:
            if node.output not in self.integer and node.output not in self.merged and node.op != "fakequant":
                read |= set(node.inputs)
        for node in self.source.nodes:
            if node.op == "fakequant" and node.output not in self.integer:
                read.add(node.inputs[0])
        return stored, read

    def graph(self) -> Graph:
        self.tensors = {tensor.name: tensor for tensor in self.source.inputs}
        self.constants: dict[str, np.ndarray] = {}
        self.quantised: dict[str, Quantization] = {}
        nodes: list[Node] = []
        for node in self.source.nodes:
            if node.output not in self.merged:
                nodes += self._made(node)
        read = {name for node in nodes for name in node.inputs}
        constants = {name: array for name, array in (self.source.constants | self.constants).items() if name in read}
        levels = {name: levels for name, levels in (dict(self.source.levels) | self.quantised).items() if name in read}
        return replace(self.source, nodes=tuple(nodes), tensors=self.tensors, constants=constants, levels=levels)

    def _name(self, name: str) -> str:
        """Of a tensor's integers: its own, unless its real numbers are read too."""
        return self._fresh(f"{name}/int8") if name in self._read else name

    def _fresh(self, name: str) -> str:
        """A name that the network does not have."""
        while name in self.source.tensors or name in self.source.constants:
            name += "'"
        return name

    def _made(self, node: Node) -> Iterator[Node]:
        name, source = node.output, self.source.tensors[node.output]
        if name not in self._stored:
            self.tensors[name] = source
            yield node
            return
        scale, zero = self.levels[name]
        whole = Tensor(self._name(name), source.shape, "int8", Quantization((scale,), (zero,)))
        made = self.integer.get(name)
        if made is not None:
            yield from self._on_integers(made, whole)
        else:
            reals = node.inputs[0]
            if node.op == "dequantize":  # of an input
                reals = self._fresh(f"{name}/reals") if name not in self._read else name
                self.tensors[reals] = replace(source, name=reals)
                yield replace(node, output=reals)
            yield Node(
                f"{node.name}/int8", "quantize", (reals,), whole.name, {"scale": scale, "zero": zero, "to": "int8"}
            )
        self.tensors[whole.name] = whole
        if name in self._read and not (made is None and node.op == "dequantize"):
            self.tensors[name] = source
            yield Node(f"{name}/reals", "dequantize", (whole.name,), name, {"scale": scale, "zero": zero})

    def _on_integers(self, node: Node, out: Tensor) -> Iterator[Node]:
        inputs = [self._name(name) if name in self.levels else name for name in node.inputs]
        if node.op in LAYERS:
            inputs[1] = self._whole(node.inputs[1], *self._weights(node))
        elif node.op in SUMS:
            inputs = [name if name in self.tensors else self._whole(name, *self._constant(name)) for name in inputs]
        elif node.op == "concat":
            for i, name in enumerate(inputs):
                if self.tensors[name].quantization != out.quantization:
                    inputs[i] = self._fresh(f"{out.name}/{i}")
                    self.tensors[inputs[i]] = replace(self.tensors[name], name=inputs[i], quantization=out.quantization)
                    yield Node(inputs[i], "clip", (name,), inputs[i], {"lo": -inf, "hi": inf})
        yield replace(node, inputs=tuple(inputs), output=out.name)

    def _whole(self, name: str, array: np.ndarray, levels: Quantization) -> str:
        whole = self._fresh(f"{name}/int8")
        self.constants[whole], self.quantised[whole] = array, levels
        return whole


def _plain(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(replace(tensor, quantization=None) for tensor in tensors)


class _Reals:
    """A graph becoming one on real numbers: ``named`` says which has those of a quantised tensor."""

    def __init__(self, graph: Graph) -> None:
        self.source = graph
        self.left = {tensor.name for tensor in (*graph.outputs, *graph.leaves)}
        self.named: dict[str, str] = {}
        self._known = graph.tensors.keys() | graph.constants.keys()
        self.tensors = {tensor.name: tensor for tensor in _plain(graph.inputs)}
        self.constants = {name: self._constant(name) for name in graph.constants}
        self.nodes: list[Node] = []

    def graph(self) -> Graph:
        for tensor in self.source.inputs:
            if tensor.quantization:
                scale, zero = tensor.quantization.scale[0], tensor.quantization.zero_point[0]
                self.named[tensor.name] = self._fresh(f"{tensor.name}/reals")
                self._dequantize(tensor.name, self.named[tensor.name], tensor.shape, scale, zero)
        for node in self.source.nodes:
            self._add(node)
        read = {name for node in self.nodes for name in node.inputs}
        constants = {name: array for name, array in self.constants.items() if name in read}
        ends = {end: _plain(getattr(self.source, end)) for end in ("inputs", "outputs", "leaves")}
        return replace(
            self.source, nodes=tuple(self.nodes), tensors=self.tensors, constants=constants, levels={}, **ends
        )

    def _constant(self, name: str) -> np.ndarray:
        array, levels = self.source.constants[name], self.source.levels.get(name)
        if levels is None or array.dtype != np.int8:
            return array
        shape = [-1 if axis == levels.axis else 1 for axis in range(array.ndim)]
        scale, zero = (np.reshape(values, shape if levels.axis is not None else ())
                       for values in (np.asarray(levels.scale, np.float32), np.asarray(levels.zero_point)))  # fmt: skip
        return (array - zero).astype(np.float32) * scale

    def _add(self, node: Node) -> None:
        inputs = tuple(self.named.get(name, name) for name in node.inputs)
        tensor = self.source.tensors[node.output]
        levels = tensor.quantization and (tensor.quantization.scale[0], tensor.quantization.zero_point[0])
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
        """What a node makes of the real numbers, put on its levels; stored only where it leaves."""
        leaves = tensor.name in self.left
        name = self._fresh(f"{tensor.name}/reals") if leaves else tensor.name
        real = Tensor(name, tensor.shape)
        kept = node.op in MOVES and len({self.source.tensors[x].quantization for x in (*node.inputs, tensor.name)}) == 1
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
            self._quantize(name, replace(tensor, quantization=None), scale, zero)

    def _fresh(self, name: str) -> str:
        """A name that neither the network has, nor anything that is named after it."""
        while not self._known.isdisjoint((name, f"{name}/steps", f"{name}/number")):
            name += "'"
        return name

    def _put(self, op: str, inputs: tuple[str, ...], out: Tensor, attrs: Mapping[str, Any], name: str = "") -> str:
        self.tensors[out.name] = out
        self.nodes.append(Node(name or out.name, op, inputs, out.name, attrs))
        return out.name

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
