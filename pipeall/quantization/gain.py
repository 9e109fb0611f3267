"""What a frame and each layer take in floats and in integers, on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import perf_counter

from ..graph.ir import Graph
from ..pipeline.boards.board import Board
from ..pipeline.engine import Engine
from ..pipeline.measuring.layers import step_times
from .calibrate import Progress
from .photos import Arrays
from .places import units

SECONDS = 1.0  # for the layers of each network, and for frames of both


@dataclass(frozen=True)
class Times:
    """ms by layer, and by node for what belongs to none, in a network of floats and in the quantised one."""

    floats: dict[str, float]
    quantised: dict[str, float]


def frame_times(graph: Graph, quantised: Graph, frame: Arrays) -> tuple[float, float]:
    """Median ms of a frame in both networks, which take turns, on the first CPU, all its cores."""
    board, unit = _first_cpu()
    with Engine(graph, unit, board=board) as floats, Engine(quantised, unit, board=board) as integers:
        ms: tuple[list[float], list[float]] = [], []
        end = perf_counter() + SECONDS
        while len(ms[0]) < 3 or perf_counter() < end:
            for engine, took in zip((floats, integers), ms, strict=True):
                begin = perf_counter()
                engine(frame if len(graph.inputs) > 1 else frame[graph.inputs[0].name])
                took.append(1e3 * (perf_counter() - begin))
    return median(ms[0][1:]), median(ms[1][1:])


def _first_cpu() -> tuple[Board, str]:
    board = Board.detect(gpu=False)
    return board, next(part.name for part in board.components.values() if part.device.cores)


def layer_times(graph: Graph, quantised: Graph, progress: Progress) -> Times:
    """Medians on the first CPU, all its cores. A layer's time has its activation's and its residual's in it: what is
    one step with the layer in one network may be a step of its own in the other."""
    board, unit = _first_cpu()
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
