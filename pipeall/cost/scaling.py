"""How many threads pay: the universal scalability law, fitted to throughputs measured over numbers of threads.

    X(n) = X(1) n / (1 + s (n - 1) + k n (n - 1))

s is the share of work that waits for one another (Amdahl's law where k is 0), k what each pair of threads costs. The
most throughput is reached at n* = sqrt((1 - s) / k) threads. Source: Gunther, "Guerrilla Capacity Planning", 2007.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from ..errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Law:
    """``rate`` is the throughput of one thread; ``serial`` and ``crosstalk`` are s and k, neither below 0."""

    rate: float
    serial: float
    crosstalk: float

    def throughput(self, threads: float) -> float:
        return self.rate * threads / (1 + (threads - 1) * (self.serial + self.crosstalk * threads))

    @property
    def peak(self) -> float:
        """Threads of most throughput; infinite where more always help, if only a little."""
        if self.serial >= 1:
            return 1.0
        return max(1.0, sqrt((1 - self.serial) / self.crosstalk)) if self.crosstalk else inf

    def best(self, limit: int) -> int:
        """The number of threads of most throughput among 1 to ``limit``: the cores a process may use."""
        if limit < 1:
            raise ArgumentError(f"threads: expected a limit of at least 1, got {limit}")
        return max(range(1, limit + 1), key=self.throughput)


def fit(throughputs: Mapping[int, float]) -> Law:
    """The law nearest to throughputs by number of threads, 1 among them and three or more of them.

    Least squares of X(1) n / X(n) - 1 = s (n - 1) + k n (n - 1), with s and k not below 0. Raises ArgumentError for
    fewer numbers and for throughputs that are not positive.
    """
    if 1 not in throughputs or len(throughputs) < 3 or min(throughputs) < 1:
        raise ArgumentError(
            f"threads: expected throughputs of 1 and at least two other numbers, got {list(throughputs)}"
        )
    if not all(0 < value < inf for value in throughputs.values()):
        raise ArgumentError(f"throughputs: expected positive numbers, got {list(throughputs.values())}")
    threads = np.array(sorted(n for n in throughputs if n > 1), float)
    lost = throughputs[1] * threads / np.array([throughputs[int(n)] for n in threads]) - 1
    terms = np.stack([threads - 1, threads * (threads - 1)], 1)
    candidates = [np.linalg.lstsq(terms, lost, rcond=None)[0]]  # free, or one of the two at its bound, or both
    for kept in (0, 1):
        single = np.zeros(2)
        single[kept] = terms[:, kept] @ lost / (terms[:, kept] @ terms[:, kept])
        candidates.append(single)
    candidates = [found for found in (*candidates, np.zeros(2)) if (found >= 0).all()]
    serial, crosstalk = min(candidates, key=lambda found: float(((terms @ found - lost) ** 2).sum()))
    return Law(float(throughputs[1]), float(serial), float(crosstalk))
