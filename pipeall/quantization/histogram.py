"""The values of a tensor as a histogram whose bins widen as larger values come."""

from __future__ import annotations

from copy import deepcopy
from math import frexp

import numpy as np

from ..errors import ArgumentError

BINS = 2**14  # half of them for values below 0
COUNTED = 2**16  # of a sample's values at least, where there are more


class HistogramObserver:
    """The values of a tensor over many samples. Zeros are counted apart, because every scale has a 0.

    Of a large tensor every so many values stand for all.

    low, high  least and greatest of all values; 0 is among them
    peaks      the largest absolute value of each sample
    """

    def __init__(self, name: str):
        self.name = name
        self.low = self.high = 0.0
        self.zeros = 0
        self.peaks: list[float] = []
        self._step = 0.0  # width of a bin, a power of 2
        self._counts = np.zeros(BINS, np.int64)

    @staticmethod
    def size(samples: int) -> int:
        """Of ``vector`` after so many samples."""
        return 4 + BINS + samples

    @property
    def vector(self) -> np.ndarray:
        """The whole state in float64, without a loss."""
        return np.concatenate([[self.low, self.high, self.zeros, self._step], self._counts, self.peaks])

    @classmethod
    def of(cls, name: str, vector: np.ndarray) -> HistogramObserver:
        """The reverse of ``vector``. Raises ArgumentError for numbers that no values give."""
        low, high, zeros, step = vector[:4].tolist()
        counts, peaks = vector[4 : 4 + BINS], vector[4 + BINS :]
        whole = np.append(counts, zeros)
        reach = max(-low, high)
        fits = 0 <= -low <= reach <= float(np.finfo(np.float32).max) and step == (_bin_width(reach) if reach else 0)
        if not (fits and high >= 0 and (whole >= 0).all() and (whole == np.rint(whole)).all() and whole.sum() <= 2**53):
            raise ArgumentError(f"tensor {name!r}: expected a histogram from {low} to {high}, got other numbers")
        observer = cls(name)
        observer.low, observer.high, observer.zeros, observer._step = low, high, int(zeros), step
        observer._counts, observer.peaks = counts.astype(np.int64), peaks.tolist()
        return observer

    def add(self, x: np.ndarray) -> None:
        """Counts the values of a sample. Raises ArgumentError where one is not finite."""
        low, high = float(x.min()), float(x.max())
        if not np.isfinite(low + high):
            raise ArgumentError(f"tensor {self.name!r}: expected finite values to calibrate with, got {low} to {high}")
        self.low, self.high = min(self.low, low), max(self.high, high)
        reach = max(-low, high)
        self.peaks.append(reach)
        if reach > 0:
            self._widen(_bin_width(reach))
            every = max(x.size // COUNTED - 1, 0) | 1  # odd: of all columns of the usual sizes
            x = x.reshape(-1)[::every]
            bins = (x * (1 / self._step) + BINS // 2).astype(np.int32)  # floors, for all are positive
            zeros = every * int(np.count_nonzero(x == 0))
            self._counts += every * np.bincount(bins, minlength=BINS)[:BINS]
            self._counts[BINS // 2] -= zeros
            self.zeros += zeros
        else:
            self.zeros += x.size

    def _widen(self, step: float) -> None:
        if not self._step:
            self._step = step
        while self._step < step:
            half = self._counts.reshape(-1, 2).sum(1)
            self._counts = np.zeros(BINS, np.int64)
            self._counts[BINS // 4 : BINS // 4 + BINS // 2] = half
            self._step *= 2

    def merge(self, other: HistogramObserver) -> None:
        """Adds the values of another observer."""
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.zeros += other.zeros
        if other._step:
            self._widen(other._step)
            wider = deepcopy(other)
            wider._widen(self._step)
            self._counts += wider._counts

    @property
    def values(self) -> np.ndarray:
        """The middles of the bins that have values, ascending, within ``low`` and ``high``; float64."""
        middles = (np.arange(BINS) - BINS // 2 + 0.5) * self._step
        return np.clip(middles[self._counts > 0], self.low, self.high)

    @property
    def counts(self) -> np.ndarray:
        """How many values these bins have."""
        return self._counts[self._counts > 0]

    @property
    def total(self) -> int:
        return int(self._counts.sum()) + self.zeros


def _bin_width(reach: float) -> float:
    """The width of bins for absolute values up to this one: a power of 2."""
    return 2.0 ** frexp(reach)[1] / (BINS // 2)
