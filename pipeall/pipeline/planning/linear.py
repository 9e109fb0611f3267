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
    left = np.array(a, float).reshape(len(b), len(c))
    count, variables = left.shape
    scale = np.abs(left).max(axis=1, initial=0.0)
    scale[scale == 0.0] = 1.0
    tableau = np.zeros((count + 1, variables + count + 1))
    tableau[:count, :variables] = left / scale[:, None]
    tableau[:count, variables:-1] = np.eye(count)
    tableau[:count, -1] = np.asarray(b) / scale
    tableau[-1, :variables] = np.negative(c)
    worst = max(1.0, float(np.abs(tableau[-1]).max()))
    basis = list(range(variables, variables + count))
    while (gaining := tableau[-1, :-1] < -ZERO * worst).any():
        column = int(gaining.argmax())
        rows = enumerate(tableau[:-1, [column, -1]].tolist())
        ratios = [(limit / amount, row) for row, (amount, limit) in rows if amount > ZERO]
        if not ratios:
            return None
        least = min(ratios)[0] * (1 + ZERO)
        pivot = min((row for ratio, row in ratios if ratio <= least), key=basis.__getitem__)
        basis[pivot] = column
        tableau[pivot] /= tableau[pivot, column]
        factors = tableau[:, column].copy()
        factors[pivot] = 0.0
        tableau -= factors[:, None] * tableau[pivot]
        np.maximum(tableau[:-1, -1], 0.0, out=tableau[:-1, -1])
    x = np.zeros(variables + count)
    x[basis] = tableau[:count, -1]
    return x[:variables], np.maximum(tableau[-1, variables:-1], 0.0) / scale
