"""What rings hold and what frames carry: the rules that the runtime, its simulation and its memory's bounds share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .forks import links
from .plan import Plan, StagePlan, repeats
from .units import unit_numbers

MAX_DEPTH = 4096  # frames under way in a lane that is simulated: they wait, and latency says so
MAX_SLOTS = 64  # per ring: more would add nothing but memory and latency
REORDER = 64  # frames a lane may be ahead of the oldest one that is still under way, when there are several lanes
LATE_EXIT_FRAMES = 2  # of the next stage: a frame then goes out at the later border of a floating cut; as in stage.h


class FrameTimes(NamedTuple):
    """When a frame was submitted, and when each stage of its lane began and ended it (ns, CLOCK_MONOTONIC)."""

    frame: int
    submitted_ns: int
    begin_ns: tuple[int, ...]
    end_ns: tuple[int, ...]


def slots_behind(lane: Sequence[StagePlan], index: int, slots: int) -> int:
    """Slots of the ring behind a stage: as many times ``slots`` as it, or one behind it, takes frames together; two
    more where its cut floats, or where units of the lane serve several stages, which then do not come in turn."""
    beside = [index, *(receiver for sender, receiver in links(lane) if sender == index and receiver >= 0)]
    together = max(lane[stage].unit.batch for stage in beside)
    return slots * together + LATE_EXIT_FRAMES * (lane[index].floating > 0 or repeats(lane))


def goes_out_late(occupied: int, waiting: int) -> bool:
    """Whether a frame goes on to the later border of the floating cut behind its stage, as stage.c decides it.

    occupied: frames that the next stage works on or has waiting. waiting: frames in the ring before, behind this one.
    """
    return occupied >= LATE_EXIT_FRAMES or not waiting


def in_share(number: int, share: int) -> bool:
    """Whether frame ``number`` of a stage goes out late where ``share`` percent do, evenly spread; as in stage.c."""
    return (number + 1) * share // 100 > number * share // 100


def under_way(stages: Sequence[StagePlan], depth: int | None) -> int:
    """Frames under way in a lane: ``depth``; None: ``full_load``; 0: what each unit takes, so that hardly one waits."""
    if depth is None:
        return full_load(stages)
    numbers = unit_numbers([stage.unit for stage in stages])
    return depth or sum(max(stages[i].unit.batch for i, one in enumerate(numbers) if one == n) for n in set(numbers))


def full_load(stages: Sequence[StagePlan]) -> int:
    """Frames under way in a lane that keep its stages busy: one more than there are stages and floating cuts. A stage
    that takes frames together has as many, and all but one of the next ones wait for it."""
    together = sum(2 * stage.unit.batch - 1 for stage in stages)
    return together + sum(stage.floating > 0 for stage in stages) + 1


def in_turn(plan: Plan, depth: int | None) -> bool:
    """Whether one frame at most is under way: no two units then compute at once."""
    return depth == 1 and len(plan.lanes) == 1
