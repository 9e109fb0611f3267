"""The plans that are done with one frame soonest, where branches of a network may run side by side.

A path goes from border to border: by a group on some unit, with a hand-over where the unit changes, or by a fork, whose
branches are computed by several units until the stage behind joins them. The shortest path of each number of stages is
found by dynamic programming over border, unit and number of stages. All ways to divide consecutive groups into branches
and these among units are looked at: exact up to ``MOST_BRANCHES`` branches of a fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product
from math import inf
from typing import NamedTuple

import numpy as np

from .bound import GroupPaths
from .forks import branch_bytes
from .plan import Plan
from .profile import Profile
from .stage_costs import StageCosts
from .stage_tables import ROUNDING
from .units import Unit

MOST_BRANCHES = 5
MOST_STAGES = 31  # of a lane; as in ring.h, but for one that makes pictures


class Fork(NamedTuple):
    """Branches between successive borders ``ends``, the unit of each, and what they take: ms[f, j], in ms, where unit f
    computes the stage before them and j that behind, hand-overs of all included."""

    ends: tuple[int, ...]
    units: tuple[int, ...]
    ms: np.ndarray


class Step(NamedTuple):
    """How a path came to a border: from another, where it was in ``place``, by a fork or by a group."""

    stages: int
    border: int
    place: int
    fork: Fork | None


def with_branches(profile: Profile, unit_set: Sequence[Unit], needs: Sequence[frozenset[int]]) -> Iterator[Plan]:
    """The plans of least latency for one frame at a time: with branches, and of more stages while that is less.

    needs: as ``partition.needs``. Nothing where no groups are branches.
    """
    costs = StageCosts(profile, unit_set, alone=True)
    found = [fork for region in regions(needs) for fork in _forks(costs, region)]
    if not found:
        return
    paths = GroupPaths(np.array(costs.loaded_ms), costs)
    best, came = _paths(paths, found)
    groups, least = len(profile.groups), inf
    for stages in range(1, MOST_STAGES + 1):
        place = int(best[stages, groups].argmin())
        if best[stages, groups, place] < least * (1 - ROUNDING):
            least = float(best[stages, groups, place])
            yield _plan([unit_set[unit] for unit in paths.places.unit], unit_set, came, (stages, groups, place))


def regions(needs: Sequence[frozenset[int]]) -> Iterator[tuple[int, ...]]:
    """The borders of consecutive groups that fall into branches, 2 to ``MOST_BRANCHES``, which do not need each other;
    there are groups before and behind."""
    count = len(needs)
    for first, last in combinations(range(1, count), 2):
        apart = [
            border
            for border in range(first + 1, last)
            if not any(needs[group].intersection(range(first, border)) for group in range(border, last))
        ]
        if 1 <= len(apart) < MOST_BRANCHES:
            yield first, *apart, last


def _forks(costs: StageCosts, region: Sequence[int]) -> Iterator[Fork]:
    """All ways to divide the branches of a region among units. Branches that follow each other on one unit are one."""
    for units in product(range(len(costs.units)), repeat=len(region) - 1):
        changes = [index for index, (one, other) in enumerate(pairwise(units), 1) if one != other]
        if changes:
            ends = (region[0], *(region[index] for index in changes), region[-1])
            merged = tuple(units[index] for index in (0, *changes))
            yield Fork(ends, merged, _fork_ms(costs, ends, merged))


def _fork_ms(costs: StageCosts, ends: Sequence[int], units: Sequence[int]) -> np.ndarray:
    """``Fork.ms``: units compute at once, and slow each other down. The stages around hand over to one branch after the
    other, and receive so."""
    crossing, count = costs.profile.crossing_bytes, len(costs.units)
    read, made = crossing[ends[0]], branch_bytes(crossing, ends)
    busy = np.zeros((count, count, count))  # of each unit, for each stage before and behind
    around = np.zeros((count, count))
    for unit, (first, last), size in zip(units, pairwise(ends), made, strict=True):
        around += 0.0 if costs.may_be(unit, (first, first, last, last)) else inf
        ms = np.array(costs.profile.units[costs.units[unit]].ms[first:last])
        for other in sorted({*units} - {unit}):
            ms = ms * costs.slowdown(unit, other)[first:last]
        fetched = [costs.handed_ms(before, unit, read) for before in range(count)]
        given = [costs.handed_ms(unit, behind, size) for behind in range(count)]
        busy[unit] += ms.sum()
        busy[unit] += np.array([receive for _, receive in fetched])[:, None] + np.array([send for send, _ in given])
        around += np.array([send for send, _ in fetched])[:, None] + np.array([receive for _, receive in given])
    return busy.max(axis=0) + around


def _paths(paths: GroupPaths, forks: Sequence[Fork]) -> tuple[np.ndarray, dict[tuple[int, int, int], Step]]:
    """[stages, border, place of the last]: the least ms of all before, and how each was reached."""
    places = paths.places
    best = np.full((MOST_STAGES + 1, paths.groups + 1, places.count), inf)
    came: dict[tuple[int, int, int], Step] = {}
    best[1, 1] = places.entry + places.ms[:, 0]
    changing = places.changing(np.ones(places.count))
    changing[range(places.count), range(places.count)] = 0.0

    def reach(stages: int, border: int, place: int, ms: float, step: Step) -> None:
        if stages <= MOST_STAGES and ms < best[stages, border, place]:
            best[stages, border, place] = ms
            came[stages, border, place] = step

    for border in range(1, paths.groups):
        here = [fork for fork in forks if fork.ends[0] == border]
        for stages, place in np.argwhere(np.isfinite(best[:, border])).tolist():
            done, unit = float(best[stages, border, place]), places.unit[place]
            for behind in range(places.count):
                own, step = places.ms[behind, border], Step(stages, border, place, None)
                moved = changing[place, behind, border]
                reach(stages + (behind != place), border + 1, behind, done + moved + own, step)
                for fork in here:
                    end, step = fork.ends[-1], Step(stages, border, place, fork)
                    ms = done + fork.ms[unit, places.unit[behind]] + places.ms[behind, end]
                    if places.leaves[place, border] and places.enters[behind, end]:
                        reach(stages + len(fork.units) + 1, end + 1, behind, ms, step)
    best[:, paths.groups] += places.send[:, -1, -1]
    return best, came


def _plan(
    unit_of: Sequence[Unit], unit_set: Sequence[Unit], came: dict[tuple[int, int, int], Step], end: tuple[int, int, int]
) -> Plan:
    """The plan of the path to an end, followed back; ``unit_of``: each place."""
    order: list[str | tuple[str, ...]] = [unit_of[end[2]]]
    cuts: list[int] = []
    while end in came:
        step = came[end]
        if step.fork:
            cuts[:0] = step.fork.ends
            order[:0] = [unit_of[step.place], tuple(unit_set[unit] for unit in step.fork.units)]
        elif step.stages < end[0]:
            cuts.insert(0, step.border)
            order.insert(0, unit_of[step.place])
        end = step[:3]
    return Plan.pipeline(order, cuts)
