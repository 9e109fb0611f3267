"""What each layer takes in floats and in integers, on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.measuring.layers import step_times
from .calibrate import Progress
from .places import units

SECONDS = 1.0  # for each network


@dataclass(frozen=True)
class Times:
    """ms by layer, and by node for what belongs to none, in a network of floats and in the quantised one."""

    floats: dict[str, float]
    quantised: dict[str, float]


def times(graph: Graph, quantised: Graph, progress: Progress) -> Times:
    """Medians on the first CPU, all its cores. A layer's time has its activation's and its residual's in it: what is
    one step with the layer in one network may be a step of its own in the other."""
    board = Board.detect(gpu=False)
    unit = next(part.name for part in board.components.values() if part.device.cores)
    layer = {part: name for name, parts in units(graph).items() for part in (*parts, f"{name}/add")}
    found = []
    for done, network in enumerate((graph, quantised)):
        progress("times", done, 2)
        ms: dict[str, float] = {}
        for step, _, taken in step_times(network, board, unit, seconds=SECONDS):
            name = layer.get(step.node, step.node)
            ms[name] = ms.get(name, 0.0) + taken
        found.append(ms)
    progress("times", 2, 2)
    return Times(*found)
