"""Vector-wise pruning: whole neurons of least norm go, with all that becomes useless; a smaller network is built.

The pruned network is thus dense again and has no mask to compute with: it is faster by as much as it is smaller. A test
shows that it computes what the masked one would.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...errors import ArgumentError
from ..spaces.genome import Architecture
from ..spaces.genome import prune as clean_up
from .weighted_network import HEAD, WeightedNetwork


def prune_vectors(network: WeightedNetwork, fraction: float, together: int = 1) -> WeightedNetwork:
    """The network without its neurons of least L2 norm, so many that ``fraction`` of the weights is gone.

    together  so many neurons of a layer go at once, in the order of their mean norm: kernels compute channels in
              multiples of 4 or 8, and one more or less gains nothing

    A layer that loses all neurons goes, and so does what only it reads and what reads only it. Raises ArgumentError
    unless 0 <= fraction < 1.
    """
    if not 0 <= fraction < 1:
        raise ArgumentError(f"fraction: expected 0 to below 1, got {fraction}")
    vectors = []
    for block in network.architecture.blocks:
        weight = network.weights[block.index][0]
        norms = np.linalg.norm(weight.reshape(len(weight), -1).astype(np.float64), axis=1)
        order = np.argsort(norms, kind="stable")
        for start in range(0, len(order), together):
            neurons = order[start : start + together]
            vectors.append((float(norms[neurons].mean()), block.index, neurons))
    vectors.sort(key=lambda vector: vector[:2])
    most = (1 - fraction) * network.parameters
    count = bisect_left(range(len(vectors)), True, key=lambda n: _without(network, vectors[:n]).parameters <= most)
    return _without(network, vectors[:count])


def _without(network: WeightedNetwork, vectors: Sequence[tuple[float, int, np.ndarray]]) -> WeightedNetwork:
    """The network built without these neurons; (norm, index of the block, neurons) each."""
    old = network.architecture
    stays = {block.index: np.ones(block.neurons, bool) for block in old.blocks}  # per neuron
    for _, index, neurons in vectors:
        stays[index][neurons] = False
    blocks = clean_up(replace(block, neurons=int(stays[block.index].sum())) for block in old.blocks)
    before = {block.index: block for block in old.blocks}
    weights = {}
    for block in blocks:
        weight, bias = network.weights[block.index]
        old_columns = network.columns_of(before[block.index])
        columns = []
        for index in block.inputs:
            of_input = np.arange(old_columns[index].start, old_columns[index].stop)
            columns.append(of_input[stays.get(index, slice(None))])
        neurons = stays[block.index]
        weights[block.index] = (weight[neurons][:, np.concatenate(columns)], bias[neurons])
    weight, bias = network.weights[HEAD]
    weights[HEAD] = (weight[:, stays[blocks[-1].index]] if blocks else weight[:, :0], bias)
    return replace(network, architecture=Architecture(old.kind, blocks), weights=weights)
