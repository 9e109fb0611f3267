"""What a process holds in memory at its peak, told apart."""

from __future__ import annotations

from ...graph.ir import Graph
from ..boards.board import Board
from ..planning.plan import Plan
from .footprint import footprint


def resident(key: str) -> int:
    """Bytes of this process in memory now (VmRSS), or at most so far (VmHWM), as the kernel counts them."""
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith(f"{key}:"))


def peak_memory(graph: Graph, plan: Plan, board: Board | None = None, slots: int = 2) -> dict[str, int]:
    """The most bytes that this process had in memory, which ran the plan.

    Parameters
    ----------
    graph, plan, board, slots
        As of ``footprint``, which counts the parts.

    Returns
    -------
    dict
        Bytes: ``peak``; of it ``weights``, ``arena``, ``scratch``, ``slots``, and the ``rest``: Python, its modules,
        the network as it was read, pictures.

    Raises
    ------
    PipeallError
        As ``footprint``.
    """
    peak = resident("VmHWM")
    stages = footprint(graph, plan, board, slots)
    parts = {
        "weights": sum(stage.weights for stage in stages),
        "arena": sum(stage.arena for stage in stages),
        "scratch": sum(stage.scratch for stage in stages),
        "slots": sum(stage.rings for stage in stages),
    }
    return {"peak": peak, **parts, "rest": peak - sum(parts.values())}
