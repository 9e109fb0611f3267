"""What a network may be worth before it is trained: zero-cost proxies, of one batch and one pass through the network.

They rank networks; of each, more is better. How well they do is measured by ``bench/nas_early.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf, log

import numpy as np

from ..datasets import Samples
from .training_loop import gradients, outputs_of_blocks
from .weighted_network import WeightedNetwork

SAMPLES = 64  # of the batch


def gradient_norm(network: WeightedNetwork, samples: Samples) -> float:
    """The logarithm of the length of the loss's gradient (Abdelfattah et al. 2021)."""
    return _log(sum(float((array.astype(np.float64) ** 2).sum()) for array in gradients(network, *samples).values()))


def synaptic_flow(network: WeightedNetwork, samples: Samples) -> float:
    """The logarithm of sum |w dR/dw| over all weights, R being the sum of the outputs for an input of ones with every
    number of the network made positive (SynFlow: Tanaka et al. 2020). It reads no sample."""
    positive = {index: tuple(np.abs(array) for array in layer) for index, layer in network.weights.items()}
    slopes = gradients(replace(network, weights=positive), np.ones_like(samples.x[:1]))
    return _log(sum(float(np.vdot(gradient, positive[index][0])) for index, gradient in slopes.items()))


def relu_patterns(network: WeightedNetwork, samples: Samples) -> float:
    """log |det K|, K[i, j] being the number of neurons that are on for both samples i and j or off for both (NASWOT:
    Mellor et al. 2021): networks that tell samples apart by what is on learn well. -inf where two look alike."""
    kernel = np.zeros((len(samples), len(samples)))
    for output in outputs_of_blocks(network, samples.x):
        on = (output.reshape(len(samples), -1) > 0).astype(np.float64)
        kernel += on @ on.T + (1 - on) @ (1 - on).T
    sign, logarithm = np.linalg.slogdet(kernel)
    return float(logarithm) if sign > 0 else -inf


PROXIES: Mapping[str, Callable[[WeightedNetwork, Samples], float]] = {
    "gradient": gradient_norm,
    "synflow": synaptic_flow,
    "patterns": relu_patterns,
}


def proxy(name: str, network: WeightedNetwork, fit: Samples) -> float:
    """A proxy by its name in ``PROXIES``, on the first samples to train on; -inf where it is no number."""
    value = PROXIES[name](network, Samples(fit.x[:SAMPLES], fit.y[:SAMPLES]))
    return value if np.isfinite(value) else -inf


def _log(value: float) -> float:
    return log(value) if value > 0 else -inf
