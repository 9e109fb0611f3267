"""Pareto ranking as in NSGA-II (Deb et al. 2002): non-dominated fronts, then the crowding distance within a front."""

from __future__ import annotations

from math import inf

import numpy as np

from ..training.score import Score


def objectives(scores: list[Score]) -> np.ndarray:
    """(candidates, 3): error, seconds a frame and bytes on the board; inf where a network was refused."""
    rows = []
    for score in scores:
        refused = score.fitness == inf
        period = 1 / score.fps if score.fps else inf
        rows.append((inf, inf, inf) if refused else (score.error, period, score.memory_bytes or 0))
    return np.array(rows, float)


def dominates(values: np.ndarray) -> np.ndarray:
    """(n, n): entry [i, j] says whether i is nowhere above j and below it somewhere."""
    below = values[:, None] < values[None]
    above = values[:, None] > values[None]
    return below.any(2) & ~above.any(2)


def fronts(values: np.ndarray) -> np.ndarray:
    """The front of each row: 0 for rows that nothing dominates, 1 for those that only front 0 dominates, and so on."""
    above = dominates(values)
    rank = np.full(len(values), -1)
    for number in range(len(values)):
        left = rank < 0
        if not left.any():
            break
        rank[left & ~above[left].any(0)] = number
    return rank


def crowding(values: np.ndarray) -> np.ndarray:
    """The crowding distance of each row: how far its neighbours are apart, in shares of the range, summed over columns.

    inf at the ends of a column.
    """
    distance = np.zeros(len(values))
    for column in values.T:
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        distance[order[[0, -1]]] = inf
        if ordered[0] < ordered[-1] < inf:
            distance[order[1:-1]] += (ordered[2:] - ordered[:-2]) / (ordered[-1] - ordered[0])
    return distance


def order(values: np.ndarray) -> np.ndarray:
    """Indices of rows, best first: by front, then the less crowded."""
    rank = fronts(values)
    crowd = np.zeros(len(values))
    for number in range(rank.max() + 1):
        crowd[rank == number] = crowding(values[rank == number])
    return np.lexsort((-crowd, rank))
