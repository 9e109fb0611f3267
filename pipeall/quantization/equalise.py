"""Cross-layer equalisation: channels between two convolutions are scaled so that all use the levels they share.

A channel that a convolution makes is multiplied by a factor above 0, and the weights that read it are divided by it:
between them are only ops that a factor passes through. Weights have scales of their own for each output, so that the
factors need not spare them: every channel is stretched half the way, as ratios go, to the reach of the largest. What
is left is room for photos that were not seen. A bound above, such as that of ReLU6, stays where it is, and what was
seen stays below it. After Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", 2019.

Through other activations, such as swish, a factor does not pass. There the channels are multiplied behind it, in real
numbers: the layer ahead makes real numbers of integers, and neither its result nor the activation's is put on levels
before the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

import numpy as np

from ..graph.ir import Graph, Node
from .places import TABLES
from .sheet import Sheet

PASSING = ("maxpool", "avgpool", "leakyrelu", "resize")  # f(s x) = s f(x) for s above 0, channel by channel
MOST = 16.0  # factors are from 1 to this

Reader = tuple[Node, int]  # a convolution and where the channels begin in its input


class Channels:
    """Who reads the channels of a network's tensors."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.readers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)
        self.outputs = {tensor.name for tensor in graph.outputs}

    def pairs(self) -> list[tuple[Node, list[Reader]]]:
        """Convolutions whose channels are read by convolutions alone."""
        return self._read_by_convolutions(
            lambda node: node.op == "conv" and len(node.inputs) == 3 and node.attrs["lo"] in (0, -inf)
        )

    def activations(self) -> list[tuple[Node, list[Reader]]]:
        """Activations that no factor passes through, whose channels are read by convolutions alone."""
        return self._read_by_convolutions(lambda node: node.op in TABLES and node.op not in PASSING)

    def _read_by_convolutions(self, wanted: Callable[[Node], bool]) -> list[tuple[Node, list[Reader]]]:
        found = ((node, self._reading(node.output, 0)) for node in self.graph.nodes if wanted(node))
        return [(node, readers) for node, readers in found if readers and not self._shared(node, readers)]

    def _shared(self, node: Node, readers: list[Reader]) -> bool:
        """Whether another node has one of the weights that factors would change."""
        weights = [reader.inputs[1] for reader, _ in readers]
        own = node.inputs[1:] if node.op == "conv" else ()
        return any(len(self.readers[name]) > 1 for name in (*own, *weights))

    def _reading(self, name: str, first: int) -> list[Reader] | None:
        """The convolutions behind a tensor, of which channels count from ``first``; None where others read it too."""
        if name in self.outputs:
            return None
        found: list[Reader] = []
        for node in self.readers.get(name, ()):
            if node.op == "conv" and node.inputs.count(name) == 1 and node.inputs[0] == name:
                found.append((node, first))
                continue
            behind = self._through(node, name, first)
            if behind is None:
                return None
            found += behind
        return found

    def _through(self, node: Node, name: str, first: int) -> list[Reader] | None:
        if node.op == "concat" and node.attrs["axis"] == 1 and node.inputs.count(name) == 1:
            before = node.inputs[: node.inputs.index(name)]
            return self._reading(node.output, first + sum(self.graph.tensors[x].shape[1] for x in before))
        return self._reading(node.output, first) if node.op in PASSING else None


def equalised(graph: Graph, pairs: list[tuple[Node, list[Reader]]], reach: Mapping[str, np.ndarray]) -> Graph:
    """The same function of floats, for all frames whose values are within ``reach``.

    reach  the largest size of each channel that the convolutions of pairs make
    """
    constants = {name: array.astype(np.float64) for name, array in graph.constants.items() if array.dtype == np.float32}
    for node, readers in pairs:
        factors = factors_of(reach[node.output], node.attrs["hi"])
        weight, bias = node.inputs[1:]
        constants[weight] *= factors.reshape(-1, 1, 1, 1)
        constants[bias] *= factors
        for reader, first in readers:
            _divide(constants[reader.inputs[1]], reader.attrs["groups"], first, factors)
    exact = {name: array.astype(np.float32) for name, array in constants.items()}
    return replace(graph, constants={**graph.constants, **exact})


def stretched_behind(graph: Graph, factors: Mapping[str, np.ndarray]) -> Graph:
    """The same function of floats, with products by these factors behind activations, by the activation's output."""
    sheet = Sheet(graph)
    weights: dict[str, np.ndarray] = {}
    for node, readers in Channels(graph).activations():
        for reader, first in readers if node.output in factors else ():
            name = reader.inputs[1]
            weight = weights.setdefault(name, graph.constants[name].astype(np.float64))
            _divide(weight, reader.attrs["groups"], first, factors[node.output])
    sheet.constants |= {name: weight.astype(np.float32) for name, weight in weights.items()}
    renamed: dict[str, str] = {}
    for node in graph.nodes:
        sheet.copy(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        if node.output in factors:
            by = sheet.constant(f"{node.output}/factors", factors[node.output].reshape(1, -1, 1, 1))
            renamed[node.output] = sheet.add("mul", f"{node.output}/stretched", [node.output, by])
    whole = sheet.graph([node.output for node in sheet.nodes])
    return replace(whole, outputs=graph.outputs)


def _divide(weight: np.ndarray, groups: int, first: int, factors: np.ndarray) -> None:
    """The weights that read the channels from ``first`` on, each by its channel's factor, in place."""
    inside = weight.shape[1]  # channels that a group reads
    whole = np.ones(groups * inside)
    whole[first : first + len(factors)] = factors
    by_group = weight.reshape(groups, -1, *weight.shape[1:])
    by_group /= whole.reshape(groups, 1, inside, 1, 1)


def factors_of(reach: np.ndarray, high: float = inf) -> np.ndarray:
    """What stretches every channel, below a bound; 1 for one that holds nothing."""
    used = np.where(reach > 0, reach, 1)
    wanted = np.minimum(np.sqrt(reach.max() / used), high / used)
    return np.where(reach > 0, np.clip(wanted, 1, MOST), 1.0)
