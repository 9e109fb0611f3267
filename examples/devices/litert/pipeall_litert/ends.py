"""What a part does at its ends before integers begin and after they end, which NPUs do not: levels of real numbers, and
of uint8. The file is of int8 throughout, and what is computed here is what the CPU's kernels compute, to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipeall.graph.ir import Graph, Node

CONVERSIONS = ("quantize", "dequantize")


class Ends(NamedTuple):
    """Nodes before the integers, the network of integers, and nodes behind."""

    before: tuple[Node, ...]
    inner: Graph
    after: tuple[Node, ...]

    @classmethod
    def of(cls, graph: Graph) -> Ends:
        before = _first(graph.nodes, {tensor.name for tensor in graph.inputs})
        after = _last([node for node in graph.nodes if node not in before])
        inner = tuple(node for node in graph.nodes if node not in before and node not in after)
        made, read = ({name for node in inner for name in names(node)} for names in (_made, _read))
        given = [tensor.name for tensor in graph.inputs] + [node.output for node in before]
        taken = dict.fromkeys([node.inputs[0] for node in after] + [tensor.name for tensor in graph.outputs])
        inputs = tuple(graph.tensors[name] for name in given if name in read)
        outputs = tuple(graph.tensors[name] for name in taken if name in made)
        return cls(before, replace(graph, nodes=inner, inputs=inputs, outputs=outputs), after)


def converted(node: Node, x: np.ndarray) -> np.ndarray:
    """What a conversion makes, elements in any order."""
    scale, zero = np.float32(node.attrs["scale"]), node.attrs["zero"]
    if node.op == "dequantize":
        return (x.astype(np.float32) - np.float32(zero)) * scale
    kind = np.iinfo(node.attrs["to"])
    return np.clip(np.rint(x / scale) + zero, kind.min, kind.max).astype(kind.dtype)


def _first(nodes: tuple[Node, ...], known: set[str]) -> tuple[Node, ...]:
    """The conversions of what is known."""
    found: list[Node] = []
    for node in nodes:
        if node.op in CONVERSIONS and node.inputs[0] in known:
            found.append(node)
            known.add(node.output)
    return tuple(found)


def _last(nodes: list[Node]) -> tuple[Node, ...]:
    """The conversions whose results no other node reads."""
    read, found = set(), []
    for node in reversed(nodes):
        if node.op in CONVERSIONS and node.output not in read:
            found.append(node)
        else:
            read |= set(node.inputs)
    return tuple(reversed(found))


def _made(node: Node) -> tuple[str, ...]:
    return (node.output,)


def _read(node: Node) -> tuple[str, ...]:
    return node.inputs
