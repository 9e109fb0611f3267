"""Profiles of this machine: every unit runs the whole network in the real runtime, and each step's end is recorded.

So a group is timed where it will run: on its pinned threads, after its predecessor, with what that left in the caches.
Slow-down by contention is the same with two units running side by side, each the whole network or a part of it. What
hand-over costs is in ``links.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, islice, permutations
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
from ..boards.default_units import default_units
from ..boards.profile_cache import store
from ..devices.device import unsupported_groups
from ..lane import LOG_FRAMES
from ..lease import WRONG, leased
from ..pipeline import Pipeline
from ..planning.plan import Plan
from ..planning.profile import Factors, Profile, UnitTimes, crossing_bytes, profile_of
from ..planning.units import Unit, may_be_neighbours, overlap
from ..trace import StageTrace
from . import links
from .background_load import BackgroundLoad
from .range_times import times_of_ranges
from .trial import for_seconds, random_frame

ROUNDS = 3  # units that are compared take turns so often
WARM_UP = 3  # frames: the first touches every page of weights, caches and clocks settle after it
LEAST = 4  # rounds a turn: every unit runs a frame in each, in the inner ones while no other can have ended its turn
MAX_SECONDS = 86400.0
PART_S, ALL_S = 1.0, 60.0  # of a part, and of all together, unless it is said how long a part runs
MOST = LOG_FRAMES // (ROUNDS + 1)  # frames a turn: the trace keeps those of all turns


@checked(
    graph=network,
    board=board_of,
    units=optional(several(text, "a list of units")),
    seconds=optional(number(0, MAX_SECONDS)),
    kept=optional(profile_of),
    checkpoint=function,
    progress=function,
)
def profile(
    graph: Graph | ModelSource,
    board: Board | str | Path | None = None,
    units: Sequence[str] | None = None,
    *,
    seconds: float | None = None,
    kept: Profile | None = None,
    checkpoint: Callable[[Profile], None] = lambda profile: None,
    progress: Progress = silent,
) -> Profile:
    """The profile of a network on a board: measured here, or what the board's model says where it has one.

    A profile of all default units goes to the cache: default plans come from it. A unit that cannot run the whole
    network is tried group by group; what it cannot run is marked with the reason.

    Parameters
    ----------
    graph : Graph or model
        The network, or the model that it is read from, as for ``load``.
    board : Board, str or path, optional
        Default ``Board.detect()``.
    units : sequence of str, optional
        Such as ["big", "little"] or ["bigx3", "bigx1", "gpu"]; one that takes frames together, such as "bigx1*2", is
        timed a frame at a time too. Default: all components but a stand-in for a GPU, in their default precision; where
        all cores are equal also all of them at once, one, and of four or more also two.
    seconds : float, optional
        How long each unit and each pair runs; a few frames at least, a thousand a turn at most. Default: 1, or less
        where all parts together would take more than a minute: ``about["shortest_s"]``.
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
    plans = [Plan.single(unit) for unit in (default_units(board) if units is None else units)]
    for plan in plans:
        board.units(plan)  # raises for what the board does not have
    names = list(dict.fromkeys(unit for plan in plans for unit in (plan.units[0].single, plan.units[0])))
    most_s = PART_S if seconds is None else seconds
    about = machine.describe(board) | {"seconds": most_s, "before": machine.state(board)}
    if kept is None:
        groups = tuple(group.name for group in graph.groups)
        current = Profile(graph.name, groups, crossing_bytes(graph), {}, about=about)
    else:
        kept.check_network(graph)
        current, about = kept, about | {"earlier": dict(kept.about)}
    parts, others, begin = list(missing_parts(graph, board, names, current)), [], time.monotonic()
    with leased(board, names, f"{graph.name}'s profile", effect=WRONG):
        for done, (what, measure) in enumerate(parts):
            progress(what, done, len(parts))
            part_s = part_seconds(time.monotonic() - begin, len(parts) - done) if seconds is None else seconds
            if part_s < most_s:
                about["shortest_s"] = min(part_s, about.get("shortest_s", part_s))
            with BackgroundLoad() as beside:
                current = measure(current, part_s)
            others += [] if beside.cores is None else [beside.cores]
            current = replace(
                current, about=about | {"after": machine.state(board), "others_cores": max(others, default=None)}
            )
            checkpoint(current)
    store(current, graph, board)
    return current


