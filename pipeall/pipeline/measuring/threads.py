"""A network on 1 to all cores: the times of its frames, or of other calls, by number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from time import perf_counter

from ...graph.ir import Graph
from ...progress import Progress, silent
from ..boards.board import Board
from ..engine import Engine
from ..lease import WRONG, leased
from .trial import random_frame

TURNS = 3  # of every number of threads, one after the other: clocks and other programs change


def one_cluster() -> Board:
    """All cores that this process may use as one component, whatever their kinds: its affinity and container count."""
    return Board.detect(clusters=[sorted(os.sched_getaffinity(0))], gpu=False)


def engine_times(graph: Graph, board: Board, seconds: float, progress: Progress = silent) -> dict[int, list[float]]:
    """``thread_times`` of frames through an engine of each number of threads."""
    frame = random_frame(graph)
    with leased(board, ["big"], f"{graph.name} by number of threads", effect=WRONG), ExitStack() as stack:
        calls: dict[int, Callable[[], object]] = {}
        for count in range(1, len(board.component("big").device.cores) + 1):
            engine = Engine(graph, "big", board, count)
            stack.callback(engine.close)
            calls[count] = partial(engine, frame)
        return thread_times(graph.name, calls, seconds, progress)


def thread_times(
    name: str, calls: Mapping[int, Callable[[], object]], seconds: float, progress: Progress = silent
) -> dict[int, list[float]]:
    """Number of threads -> ms of each call, one at a time, all numbers in turns of ``seconds`` together.

    Each number has one call at least, and one to warm up, however long they take.
    """
    times: dict[int, list[float]] = {}
    done, total = 0, TURNS * len(calls)
    progress(name, done, total)
    begin = perf_counter()
    for count, call in calls.items():
        call()  # warm
        times[count] = [_timed(call)]
    share = max(0.0, begin + seconds - perf_counter()) / total
    for _ in range(TURNS):
        for count, call in calls.items():
            end = perf_counter() + share
            while perf_counter() + times[count][-1] / 1e3 < end:
                times[count].append(_timed(call))
            done += 1
            progress(name, done, total)
    return times


def _timed(call: Callable[[], object]) -> float:
    begin = perf_counter()
    call()
    return 1e3 * (perf_counter() - begin)
