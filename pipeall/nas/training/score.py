"""What the evaluation of a candidate gives, and how the search asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf, isinf, isnan
from typing import Any, Protocol

from ...errors import ArgumentError
from ..spaces.genome import Candidate


@dataclass(frozen=True)
class Score:
    """What a candidate is worth: lower is better, ``inf`` for a network that is refused or whose training diverged.

    fitness       eq. 3
    error         mean absolute error per output, or what the user's evaluation minimizes
    weights       those that are not pruned; ``max_weights``: of the network of all ones
    pruned        fraction of the weights that vector-wise pruning removed
    fps, latency_ms, memory_bytes  predicted for a pipeline on the board; None where no board was given
    cycles        passes of its whole training; ``passes``: those that were made, fewer where it was ended early
    rungs         errors at the rungs of successive halving that it came to
    accuracy      (for numbers R^2) on the samples that judge, None where not measured; the search does not use it
    """

    fitness: float
    error: float
    weights: int = 0
    max_weights: int = 0
    pruned: float = 0.0
    fps: float | None = None
    latency_ms: float | None = None
    memory_bytes: int | None = None
    cycles: int = 0
    passes: int = 0
    rungs: tuple[float, ...] = ()
    accuracy: float | None = None

    def __post_init__(self) -> None:
        if isnan(self.fitness) or isnan(self.error):
            raise ArgumentError(f"score: expected numbers (inf where there is none), got {self.fitness}, {self.error}")

    def record(self) -> dict[str, Any]:
        """The score as a line of JSON, where null stands for infinity in fitness and error."""
        return {name: _finite(value) for name, value in asdict(self).items()} | {
            "rungs": [_finite(value) for value in self.rungs]
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Score:
        entries = dict(record)
        for name in ("fitness", "error"):
            entries[name] = inf if entries[name] is None else entries[name]
        rungs = tuple(inf if value is None else float(value) for value in entries.pop("rungs", ()))
        return cls(**entries, rungs=rungs)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and isinf(value) else value


class Evaluate(Protocol):
    """Trains a candidate and scores it; picklable, so that it runs in other processes and on other machines.

    It must be a function of its arguments alone: the search then gives the same result for every number of workers.

    seed    32 bits, for the initial weights and the order of the samples. Candidates that are trained alike (same
            architecture, same training genes) have the same seed and are evaluated once in a search
    parent  a candidate that this one descends from and whose evaluation is complete; None for a first network. An
            evaluation that saves trained weights may start from the parent's where shapes agree
    earlier  scores that were known when the candidate was asked for: only for an archive that works in waves
    others  beside the parent, the best candidates whose evaluation is complete: only where the archive has ``others``
    """

    def __call__(
        self,
        candidate: Candidate,
        seed: int,
        parent: Candidate | None = None,
        earlier: Sequence[Score] = (),
        others: Sequence[Candidate] = (),
    ) -> Score: ...
