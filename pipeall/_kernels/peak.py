"""What a device can do at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peak:
    """What all its cores or compute units do at once, each second."""

    flops: float  # of float32, or of the device's precision; a multiply-add is two
    bytes: float  # read from memory
    integer_ops: float | None = None  # of 8-bit integers, likewise; None: it computes with their real numbers
