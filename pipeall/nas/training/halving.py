"""Successive halving: a training that is not among the best of its kind early on is ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from ...errors import ArgumentError
from .score import Score


@dataclass(frozen=True)
class Halving:
    """The rule of ASHA (Li et al. 2020), without any training that is paused.

    A training of n passes is judged after n / factor^rungs, ..., n / factor passes, rounded up: its rungs. It is
    compared with those that were judged at this rung of as long a training, the last ``window`` times ``factor``. It
    goes on where its error is among the best 1 / ``factor``, and where fewer than 1 / ``factor`` of them went on: what
    a search proposes becomes better and better, so more would go on otherwise. The first ``factor`` trainings have none
    to be compared with. They go on, and do not count for this.

    Raises ArgumentError for a factor below 2, no rungs or no window.
    """

    factor: int = 3
    rungs: int = 2
    window: int = 4

    def __post_init__(self) -> None:
        if self.factor < 2 or self.rungs < 1 or self.window < 1:
            raise ArgumentError(
                "halving: expected a factor from 2, rungs and a window from 1, "
                f"got {self.factor}, {self.rungs} and {self.window}"
            )

    def passes(self, cycles: int) -> tuple[int, ...]:
        """After how many passes a training of ``cycles`` is judged, ascending; short ones have fewer rungs."""
        after = {-(-cycles // self.factor**rung) for rung in range(1, self.rungs + 1)}
        return tuple(sorted(after - {cycles}))

    def bounds(self, cycles: int, earlier: Sequence[Score]) -> tuple[float, ...]:
        """The error above which a training ends, for each of its rungs: ``inf`` until there is a best of ``factor``,
        -inf while enough went on."""
        alike = [score for score in earlier if score.cycles == cycles]
        last, bounds = self.window * self.factor, []
        for rung, passes in enumerate(self.passes(cycles)):
            judged = [score for score in alike if len(score.rungs) > rung]
            went_on = sum(score.passes > passes for score in judged[self.factor :][-last:])
            errors = sorted(score.rungs[rung] for score in judged[-last:])
            kept = (len(errors) + 1) // self.factor
            bound = errors[kept - 1] if kept else inf
            bounds.append(-inf if kept and went_on >= kept else bound)
        return tuple(bounds)
