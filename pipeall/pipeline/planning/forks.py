"""Lanes that fork and join: stages run side by side on branches of a network, between one before and one behind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from ...errors import ArgumentError


class Branching(Protocol):
    """What is asked of a stage (``plan.StagePlan``)."""

    first: int
    last: int | None
    floating: int
    beside: bool


def levels(lane: Sequence[Branching]) -> list[range]:
    """The indices of stages that run one after the other, and together of those that run side by side."""
    starts = [index for index, stage in enumerate(lane) if not stage.beside]
    return [range(*pair) for pair in pairwise([*starts, len(lane)])]


def links(lane: Sequence[Branching]) -> list[tuple[int, int]]:
    """The stages at both ends of each ring, -1 for the host, from the first to the last. Of several rings of a stage
    the first is that of the first branch."""
    rows = [range(-1, 0), *levels(lane), range(-1, 0)]
    return [(sender, receiver) for one, other in pairwise(rows) for sender in one for receiver in other]


def forks(lane: Sequence[Branching]) -> list[range]:
    """The levels of several stages."""
    return [level for level in levels(lane) if len(level) > 1] if any(stage.beside for stage in lane) else []


def floats_beside(lane: Sequence[Branching]) -> bool:
    """Whether a cut at a fork, at a join or between branches floats."""
    return any(lane[index].floating for level in forks(lane) for index in range(level.start - 1, level.stop))


def check_branches(lane: Sequence[Branching], needs: Sequence[frozenset[int]], plan: object) -> None:
    """Raises ArgumentError where a branch needs another of the same fork. ``needs``: as ``partition.needs``."""
    for level in forks(lane):
        for stage in lane[level.start + 1 : level.stop]:
            earlier = range(lane[level.start].first, stage.first)
            for group, needed in enumerate(needs[stage.first : stage.last], stage.first):
                if other := needed.intersection(earlier):
                    raise ArgumentError(
                        f"plan {plan}: expected branches that do not need each other; group {group + 1} needs group "
                        f"{max(other) + 1}"
                    )


def branch_bytes(crossing: Sequence[int], ends: Sequence[int]) -> list[int]:
    """The bytes that each branch between successive cuts ``ends`` hands to the stage behind.

    As if nothing that comes in were needed behind: what a branch adds to what crosses, and the last also what it is the
    last to read. What is left of what crosses behind all is of the first.
    crossing: bytes at every cut.
    """
    added = [max(crossing[end] - crossing[start], 0) for start, end in pairwise(ends[1:])]
    added[-1] = min(max(crossing[ends[-1]] - crossing[ends[-2]] + crossing[ends[0]], 0), crossing[ends[-1]])
    return [max(crossing[ends[-1]] - sum(added), 0), *added]


def path_ms(lane: Sequence[Branching], unit_of: Sequence[int], stage_ms: Sequence[float]) -> float:
    """What a frame takes through the stages of a lane: of branches side by side, the longest time of a unit."""
    total = 0.0
    for level in levels(lane):
        busy = dict.fromkeys((unit_of[index] for index in level), 0.0)
        for index in level:
            busy[unit_of[index]] += stage_ms[index]
        total += max(busy.values())
    return total
