"""What a device can do at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peak:
    """What all its cores or compute units do at once, each second."""

    flops: float  # a multiply-add is two
    bytes: float  # read from memory
