"""Cross-layer equalization: channels between two convolutions are scaled so that all use the range they share.

A channel of a convolution's output is multiplied by a positive factor, and the weights that read it are divided by
that factor. Only ops that a factor passes through lie between them. Weights have a scale for each output, so factors
do not harm them. A channel's factor is the square root of the ratio of the largest channel's maximum to its own; the
rest of the range is left for samples that were not seen. An upper bound, such as ReLU6's, stays, and the values seen
stay below it. After Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019.

A factor does not pass through other activations, such as swish. There the channels are multiplied behind the
activation, in floats: neither the layer's result nor the activation's is quantized before the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

import numpy as np

from ..graph.builder import GraphBuilder
from ..graph.ir import Graph, Node
from .calibration_run import CalibrationRun
from .config import QuantConfig
from .quantizable import ACTIVATIONS

PASSING = ("maxpool", "avgpool", "leakyrelu", "resize")  # f(s x) = s f(x) for s above 0, channel by channel
MOST = 16.0  # factors are from 1 to this
SPREAD = 1.5  # geometric mean of the factors of an activation that is tried
GAIN = 0.02  # least share of the loss that scaling behind an activation takes away

Loss = Callable[[QuantConfig], float]
Reader = tuple[Node, int]  # a convolution and where the channels begin in its input


class Channels:
    """The consumers of the channels of a network's tensors."""

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
        return self._read_by_convolutions(lambda node: node.op in ACTIVATIONS and node.op not in PASSING)

    def _read_by_convolutions(self, wanted: Callable[[Node], bool]) -> list[tuple[Node, list[Reader]]]:
        pairs = ((node, self._reading(node.output, 0)) for node in self.graph.nodes if wanted(node))
        return [(node, readers) for node, readers in pairs if readers and not self._shared(node, readers)]

    def _shared(self, node: Node, readers: list[Reader]) -> bool:
        """Whether another node has one of the weights that factors would change."""
        weights = [reader.inputs[1] for reader, _ in readers]
        own = node.inputs[1:] if node.op == "conv" else ()
        return any(len(self.readers[name]) > 1 for name in (*own, *weights))

    def _reading(self, name: str, first: int) -> list[Reader] | None:
        """The convolutions behind a tensor whose channels count from ``first``; None where other ops read it too."""
        if name in self.outputs:
            return None
        convolutions: list[Reader] = []
        for node in self.readers.get(name, ()):
            if node.op == "conv" and node.inputs.count(name) == 1 and node.inputs[0] == name:
                convolutions.append((node, first))
                continue
            behind = self._through(node, name, first)
            if behind is None:
                return None
            convolutions += behind
        return convolutions

    def _through(self, node: Node, name: str, first: int) -> list[Reader] | None:
        if node.op == "concat" and node.attrs["axis"] == 1 and node.inputs.count(name) == 1:
            before = node.inputs[: node.inputs.index(name)]
            return self._reading(node.output, first + sum(self.graph.tensors[x].shape[1] for x in before))
        return self._reading(node.output, first) if node.op in PASSING else None


def equalized(graph: Graph, pairs: list[tuple[Node, list[Reader]]], maxima: Mapping[str, np.ndarray]) -> Graph:
    """The same function of floats, for all samples whose values are within ``maxima``.

    maxima  the largest absolute value of each output channel of the convolutions of pairs
    """
    constants = {name: array.astype(np.float64) for name, array in graph.constants.items() if array.dtype == np.float32}
    for node, readers in pairs:
        factors = factors_of(maxima[node.output], node.attrs["hi"])
        weight, bias = node.inputs[1:]
        constants[weight] *= factors.reshape(-1, 1, 1, 1)
        constants[bias] *= factors
        for reader, first in readers:
            _divide(constants[reader.inputs[1]], reader.attrs["groups"], first, factors)
    exact = {name: array.astype(np.float32) for name, array in constants.items()}
    return replace(graph, constants={**graph.constants, **exact})


def with_scaled_activations(graph: Graph, factors: Mapping[str, np.ndarray]) -> Graph:
    """The same function of floats, with products by these factors behind activations, by the activation's output."""
    builder = GraphBuilder(graph)
    weights: dict[str, np.ndarray] = {}
    for node, readers in Channels(graph).activations():
        for reader, first in readers if node.output in factors else ():
            name = reader.inputs[1]
            weight = weights.setdefault(name, graph.constants[name].astype(np.float64))
            _divide(weight, reader.attrs["groups"], first, factors[node.output])
    builder.constants |= {name: weight.astype(np.float32) for name, weight in weights.items()}
    renamed: dict[str, str] = {}
    for node in graph.nodes:
        builder.copy(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        if node.output in factors:
            by = builder.constant(f"{node.output}/factors", factors[node.output].reshape(1, -1, 1, 1))
            renamed[node.output] = builder.add("mul", f"{node.output}/stretched", [node.output, by])
    every = builder.graph([node.output for node in builder.nodes])
    return replace(every, outputs=graph.outputs)


def scale_activations(start: QuantConfig, loss: Loss, quick_loss: Loss, run: CalibrationRun) -> QuantConfig:
    """The configuration with channels scaled behind some activations, in the order of the network; else ``start``.

    Channels that differ by orders of magnitude share 256 integers, so that small ones have a few. Equalization mends
    that where a factor passes from one convolution to the next. It does not pass through swish and the like: there the
    channels are multiplied behind the activation, which costs floats between two layers.
    ``quick_loss`` is the loss on a few samples: what does not lower it is not tried on more.
    """
    graph = start.graph
    names = [node.output for node, _ in Channels(graph).activations()]
    if not names:
        return start
    factors = {name: factors_of(maxima) for name, maxima in run.channel_maxima(graph, names).items()}
    factors = {name: by for name, by in factors.items() if np.log(by).mean() >= np.log(SPREAD)}
    if not factors:
        return start
    every = with_scaled_activations(graph, factors)
    new = [name for name in every.tensors if name not in graph.tensors]
    histograms = start.histograms | run.histograms(every, new)
    best, scaled, least, quick_least = start, {}, loss(start), quick_loss(start)
    for done, (name, by) in enumerate(factors.items()):
        run.progress("activations", done, len(factors))
        tried = replace(start, graph=with_scaled_activations(graph, scaled | {name: by}), histograms=histograms)
        quick = quick_loss(tried)
        if quick < quick_least and (tried_loss := loss(tried)) < (1 - GAIN) * least:
            best, least, quick_least, scaled = tried, tried_loss, quick, scaled | {name: by}
    run.progress("activations", len(factors), len(factors))
    return best


def _divide(weight: np.ndarray, groups: int, first: int, factors: np.ndarray) -> None:
    """The weights that read the channels from ``first`` on, each by its channel's factor, in place."""
    inside = weight.shape[1]  # channels that a group reads
    whole = np.ones(groups * inside)
    whole[first : first + len(factors)] = factors
    by_group = weight.reshape(groups, -1, *weight.shape[1:])
    by_group /= whole.reshape(groups, 1, inside, 1, 1)


def factors_of(maxima: np.ndarray, high: float = inf) -> np.ndarray:
    """The factor of every channel, so that it stays below a bound; 1 for a channel of zeros."""
    used = np.where(maxima > 0, maxima, 1)
    wanted = np.minimum(np.sqrt(maxima.max() / used), high / used)
    return np.where(maxima > 0, np.clip(wanted, 1, MOST), 1.0)
