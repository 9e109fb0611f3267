"""Which plan comes first: the simplest of those that are not surely behind the best. One rule for all that is ranked.

What is predicted is exact by its model: only equals tie. A simulation and a run have a spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .plan import Plan

MOST_GIVEN_UP = 0.03  # of the throughput or latency that is predicted, for a simpler plan


@dataclass(frozen=True, slots=True)
class Contender:
    """What is known of a plan by an objective, where less is better.

    value       what it did
    spread      of the value, as a share of it
    predicted   what was predicted
    latency_ms  until a frame is done
    """

    plan: Plan
    value: float
    spread: float
    predicted: float
    latency_ms: float


def simplest(contenders: Sequence[Contender]) -> tuple[Contender, Contender]:
    """The one that comes first, and the best.

    The first has the fewest stages, and of those the least latency, of all that are not behind the best by more than
    both spread, nor by more than MOST_GIVEN_UP as predicted.
    """
    best = min(contenders, key=lambda one: one.value)
    most = best.value * (1 + best.spread)
    ties = [
        one
        for one in contenders
        if one.value * (1 - one.spread) <= most and behind(one.predicted, best.predicted) <= MOST_GIVEN_UP
    ]
    return min(ties, key=lambda one: (len(one.plan.units), one.latency_ms)), best


def behind(value: float, best: float) -> float:
    """By what share a value, of which less is better, is worse than another; negative where it is better."""
    return 1 - best / value if value else 0.0
