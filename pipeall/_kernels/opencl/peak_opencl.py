"""What an OpenCL device can do at most, measured here and now by its own clock: ``peak`` is for it what peak.py's is
for cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..peak import Peak
from .cl_devices import Device

TILES = ((4, 8), (8, 10), (16, 6))  # (VECTOR, SUMS): one fits the device's registers
VECTORS = (4, 16)  # floats read at a time
LOCAL = 64  # work items of a group
GROUPS = 16  # of each compute unit
RUN_NS = 5_000_000  # a run of multiply-adds lasts as long at least
RUNS = 10  # the fastest counts, as other work only makes them slower
BUFFER = 2**27  # bytes: several times the last cache


def peak(device: Device, precision: str) -> Peak:
    """The peak of the whole device. precision: one of opencl.PRECISIONS; in "fp16" multiply-adds are of half precision.

    Raises DeviceError where the device has no room for 128 MiB.
    """
    queue, items = device.queue(profile=True), device.info.compute_units * GROUPS * LOCAL
    out = device.allocate(4 * items)
    half = int(precision == "fp16")
    flops = 0.0
    for vector, sums in TILES:
        kernel, _ = device.kernel("peak.cl", "multiply", LOCAL=LOCAL, VECTOR=vector, SUMS=sums, HALF_ARITHMETIC=half)
        rounds = np.int32(64)
        while _ns(queue, kernel, items, out, rounds, np.float32(1), np.float32(0)) < RUN_NS and rounds < 2**24:
            rounds *= np.int32(2)
        least = min(_ns(queue, kernel, items, out, rounds, np.float32(1), np.float32(0)) for _ in range(RUNS))
        flops = max(flops, 2e9 * int(rounds) * vector * sums * items / least)
    memory, read = device.upload(np.ones(BUFFER // 4, np.float32)), 0.0
    for vector in VECTORS:
        kernel, _ = device.kernel("peak.cl", "stream", LOCAL=LOCAL, VECTOR=vector)
        rounds = BUFFER // 4 // vector // items
        for mine, following in ((1, items), (rounds, 1)):  # neighbours read side by side, or each its own part
            sizes = np.int32(rounds), memory, np.int32(mine), np.int32(following)
            least = min(_ns(queue, kernel, items, out, *sizes) for _ in range(RUNS))
            read = max(read, 4e9 * rounds * vector * items / least)
    return Peak(flops, read)


def _ns(queue: Any, kernel: Any, items: int, *args: Any) -> int:
    event = kernel(queue, (items,), (LOCAL,), *args)
    event.wait()
    return event.profile.end - event.profile.start
