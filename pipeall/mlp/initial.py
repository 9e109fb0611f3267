"""Initial weights that are a function of their place: (seed, layer, row, column) of the whole network.

They are thus the same on any number of ranks, and a rank makes only its own. The generator is counter-based: the place
is the counter, mixed by the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), which passes BigCrush on counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

CHUNK = 2**20  # weights made at a time
GAMMA, MIX1, MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(counter: np.ndarray) -> np.ndarray:
    """64 random bits for each uint64 counter."""
    z = (counter + np.uint64(1)) * GAMMA
    z = (z ^ (z >> np.uint64(30))) * MIX1
    z = (z ^ (z >> np.uint64(27))) * MIX2
    return z ^ (z >> np.uint64(31))


def uniform(seed: int, layer: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A float64 in [-1, 1) for every pair of ``rows`` and ``columns``, whose numbers are below 2**32."""
    stream = mixed(mixed(np.array([seed % 2**64], np.uint64)) + np.uint64(layer))
    counter = (rows.astype(np.uint64)[:, None] << np.uint64(32)) | columns.astype(np.uint64)[None, :]
    bits = mixed(counter ^ stream)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def fill(
    weight: np.ndarray, seed: int, layer: int, rows: tuple[int, int], columns: Sequence[tuple[int, int]], bound: float
) -> None:
    """Sets ``weight`` to the rows and column ranges of the whole matrix, uniform in [-bound, bound)."""
    numbers = np.concatenate([np.arange(begin, end) for begin, end in columns])
    step = max(1, CHUNK // max(1, len(numbers)))
    for row in range(*rows, step):
        some = np.arange(row, min(row + step, rows[1]))
        weight[some[0] - rows[0] : some[-1] + 1 - rows[0]] = bound * uniform(seed, layer, some, numbers)


def bound_for(activation: str, n_in: int, n_out: int) -> float:
    """The bound of the weights: He (2015) before a ReLU, else Glorot and Bengio (2010). Sizes are the whole layer's."""
    return sqrt(6 / n_in) if activation == "relu" else sqrt(6 / (n_in + n_out))
