"""A board that is not at hand, with small networks whose times on it are given."""

from dataclasses import replace

from graphs import Net
from profiles import profile_of

from pipeall import Board, search
from pipeall.graph.ir import Graph
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.boards.models.measured import Measured
from pipeall.pipeline.boards.models.modelled import Modelled
from pipeall.pipeline.boards.models.regression import FEATURES, Regression
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.units import Unit

CORES = {"big": 4, "little": 2, "gpu": 1}

# Of each group of the chain. With a component at half its speed the best period is 1.2 ms (gpu: 1.5), else 1 ms.
MS = {"big": [0.3] * 10, "little": [0.5] * 10, "gpu": [0.2] * 10}
START = "big-little-gpu:3,5"  # 0.9, 1 and 1 ms


def toy_board(graph: Graph, ms: dict[str, list[float]]) -> Board:
    """A board on which the graph takes ``ms``, and its components take no time for anything else."""
    model = BoardModel(
        "toy",
        {name: Modelled("toy", CORES[name]) for name in dict.fromkeys(Unit.parse(unit).whole for unit in ms)},
        (Measured.of(graph, profile_of(graph, ms)),),
        {unit: Regression((0.0,) * len(FEATURES)) for unit in ms},
    )
    return Board((), gpu=False, model=model)


def chain_net(groups: int = 10) -> Graph:
    """So many groups on 8 x 8 pixels, microseconds a frame."""
    net = Net((1, 4, 8, 8))
    x = "x0"
    for _ in range(groups):
        x = net.conv(x, 4)
    return net.graph(x)


def drifted(profile, factors):
    """The profile with the units' times multiplied."""
    units = {
        name: replace(times, ms=tuple(ms * factors.get(name, 1.0) for ms in times.ms))
        for name, times in profile.units.items()
    }
    return replace(profile, units=units)


def best_period_ms(graph, profile):
    return search(graph, profile, top=1, plans="pipelines").ranked[0].prediction.period_ms


def period_ms(profile, plan):
    return predict(profile, plan).period_ms
