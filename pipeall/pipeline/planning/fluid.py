"""What units can do for several networks at once, as if frames could be divided at will.

Each network has a weight, a rate. One that is *fixed* does as much, no more and no less. The others do a multiple of
theirs, all the same one: the *level*, which is to be large. A frame takes a path through the units (``bound.py``), and
no unit may have more work than time. With the paths that are known this is a small linear program; its duals are what a
ms of each unit is worth, and every network adds the path that is worth least at these prices, until none is worth less
than those that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Any

import numpy as np

from .bound import EXACT, LEAST_MS, ROUNDS, Cheapest
from .linear import maximize

MUST = 1e4  # what a fixed rate is worth, where a level of 1 is worth 1: no level is worth giving some of it up


@dataclass(frozen=True, slots=True)
class Fluid:
    """How much some paths do.

    level   infinity where nothing takes time; below zero where there is no time for the fixed rates: what they lack, in
            all
    prices  what a ms of each unit is worth
    shares  of each network: what each of its paths does, as a share of its weight
    """

    level: float
    prices: np.ndarray
    shares: list[np.ndarray]


def level_of(loads: Sequence[np.ndarray], fixed: Sequence[bool], short: float = EXACT) -> Fluid:
    """The highest level. The fixed rates may lack so much in all, as shares of them.

    loads: (paths, units) of each network: the share of each unit's time that a path takes at the network's weight.
    """
    columns = np.vstack(loads)
    owner = list(chain.from_iterable([number] * len(rows) for number, rows in enumerate(loads)))
    count, units = len(owner), columns.shape[1]
    a = np.zeros((units + len(loads), 1 + count))
    a[:units, 1:] = columns.T
    for column, number in enumerate(owner, 1):
        a[units + number, column] = 1.0 if fixed[number] else -1.0
    a[units:, 0] = [0.0 if one else 1.0 for one in fixed]
    worth = [1.0, *(MUST if fixed[number] else 0.0 for number in owner)]
    limits = [1.0] * units + [1.0 if one else 0.0 for one in fixed]
    solved = maximize(worth, a, limits)
    if solved is None:
        return Fluid(inf, np.zeros(units), [np.ones(len(rows)) / len(rows) for rows in loads])
    x, duals = solved
    ends = np.cumsum([len(rows) for rows in loads])[:-1]
    shares = np.split(x[1:], ends)
    lacking = sum(max(0.0, 1.0 - share.sum()) for share, one in zip(shares, fixed, strict=True) if one)
    return Fluid(float(x[0]) if lacking <= short else -lacking, duals[:units], shares)


def least_worth(worths: Sequence[float], fixed: Sequence[bool], prices: np.ndarray) -> float:
    """What no level is above, where a frame of each network is worth so much at its weight: at any prices.

    Minus infinity where the fixed rates are more than there is time for.
    """
    given = sum(worth for worth, one in zip(worths, fixed, strict=True) if one)
    free = sum(worth for worth, one in zip(worths, fixed, strict=True) if not one)
    left = float(prices.sum()) - given
    if left < -EXACT * float(prices.sum()):
        return -inf
    return max(left, 0.0) / max(free, LEAST_MS)


@dataclass(frozen=True, slots=True)
class FluidBound:
    """The highest level of any paths, the prices that prove it, and the paths that were looked at, of each network.

    Minus infinity: the fixed rates are more than any paths can do, or some network has no path.
    """

    level: float
    prices: np.ndarray
    paths: tuple[tuple[Any, ...], ...]


def fluid_bound(finders: Sequence[Cheapest], weights: Sequence[float], fixed: Sequence[bool], units: int) -> FluidBound:
    """The highest level of any paths.

    finders: of each network, as for ``mixture``. weights: frames per ms.
    """
    loads: list[list[np.ndarray]] = [[] for _ in finders]
    paths: list[list[object]] = [[] for _ in finders]
    prices, best, bound = np.ones(units), np.ones(units), inf
    found = Fluid(-inf, prices, [])
    for _ in range(ROUNDS):
        asked = [cheapest(prices) for cheapest in finders]
        if any(worth == inf for worth, *_ in asked):
            return FluidBound(-inf, best, tuple(map(tuple, paths)))
        worths = [weight * worth for weight, (worth, *_) in zip(weights, asked, strict=True)]
        if (least := least_worth(worths, fixed, prices)) < bound:
            bound, best = least, prices
        new = False
        for number, (_, load, path) in enumerate(asked):
            if path not in paths[number]:
                loads[number].append(weights[number] * load)
                paths[number].append(path)
                new = True
        if not new or found.level >= bound * (1 - EXACT) or bound == -inf:
            break
        found = level_of([np.array(rows) for rows in loads], fixed)
        if found.level == inf:
            break
        prices = found.prices
    return FluidBound(bound, best, tuple(map(tuple, paths)))
