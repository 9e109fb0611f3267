"""A network in ops on halves: what a core computes that multiplies in half precision.

Layers with weights, pooling behind them and what lies between layers have float16 tensors; ``cast`` stands between
these and the others. Layers of one pixel stay as they are: they wait for their weights, which may be halves alone
(``_kernels.cpu.algorithms``: half-gemm). So do sums over long axes, softmax and normalization, heads, and what follows
the last layer, the decoding of boxes above all: half precision is too little there. A head is a layer that neither a
layer nor an average follows: its rounding is the answer's. The graph's inputs and outputs are float32, and what crosses
a cut inside. So are the layers that the network's metadata names (``keep_float32``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ...arguments import a, checked, several, text
from ...errors import ArgumentError, ModelError
from ..builder import GraphBuilder, with_nodes
from ..ir import Graph, Node, Tensor
from ..ops import Trait, has, selects
from ..partition import Border
from ..pointwise import BINARY, UNARY

REAL, HALF = "float32", "float16"
MOST = float(np.finfo(np.float16).max)
KEPT = "pipeall.float32"  # key of the metadata: names of layers, a list in JSON


@checked(graph=a(Graph, "one of pipeall.load or pipeall.zoo"), names=several(text, "a list of names of layers"))
def keep_float32(graph: Graph, names: Iterable[str]) -> Graph:
    """The network with these layers, and no others, kept in float32 where a CPU computes it in half precision.

    Parameters
    ----------
    graph
        The network.
    names
        Of nodes with weights: convolutions, transposed ones, fully connected layers.

    Returns
    -------
    Graph
        Its metadata names the layers; a file that is written of it has them too.

    Raises
    ------
    ArgumentError
        For a name that no such node has.
    """
    names, known = sorted(set(names)), {node.name for node in graph.nodes if has(node.op, Trait.WEIGHTS)}
    if unknown := [name for name in names if name not in known]:
        raise ArgumentError(f"layer {unknown[0]!r}: expected a convolution or fully connected layer of {graph.name}")
    others = {key: text for key, text in graph.metadata.items() if key != KEPT}
    return replace(graph, metadata=others | ({KEPT: json.dumps(names)} if names else {}))


def kept_float32(graph: Graph) -> frozenset[str]:
    """The layers that the metadata names; of a part of a network, those of the whole. Raises ModelError for damage."""
    text = graph.metadata.get(KEPT, "[]")
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{graph.name}: metadata {KEPT}: expected a list of layers' names in JSON, got {text!r:.80}")
    return frozenset(names)


def heads(graph: Graph) -> frozenset[str]:
    """Layers of more than one pixel that neither a layer nor an average follows: their rounding is the answer's."""
    followed = _followed(graph)
    return frozenset(
        n.name for n in graph.nodes if has(n.op, Trait.WEIGHTS) and n.output not in followed and _pixels(graph, n) > 1
    )


def _followed(graph: Graph) -> set[str]:
    """Tensors that a layer or an average reads, or that it reads something made of; and all that cross to a part behind
    this one, of which that is not known."""
    outputs, leaves = ({tensor.name for tensor in each} for each in (graph.leaving, graph.leaves))
    found = outputs - leaves if graph.transmits else set()
    for node in reversed(graph.nodes):
        average = node.op == "avgpool" or (node.op == "reduce" and node.attrs["how"] == "mean")
        if has(node.op, Trait.WEIGHTS) or average or node.output in found:
            found.update(node.inputs)
    return found


def _pixels(graph: Graph, layer: Node) -> int:
    shape = graph.tensors[layer.output].shape
    return shape[0] * prod(shape[2:]) if layer.op != "fc" else prod(shape[:-1])


def fp16_between(graph: Graph, borders: Sequence[Border]) -> tuple[Graph, tuple[Border, ...]]:
    """The graph with float16 tensors, and where cuts inside lie then, in the order of their nodes; itself where it has
    no layer that computes with halves."""
    made = _Fp16Graph(graph, borders)
    return (made.graph(), tuple(made.borders)) if made.fp16_nodes else (graph, tuple(borders))


