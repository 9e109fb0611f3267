"""From the values of a tensor to its quantization parameters: the methods of calibration.

A range [low, high] with 0 in it is divided by 256 integers; one of them stands for 0. Values outside are clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .histogram import HistogramObserver

Function = Callable[[np.ndarray], np.ndarray]  # element by element

STEPS = 255
MOST = 127  # of a weight: two products of 8 bits have to fit into 16
MAX_BIAS = 2**30  # in quanta of the sum: half of what 32 bits hold
SHARES = np.geomspace(1, 1 / 64, 73)  # of the whole range, that are tried
PERCENTILE = 99.99


@dataclass(frozen=True, slots=True)
class QuantParams:
    """The values of a quantized tensor: integers from ``low`` to ``low`` + 255 times ``scale``, a float32."""

    scale: float
    low: int

    @classmethod
    def of_range(cls, low: float, high: float) -> QuantParams:
        """For values from ``low`` to ``high``, as nearly as 0 can be one of them."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32((high - low) / STEPS)
        if scale < np.finfo(np.float32).tiny:
            return cls(1.0, -128)
        return cls(float(scale), int(np.clip(np.rint(low / scale), -STEPS, 0)))

    @property
    def largest(self) -> float:
        """The largest absolute value."""
        return self.scale * max(-self.low, self.low + STEPS)

    def wider(self, by: float) -> QuantParams:
        """For a range that is ``by`` times as large."""
        return self.of_range(by * self.scale * self.low, by * self.scale * (self.low + STEPS))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Quantized values, half to even."""
        return np.clip(np.rint(x / self.scale), self.low, self.low + STEPS) * self.scale

    def error(self, histogram: HistogramObserver, through: Function | None = None) -> float:
        """Mean square error of the quantized values, or of a function of them."""
        through = through or _same
        values = histogram.values
        return float(histogram.counts @ np.square(through(self(values)) - through(values))) / max(histogram.total, 1)


def _same(x: np.ndarray) -> np.ndarray:
    return x


# ---- methods ----


def minmax(histogram: HistogramObserver) -> QuantParams:
    """From the least to the greatest value."""
    return QuantParams.of_range(histogram.low, histogram.high)


def percentile(histogram: HistogramObserver, share: float = PERCENTILE) -> QuantParams:
    """Without the (100 - share) / 2 percent of all values at each end."""
    if not len(histogram.values):
        return minmax(histogram)
    cut = histogram.total * (100 - share) / 200
    below = np.cumsum(histogram.counts) + np.where(histogram.values >= 0, histogram.zeros, 0)
    above = histogram.total - below + histogram.counts
    low = histogram.values[np.searchsorted(below, cut, "right")] if below[-1] > cut else 0.0
    high = histogram.values[len(above) - 1 - np.searchsorted(above[::-1], cut, "right")] if above[0] > cut else 0.0
    ends = histogram.values[[0, -1]]  # a bin's middle is not its end
    return QuantParams.of_range(histogram.low if low == ends[0] else low, histogram.high if high == ends[1] else high)


def mse(histogram: HistogramObserver, through: Function | None = None) -> QuantParams:
    """The range of the least mean square error: both ends shrink together, then each alone."""

    def best(ranges: list[tuple[float, float]]) -> tuple[float, float]:
        return min(ranges, key=lambda ends: QuantParams.of_range(*ends).error(histogram, through))

    low, high = best([(histogram.low * share, histogram.high * share) for share in SHARES])
    low, high = best([(low, high * share) for share in SHARES[:37]])
    return QuantParams.of_range(*best([(low * share, high) for share in SHARES]))


def entropy(histogram: HistogramObserver) -> QuantParams:
    """The range of the least Kullback-Leibler divergence of the clipped values from the quantized ones."""
    tried = (QuantParams.of_range(histogram.low * share, histogram.high * share) for share in SHARES)
    return min(tried, key=lambda qparams: divergence(qparams, histogram))


def divergence(qparams: QuantParams, histogram: HistogramObserver) -> float:
    """Of the histogram with clipped values at its ends, from the one where the values of each integer are spread evenly
    over its bins."""
    values, counts = histogram.values, histogram.counts.astype(np.float64)
    if not len(values):
        return 0.0
    low, high = (qparams.low - 0.5) * qparams.scale, (qparams.low + STEPS + 0.5) * qparams.scale
    inside = (values >= low) & (values <= high)
    if not inside.any():
        return np.inf
    first, last = np.flatnonzero(inside)[[0, -1]]
    p = counts[first : last + 1].copy()
    p[0] += counts[:first].sum()
    p[-1] += counts[last + 1 :].sum()
    index = np.rint(values[first : last + 1] / qparams.scale).astype(int) - qparams.low
    index = np.clip(index, 0, STEPS)
    spread = np.bincount(index, counts[first : last + 1]) / np.maximum(np.bincount(index), 1)
    q = spread[index]
    p, q = p / p.sum(), q / q.sum()
    return float(p @ np.log(p / q))


def behind(method: str, histogram: HistogramObserver, through: Function) -> QuantParams:
    """By what a function makes of the values. mse: the least error behind it. Others: the method's range, less what the
    function flattens at either end, by no more than half of 256 levels of its result.
    """
    if method == "mse":
        return mse(histogram, through)
    qparams = METHODS[method](histogram)
    low, high = qparams.low * qparams.scale, (qparams.low + STEPS) * qparams.scale
    values = np.clip(histogram.values, low, high)
    if not len(values):
        return qparams
    results = through(values)
    half = (max(results.max(), 0.0) - min(results.min(), 0.0)) / STEPS / 2

    def flat(low: float, high: float) -> bool:
        return bool(np.abs(through(np.clip(values, low, high)) - results).max() <= half)

    low = min((low * share for share in SHARES if flat(low * share, high)), key=abs)
    high = min((high * share for share in SHARES if flat(low, high * share)), key=abs)
    return QuantParams.of_range(low, high)


METHODS: dict[str, Callable[[HistogramObserver], QuantParams]] = {
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
