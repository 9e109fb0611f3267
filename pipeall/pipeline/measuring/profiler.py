"""Profiles of this machine: every unit runs the whole network in the real runtime, and each step's end is recorded.

So a group is timed where it will run: on its pinned threads, after its predecessor, with what that left in the caches.
Slow-down by contention is the same with two units running side by side, each the whole network or a part of it. What
hand-over costs is in ``links.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations_with_replacement, islice
from math import inf
from pathlib import Path

import numpy as np

from ...arguments import checked, function, number, optional, several, text
from ...errors import DeviceError, PipeallError
from ...graph.ir import Graph
from ...graph.onnx.read.given import network
from ...graph.onnx.read.source import ModelSource
from ...graph.partition import subgraph
from ...progress import Progress, silent
from ..boards import machine
from ..boards.board import Board, board_of
from ..boards.profile_cache import store
from ..devices.device import unsupported_groups
from ..lane import LOG_FRAMES
from ..pipeline import Pipeline
from ..planning.plan import Plan
from ..planning.profile import Factors, Profile, UnitTimes, crossing_bytes, profile_of
from ..planning.units import Unit, may_be_neighbours, overlap
from ..trace import StageTrace
from . import links
from .background_load import BackgroundLoad
from .trial import for_seconds, random_frame

ROUNDS = 3  # units that are compared take turns so often
WARM_UP = 3  # frames: the first touches every page of weights, caches and clocks settle after it
LEAST = 4  # rounds a turn: every unit runs a frame in each, in the inner ones while no other can have ended its turn
MAX_SECONDS = 86400.0
MOST = LOG_FRAMES // (ROUNDS + 1)  # frames a turn: the trace keeps those of all turns


@checked(
    graph=network,
    board=board_of,
    units=optional(several(text, "a list of units")),
    seconds=number(0, MAX_SECONDS),
    kept=optional(profile_of),
    checkpoint=function,
    progress=function,
)
def profile(
    graph: Graph | ModelSource,
    board: Board | str | Path | None = None,
    units: Sequence[str] | None = None,
    *,
    seconds: float = 1.0,
    kept: Profile | None = None,
    checkpoint: Callable[[Profile], None] = lambda profile: None,
    progress: Progress = silent,
) -> Profile:
    """The profile of a network on a board: measured here, or what the board's model says where it has one.

    A profile of all real components goes to the cache: default plans come from it. A unit that cannot run the whole
    network is tried group by group; what it cannot run is marked with the reason.

    Parameters
    ----------
    graph : Graph or model
        The network, or the model that it is read from, as for ``load``.
    board : Board, str or path, optional
        Default ``Board.detect()``.
    units : sequence of str, optional
        Such as ["big", "little"] or ["bigx3", "bigx1", "gpu"]. Default: all components but a stand-in for a GPU, in
        their default precision.
    seconds : float
        How long each unit and each pair runs; a few frames at least, a thousand a turn at most.
    kept : Profile, optional
        A profile to resume: what it has is not measured again, and where it is from is ``about["earlier"]``.
    checkpoint : callable
        Called with the profile so far after each part.
    progress : callable
        Called before each part with its name, how many parts are done, and how many there are.

    Returns
    -------
    Profile
        Of this machine, or of the board's model.

    Raises
    ------
    ArgumentError
        Where ``kept`` is of another network or a unit has more cores than there are.
    DeviceError
        For an absent component, and for a unit that runs every group, but not all at once: no profile can say that.
    """
    if board.model is not None:
        return board.model.profile(graph, units)
    if units is None:
        units = real_units(board)
    plans = [Plan.single(unit) for unit in units]
    for plan in plans:
        board.units(plan)  # raises for what the board does not have
    names = list(dict.fromkeys(plan.units[0] for plan in plans))
    about = machine.describe(board) | {"seconds": seconds, "before": machine.state(board)}
    if kept is None:
        groups = tuple(group.name for group in graph.groups)
        current = Profile(graph.name, groups, crossing_bytes(graph), {}, about=about)
    else:
        kept.check_network(graph)
        current, about = kept, about | {"earlier": dict(kept.about)}
    parts, others = list(missing_parts(graph, board, names, current, seconds)), []
    for done, (what, measure) in enumerate(parts):
        progress(what, done, len(parts))
        with BackgroundLoad() as beside:
            current = measure(current)
        others += [] if beside.cores is None else [beside.cores]
        current = replace(
            current, about=about | {"after": machine.state(board), "others_cores": max(others, default=None)}
        )
        checkpoint(current)
    store(current, graph, board)
    return current


def real_units(board: Board) -> list[str]:
    """All components of a board but a stand-in for a GPU."""
    return [part.name for part in board.components.values() if not part.device.stand_in]


def missing_parts(
    graph: Graph, board: Board, units: Sequence[str], have: Profile, seconds: float
) -> Iterator[tuple[str, Callable[[Profile], Profile]]]:
    """What is missing in ``have``: a text, and a function that adds it to a profile."""

    def alone(unit: str) -> Callable[[Profile], Profile]:
        return lambda current: replace(current, units={**current.units, unit: times_alone(graph, board, unit, seconds)})

    def pair(first: str, second: str) -> Callable[[Profile], Profile]:
        return lambda current: with_contention(graph, board, current, first, second, seconds)

    def link(sender: str, receiver: str) -> Callable[[Profile], Profile]:
        ends = (sender, receiver)
        return lambda current: replace(current, links={**current.links, ends: links.measure(board, sender, receiver)})

    for unit in units:
        if unit not in have.units:
            yield f"{unit} alone", alone(unit)
    able = [unit for unit in units if not (unit in have.units and have.units[unit].refused)]
    for first, second in combinations_with_replacement(able, 2):
        if _coexist(board, first, second) and second not in have.contention.get(first, {}):
            yield f"{first} beside {second}", pair(first, second)
    for sender, receiver in links.ends(board, list(dict.fromkeys(unit.whole for unit in units))):
        if (sender, receiver) not in have.links:
            yield f"{sender} to {receiver}", link(sender, receiver)


def _coexist(board: Board, first: Unit, second: Unit) -> bool:
    """Whether the two can run at once: other components, or cores enough of the same."""
    if first.component != second.component:
        return not overlap(first.component, second.component)
    return None not in (first.cores, second.cores) and first.cores + second.cores <= len(
        board.component(first.whole).device.cores
    )


def times_alone(graph: Graph, board: Board, unit: str, seconds: float) -> UnitTimes:
    """Of every group; those that the unit cannot run are marked with the reason, and not tried where it knows."""
    ((component,),) = board.units(Plan.single(unit))
    known, whole = unsupported_groups(graph, component.device.unsupported), None
    if not known:
        try:
            return unit_times(traced_rows(graph, [Plan.single(unit)], board, seconds)[0][0])
        except PipeallError as error:
            whole = error  # which group it is, and why, comes out below
    columns, refused = [], {}
    for index in range(1, len(graph.groups) + 1):
        try:
            if index in known:
                raise DeviceError(known[index])
            part = subgraph(graph, index - 1, index)
            rows = traced_rows(part, [Plan.single(unit)], board, seconds / len(graph.groups))[0][0]
            columns.append(unit_times(rows.sum(axis=1, keepdims=True)))
        except PipeallError as error:
            columns.append(UnitTimes((inf,), (0.0,)))
            refused[index] = str(error)
    if not refused:
        raise DeviceError(f"{unit} runs every group of {graph.name} by itself, but not all at once: {whole}") from whole
    ms, spread = ([value for times in columns for value in getattr(times, key)] for key in ("ms", "half_iqr_ms"))
    return UnitTimes(tuple(ms), tuple(spread), refused=refused)


def unit_times(rows: np.ndarray) -> UnitTimes:
    """Medians and half the quartiles' distance of (frames, groups)."""
    low, middle, high = np.percentile(rows, (25, 50, 75), axis=0)
    return UnitTimes(tuple(middle.tolist()), tuple(((high - low) / 2).tolist()))


