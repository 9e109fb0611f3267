"""Plans by the memory that they take, where somebody says what that is: devices know, planning does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from math import inf

from ...arguments import number
from ...errors import ArgumentError
from .plan import Plan
from .plan_table import PredictedPlan

ASKED = 100  # plans at most, the best first, whose memory is asked for: none is searched for little memory

BYTES = number(0)
BytesOf = Callable[[Plan], float]


class MemoryLimit:
    """Tells the memory of plans, and keeps those that need no more than the limit. Each plan is asked for once."""

    def __init__(self, max_memory_mb: float | None, bytes_of: BytesOf | None):
        if max_memory_mb is not None and bytes_of is None:
            raise ArgumentError("max_memory_mb: expected memory beside it, a function of a plan, got none")
        self.most_mb, self.bytes_of = inf if max_memory_mb is None else max_memory_mb, bytes_of
        self.known_mb: dict[Plan, float] = {}

    @property
    def given(self) -> bool:
        return self.most_mb < inf

    def first(self, choices: Iterable[PredictedPlan], count: int) -> list[PredictedPlan]:
        """The first so many of those that fit."""
        if not self.given:
            return list(islice(choices, count))
        return list(islice((one for one in islice(choices, ASKED) if self._mb(one.plan) <= self.most_mb), count))

    def told(self, choices: Iterable[PredictedPlan]) -> list[PredictedPlan]:
        """The plans with their memory, where it can be known."""
        return [one if self.bytes_of is None else replace(one, memory_mb=self._mb(one.plan)) for one in choices]

    def check(self, ranked: Iterable[PredictedPlan]) -> None:
        """Raises ArgumentError where plans were asked for and none fits."""
        if self.known_mb and not list(ranked):
            least = min(self.known_mb.values())
            raise ArgumentError(
                f"max_memory_mb: expected at least {least:.1f}, the least of {len(self.known_mb)} plans; "
                f"got {self.most_mb:g}"
            )

    def _mb(self, plan: Plan) -> float:
        if plan not in self.known_mb:
            self.known_mb[plan] = BYTES(f"memory of {plan}", self.bytes_of(plan)) / 1e6
        return self.known_mb[plan]
