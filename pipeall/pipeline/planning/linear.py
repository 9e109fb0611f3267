"""Small linear programs, of some tens of variables, by the simplex method on a dense tableau."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ZERO = 1e-11  # of rows that are scaled to 1: what rounding leaves of zero


def maximize(
    c: Sequence[float], a: Sequence[Sequence[float]], b: Sequence[float]
) -> tuple[np.ndarray, np.ndarray] | None:
    """The x >= 0 with a x <= b for which c x is greatest. Deterministic; Bland's rule, which cannot cycle.

    Parameters
    ----------
    c, a, b
        (n,), (m, n) and (m,), finite, b >= 0.

    Returns
    -------
    tuple or None
        x, (n,), and the duals of the rows, (m,): how much more c x would be for one more of each b. None where c x has
        no limit.
    """
    rows = np.array(a, float).reshape(len(b), len(c))
    count, variables = rows.shape
    scale = np.abs(rows).max(axis=1, initial=0.0)
    scale[scale == 0.0] = 1.0
    tableau = np.zeros((count + 1, variables + count + 1))
    tableau[:count, :variables] = rows / scale[:, None]
    tableau[:count, variables:-1] = np.eye(count)
    tableau[:count, -1] = np.asarray(b) / scale
    tableau[-1, :variables] = np.negative(c)
    worst = max(1.0, float(np.abs(tableau[-1]).max()))
    basis = list(range(variables, variables + count))
    while (tableau[-1, :-1] < -ZERO * worst).any():
        column = int(np.argmax(tableau[-1, :-1] < -ZERO * worst))
        limiting = [row for row in range(count) if tableau[row, column] > ZERO]
        if not limiting:
            return None
        least = min(tableau[row, -1] / tableau[row, column] for row in limiting)
        ties = [row for row in limiting if tableau[row, -1] / tableau[row, column] <= least * (1 + ZERO)]
        pivot = min(ties, key=basis.__getitem__)
        basis[pivot] = column
        tableau[pivot] /= tableau[pivot, column]
        for row in range(count + 1):
            if row != pivot:
                tableau[row] -= tableau[row, column] * tableau[pivot]
        np.maximum(tableau[:count, -1], 0.0, out=tableau[:count, -1])
    x = np.zeros(variables + count)
    x[basis] = tableau[:count, -1]
    return x[:variables], np.maximum(tableau[-1, variables:-1], 0.0) / scale
