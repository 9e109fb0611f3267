"""What a network would do as a pipeline on a board: predicted throughput, latency and memory of its best plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import inf

from ..errors import ArgumentError
from ..graph.ir import Graph
from ..graph.partition import subgraph
from ..pipeline.boards.models.board_model import BoardModel
from ..pipeline.planning.plan import StagePlan
from ..pipeline.planning.plan_table import PredictedPlan
from ..pipeline.planning.search import search
from ..pipeline.planning.uncertainty import Interval, interval
from ..sizing.residence import SHARE, arena, slot_bytes

SLOTS = 2  # of a ring: the default of Pipeline
MEMORY_BYTES = 4 * 10**9  # of a Khadas VIM3 Pro and of a Rock Pi N10


@dataclass(frozen=True)
class Limits:
    """What a network must keep on the board, or it is refused before it is trained; None: no limit.

    Judged at the bad end of the prediction's interval, where the board's model states its error: in nine of ten cases
    the board then keeps the limit. energy_mj: of a frame, at the plan's full rate.
    """

    min_fps: float | None = None
    max_latency_ms: float | None = None
    max_energy_mj: float | None = None

    def __post_init__(self) -> None:
        if any(limit is not None and not 0 < limit < inf for limit in (self.min_fps, *self._most())):
            raise ArgumentError(f"limits: expected positive numbers, got {self}")

    def _most(self) -> tuple[float | None, float | None]:
        return self.max_latency_ms, self.max_energy_mj

    def __bool__(self) -> bool:
        return self != Limits()

    def kept_by(self, worst: tuple[float, float, float | None]) -> bool:
        """Whether these frames a second, ms and mJ are within the limits."""
        fps, *costs = worst
        enough = self.min_fps is None or fps >= self.min_fps
        return enough and all(most is None or cost <= most for most, cost in zip(self._most(), costs, strict=True))


@dataclass(frozen=True)
class Target:
    """A board, and how fast a network is to be on it.

    board         a name such as "a311d", or a file that ``pipeall profile --save-board`` wrote
    fps           below it a network is penalized; None: speed counts for the Pareto front alone
    weight        of that penalty
    memory_bytes  that all components of the board share; a network may take ``SHARE`` of it
    limits        others that a network must keep
    """

    board: str
    fps: float | None = None
    weight: float = 0.1
    memory_bytes: float = MEMORY_BYTES
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if (self.fps is not None and self.fps <= 0) or self.weight < 0 or self.memory_bytes <= 0:
            raise ArgumentError(f"target: expected positive numbers, got {self}")


@dataclass(frozen=True)
class Placed:
    """A plan, and the bytes of weights, activations and rings under it.

    interval  between which figures it will be, where the board's model states its error
    """

    choice: PredictedPlan
    memory_bytes: int
    interval: Interval | None = None

    @property
    def worst(self) -> tuple[float, float, float | None]:
        """Frames a second, ms and mJ of a frame at the bad end of the interval; as predicted where there is none."""
        if self.interval is None:
            predicted = self.choice.prediction
            return predicted.fps, predicted.latency_ms, predicted.energy_mj
        energy = self.interval.energy_mj
        return self.interval.fps[0], self.interval.latency_ms[1], energy and energy[1]

    def fits(self, target: Target) -> bool:
        return self.memory_bytes <= SHARE * target.memory_bytes and target.limits.kept_by(self.worst)


def place(graph: Graph, target: Target) -> Placed:
    """The best pipeline for a network on the target's board: the plan of the highest predicted throughput.

    Where that one does not fit, the fastest plan that does, of those that no other beats in throughput, latency and
    energy. Where none does, the first again. Raises ArgumentError for a board that is not known, and for a limit of
    energy on a board whose power is not.
    """
    profile = _model(target.board).profile(graph)
    result = search(graph, profile, top=1, plans="pipelines")
    best = result.ranked[0]
    if target.limits.max_energy_mj is not None and best.prediction.energy_mj is None:
        raise ArgumentError(f"max energy: expected a board of known power, {target.board!r} is none")

    def placed() -> Iterator[Placed]:
        for choice in (best, *sorted(result.pareto, key=lambda choice: -choice.prediction.fps)):
            total = sum(_stage_bytes(graph, stage) for lane in choice.plan.lanes for stage in lane)
            yield Placed(choice, total, interval(profile, choice.plan))

    choices = placed()
    first = next(choices)
    if not target.limits or first.fits(target):
        return first
    return next((each for each in choices if each.fits(target)), first)


def _stage_bytes(graph: Graph, stage: StagePlan) -> int:
    last = len(graph.groups) if stage.last is None else stage.last
    stage_graph = subgraph(graph, stage.first, last)
    before, after = slot_bytes(stage_graph)
    rings = SLOTS * (after if stage_graph.receives else before + after)
    weights = sum(array.nbytes for array in stage_graph.constants.values())
    return weights + arena(stage_graph).planned + rings


@cache
def _model(board: str) -> BoardModel:
    return BoardModel.load(board)
