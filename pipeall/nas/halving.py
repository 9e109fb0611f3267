"""Successive halving: a training that is not among the best of its kind early on is ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from ..errors import ArgumentError
from .score import Score


@dataclass(frozen=True)
class Halving:
    """The rule of ASHA (Li et al. 2020) as it stops trainings, without any that is paused.

    A training of n passes is judged after n / factor^rungs, ..., n / factor passes, rounded up: its rungs. It goes on
    where its error is among the best 1 / ``factor`` of all that were judged at this rung of as long a training.

    Raises ArgumentError for a factor below 2 or no rungs.
    """

    factor: int = 3
    rungs: int = 2

    def __post_init__(self) -> None:
        if self.factor < 2 or self.rungs < 1:
            raise ArgumentError(
                f"halving: expected a factor from 2 and rungs from 1, got {self.factor} and {self.rungs}"
            )

    def passes(self, cycles: int) -> tuple[int, ...]:
        """After how many passes a training of ``cycles`` is judged, ascending; short ones have fewer rungs."""
        after = {-(-cycles // self.factor**rung) for rung in range(1, self.rungs + 1)}
        return tuple(sorted(after - {cycles}))

    def bounds(self, cycles: int, earlier: Sequence[Score]) -> tuple[float, ...]:
        """The error above which a training ends, for each of its rungs; ``inf`` until there is a best of ``factor``."""
        alike = [score.rungs for score in earlier if score.cycles == cycles]
        found = []
        for rung in range(len(self.passes(cycles))):
            errors = sorted(rungs[rung] for rungs in alike if len(rungs) > rung)
            kept = (len(errors) + 1) // self.factor
            found.append(errors[kept - 1] if kept else inf)
        return tuple(found)
