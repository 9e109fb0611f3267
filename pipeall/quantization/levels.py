"""From the values that a tensor takes to its levels: the methods of calibration.

A range [low, high] with 0 in it becomes 256 levels, one of them 0: those below and above are clipped to the ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .observe import Observed

Function = Callable[[np.ndarray], np.ndarray]  # element by element

STEPS = 255
MOST = 127  # of a weight: two products of 8 bits have to fit into 16
MAX_BIAS = 2**30  # in quanta of the sum: half of what 32 bits hold
SHARES = np.geomspace(1, 1 / 64, 73)  # of the whole range, that are tried
PERCENTILE = 99.99


@dataclass(frozen=True, slots=True)
class Levels:
    """Of a tensor: integers from ``low`` to ``low`` + 255 times ``scale``, a float32."""

    scale: float
    low: int

    @classmethod
    def of_range(cls, low: float, high: float) -> Levels:
        """Those that reach from ``low`` to ``high``, as nearly as 0 can be one of them."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32((high - low) / STEPS)
        if scale < np.finfo(np.float32).tiny:
            return cls(1.0, -128)
        return cls(float(scale), int(np.clip(np.rint(low / scale), -STEPS, 0)))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values put on levels, half to even."""
        return np.clip(np.rint(x / self.scale), self.low, self.low + STEPS) * self.scale

    def error(self, seen: Observed, through: Function | None = None) -> float:
        """Mean square of what a value loses, or of what a function of it does."""
        through = through or _same
        values = seen.values
        return float(seen.counts @ np.square(through(self(values)) - through(values))) / max(seen.total, 1)


def _same(x: np.ndarray) -> np.ndarray:
    return x


# ---- methods ----


def minmax(seen: Observed) -> Levels:
    """All that was seen."""
    return Levels.of_range(seen.low, seen.high)


def percentile(seen: Observed, share: float = PERCENTILE) -> Levels:
    """But for the (100 - share) / 2 percent of all values at each end."""
    if not len(seen.values):
        return minmax(seen)
    cut = seen.total * (100 - share) / 200
    below = np.cumsum(seen.counts) + np.where(seen.values >= 0, seen.zeros, 0)
    above = seen.total - below + seen.counts
    low = seen.values[np.searchsorted(below, cut, "right")] if below[-1] > cut else 0.0
    high = seen.values[len(above) - 1 - np.searchsorted(above[::-1], cut, "right")] if above[0] > cut else 0.0
    ends = seen.values[[0, -1]]  # a bin's middle is not its end
    return Levels.of_range(seen.low if low == ends[0] else low, seen.high if high == ends[1] else high)


def mse(seen: Observed, through: Function | None = None) -> Levels:
    """The least mean square error, of the values or a function of them: both ends shrink together, then each alone."""

    def best(ranges: list[tuple[float, float]]) -> tuple[float, float]:
        return min(ranges, key=lambda ends: Levels.of_range(*ends).error(seen, through))

    low, high = best([(seen.low * share, seen.high * share) for share in SHARES])
    low, high = best([(low, high * share) for share in SHARES[:37]])
    return Levels.of_range(*best([(low * share, high) for share in SHARES]))


def entropy(seen: Observed) -> Levels:
    """The least divergence (Kullback-Leibler) of what was seen, clipped, from what the levels make of it."""
    return min((Levels.of_range(seen.low * s, seen.high * s) for s in SHARES), key=lambda lv: divergence(lv, seen))


def divergence(levels: Levels, seen: Observed) -> float:
    """Of the histogram whose clipped values are at the ends, from the one where each level's values are spread evenly
    over its bins. Of a level whose bins within the range are empty, nothing is spread."""
    values, counts = seen.values, seen.counts.astype(np.float64)
    if not len(values):
        return 0.0
    low, high = (levels.low - 0.5) * levels.scale, (levels.low + STEPS + 0.5) * levels.scale
    inside = (values >= low) & (values <= high)
    if not inside.any():
        return np.inf
    first, last = np.flatnonzero(inside)[[0, -1]]
    p = counts[first : last + 1].copy()
    p[0] += counts[:first].sum()
    p[-1] += counts[last + 1 :].sum()
    index = np.rint(values[first : last + 1] / levels.scale).astype(int) - levels.low
    index = np.clip(index, 0, STEPS)
    spread = np.bincount(index, counts[first : last + 1]) / np.maximum(np.bincount(index), 1)
    q = spread[index]
    p, q = p / p.sum(), q / q.sum()
    return float(p @ np.log(p / q))


METHODS: dict[str, Callable[[Observed], Levels]] = {
    "minmax": minmax,
    "percentile": percentile,
    "entropy": entropy,
    "mse": mse,
}


# ---- weights ----


def weight_scales(weight: np.ndarray, bias: np.ndarray, x_scale: float) -> np.ndarray:
    """One scale for each output, float32: the largest weight is 127 quanta, and the bias fits into 32 bits."""
    largest = np.abs(weight.reshape(len(weight), -1)).max(1).astype(np.float64)
    scales = np.maximum(largest / MOST, np.abs(bias.astype(np.float64)) / x_scale / MAX_BIAS)
    return np.where(scales > np.finfo(np.float32).tiny, scales, 1).astype(np.float32)


def on_scales(array: np.ndarray, scales: np.ndarray, most: int) -> np.ndarray:
    """float32 multiples of one scale for each index of axis 0, of ``most`` quanta at most."""
    scales = scales.reshape(-1, *(1,) * (array.ndim - 1))
    return np.clip(np.rint(array / scales.astype(np.float64)), -most, most).astype(np.float32) * scales
