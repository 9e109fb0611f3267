"""A board that is not at hand, with small networks whose times on it are given."""

from pipeall import Board
from pipeall.graph.ir import Graph
from pipeall.pipeline.board import Part
from pipeall.pipeline.board_model import BoardModel, Measured
from pipeall.pipeline.plan import parse_unit
from pipeall.pipeline.profile import Profile, UnitTimes, crossing_bytes
from pipeall.pipeline.regression import FEATURES

CORES = {"big": 4, "little": 2, "gpu": 1}


def profile_of(graph: Graph, ms: dict[str, list[float]], spread: float = 0.0) -> Profile:
    """Unit -> ms of each group; no contention, hand-over free."""
    units = {unit: UnitTimes(tuple(times), tuple(spread * t for t in times)) for unit, times in ms.items()}
    return Profile(graph.name, tuple(group.name for group in graph.groups), crossing_bytes(graph), units)


def toy_board(graph: Graph, ms: dict[str, list[float]]) -> Board:
    """A board on which the graph takes ``ms``, and its components take no time for anything else."""
    model = BoardModel(
        "toy",
        {name: Part("toy", CORES[name]) for name in dict.fromkeys(parse_unit(unit)[0] for unit in ms)},
        (Measured.of(graph, profile_of(graph, ms)),),
        {unit: (0.0,) * len(FEATURES) for unit in ms},
    )
    return Board((), gpu=False, model=model)