def part_seconds(spent: float, left: int) -> float:
    """How long a part runs, with so many left: half of its share of the time. Starting takes the rest."""
    return min(PART_S, max(0.0, (ALL_S - spent) / left / 2))


Part = Callable[[Profile, float], Profile]  # adds what it measures, for so many seconds


def missing_parts(graph: Graph, board: Board, units: Sequence[str], have: Profile) -> Iterator[tuple[str, Part]]:
    """What is missing in ``have``: a text, and a function that measures it."""

    def alone(unit: str) -> Part:
        return lambda now, seconds: replace(now, units={**now.units, unit: times_alone(graph, board, unit, seconds)})

    def pair(first: str, second: str) -> Part:
        return lambda now, seconds: with_contention(graph, board, now, first, second, seconds)

    def link(*ends: str) -> Part:
        return lambda now, seconds: replace(now, links={**now.links, ends: links.measure(board, *ends)})

    for unit in units:
        if unit not in have.units:
            yield f"{unit} alone", alone(unit)
    able = [unit for unit in units if unit.batch == 1 and (unit not in have.units or have.units[unit].all_groups)]
    for first, second in combinations_with_replacement(able, 2):
        if fitting(board, first, second) and second not in have.contention.get(first, {}):
            yield f"{first} beside {second}", pair(first, second)
    whole = dict.fromkeys(unit.whole for unit in units)
    for sender, receiver in links.ends(board, [unit for unit in whole if links.measurable(board, unit)]):
        if (sender, receiver) not in have.links:
            yield f"{sender} to {receiver}", link(sender, receiver)


def fitting(board: Board, unit: Unit, other: Unit) -> int:
    """How many units ``other`` can run beside one ``unit``: of its component as many as its cores left allow."""
    if unit.component != other.component:
        return int(not overlap(unit.component, other.component))
    if None in (unit.cores, other.cores):
        return 0
    return (board.component(unit.whole).device.width - unit.cores) // other.cores


def times_alone(graph: Graph, board: Board, unit: str, seconds: float) -> UnitTimes:
    """Of every group; those that the unit cannot run are marked with the reason, and not tried where it knows."""
    ((component,),) = board.units(Plan.single(unit))
    if (ranges := component.device.ranges(graph)) is not None:
        share = seconds / max(1, len(ranges.pieces))
        return times_of_ranges(graph, unit, ranges, lambda one: _as_one(subgraph(graph, *one), board, unit, share))
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
            columns.append(_as_one(subgraph(graph, index - 1, index), board, unit, seconds / len(graph.groups)))
        except PipeallError as error:
            columns.append(UnitTimes((inf,), (0.0,)))
            refused[index] = str(error)
    if not refused:
        raise DeviceError(f"{unit} runs every group of {graph.name} by itself, but not all at once: {whole}") from whole
    ms, spread = ([value for times in columns for value in getattr(times, key)] for key in ("ms", "half_iqr_ms"))
    return UnitTimes(tuple(ms), tuple(spread), refused=refused)


def _as_one(part: Graph, board: Board, unit: str, seconds: float) -> UnitTimes:
    """A part of a network as if it were one group."""
    rows = traced_rows(part, [Plan.single(unit)], board, seconds)[0][0]
    return unit_times(rows.sum(axis=1, keepdims=True))


def unit_times(rows: np.ndarray) -> UnitTimes:
    """Medians and half the quartiles' distance of (frames, groups)."""
    low, middle, high = np.percentile(rows, (25, 50, 75), axis=0)
    return UnitTimes(tuple(middle.tolist()), tuple(((high - low) / 2).tolist()))


@dataclass(frozen=True, slots=True)
class Company:
    """Plans in which a unit runs beside ``others`` units of one kind; only its own stages count."""

    plans: tuple[Plan, ...]
    others: int


