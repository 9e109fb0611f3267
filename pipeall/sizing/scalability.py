"""How many threads pay: the universal scalability law, fitted to throughputs measured over numbers of threads.

    X(n) = X(1) n / (1 + s (n - 1) + k n (n - 1))

s is the share of the work in which threads wait for each other (Amdahl's law where k is 0), k what each pair of threads
costs. Throughput is highest at n* = sqrt((1 - s) / k) threads. Source: Gunther, "Guerrilla Capacity Planning", 2007.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from ..errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Law:
    """A fitted law: ``rate`` is the throughput of one thread; ``serial`` is s, ``crosstalk`` k, neither below 0."""

    rate: float
    serial: float
    crosstalk: float

    def throughput(self, threads: float) -> float:
        return self.rate * threads / (1 + (threads - 1) * (self.serial + self.crosstalk * threads))

    @property
    def peak(self) -> float:
        """The number of threads with the highest throughput; infinite where more always help, if only a little."""
        if self.serial >= 1:
            return 1.0
        return max(1.0, sqrt((1 - self.serial) / self.crosstalk)) if self.crosstalk else inf

    def best(self, limit: int) -> int:
        """The number of threads, from 1 to ``limit``, with the highest throughput. ``limit``: cores of the process."""
        if limit < 1:
            raise ArgumentError(f"threads: expected a limit of at least 1, got {limit}")
        return max(range(1, limit + 1), key=self.throughput)


def fit(throughputs: Mapping[int, float]) -> Law:
    """The law nearest to throughputs by number of threads: three numbers or more, 1 among them.

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
    candidates = [np.linalg.lstsq(terms, lost, rcond=None)[0]]  # both free; then one at 0; then both
    for free in (0, 1):
        single = np.zeros(2)
        single[free] = terms[:, free] @ lost / (terms[:, free] @ terms[:, free])
        candidates.append(single)
    candidates = [pair for pair in (*candidates, np.zeros(2)) if (pair >= 0).all()]
    serial, crosstalk = min(candidates, key=lambda pair: float(((terms @ pair - lost) ** 2).sum()))
    return Law(float(throughputs[1]), float(serial), float(crosstalk))