def with_contention(graph: Graph, board: Board, known: Profile, first: Unit, second: Unit, seconds: float) -> Profile:
    """The profile with what two units slow each other down by, ``seconds`` in all.

    First each runs the whole network, as lanes do; then each a part of it, as stages of a pipeline do: there only the
    rest of the network is beside a group, which may read much more of the memory than the whole, or much less. Nothing
    is added where one of them cannot run the whole network.
    """
    pair = (first, second)
    if any(known.units[unit].refused for unit in pair):
        return known
    unknown = np.ones(len(graph.groups))
    lanes = _slowdowns(graph, board, pair, [Plan.parallel(pair)], seconds / 2, dict.fromkeys(pair, unknown))
    known = replace(known, contention=_with(known.contention, pair, lanes))
    if not _can_share(graph, pair):
        return known
    halves = [even_halves(known, order) for order in dict.fromkeys((pair, pair[::-1]))]
    stages = _slowdowns(graph, board, pair, halves, seconds / 2, lanes)
    return replace(known, same_pipeline=_with(known.same_pipeline, pair, stages))


def _with(table: Factors, pair: Sequence[str], slowdowns: Mapping[str, np.ndarray]) -> Factors:
    """The table with what each of the two takes beside the other."""
    added = {unit: dict(row) for unit, row in table.items()}
    for unit, other in (pair, pair[::-1]):
        added.setdefault(unit, {})[other] = tuple(slowdowns[unit].tolist())
    return added


