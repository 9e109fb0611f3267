"""Which layers half precision is too little for, found by running the network: sums that overflow, or cancel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from ...errors import ArgumentError
from ...graph.halves import LAYERS, keep_float32
from ...graph.ir import Graph
from ..boards.board import Board
from ..engine import Engine
from ..planning.names import without_precision
from ..planning.plan import Plan

MAX_ERROR = 0.01

Outputs = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Mixture:
    """A network whose worst layers stay in float32 where a CPU computes the others in half precision.

    graph   the network; its metadata names ``layers``
    layers  those that stay, in the graph's order
    before  error of the network with all layers in half precision: over frames and outputs the largest difference from
            float32, as a share of the output's largest value; infinity where a result is no number or infinite
    after   the same with these layers in float32
    """

    graph: Graph
    layers: tuple[str, ...]
    before: float
    after: float

    def __repr__(self) -> str:
        names = f": {', '.join(self.layers)}" if self.layers else ""
        return (
            f"<Mixture of {self.graph.name}, {len(self.layers)} layers in float32{names}; "
            f"error {self.after:.2g}, {self.before:.2g} without them>"
        )


def mixture(
    graph: Graph,
    frames: Sequence[np.ndarray | Mapping[str, np.ndarray]],
    unit: str = "big@fp16",
    board: Board | None = None,
    *,
    max_error: float = MAX_ERROR,
    done: Callable[[], None] = lambda: None,
) -> Mixture:
    """Few layers that stay in float32, so that the network errs by at most ``max_error`` on these frames.

    All layers begin in float32. Then as many as possible become halves: one half of the list at a time, else parts of
    that half, down to single layers. Those stay with which, beside what had become halves by then, the error was above
    the bound.

    frames  as an Engine takes them; each is run once for every trial
    unit    a CPU component in fp16
    board   default ``Board.detect()``
    done    is called after each trial

    Raises ArgumentError for no frames, another unit, and where float32 layers alone do not keep the bound: then the
    rest of the network, what lies between its layers, is too much for half precision.
    """
    board = board or Board.detect(gpu=False)
    single = without_precision(Plan.single(unit).components[0])
    if not board.component(unit).device.halves:
        raise ArgumentError(f"unit {unit!r}: expected a CPU component in fp16, such as big@fp16")
    if not frames:
        raise ArgumentError("frames: expected at least one")
    reference = _run(graph, frames, single, board)
    layers = [node.name for node in graph.nodes if node.op in LAYERS]

    def error(kept: Sequence[str]) -> float:
        found = _error(_run(keep_float32(graph, kept), frames, unit, board), reference)
        done()
        return found

    before = error([])
    if before <= max_error:
        return Mixture(keep_float32(graph, []), (), before, before)
    if (least := error(layers)) > max_error:
        raise ArgumentError(
            f"max_error {max_error:g}: expected at least {least:.2g}, the error with all layers in float32"
        )
    kept, after, parts = list(layers), least, [layers]
    while parts:
        part = parts.pop(0)
        without = [name for name in kept if name not in part]
        if part is not layers and (found := error(without)) <= max_error:
            kept, after = without, found
        elif len(part) > 1:
            middle = len(part) // 2
            parts += [part[:middle], part[middle:]]
    return Mixture(keep_float32(graph, kept), tuple(kept), before, after)


def _run(graph: Graph, frames: Sequence, unit: str, board: Board) -> list[Outputs]:
    with Engine(graph, unit, board=board) as engine:
        results = [engine(frame) for frame in frames]
    return [result if isinstance(result, Mapping) else {"": result} for result in results]


def _error(found: Sequence[Outputs], reference: Sequence[Outputs]) -> float:
    worst = 0.0
    for name in reference[0]:
        real = np.stack([np.asarray(outputs[name], np.float64) for outputs in reference])
        made = np.stack([np.asarray(outputs[name], np.float64) for outputs in found])
        finite = np.isfinite(real)
        if not np.isfinite(made[finite]).all():
            return inf
        off = np.abs(made[finite] - real[finite]).max(initial=0.0)
        worst = max(worst, float(off / max(np.abs(real[finite]).max(initial=0.0), np.finfo(np.float32).tiny)))
    return worst
