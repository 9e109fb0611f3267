"""The best ways to divide units among lanes. Equal units are counted, not told apart.

A lane of some units has a rate, whatever the other lanes are, so the best division into one lane more is a lane and the
best division of the other units: dynamic programming over how many of each unit are divided. Where a rate is only known
not to be more than some figure, the best division by these figures is a bound. Once all its lanes have true rates it is
the best of all, though most of the other lanes were never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

import numpy as np

Part = tuple[int, ...]  # the units of a lane: how many of each
Division = tuple[float, tuple[Part, ...]]  # the sum of the rates, and the lanes


def best_divisions(rates: np.ndarray, lanes: int) -> list[Division]:
    """For 1, 2, .. ``lanes`` lanes the division of all units with the greatest rate; where none is possible, no lanes.

    rates: (count + 1 of each unit): of a lane of so many of each; minus infinity: there is none.
    """
    parts = [part for part in np.ndindex(rates.shape) if any(part) and rates[part] > -inf][::-1]
    none, every = (0,) * rates.ndim, tuple(size - 1 for size in rates.shape)
    totals = [np.full(rates.shape, -inf)]
    totals[0][none] = 0.0
    for _ in range(lanes):
        total = np.full(rates.shape, -inf)
        for part in parts:
            with_it = tuple(slice(count, None) for count in part)
            without = tuple(slice(0, size - count) for size, count in zip(rates.shape, part, strict=True))
            np.maximum(total[with_it], totals[-1][without] + rates[part], out=total[with_it])
        totals.append(total)
    return [
        (float(totals[count][every]), tuple(_traced(rates, totals[: count + 1], parts)))
        for count in range(1, lanes + 1)
    ]


def _traced(rates: np.ndarray, totals: list[np.ndarray], parts: list[Part]) -> Iterator[Part]:
    """The lanes of the best division of all units, those of most units of the first kind first."""
    left = tuple(size - 1 for size in rates.shape)
    for total, before in zip(totals[:0:-1], totals[-2::-1], strict=True):
        if total[left] == -inf:
            return
        for part in parts:
            rest = tuple(np.subtract(left, part).tolist())
            if min(rest) >= 0 and before[rest] + rates[part] == total[left]:
                yield part
                left = rest
                break


def refined(
    rates: np.ndarray, lanes: int, refine: Callable[[Part, float], float], enough: Callable[[], float]
) -> list[Division]:
    """The best divisions by number of lanes that have at least the rate ``enough``, with lanes of true rates.

    rates: no lane has a greater one; they are changed. refine: the true rate of a lane, or any that is not more than
    what is given: with less no division with this lane has enough.
    """
    true: set[Part] = set()
    while True:
        best = [division for division in best_divisions(rates, lanes) if division[0] >= enough()]
        unknown = {part for _, parts in best for part in parts} - true
        if not unknown:
            return best
        spare = max(rate for rate, _ in best) - enough()  # what lanes may have less, all together
        for part in sorted(unknown):
            rates[part] = refine(part, rates[part] - spare)
        true |= unknown
