"""Channels stretched behind activations, where that lowers the error of the answers.

Channels that differ by orders of magnitude share 256 levels, of which the small ones have a few. Equalisation mends it
where a factor passes from one convolution to the next; through swish and its like it does not. There the channels are
multiplied behind the activation, which costs real numbers between two layers: so it is done for as few as pay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .calibrate import Progress, reaches
from .equalise import Channels, factors_of, stretched_behind
from .notes import Notes
from .photos import Arrays
from .recipe import Recipe, values

SPREAD = 1.5  # geometric mean of the factors of an activation that is tried
GAIN = 0.02  # least share of the error that one takes away


def behind_activations(
    start: Recipe, frames: Sequence[Arrays], error: Callable[[Recipe], float], progress: Progress, notes: Notes
) -> Recipe:
    """The recipe with channels stretched behind some activations, in the order of the network; else ``start``.

    frames  all photos
    error   of the answers by a recipe
    """
    graph = start.graph
    sizes = {node.output: graph.tensors[node.output].shape[1] for node, _ in Channels(graph).activations()}
    if not sizes:
        return start
    reach = notes.vectors("activations", sizes, lambda: reaches(graph, list(sizes), frames, progress))
    factors = {name: factors_of(sizes) for name, sizes in reach.items()}
    factors = {name: by for name, by in factors.items() if np.log(by).mean() >= np.log(SPREAD)}
    if not factors:
        return start
    whole = stretched_behind(graph, factors)
    new = [name for name in whole.tensors if name not in graph.tensors]
    seen = start.seen | values(whole, new, frames, "values, stretched", progress, notes)
    best, taken = start, {}
    least = notes.number("error, not stretched", lambda: error(start))
    for done, (name, by) in enumerate(factors.items()):
        progress("activations", done, len(factors))
        tried = replace(start, graph=stretched_behind(graph, taken | {name: by}), seen=seen)
        off = notes.number(f"error with {name} stretched", lambda tried=tried: error(tried))
        if off < (1 - GAIN) * least:
            best, least, taken = tried, off, taken | {name: by}
    progress("activations", len(factors), len(factors))
    return best
