"""What rings hold and what frames carry: the rules that the runtime, its simulation and its memory's bounds share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .plan import StagePlan

MAX_SLOTS = 64  # per ring: more would add nothing but memory and latency
REORDER = 64  # frames a lane may be ahead of the oldest one that is still under way, when there are several lanes
FLOATING_SLOTS = 2  # more in a ring where the cut floats: a frame goes out late where two are before it, then comes one


class FrameTimes(NamedTuple):
    """When a frame was submitted, and when each stage of its lane began and ended it (ns, CLOCK_MONOTONIC)."""

    frame: int
    submitted_ns: int
    begin_ns: tuple[int, ...]
    end_ns: tuple[int, ...]


def full_load(stages: Sequence[StagePlan]) -> int:
    """Frames under way in a lane that keep its stages busy: one more than there are stages and floating cuts."""
    return len(stages) + sum(stage.floating > 0 for stage in stages) + 1
