"""What handing a tensor on costs: a stream of one tensor in two steps, run as two stages and on each component alone.

One frame at a time, so that nothing but the hand-over differs. The device maps and unmaps: what that takes is in the
trace of its stage. A CPU stage reads the slot in place: what it pays is fetching from the other's cache, the time its
step takes longer than alone. Two OpenCL devices have no link: they cannot stand next to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np

from ...graph.ir import Graph, Node, Tensor
from ...graph.lower.lower import lower
from ...graph.ops import attributes
from ...steps import item_bytes
from ..boards.board import Board
from ..pipeline import Pipeline
from ..planning.plan import Plan
from ..planning.profile import HOST, Link
from ..planning.units import Unit, may_be_neighbours
from .trial import random_frame

SIZES = tuple(kib << 10 for kib in (16, 128, 512, 1600, 3200))  # of the tensors that cross cuts: 4 KB to 3.2 MB
CHANNELS = 64
WARM_UP, FRAMES = 5, 25


def ends(board: Board, components: Sequence[Unit]) -> Iterator[tuple[str, str]]:
    """The links there are between these components, and between the host and those with memory of their own."""
    for one, other in permutations(components, 2):
        if one.component != other.component and may_be_neighbours(one.component, other.component):
            yield one, other
    for name in components:
        if board.component(name).device.owns_slots:
            yield from ((HOST, name), (name, HOST))


def measurable(board: Board, component: Unit) -> bool:
    """Whether a component can run the stream: one that has no floats cannot, and its links count as free."""
    return board.component(component).device.unsupported(lower(stream(SIZES[0]))) is None


def measure(board: Board, sender: str, receiver: str) -> Link:
    """The link between two components, or from or to the host, from a few frames at ``SIZES``."""
    points = np.array([_point(board, sender, receiver, size) for size in SIZES])
    send, receive, mapped = (tuple(column.tolist()) for column in points.T)
    return Link(SIZES, send, receive, mapped)


def _point(board: Board, sender: str, receiver: str, nbytes: int) -> tuple[float, float, float]:
    """(send_ms, receive_ms, map_ms) of a tensor of so many bytes."""
    graph = stream(nbytes)
    if HOST in (sender, receiver):
        (inside,) = stage_costs(graph, Plan.single(receiver if sender == HOST else sender), board)
        return (0.0, inside[0], inside[0]) if sender == HOST else (inside[-1], 0.0, inside[-1])
    (first,) = stage_costs(graph, Plan.single(sender), board)
    (second,) = stage_costs(graph, Plan.single(receiver), board)
    sending, receiving = stage_costs(graph, Plan.pipeline([sender, receiver], [1]), board)
    mapped = (sending[-1], receiving[0])
    longer = (max(sending[1] - first[1], 0.0), max(receiving[1] - second[2], 0.0))  # less than alone is noise
    return longer[0] + mapped[0], longer[1] + mapped[1], sum(mapped)


def stage_costs(graph: Graph, plan: Plan, board: Board) -> list[list[float]]:
    """Per stage, ms of: hand-over in, computing each of its groups, hand-over out.

    Lower quartiles of the frames: noise only adds, so that they vary less than medians.
    """
    frame = random_frame(graph)
    with Pipeline(graph, plan, board, depth=1, trace=True) as pipe:
        for _ in pipe.map(frame for _ in range(WARM_UP + FRAMES)):
            pass
    costs = []
    for trace in pipe.trace:
        rows = trace.rows[WARM_UP:]
        given = (rows[:, trace.GIVEN] - rows[:, trace.BEGIN]) / 1e6
        taken = (rows[:, trace.RAN] - trace.marks[WARM_UP:, -1]) / 1e6
        computing = trace.group_ms(graph, rows).T[trace.groups[0] : trace.groups[1]]
        costs.append([float(np.percentile(part, 25)) for part in (given, *computing, taken)])
    return costs


def stream(nbytes: int) -> Graph:
    """y = w2 * (w1 * x) per channel, in two groups: a step reads and writes the tensor once."""
    shape = (1, CHANNELS, 1, nbytes // item_bytes("float32") // CHANNELS)
    attrs = attributes("conv", groups=CHANNELS)
    tensors = {name: Tensor(name, shape) for name in ("x", "first", "second")}
    constants = {"w": np.ones((CHANNELS, 1, 1, 1), np.float32), "b": np.zeros(CHANNELS, np.float32)}
    nodes = (
        Node("first", "conv", ("x", "w", "b"), "first", attrs),
        Node("second", "conv", ("first", "w", "b"), "second", attrs),
    )
    return Graph("stream", nodes, tensors, constants, (tensors["x"],), (tensors["second"],))
