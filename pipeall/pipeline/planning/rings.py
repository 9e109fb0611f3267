"""What rings hold and what frames carry: the rules that the runtime, its simulation and its memory's bounds share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .plan import StagePlan

MAX_DEPTH = 4096  # frames under way in a lane that is simulated: they wait, and latency says so
MAX_SLOTS = 64  # per ring: more would add nothing but memory and latency
REORDER = 64  # frames a lane may be ahead of the oldest one that is still under way, when there are several lanes
ENOUGH = 2  # frames of the next stage at which a frame goes out at the later border of a floating cut; PA_ENOUGH of C


class FrameTimes(NamedTuple):
    """When a frame was submitted, and when each stage of its lane began and ended it (ns, CLOCK_MONOTONIC)."""

    frame: int
    submitted_ns: int
    begin_ns: tuple[int, ...]
    end_ns: tuple[int, ...]


def slots_behind(floats: bool, slots: int) -> int:
    """Slots of the ring behind a stage: where its cut floats there is room for ENOUGH frames more, and for the next."""
    return slots + ENOUGH * floats


def goes_out_late(held: int, waiting: int) -> bool:
    """Whether a frame goes on to the later border of the floating cut behind its stage, as stage.c decides it.

    held: frames that the next stage works on or has waiting. waiting: frames in the ring before, behind this one.
    """
    return held >= ENOUGH or not waiting


def full_load(stages: Sequence[StagePlan]) -> int:
    """Frames under way in a lane that keep its stages busy: one more than there are stages and floating cuts."""
    return len(stages) + sum(stage.floating > 0 for stage in stages) + 1
