"""Cross-layer equalisation: channels between two convolutions are scaled so that all use the levels they share.

A channel that a convolution makes is multiplied by a factor above 0, and the weights that read it are divided by it:
between them are only ops that a factor passes through. Weights have scales of their own for each output, so that the
factors need not spare them: every channel is stretched half the way, as ratios go, to the reach of the largest. What
is left is room for photos that were not seen. A bound above, such as that of ReLU6, stays where it is, and what was
seen stays below it. After Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", 2019.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import inf

import numpy as np

from ..graph.ir import Graph, Node

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
        found = []
        for node in self.graph.nodes:
            if node.op == "conv" and len(node.inputs) == 3 and node.attrs["lo"] in (0, -inf):
                readers = self._reading(node.output, 0)
                if readers:
                    found.append((node, readers))
        return found

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
    users = Counter(name for node in graph.nodes for name in {*node.inputs})
    for node, readers in pairs:
        if any(users[name] > 1 for name in (*node.inputs[1:], *(reader.inputs[1] for reader, _ in readers))):
            continue  # a weight of several convolutions
        factors = _factors(reach[node.output], node.attrs["hi"])
        weight, bias = node.inputs[1:]
        constants[weight] *= factors.reshape(-1, 1, 1, 1)
        constants[bias] *= factors
        for reader, first in readers:
            _divide(constants[reader.inputs[1]], reader.attrs["groups"], first, factors)
    exact = {name: array.astype(np.float32) for name, array in constants.items()}
    return replace(graph, constants={**graph.constants, **exact})


def _divide(weight: np.ndarray, groups: int, first: int, factors: np.ndarray) -> None:
    """The weights that read the channels from ``first`` on, each by its channel's factor, in place."""
    inside = weight.shape[1]  # channels that a group reads
    whole = np.ones(groups * inside)
    whole[first : first + len(factors)] = factors
    by_group = weight.reshape(groups, -1, *weight.shape[1:])
    by_group /= whole.reshape(groups, 1, inside, 1, 1)


def _factors(reach: np.ndarray, high: float) -> np.ndarray:
    """What stretches every channel, below a bound; 1 for one that holds nothing."""
    used = np.where(reach > 0, reach, 1)
    wanted = np.minimum(np.sqrt(reach.max() / used), high / used)
    return np.where(reach > 0, np.clip(wanted, 1, MOST), 1.0)