def _can_share(graph: Graph, pair: Sequence[Unit]) -> bool:
    """Whether the two can be the stages of a pipeline."""
    return len(graph.groups) > 1 and may_be_neighbours(*(unit.component for unit in pair))


def even_halves(known: Profile, order: Sequence[str]) -> Plan:
    """The pipeline whose two stages take about as long; the group at its middle floats, so that neither has to wait."""
    first, second = (np.array(known.units[unit].ms) for unit in order)
    middle = int(np.argmax(first.cumsum() >= second.sum() - second.cumsum()))
    early, late = max(middle, 1), min(middle + 1, len(first) - 1)
    return Plan.pipeline(order, [(early, late) if early < late else late])


def _slowdowns(
    graph: Graph,
    board: Board,
    pair: Sequence[str],
    plans: Sequence[Plan],
    seconds: float,
    unknown: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Per unit and group, how many times as long it takes in the plans as alone, at least 1: medians, in turns.

    ``unknown`` where it took no time in one of them.
    """
    units = dict.fromkeys(pair)
    singles = [Plan.single(unit) for unit in units]
    traced = traced_rows(graph, [*singles, *plans], board, seconds)
    rows: dict[str, list[np.ndarray]] = {unit: [] for unit in units}
    for plan, parts in zip(plans, traced[len(singles) :], strict=True):
        for unit, part in zip(plan.units, parts, strict=True):
            rows[unit].append(part)
    slowdowns = {}
    for unit, alone in zip(units, map(_middle, traced), strict=False):
        loaded = _middle(rows[unit])
        known = (alone > 0) & (loaded > 0)
        slowdowns[unit] = np.maximum(np.divide(loaded, alone, out=unknown[unit].copy(), where=known), 1.0)
    return slowdowns


def _middle(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Per group, the median over the rows of all parts in which it took time; 0 where it took none in any."""
    columns = (column[column > 0] for column in np.concatenate(parts).T)
    return np.array([np.median(column) if column.size else 0.0 for column in columns])


def traced_rows(graph: Graph, plans: Sequence[Plan], board: Board, seconds: float) -> list[list[np.ndarray]]:
    """Per plan and stage: ms of (frames, groups), of the time in which all its stages were busy.

    The plans take turns, ``seconds`` in all.
    """
    frame = random_frame(graph)
    turns: list[list[range]] = [[] for _ in plans]  # frames of each plan's turns, the first to warm up
    with ExitStack() as stack:
        pipes = [stack.enter_context(Pipeline(graph, plan, board, trace=True)) for plan in plans]
        for turn in range(ROUNDS + 1):
            for pipe, ranges in zip(pipes, turns, strict=True):
                share = (seconds / ROUNDS / len(plans), LEAST) if turn else (0.0, WARM_UP)
                count = sum(1 for _ in pipe.map(islice(for_seconds(pipe, frame, *share), MOST)))
                first = ranges[-1].stop if ranges else 0
                ranges.append(range(first, first + count))
    return [steady_rows(graph, pipe.trace, ranges[1:]) for pipe, ranges in zip(pipes, turns, strict=True)]


def steady_rows(graph: Graph, traces: Sequence[StageTrace], turns: Sequence[range]) -> list[np.ndarray]:
    """The rows of each stage from when all others run until the first of them has no more to do."""
    picked: list[list[np.ndarray]] = [[] for _ in traces]
    for turn in turns:
        rows = [trace.rows[(trace.frame >= turn.start) & (trace.frame < turn.stop)] for trace in traces]
        begin = max(r[0, t.BEGIN] for t, r in zip(traces, rows, strict=True))
        end = min(r[-1, t.END] for t, r in zip(traces, rows, strict=True))
        for lane, (t, r) in enumerate(zip(traces, rows, strict=True)):
            picked[lane].append(r[(r[:, t.BEGIN] >= begin) & (r[:, t.END] <= end)])
    return [t.group_ms(graph, np.concatenate(rows)) for t, rows in zip(traces, picked, strict=True)]
