"""Steps that lower the error of a configuration: channels scaled behind activations, a method for each tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .calibration_run import CalibrationRun
from .config import QuantConfig
from .equalize import Channels, factors_of, with_scaled_activations
from .qparams import METHODS, QuantParams
from .quantizable import never_clipped

SPREAD = 1.5  # geometric mean of the factors of an activation that is tried
GAIN = 0.02  # least share of the error that one takes away
ALIKE = 0.02  # scales that differ by less, of the larger, are not tried

Error = Callable[[QuantConfig], float]


def scale_activations(start: QuantConfig, error: Error, run: CalibrationRun) -> QuantConfig:
    """The configuration with channels scaled behind some activations, in the order of the network; else ``start``.

    Channels that differ by orders of magnitude share 256 integers, so that small ones have a few. Equalization mends
    that where a factor passes from one convolution to the next. It does not pass through swish and the like: there the
    channels are multiplied behind the activation, which costs floats between two layers.
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
    best, scaled, least = start, {}, error(start)
    for done, (name, by) in enumerate(factors.items()):
        run.progress("activations", done, len(factors))
        tried = replace(start, graph=with_scaled_activations(graph, scaled | {name: by}), histograms=histograms)
        if (tried_error := error(tried)) < (1 - GAIN) * least:
            best, least, scaled = tried, tried_error, scaled | {name: by}
    run.progress("activations", len(factors), len(factors))
    return best


def choose_methods(start: QuantConfig, error: Error, quick_error: Error, run: CalibrationRun) -> QuantConfig:
    """The configuration with other methods for some tensors, in the order of the network, where one lowers the error.

    ``quick_error`` is the error on a few samples: a method that raises it is not tried on more.
    """
    of = start.resolve().quantizable
    whole = never_clipped(start.graph, of)
    free = [(root, names) for root, names in of.sources.items() if root not in whole]
    best, least, quick_least = start, error(start), quick_error(start)
    for done, (root, names) in enumerate(free):
        run.progress("tensors", done, len(free))
        tried = [best.resolve().qparams[root]]
        for method in METHODS:
            choice = replace(best, own_methods={**best.own_methods, names: method})
            qparams = choice.resolve().qparams[root]
            if any(_alike(qparams, other) for other in tried):
                continue
            tried.append(qparams)
            quick = quick_error(choice)
            if quick < quick_least and (choice_error := error(choice)) < least:
                best, least, quick_least = choice, choice_error, quick
    run.progress("tensors", len(free), len(free))
    return best


def _alike(one: QuantParams, other: QuantParams) -> bool:
    return one.low == other.low and abs(one.scale - other.scale) < ALIKE * max(one.scale, other.scale)
