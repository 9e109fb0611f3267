"""Which tensors of a network become 8-bit integers, and which of them share their quantization parameters.

A tensor is quantized where a layer of integers reads it. Behind the last layers numbers stay floats.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf

from ..graph.builder import GraphBuilder
from ..graph.ir import Graph, Node
from ..graph.ops import Trait, attributes, has, selects
from ..graph.pointwise import UNARY

ARITHMETIC = ("add", "mul", "avgpool", "lrn", "resize")
SOFTMAX = ("softmax", "logsoftmax")
CHOOSING = ("topk", "gather", "gather_elements", "gather_nd", "nms")
ACTIVATIONS = tuple(op for op, entry in UNARY.items() if entry.floats and op != "fakequant")  # tables of 256 entries

FREE = {"lo": -inf, "hi": inf}  # no clamp


@dataclass(frozen=True)
class Quantizable:
    """What of a network becomes integers.

    layers   the nodes whose weights become integers
    root     tensor -> the tensor that represents all that share its parameters
    sources  root -> the tensors that are quantized with these parameters; tensors moved from there already are
    """

    layers: tuple[Node, ...]
    root: dict[str, str]
    sources: dict[str, tuple[str, ...]]

    @property
    def tensors(self) -> list[str]:
        """All tensors that are quantized."""
        return [name for names in self.sources.values() for name in names]


def split_residuals(graph: Graph) -> Graph:
    """The same network with nodes of their own for the residuals of convolutions."""
    builder = GraphBuilder(graph)
    for node in graph.nodes:
        if node.op == "conv" and len(node.inputs) == 4:
            *inputs, residual = node.inputs
            bounds = {name: node.attrs[name] for name in FREE}
            inner = builder.fresh(f"{node.output}/conv")
            builder.copy(node, inputs=tuple(inputs), output=inner, attrs={**node.attrs, **FREE})
            attrs = attributes("add", **bounds)
            builder.copy(node, name=f"{node.name}/add", op="add", inputs=(inner, residual), attrs=attrs)
        else:
            builder.copy(node)
    return builder.graph([tensor.name for tensor in graph.outputs])


def quantizable(graph: Graph, float_nodes: Collection[str] = ()) -> Quantizable:
    """Of a graph without residuals in its convolutions; the nodes of these names compute with floats."""
    able = integer_nodes(graph).difference(float_nodes)
    read: set[str] = set()  # by layers of integers, and by what leads from integers to them
    integer = set()
    for node in reversed(graph.nodes):
        if node.name in able and (has(node.op, Trait.INT8_WEIGHTS) or node.output in read):
            integer.add(node.output)
            read.update(node.inputs)
        elif is_movement(graph, node) and node.output in read:
            read.update(node.inputs)
    joined = {name: name for name in graph.tensors}

    def root(name: str) -> str:
        while joined[name] != name:
            name = joined[name]
        return name

    moved = {node.output for node in graph.nodes if is_movement(graph, node) and node.output in read}
    for node in graph.nodes:
        if node.output in moved:
            for name in node.inputs:
                joined[root(name)] = root(node.output)
    roots = {name: root(name) for name in graph.tensors if name in read}
    sources: dict[str, tuple[str, ...]] = {}
    for name in roots:
        if name not in moved:
            sources[roots[name]] = (*sources.get(roots[name], ()), name)
    layers = tuple(node for node in graph.nodes if node.output in integer and has(node.op, Trait.INT8_WEIGHTS))
    return Quantizable(layers, roots, sources)


def activation_of(graph: Graph, name: str) -> Node | None:
    """The activation that is the only reader of a tensor."""
    readers = [node for node in graph.nodes if name in node.inputs]
    leaves = any(tensor.name == name for tensor in graph.outputs)
    return readers[0] if len(readers) == 1 and readers[0].op in ACTIVATIONS and not leaves else None


def layers_with_activations(graph: Graph) -> dict[str, frozenset[str]]:
    """Layers that may have integer weights, each with what stays floats with it: itself and its activations."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    groups, able = {}, integer_nodes(graph)
    for layer in graph.nodes:
        if not has(layer.op, Trait.INT8_WEIGHTS) or layer.name not in able:
            continue
        names, last = {layer.name}, layer
        while len(after := readers.get(last.output, ())) == 1 and after[0].op in ACTIVATIONS:
            last = after[0]
            names.add(last.name)
        groups[layer.name] = frozenset(names)
    return groups


def integer_nodes(graph: Graph) -> set[str]:
    """Names of the nodes that may compute with integers.

    A layer that reads probabilities takes a mean by them, as detectors do of the bins of a distance. It has few weights
    and would err by its levels: it computes with floats.
    """
    probabilities: set[str] = set()
    for node in graph.nodes:
        if node.op == "softmax" or (is_movement(graph, node) and probabilities.intersection(node.inputs)):
            probabilities.add(node.output)
    return {
        node.name
        for node in graph.nodes
        if _is_integer(graph, node) and not (has(node.op, Trait.INT8_WEIGHTS) and node.inputs[0] in probabilities)
    }


def _is_integer(graph: Graph, node: Node) -> bool:
    """Whether it may compute with integers: its inputs are quantized, and so is its output where a layer reads it."""
    floats = all(
        graph.tensors[name].dtype == "float32" for name in (*node.inputs, node.output) if name in graph.tensors
    )
    constants = [name for name in node.inputs if name in graph.constants]
    if not floats or is_movement(graph, node):
        return False
    if has(node.op, Trait.INT8_WEIGHTS):
        return len(constants) == 2 and node.inputs[0] not in constants
    return node.op in (*ARITHMETIC, *ACTIVATIONS) and not constants


def is_movement(graph: Graph, node: Node) -> bool:
    """Whether a node puts computed floats elsewhere as they are, so that its output shares its input's parameters."""
    if any(name in graph.constants for name in node.inputs) or graph.tensors[node.output].dtype != "float32":
        return False
    zeros = node.op == "pad" and (node.attrs["mode"] != "constant" or node.attrs["value"] == 0)  # 0 is an integer
    return zeros or selects(node)


def logits(graph: Graph) -> tuple[str, ...]:
    """The tensors whose values are the network's answers, ahead of data movement, softmax and what chooses by them."""
    return _ahead(graph, [tensor.name for tensor in graph.outputs])


def never_clipped(graph: Graph, of: Quantizable) -> set[str]:
    """Roots of the tensors that leave the network or enter a softmax, while layers read them too.

    Their greatest values decide. Methods that clip rare values for a smaller mean error would clip these.
    """
    read = [node.inputs[0] for node in graph.nodes if node.op in SOFTMAX]
    return {of.root[name] for name in (*logits(graph), *_ahead(graph, read)) if name in of.root}


def _ahead(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    producers = {node.output: node for node in graph.nodes}
    waiting, seen, tensors = list(names), set(names), {}
    while waiting:
        name = waiting.pop(0)
        node = producers.get(name)
        if node is not None and _leads_on(graph, node):
            new = [x for x in node.inputs if x not in seen and x not in graph.constants]
            waiting += new
            seen.update(new)
        elif graph.tensors[name].dtype == "float32":
            tensors[name] = True
    return tuple(tensors) or tuple(names)


def _leads_on(graph: Graph, node: Node) -> bool:
    """Whether the answers lie ahead of a node: it moves values, is a softmax, or chooses values by others, as a top-k
    does. Integers are such choices, and so is their value as a float."""
    if any(graph.tensors[name].dtype != "float32" for name in (node.output, *node.inputs) if name in graph.tensors):
        return True
    return node.op in (*SOFTMAX, *CHOOSING) or is_movement(graph, node)