class _Fp16Graph(GraphBuilder):
    """A graph becoming one on halves.

    float32, float16  name of a tensor -> the tensor that has its elements in this type by now
    """

    def __init__(self, graph: Graph, borders: Sequence[Border]) -> None:
        super().__init__(graph)
        self.inner = borders
        crossing = [tensor for border in borders for tensor in border.tensors]
        self.kept = kept_float32(graph)
        self.left = {tensor.name for tensor in (*graph.leaving, *graph.leaves, *crossing)}
        self.fp16_nodes = self._choose()

    # ---- which nodes ----

    def _choose(self) -> set[str]:
        """By their outputs: layers, pooling of their outputs, and what lies between them."""
        followed = _followed(self.source)
        layers = {n.output for n in self.source.nodes if n.output in followed and self._is_layer(n)}
        wanted = set(layers)  # what leads to a layer, of halves or not, by ops that halves do for
        read: dict[str, list[Node]] = {}
        for node in self.source.nodes:
            for name in node.inputs:
                read.setdefault(name, []).append(node)
        for node in reversed(self.source.nodes):
            consumers = read.get(node.output, ())
            if any(has(r.op, Trait.WEIGHTS) or (r.output in wanted and self._does_for(r)) for r in consumers):
                wanted.add(node.output)
        chosen = set(layers)
        for node in self.source.nodes:
            if node.output not in chosen and self._does_for(node) and self._widest(node) in chosen:
                if node.output in wanted or has(node.op, Trait.POOLS):
                    chosen.add(node.output)
        return chosen

    def _is_float32(self, node: Node) -> bool:
        """Whether all that a node computes with is float32."""
        tensors = [self.source.tensors[name] for name in (*node.inputs, node.output) if name in self.source.tensors]
        return all(tensor.dtype == REAL for tensor in tensors)

    def _is_layer(self, node: Node) -> bool:
        """Whether a layer computes more than one pixel, with weights and a bias that half precision holds, and may."""
        if node.name in self.kept or not has(node.op, Trait.WEIGHTS):
            return False
        constants = self.source.constants
        numbers = [constants[name] for name in node.inputs[1:] if name in constants]
        held = node.inputs[1] in constants and all(np.abs(array).max() <= MOST for array in numbers)
        return self._is_float32(node) and _pixels(self.source, node) > 1 and held

    def _does_for(self, node: Node) -> bool:
        """Whether what a node does, it may do to halves."""
        pointwise = node.op in BINARY or (node.op in UNARY and node.op != "fakequant")
        computed = node.op in ("pad", "lrn") or has(node.op, Trait.POOLS) or pointwise  # an LRN by sums of floats
        return self._is_float32(node) and (computed or selects(node))

    def _widest(self, node: Node) -> str | None:
        computed = [name for name in node.inputs if name in self.source.tensors]
        return max(computed, key=lambda name: self.source.tensors[name].elements, default=None)

    # ---- the graph ----

    def graph(self) -> Graph:
        self.float32 = {tensor.name: tensor.name for tensor in self.source.inputs}
        self.float16: dict[str, str] = {}
        self.borders: list[Border] = []
        for place, node in enumerate(self.source.nodes):
            for border in self.inner:
                if border.nodes == place:
                    self.borders.append(replace(border, nodes=len(self.nodes)))
                    self.float16.clear()  # a frame that comes in here has none of them
            self._add(node)
        return with_nodes(self.source, self.nodes, self.tensors, self.constants, self.qparams)

    def _add(self, node: Node) -> None:
        name, in_half = node.output, node.output in self.fp16_nodes
        find: Callable[[str], str] = self._in_float16 if in_half else self._in_float32
        inputs = tuple(find(x) if x in self.source.tensors else x for x in node.inputs)
        out = self._out(name, HALF) if in_half else self.source.tensors[name]
        (self.float16 if in_half else self.float32)[name] = out.name
        self.put(replace(node, inputs=inputs, output=out.name), out)
        if in_half and name in self.left:
            self._in_float32(name)

    def _out(self, name: str, dtype: str) -> Tensor:
        """A tensor in a type: under its own name in float32, under a new one in float16."""
        return replace(
            self.source.tensors[name], name=name if dtype == REAL else self.fresh(f"{name}/half"), dtype=dtype
        )

    def _in_float32(self, name: str) -> str:
        if name not in self.float32:
            self._cast(name, self.float16[name], REAL)
            self.float32[name] = name
        return self.float32[name]

    def _in_float16(self, name: str) -> str:
        if name not in self.float16:
            self.float16[name] = self._cast(name, self.float32[name], HALF)
        return self.float16[name]

    def _cast(self, name: str, x: str, dtype: str) -> str:
        out = self._out(name, dtype)
        return self.put(Node(out.name, "cast", (x,), out.name, {"to": dtype}), out)
