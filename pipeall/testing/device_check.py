"""Whether a device keeps the contract: what every device must pass, one check after the other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..arguments import a, checked, number, optional, text, whole
from ..errors import ArgumentError, PipelineTimeoutError
from ..graph.ir import Graph
from ..pipeline.boards.board import Board, board_of
from ..progress import Progress, silent
from .device_checks import CHECKS
from .device_runs import Runs, small_graph

FRAMES = 10_000
LIMIT_S = 300.0  # for each check


@checked(
    component=text,
    board=board_of,
    graph=optional(a(Graph, "a pipeall.Graph")),
    frames=whole(100),
    tolerance=number(0, 1, above=True),
    limit_s=number(0, 1e6, above=True),
)
def check_device(
    component: str,
    board: Board | str | Path | None = None,
    graph: Graph | None = None,
    *,
    frames: int = FRAMES,
    tolerance: float = 1e-3,
    limit_s: float = LIMIT_S,
    only: Sequence[str] = (),
    progress: Progress = silent,
) -> list[str]:
    """Runs on a device what every device must pass, beside the other components of the board.

    The checks: traits; programs; order at every place of a pipeline; back-pressure; errors; close; footprint; profile;
    search; trace; fork; two pipelines at once; many frames. Results are compared with those of NumPy in double
    precision. The environment variable ``PIPEALL_FAULT`` is set meanwhile.

    Parameters
    ----------
    component
        Its name on the board: "npu".
    board
        Where it is; default ``Board.detect()``.
    graph
        A network that it can run, of at least three groups: of integers, for a device that has nothing else. Default: a
        small one of convolutions, and for two pipelines at once another one with other weights.
    frames
        How many the last check runs.
    tolerance
        The most that a result may be off, relative to its largest value.
    limit_s
        Seconds that one check may take: what hangs has failed. Its threads cannot be ended, so end the process then.
    only
        Names of the checks to run, such as "order"; default all.
    progress
        Called with the name of a check, how many are done, and how many there are.

    Returns
    -------
    list of str
        The names of the checks that it has passed.

    Raises
    ------
    AssertionError
        Where it fails: the component, the check, and what was expected and came.
    ArgumentError
        For a network of fewer groups and a check that does not exist.
    DeviceError
        Where the board has no such component, with the reason.
    """
    if unknown := sorted(set(only) - CHECKS.keys()):
        raise ArgumentError(f"only: expected some of {', '.join(CHECKS)}, got {', '.join(map(str, unknown))}")
    other = graph or small_graph(seed=1)
    graph = graph or small_graph()
    if len(graph.groups) < 3:
        raise ArgumentError(f"graph: expected at least three groups, {graph.name} has {len(graph.groups)}")
    runs = Runs(board, board.component(component), graph, other, tolerance, frames)
    passed: list[str] = []
    chosen = [name for name in CHECKS if not only or name in only]
    for name in chosen:
        progress(name, len(passed), len(chosen))
        _check(runs, name, limit_s)
        passed.append(name)
    return passed


def _check(runs: Runs, name: str, limit_s: float) -> None:
    """One check on a thread of its own, which may be left behind where it never ends."""
    where, raised = f"{runs.name}: {name}", []

    def work() -> None:
        try:
            CHECKS[name](runs)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, name=f"check-{name}", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise AssertionError(f"{where}: expected an end within {limit_s:g} s, got none")
    _raise(raised, where)


def _raise(raised: Sequence[Any], where: str) -> None:
    for error in raised:
        if isinstance(error, (AssertionError, PipelineTimeoutError)):
            raise AssertionError(f"{where}: {error}") from error
        if isinstance(error, Exception):
            raise AssertionError(f"{where}: expected no error, got {type(error).__name__}: {error}") from error
        raise error
