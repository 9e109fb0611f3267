"""Profiles with times that are given."""

from collections.abc import Mapping, Sequence

from pipeall.graph.ir import Graph
from pipeall.graph.partition import subgraph
from pipeall.pipeline.boards.board import Board
from pipeall.pipeline.boards.machine import describe
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.profile import Profile, UnitTimes, crossing_bytes

UNITS = ("gpu", "little", "bigx1", "bigx2", "bigx3", "bigx4")  # that may be the stages of one plan
Times = Mapping[str, Sequence[float] | UnitTimes]  # unit -> ms of each group


def unit_times(times: Times, spread: float = 0.0) -> dict[str, UnitTimes]:
    """``spread``: half the distance of the quartiles as a share of each time."""
    return {
        unit: ms if isinstance(ms, UnitTimes) else UnitTimes(tuple(ms), tuple(spread * value for value in ms))
        for unit, ms in times.items()
    }


def profile_of(graph: Graph, times: Times, **fields) -> Profile:
    """A profile of the graph; no contention and free hand-over, unless the other ``fields`` of Profile say so."""
    names = tuple(group.name for group in graph.groups)
    return Profile(graph.name, names, crossing_bytes(graph), unit_times(times), **fields)


def made_up(times: Times, spread: float = 0.0, **fields) -> Profile:
    """A profile of no graph: a tensor of 4,000 bytes crosses every cut."""
    units = unit_times(times, spread)
    groups = len(next(iter(units.values())).ms)
    return Profile("made", tuple(f"g{i}" for i in range(1, groups + 1)), (4000,) * (groups + 1), units, **fields)


def pipeline_of(stages: Sequence[float], spread: float = 0.0) -> tuple[Profile, Plan]:
    """A lane whose stages have one group each and take these times, ms; each unit takes all of them."""
    units = UNITS[: len(stages)]
    return made_up(dict.fromkeys(units, stages), spread), Plan.pipeline(units, range(1, len(stages)))


def measured_here(graph: Graph, board: Board, **ms: float) -> Profile:
    """A profile as if it had been measured on the board: units with the ms of each of their groups."""
    times = {unit: [each] * len(graph.groups) for unit, each in ms.items()}
    return profile_of(graph, times, about=describe(board))


def quick_part(net: Graph) -> Graph:
    """``quick_net`` without its first group."""
    return subgraph(net, 1, 4)
