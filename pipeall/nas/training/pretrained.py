"""A warm start: the weights that a trained classifier has in its first convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ...graph.ir import Graph, Node
from ..spaces.genome import Architecture, Convolution
from .training_loop import outputs_of_blocks
from .weighted_network import HEAD, NORM_EPSILON, LayerWeights, WeightedNetwork

SAMPLES = 256  # that batch normalization is set on


def with_pretrained(network: WeightedNetwork, classifier: Graph, x: np.ndarray) -> WeightedNetwork:
    """A network of "mobile" kind with the classifier's weights, in the order of both, as long as their convolutions are
    alike in shape, stride, groups and padding.

    A classifier has no batch normalization any more. Means and variances of the network's are those of the convolutions
    on ``x`` (pictures as the data set has them), its factors and biases undo them: what these blocks compute on ``x``
    is what the classifier computes, in training as well.
    """
    alike = dict(_alike(network, classifier))
    blocks = [block for block in network.architecture.blocks if block.index in alike]
    return _normed(_with(network, alike), blocks, alike, x[:SAMPLES]) if alike else network


def _alike(network: WeightedNetwork, classifier: Graph) -> Iterator[tuple[int, LayerWeights]]:
    """Index of a block with weights and biases, of the first blocks."""
    convolutions = [node for node in classifier.nodes if node.op == "conv"]
    for block, node in zip(network.architecture.blocks, convolutions, strict=False):
        weight = classifier.constants.get(node.inputs[1])
        same = weight is not None and weight.shape == network.weights[block.index][0].shape
        (before, after), strides = block.pads, (block.stride,) * 2
        if not same or _geometry(node) != (strides, (before, before, after, after), (1, 1)):
            return
        if node.attrs["groups"] != block.parts:
            return
        bias = classifier.constants[node.inputs[2]] if len(node.inputs) > 2 else np.zeros(block.neurons)
        yield block.index, (weight.astype(np.float32), np.asarray(bias, np.float32))


def _geometry(node: Node) -> tuple[object, ...]:
    return tuple(tuple(node.attrs[name]) for name in ("strides", "pads", "dilations"))


def _with(network: WeightedNetwork, alike: Mapping[int, LayerWeights]) -> WeightedNetwork:
    """With these weights, and a normalization that does nothing."""
    weights = dict(network.weights)
    for index, (weight, bias) in alike.items():
        ones = np.ones_like(bias)
        normed = len(weights[index]) > 2
        weights[index] = (weight, bias, ones, 0 * ones, (1 - NORM_EPSILON) * ones) if normed else (weight, bias)
    return replace(network, weights=weights)


def _normed(
    network: WeightedNetwork, blocks: list[Convolution], alike: Mapping[int, LayerWeights], x: np.ndarray
) -> WeightedNetwork:
    """With the mean and the variance of what the convolutions give: each has a twin beside it that shows this."""
    first = 1 + max(block.index for block in network.architecture.blocks)
    plain = {"normed": False, "activation": "none", "added": None, "factor": None}
    twins = [replace(block, index=first + place, **plain) for place, block in enumerate(blocks)]
    weights = {index: network.weights[index] for index in alike}
    weights |= {twin.index: alike[block.index] for twin, block in zip(twins, blocks, strict=True)}
    pairs = tuple(block for pair in zip(blocks, twins, strict=True) for block in pair)
    head = np.zeros((1, twins[-1].neurons), np.float32), np.zeros(1, np.float32)
    beside = replace(network, architecture=Architecture("mobile", pairs), weights=weights | {HEAD: head})
    outputs = outputs_of_blocks(beside, x, training=False)[1::2]
    changed = dict(network.weights)
    for block, output in zip(blocks, outputs, strict=True):
        if not block.normed:
            continue
        weight, bias = alike[block.index]
        plain_output = output.astype(np.float64) - bias.reshape(-1, 1, 1)
        mean, variance = plain_output.mean(axis=(0, 2, 3)), plain_output.var(axis=(0, 2, 3))
        layer = (weight, bias + mean, np.sqrt(variance + NORM_EPSILON), mean, variance)
        changed[block.index] = tuple(array.astype(np.float32) for array in layer)
    return replace(network, weights=changed)