def with_contention(graph: Graph, board: Board, known: Profile, first: Unit, second: Unit, seconds: float) -> Profile:
    """The profile with what two units slow each other down by, ``seconds`` in all.

    First each runs the whole network, as lanes do; then each a part of it, as stages of a pipeline do: there only the
    rest of the network is beside a group, which may read much more of the memory than the whole, or much less. Units of
    one component fill its cores, and each of them causes an equal part of that. Nothing is added where one of them
    cannot run the whole network.
    """
    if not all(known.units[unit].all_groups for unit in (first, second)):
        return known
    more, fewer = fitting(board, first, second), fitting(board, second, first)
    beside = {
        first: Company((Plan.parallel([first] + [second] * more),), more),
        second: Company((Plan.parallel([first] * fewer + [second]),), fewer),
    }
    lanes = _slowdowns(graph, board, beside, seconds / 2, dict.fromkeys(beside, np.ones(len(graph.groups))))
    known = replace(known, contention=_with(known.contention, lanes))
    if not (beside := stages_of(graph, known, beside)):
        return known
    stages = _slowdowns(graph, board, beside, seconds / 2, lanes)
    return replace(known, same_pipeline=_with(known.same_pipeline, stages))


def stages_of(graph: Graph, known: Profile, beside: Mapping[Unit, Company]) -> dict[Unit, Company]:
    """The same as stages of a pipeline: equal units all in one, two others in either order, of more others none."""
    groups, most = len(graph.groups), max(company.others for company in beside.values())
    if groups == 1 or any(known.units[unit].ranges for unit in beside):
        return {}
    if len(beside) == 1:
        (unit,), stages = beside, min(most + 1, groups)
        return {unit: Company((even_parts(known, unit, stages),), stages - 1)}
    if most > 1 or not may_be_neighbours(*(unit.component for unit in beside)):
        return {}
    halves = tuple(even_halves(known, order) for order in permutations(beside))
    return {unit: Company(halves, 1) for unit in beside}


def even_halves(known: Profile, order: Sequence[str]) -> Plan:
    """The pipeline whose two stages take about as long; the group at its middle floats, so that neither has to wait."""
    first, second = (np.array(known.units[unit].ms) for unit in order)
    middle = int(np.argmax(first.cumsum() >= second.sum() - second.cumsum()))
    return Plan.pipeline(order, [_floating(middle, 1, len(first) - 1)])


def even_parts(known: Profile, unit: str, stages: int) -> Plan:
    """The same of equal units: the group at the end of each part floats."""
    done, cuts = np.cumsum(known.units[unit].ms), [(0, 0)]
    for behind in range(stages - 1, 0, -1):  # stages after the cut
        end = int(np.argmax(done >= done[-1] * (1 - behind / stages)))
        cuts.append(_floating(end, cuts[-1][1] + 1, len(done) - behind))
    return Plan.pipeline([unit] * stages, cuts[1:])


def _floating(group: int, least: int, most: int) -> tuple[int, int]:
    """The cuts before and behind a group, as near as these bounds allow; equal ones do not float."""
    return min(max(group, least), most), min(max(group + 1, least), most)


def _with(table: Factors, slowdowns: Mapping[Unit, np.ndarray]) -> Factors:
    """The table with what each of two units, or equal ones, takes beside the other."""
    added = {unit: dict(row) for unit, row in table.items()}
    for unit, other in zip(slowdowns, reversed(slowdowns), strict=True):
        added.setdefault(unit, {})[other] = tuple(slowdowns[unit].tolist())
    return added


def _slowdowns(
    graph: Graph, board: Board, beside: Mapping[Unit, Company], seconds: float, unknown: Mapping[Unit, np.ndarray]
) -> dict[Unit, np.ndarray]:
    """Per unit and group, how many times as long it takes by each of the others: medians, in turns, at least 1.

    ``unknown`` where it took no time in one of its plans.
    """
    singles = [Plan.single(unit) for unit in beside]
    plans = list(dict.fromkeys(plan for company in beside.values() for plan in company.plans))
    traced = traced_rows(graph, [*singles, *plans], board, seconds)
    of_plan = dict(zip(plans, traced[len(singles) :], strict=True))
    slowdowns = {}
    for (unit, company), alone in zip(beside.items(), map(_middle, traced), strict=False):
        stages = [pair for plan in company.plans for pair in zip(plan.units, of_plan[plan], strict=True)]
        loaded = _middle([rows for name, rows in stages if name == unit])
        known = (alone > 0) & (loaded > 0)
        longer = np.divide(loaded, alone, out=np.ones(len(alone)), where=known)
        slowdowns[unit] = np.where(known, np.maximum(longer, 1.0) ** (1 / company.others), unknown[unit])
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
