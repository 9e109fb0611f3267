"""A quantized network in ops on integers.

As it is read, a quantized network computes real numbers that ``fakequant`` puts on levels, 256 of them. Where all
that an op reads and writes lies on levels, its tensors become int8 with a ``Quantization``, its weights too: the op
still means what it does to the real numbers, and it makes the nearest level. A layer whose result lies on none makes
real numbers of integers. ``quantize`` and ``dequantize`` stand between such ops and the others, so that a network may
be quantized in part. ``dequantize`` is the way back.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

import numpy as np

from ..builder import GraphBuilder, fresh, with_nodes
from ..ir import Graph, Node, Quantization, Tensor
from ..ops import Trait, has, selects
from ..pointwise import UNARY

LOWEST = -128
SUMS = ("add", "mul")
WHOLE = ("avgpool", "lrn", "softmax")  # whatever their attributes
AXES = 2  # along which a resize may interpolate
WEIGHT_MAX = 127  # of either sign: kernels add two products in 16 bits
PRODUCT = 2**15  # a weight times an integer less its zero point, or plus 128, is less
SUM = 2**31  # what a kernel's sum, with its bias, stays below
Levels = tuple[float, int]  # scale and zero point of int8


def to_int8(graph: Graph) -> Graph:
    """The graph with int8 tensors wherever there are kernels for them; itself where nothing lies on levels."""
    return _Int8Graph(graph).graph() if any(node.op == "fakequant" for node in graph.nodes) else graph


class _Int8Graph(GraphBuilder):
    """A graph becoming one on integers.

    levels        name of a float tensor whose values lie on levels -> these
    integer       what computes with integers alone: name of its output -> the node
    float_layers  layers that make real numbers of integers, likewise
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.producers = {node.output: node for node in graph.nodes}
        self.left = {tensor.name for tensor in (*graph.leaving, *graph.leaves)}
        self.count: dict[str, int] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self.count[name] = self.count.get(name, 0) + 1
        self.levels: dict[str, Levels] = {}
        self.layers: dict[tuple[str, ...], tuple[np.ndarray, Quantization]] = {}  # inputs -> weights as integers
        self.integer: dict[str, Node] = {}
        self.merged: set[str] = set()  # what an integer node puts on levels itself: outputs that are never stored
        for node in graph.nodes:
            self._look(node)
        layers = [node for node in graph.nodes if has(node.op, Trait.INT8_WEIGHTS) and node.output not in self.merged]
        self.float_layers = {
            node.output: node for node in layers if self._computes(node) and not self._by_channel(node)
        }
        self._stored, self._read = self._needs()

    def _look(self, node: Node) -> None:
        """Finds the levels of a node's output, and which node makes it of integers alone."""
        attrs, first = node.attrs, node.inputs[0]
        if node.op == "fakequant":
            zero = LOWEST - attrs["low"]
            if zero not in range(LOWEST, LOWEST + 256):
                return
            self.levels[node.output] = (attrs["scale"], int(zero))
            producer = self.producers.get(first)
            if producer is not None and self.count[first] == 1 and first not in self.left and self._computes(producer):
                self.merged.add(first)
                self.integer[node.output] = replace(producer, output=node.output)
        elif node.op == "dequantize" and self.source.tensors[first].dtype in ("int8", "uint8"):
            shift = LOWEST if self.source.tensors[first].dtype == "uint8" else 0
            self.levels[node.output] = (attrs["scale"], attrs["zero"] + shift)
        elif selects(node):
            shared = {self.levels.get(name) for name in node.inputs}
            if len(shared) == 1 and None not in shared:
                self.levels[node.output] = shared.pop()
                self.integer[node.output] = node

    def _computes(self, node: Node) -> bool:
        """Whether there is a kernel for what this node makes of integers."""
        computed = [name for name in node.inputs if name in self.source.tensors]
        if any(name not in self.levels for name in computed):
            return False
        if has(node.op, Trait.INT8_WEIGHTS):
            return len(node.inputs) == 3 and self._has_weights(node)
        if node.op in SUMS:
            constants = [name for name in node.inputs if name not in computed]
            return all(self._constant(name) is not None for name in constants)
        if node.op == "resize":
            return selects(node) or 1 <= self._interpolated(node) <= AXES
        if selects(node):
            return len(computed) == len(node.inputs)
        return node.op in WHOLE or (node.op in UNARY and UNARY[node.op].floats and node.op != "fakequant")

    def _by_channel(self, node: Node) -> bool:
        """Whether a convolution has filters of one channel each, whose kernels make integers alone."""
        return 1 < node.attrs.get("groups", 1) == self.source.tensors[node.inputs[0]].shape[1]

    def _interpolated(self, node: Node) -> int:
        """Along how many axes a resize reads between elements."""
        sizes = zip(self.source.tensors[node.inputs[0]].shape, node.attrs["sizes"], node.attrs["scales"], strict=True)
        return sum(before != after or scale != 1 for before, after, scale in sizes)

    def _has_weights(self, node: Node) -> bool:
        """Whether a layer's weights are integers around 0, a scale for each output, whose sums fit into 32 bits."""
        x, (weight, bias) = node.inputs[0], (self.source.constants.get(name) for name in node.inputs[1:])
        levels = self.source.qparams.get(node.inputs[1])
        if levels is None or weight is None or bias is None or levels.axis not in (None, 0):
            return False
        scale = np.broadcast_to(np.asarray(levels.scale, np.float32), len(weight))
        whole = np.rint(weight / scale.reshape(-1, *(1,) * (weight.ndim - 1)))
        quanta = np.abs(bias / (scale.astype(np.float64) * self.levels[x][0])).max()
        if not (np.abs(whole).max() <= WEIGHT_MAX and prod(weight.shape[1:]) * PRODUCT + quanta < SUM):
            return False
        self.layers[node.inputs] = whole.astype(np.int8), Quantization(tuple(scale.tolist()), (0,) * len(weight), 0)
        return True

    def _constant(self, name: str) -> tuple[np.ndarray, Quantization] | None:
        levels = self.source.qparams.get(name)
        if levels is None or levels.axis is not None:
            return None
        return np.rint(self.source.constants[name] / levels.scale[0] + levels.zero_point[0]).astype(np.int8), levels

    def _needs(self) -> tuple[set[str], set[str]]:
        """The tensors on levels that must be there as integers, and those that must as real numbers."""
        stored, read = set(self.integer), set(self.left)
        for node in (*self.integer.values(), *self.float_layers.values()):
            stored |= {name for name in node.inputs if name in self.levels}
        for node in self.source.nodes:
            on_integers = node.output in self.integer or node.output in self.float_layers or node.output in self.merged
            if not on_integers and node.op != "fakequant":
                read |= set(node.inputs)
        for node in self.source.nodes:
            if node.op == "fakequant" and node.output not in self.integer:
                read.add(node.inputs[0])
        return stored, read

    def graph(self) -> Graph:
        for node in self.source.nodes:
            if node.output not in self.merged:
                self._make(node)
        return with_nodes(self.source, self.nodes, self.tensors, self.constants, self.qparams)

    def _name(self, name: str) -> str:
        """Of a tensor's integers: its own, unless its real numbers are read too."""
        return self._fresh(f"{name}/int8") if name in self._read else name

    def _fresh(self, name: str) -> str:
        """A name that the network does not have."""
        return fresh(name, self.source.tensors, self.source.constants)

    def _make(self, node: Node) -> None:
        name, source = node.output, self.source.tensors[node.output]
        if name in self.float_layers:
            self._on_integers(node, source)
            return
        if name not in self._stored:
            self.copy(node)
            return
        scale, zero = self.levels[name]
        whole = Tensor(self._name(name), source.shape, "int8", Quantization((scale,), (zero,)))
        made = self.integer.get(name)
        if made is not None:
            self._on_integers(made, whole)
        else:
            floats = node.inputs[0]
            if node.op == "dequantize":  # of an input
                floats = self.copy(node, output=name if name in self._read else self._fresh(f"{name}/floats"))
            attrs = {"scale": scale, "zero": zero, "to": "int8"}
            self.put(Node(f"{node.name}/int8", "quantize", (floats,), whole.name, attrs), whole)
        if name in self._read and not (made is None and node.op == "dequantize"):
            attrs = {"scale": scale, "zero": zero}
            self.put(Node(f"{name}/floats", "dequantize", (whole.name,), name, attrs), source)

    def _on_integers(self, node: Node, out: Tensor) -> None:
        inputs = [self._name(name) if name in self.levels else name for name in node.inputs]
        if has(node.op, Trait.INT8_WEIGHTS):
            inputs[1] = self._whole(node.inputs[1], *self.layers[node.inputs])
        elif node.op in SUMS:
            inputs = [name if name in self.tensors else self._whole(name, *self._constant(name)) for name in inputs]
        elif selects(node):
            self._moved(node, inputs, out)
            return
        self.put(replace(node, inputs=tuple(inputs), output=out.name), out)

    def _moved(self, node: Node, inputs: list[str], out: Tensor) -> None:
        """A move, onto other levels by tables of what it reads, or of what it leaves of that."""
        last = out
        if prod(out.shape) < sum(prod(self.tensors[name].shape) for name in inputs):
            own = self.tensors[inputs[0]].quantization
            last = replace(out, name=self._fresh(f"{out.name}/moved"), quantization=own)
        for i, name in enumerate(inputs):
            if self.tensors[name].quantization != last.quantization:
                inputs[i] = self._fresh(f"{last.name}/{i}")
                self._put_on(replace(self.tensors[name], name=inputs[i], quantization=last.quantization), name)
        if last.quantization == out.quantization:
            last = out
        self.put(replace(node, inputs=tuple(inputs), output=last.name), last)
        if last is not out:
            self._put_on(out, last.name)

    def _put_on(self, out: Tensor, name: str) -> None:
        """What takes integers to other levels."""
        self.put(Node(out.name, "clip", (name,), out.name, {"lo": -inf, "hi": inf}), out)

    def _whole(self, name: str, array: np.ndarray, levels: Quantization) -> str:
        whole = self._fresh(f"{name}/int8")
        self.constants[whole], self.qparams[whole] = array, levels
        return whole
