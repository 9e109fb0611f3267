"""Cross-layer equalization: channels between two convolutions are scaled so that all use the range they share.

A channel of a convolution's output is multiplied by a positive factor, and the weights that read it are divided by
that factor. Weights have a scale for each output, so factors do not harm them. Channels that are joined, in one place
or over many blocks as in a ShuffleNet, share 256 integers: a channel's factor is the square root of the ratio of the
largest maximum of all of them to its own. The rest of the range is left for samples that were not seen. An upper bound,
such as ReLU6's, stays, and the values seen stay below it. After Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", 2019.

A factor does not pass through other activations, such as swish. There the channels are multiplied behind the
activation, in floats: neither the layer's result nor the activation's is quantized before the product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

import numpy as np

from ..graph.builder import GraphBuilder
from ..graph.ir import Graph, Node
from .calibration_run import CalibrationRun
from .channels import PASSING, Channels, is_layer
from .config import QuantConfig
from .quantizable import ACTIVATIONS, activation_of, quantizable

MOST = 16.0  # factors are from 1 to this
SPREAD = 1.5  # geometric mean of the factors of an activation that is tried
GAIN = 0.02  # least share of the loss that scaling behind an activation takes away

Loss = Callable[[QuantConfig], float]


def of_convolutions(graph: Graph) -> Channels:
    """The channels of convolutions' results, where a factor passes through their clamp."""

    def scalable(node: Node) -> bool:
        return is_layer(graph, node) and len(node.inputs) == 3 and node.attrs["lo"] in (0, -inf)

    return Channels(graph, scalable)


def of_activations(graph: Graph) -> Channels:
    """The channels behind activations that no factor passes through."""
    return Channels(graph, lambda node: node.op in ACTIVATIONS and node.op not in PASSING)


def equalized(graph: Graph, channels: Channels, factors: np.ndarray) -> Graph:
    """The same function of floats with the channels of convolutions times factors, by number; an upper bound stays."""
    constants = {name: array.astype(np.float64) for name, array in graph.constants.items() if array.dtype == np.float32}
    for node in graph.nodes:
        if node.output in channels.read:
            _divide(constants[node.inputs[1]], node.attrs["groups"], factors[channels.read[node.output]])
        if node.output in channels.made:
            for name in node.inputs[1:]:
                constants[name] *= factors[channels.made[node.output]].reshape(-1, *(1,) * (constants[name].ndim - 1))
    exact = {name: array.astype(np.float32) for name, array in constants.items()}
    return replace(graph, constants={**graph.constants, **exact})


def half_way(
    start: QuantConfig, channels: Channels, run: CalibrationRun, beyond: float = 0.0
) -> tuple[np.ndarray, dict[str, float]]:
    """Factors of convolutions' channels, by number, towards the largest value that shares their parameters; and the
    largest value of each tensor then.

    A value is measured behind a leaky ReLU, where one follows. It may lie ``beyond`` what samples have
    (``channel_maxima``).
    """
    graph, of = start.graph, quantizable(start.graph)
    measured = {name: _behind_leaky(graph, name) for name in channels.made}
    maxima = run.channel_maxima(graph, list(measured.values()), beyond)
    bounds = {node.output: node.attrs["hi"] for node in graph.nodes if node.output in measured}
    factors = {}
    for name, at in measured.items():
        shared = of.sources[of.root[at]] if at in of.root else ()
        seen = [max(-start.histograms[other].low, start.histograms[other].high) for other in shared]
        largest = max([maxima[at].max(), *seen, *(maxima[other].max() for other in shared if other in maxima)])
        factors[name] = factors_of(maxima[at], largest, bounds[name])
    made, reach = channels.numbered(factors), {}
    for name, at in measured.items():
        largest = float((made[channels.made[name]] * maxima[at]).max())
        reach |= {name: largest, at: min(largest, bounds[name])}
    return made, reach


def _behind_leaky(graph: Graph, name: str) -> str:
    after = activation_of(graph, name)
    return after.output if after is not None and after.op == "leakyrelu" else name


def with_scaled_activations(graph: Graph, channels: Channels, factors: np.ndarray) -> Graph:
    """The same function of floats, with products by factors behind the activations that have others than 1."""
    builder = GraphBuilder(graph)
    renamed: dict[str, str] = {}
    for node in graph.nodes:
        if node.output in channels.read:
            weight = graph.constants[node.inputs[1]].astype(np.float64)
            _divide(weight, node.attrs["groups"], factors[channels.read[node.output]])
            builder.constants[node.inputs[1]] = weight.astype(np.float32)
        builder.copy(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))
        by = factors[channels.made.get(node.output, [0])]
        if (by != 1).any():
            name = builder.constant(f"{node.output}/factors", by.reshape(1, -1, 1, 1))
            renamed[node.output] = builder.add("mul", f"{node.output}/stretched", [node.output, name])
    every = builder.graph([node.output for node in builder.nodes])
    return replace(every, outputs=graph.outputs)


def scale_activations(start: QuantConfig, loss: Loss, quick_loss: Loss, run: CalibrationRun) -> QuantConfig:
    """The configuration with channels scaled behind some activations, in the order of the network; else ``start``.

    Channels that differ by orders of magnitude share 256 integers, so that small ones have a few. Equalization mends
    that where a factor passes from one convolution to the next. It does not pass through swish and the like: there the
    channels are multiplied behind the activation, which costs floats between two layers.
    ``quick_loss`` is the loss on a few samples: what does not lower it is not tried on more.
    """
    graph, channels = start.graph, of_activations(start.graph)
    if not channels.made:
        return start
    maxima = run.channel_maxima(graph, list(channels.made))
    factors = {name: factors_of(by, by.max()) for name, by in maxima.items()}
    factors = {name: np.where(channels.free[channels.made[name]], by, 1) for name, by in factors.items()}
    factors = {name: by for name, by in factors.items() if np.log(by).mean() >= np.log(SPREAD)}
    if not factors:
        return start
    every = with_scaled_activations(graph, channels, channels.numbered(factors))
    new = [name for name in every.tensors if name not in graph.tensors]
    histograms = start.histograms | run.histograms(every, new)
    best, scaled, least, quick_least = start, {}, loss(start), quick_loss(start)
    for done, (name, by) in enumerate(factors.items()):
        run.progress("activations", done, len(factors))
        more = scaled | {name: by}
        changed = with_scaled_activations(graph, channels, channels.numbered(more))
        tried = replace(start, graph=changed, histograms=histograms)
        quick = quick_loss(tried)
        if quick < quick_least and (tried_loss := loss(tried)) < (1 - GAIN) * least:
            best, least, quick_least, scaled = tried, tried_loss, quick, more
    run.progress("activations", len(factors), len(factors))
    return best


def _divide(weight: np.ndarray, groups: int, factors: np.ndarray) -> None:
    """The weights that read channels, each by its channel's factor, in place."""
    by_group = weight.reshape(groups, -1, *weight.shape[1:])
    by_group /= factors.reshape(groups, 1, -1, 1, 1)


def factors_of(maxima: np.ndarray, largest: float, high: float = inf) -> np.ndarray:
    """The factor of every channel, so that it stays below a bound; 1 for a channel of zeros."""
    used = np.where(maxima > 0, maxima, 1)
    wanted = np.minimum(np.sqrt(largest / used), high / used)
    return np.where(maxima > 0, np.clip(wanted, 1, MOST), 1.0)
