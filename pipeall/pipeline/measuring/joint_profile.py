"""Profiles of networks that share a board: what each slows the others down by, on units of different components.

A profile measures contention with its own network on both units. Another network may leave more of the memory, or
less. Here a unit runs one network while the other unit runs each of the others in turn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, permutations
from pathlib import Path

import numpy as np

from ...arguments import by_name, checked, number, optional
from ...graph.ir import Graph
from ...graph.onnx.read.given import network
from ...graph.onnx.read.source import ModelSource
from ...progress import Progress, silent
from ..boards.board import Board, board_of
from ..border import Frame
from ..lease import leased
from ..pipeline import Pipeline
from ..planning.plan import Plan
from ..planning.profile import Profile
from ..planning.units import Unit, overlap
from ..trace import StageTrace
from .profiler import LEAST, MOST, ROUNDS, WARM_UP, WRONG, profile
from .trial import for_seconds, random_frame


@checked(
    graphs=by_name(network, "a dict of networks by name"),
    board=board_of,
    seconds=optional(number(0, above=True)),
)
def profile_together(
    graphs: Mapping[str, Graph | ModelSource],
    board: Board | str | Path | None = None,
    units: Sequence[str] | None = None,
    *,
    seconds: float | None = None,
    progress: Progress = silent,
) -> dict[str, Profile]:
    """The profile of each network of a schedule, with the contention that the others cause on units beside it.

    Between units of one component, and between stages of one pipeline, contention is as ``profile`` measures it. On a
    modelled board all of it is the model's.

    Parameters
    ----------
    graphs : dict of Graph or model
        By name, as for ``Schedule``.
    board, units, seconds
        As for ``profile``; ``seconds`` is for each pair of units and of networks too.
    progress : callable
        As for ``profile``.

    Returns
    -------
    dict of Profile
        By name, for ``schedule_search`` and the option ``profile`` of ``Schedule``.

    Raises
    ------
    PipeallError
        As ``profile``.
    """
    found = {name: profile(graph, board, units, seconds=seconds, progress=progress) for name, graph in graphs.items()}
    if board.model is not None or len(graphs) < 2:
        return found
    todo = [(name, *pair) for name, one in found.items() for pair in _pairs(one)]
    for done, (name, unit, other) in enumerate(todo):
        progress(f"{name} on {unit} beside the others on {other}", done, len(todo))
        beside = [graphs[one] for one in graphs if one != name and found[one].units[other].all_groups]
        if not beside:
            continue
        with leased(board, [unit, other], f"{name}'s joint profile", effect=WRONG):
            factors = [slowdown_beside(graphs[name], unit, one, other, board, seconds or 1.0) for one in beside]
        mean = np.exp(np.mean(np.log(factors), axis=0))
        table = {**found[name].contention, unit: {**found[name].contention.get(unit, {}), other: tuple(mean.tolist())}}
        found[name] = replace(found[name], contention=table)
    return found


def _pairs(known: Profile) -> Iterator[tuple[Unit, Unit]]:
    """Units of components that have nothing in common, which can run the whole network."""
    able = [unit for unit, times in known.units.items() if times.all_groups and unit.batch == 1]
    for unit, other in permutations(able, 2):
        if unit.component != other.component and not overlap(unit.component, other.component):
            yield unit, other


def slowdown_beside(graph: Graph, unit: Unit, beside: Graph, other: Unit, board: Board, seconds: float) -> np.ndarray:
    """How many times as long each group takes on ``unit`` while ``beside`` runs on ``other``: medians, in turns, at
    least 1."""
    alone: list[range] = []
    loaded: list[range] = []
    frame = random_frame(graph)
    with (
        Pipeline(graph, Plan.single(unit), board, trace=True) as pipe,
        Pipeline(beside, Plan.single(other), board) as load,
    ):
        count = 0
        for turn in range(ROUNDS + 1):
            for ranges, busy in ((alone, False), (loaded, True)):
                share = (seconds / ROUNDS / 2, LEAST) if turn else (0.0, WARM_UP)
                with _Busy(load, random_frame(beside), busy):
                    done = sum(1 for _ in pipe.map(islice(for_seconds(pipe, frame, *share), MOST // 2)))
                ranges.append(range(count, count + done))
                count += done
    (trace,) = pipe.trace
    one, two = (_median_ms(graph, trace, some[1:]) for some in (alone, loaded))
    longer = np.divide(two, one, out=np.ones(len(one)), where=(one > 0) & (two > 0))
    return np.maximum(longer, 1.0)


def _median_ms(graph: Graph, trace: StageTrace, turns: Sequence[range]) -> np.ndarray:
    """Of each group, over the frames of these turns."""
    rows = [trace.rows[(trace.frame >= turn.start) & (trace.frame < turn.stop)] for turn in turns]
    return np.median(trace.group_ms(graph, np.concatenate(rows)), axis=0)


class _Busy:
    """A context in which a pipeline is kept full, if it is to be."""

    def __init__(self, pipe: Pipeline, frame: Frame, busy: bool):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(pipe, frame)) if busy else None
        self._started = threading.Event()
        self._error: BaseException | None = None

    def _run(self, pipe: Pipeline, frame: Frame) -> None:
        try:
            for _ in pipe.map(iter(lambda: None if self._stop.is_set() else frame, None)):
                self._started.set()
        except BaseException as error:  # raised where the context ends
            self._error = error
        finally:
            self._started.set()

    def __enter__(self) -> _Busy:
        if self._thread:
            self._thread.start()
            self._started.wait()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
        if self._error:
            raise self._error
