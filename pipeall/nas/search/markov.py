"""Markov chain of one locus in a population of a given size (Goldberg and Segrest 1987; paper 003, eq. 4 to 6).

State i: i members carry a one. With fitness f1 of ones and f0 of zeros, a member of the next generation carries a one
with probability p1 = i f1 / (i f1 + (size - i) f0), then flipped with the mutation rate; the next state is binomial.
In eq. 6 the paper prints p0^(1-j), with which rows do not sum to 1; a binomial has p0^(l-j). The paper's matrix of
l = 31 is that of a population of 31.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from ...errors import ArgumentError

MAX_SIZE = 1000  # binomial coefficients stay finite in double precision
PAPER_SIZE = 31


def survival(ones: np.ndarray, size: int, ratio: float = 1.0, mutation: float = 0.0) -> np.ndarray:
    """The probability that a member of the next generation carries a one (eq. 4), with f1 / f0 = ``ratio``."""
    ones = np.asarray(ones, float)
    p1 = ones * ratio / (ones * ratio + (size - ones))
    return p1 * (1 - mutation) + (1 - p1) * mutation


def matrix(size: int = PAPER_SIZE, ratio: float = 1.0, mutation: float = 0.0) -> np.ndarray:
    """(size + 1, size + 1): probability of state j after state i (eq. 6). Raises ArgumentError for bad numbers."""
    if not 1 <= size <= MAX_SIZE or not 0 < ratio < np.inf or not 0 <= mutation <= 1:
        raise ArgumentError(
            f"chain: expected a size of 1 to {MAX_SIZE}, a ratio above 0 and a mutation rate of 0 to 1, "
            f"got {size}, {ratio} and {mutation}"
        )
    states = np.arange(size + 1)
    p1 = survival(states, size, ratio, mutation)[:, None]
    return _coefficients(size) * p1**states * (1 - p1) ** (size - states)


def fixation(chain: np.ndarray) -> np.ndarray:
    """Probability from each state that the locus ends with all ones; of a chain without mutation."""
    inner = chain[1:-1, 1:-1]
    return np.r_[0.0, np.linalg.solve(np.eye(len(inner)) - inner, chain[1:-1, -1]), 1.0]


class FixationTime(NamedTuple):
    """Generations until every locus is fixed: the expected number, and the one that suffices ``level`` of searches."""

    expected: float
    by: int


def predict_generations(
    loci: int,
    start: int | Sequence[int] | None = None,
    level: float = 0.95,
    size: int = 10,
    ratio: float | Sequence[float] = 1.0,
) -> FixationTime:
    """How long selection and drift take to fix all of some independent loci. The linked loci of a genome are faster.

    start  ones of each locus, or of all; None: of random bits
    ratio  f1 / f0 of each locus, or of all
    Raises ArgumentError.
    """
    if loci < 1 or not 0 < level < 1:
        raise ArgumentError(f"prediction: expected loci and a level between 0 and 1, got {loci} and {level}")
    first = np.zeros((loci, size + 1))
    if start is None:
        first[:] = _coefficients(size) / 2.0**size
    else:
        ones = np.broadcast_to(np.asarray(start, int), loci)
        if ones.min() < 0 or ones.max() > size:
            raise ArgumentError(f"prediction: expected 0 to {size} ones, got {ones.min()} to {ones.max()}")
        first[np.arange(loci), ones] = 1
    ratios = np.broadcast_to(np.asarray(ratio, float), loci)
    chains = np.stack([matrix(size, value) for value in ratios])
    expected, by, generation, states = 0.0, None, 0, first
    while True:
        fixed = float(np.prod(np.minimum(states[:, 0] + states[:, -1], 1)))
        if by is None and fixed >= level:
            by = generation
        if by is not None and 1 - fixed < 1e-9:
            return FixationTime(expected, by)
        expected += 1 - fixed
        generation += 1
        states = (states[:, None] @ chains)[:, 0]


def _coefficients(size: int) -> np.ndarray:
    return np.array([float(comb(size, j)) for j in range(size + 1)])
