"""What a network would do as a pipeline on a board: predicted throughput, latency and memory of its best plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..cost.batch import SHARE
from ..cost.inference import arena, slot_bytes
from ..errors import ArgumentError
from ..graph.ir import Graph
from ..graph.partition import subgraph
from ..pipeline.boards.model import BoardModel
from ..pipeline.planning.candidates import PredictedPlan
from ..pipeline.planning.plan import StagePlan
from ..pipeline.planning.search import search
from ..pipeline.planning.uncertain import Interval, interval

SLOTS = 2  # of a ring: the default of Pipeline
MEMORY_BYTES = 4 * 10**9  # of a Khadas VIM3 Pro and of a Rock Pi N10


@dataclass(frozen=True)
class Target:
    """A board, and how fast a network is to be on it.

    board         a name such as "a311d", or a file that ``pipeall profile --save-board`` wrote
    fps           below it a network is penalised; None: speed counts for the Pareto front alone
    weight        of that penalty
    memory_bytes  that all components of the board share; a network may take ``SHARE`` of it
    """

    board: str
    fps: float | None = None
    weight: float = 0.1
    memory_bytes: float = MEMORY_BYTES

    def __post_init__(self) -> None:
        if (self.fps is not None and self.fps <= 0) or self.weight < 0 or self.memory_bytes <= 0:
            raise ArgumentError(f"target: expected positive numbers, got {self}")


@dataclass(frozen=True)
class Placed:
    """The plan with the highest predicted throughput, and the bytes of weights, activations and rings under it.

    likely  between which figures it will be, where the board's model states its error
    """

    choice: PredictedPlan
    memory_bytes: int
    likely: Interval | None = None

    def fits(self, target: Target) -> bool:
        return self.memory_bytes <= SHARE * target.memory_bytes


def place(graph: Graph, target: Target) -> Placed:
    """The best pipeline for a network on the target's board. Raises ArgumentError for a board that is not known."""
    profile = _model(target.board).profile(graph)
    choice = search(graph, profile, top=1).ranked[0]
    total = sum(_stage_bytes(graph, stage) for lane in choice.plan.lanes for stage in lane)
    return Placed(choice, total, interval(profile, choice.plan))


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
