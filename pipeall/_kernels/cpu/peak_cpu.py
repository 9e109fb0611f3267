"""What cores can do at most, measured here and now: multiply-adds from registers, of floats and of 8-bit integers, and
reading memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import perf_counter_ns

import numpy as np

from ..buffers import aligned
from ..peak import Peak
from .cores import pinnable
from .kernels import probe
from .table import ROWS, Kernels

RUN_NS = 2_000_000  # a run of multiply-adds lasts as long at least; the clock has settled by then
RUNS = 50  # of multiply-adds; the fastest counts, as other work only makes them slower
PASSES = 10  # over BUFFER, of which each core reads its own part; the fastest counts
BUFFER = 2**27  # bytes: several times the last cache


def peak(kernels: Kernels, cores: Sequence[int]) -> Peak:
    """The peak of the cores, with the kernels of their instruction set (``table.choose``).

    cores: ids to pin a thread to each, -1 leaves it unpinned. Takes a second or two.
    """
    memory = aligned(BUFFER // 4)
    memory.fill(1)  # what was never written is read from one page
    parts = np.array_split(memory, len(cores))
    together = Barrier(len(cores))

    def measure(core: int, part: np.ndarray) -> tuple[float, ...]:
        if core >= 0:
            os.sched_setaffinity(0, {core})  # of this thread alone
        rates = []
        for type_ in ("f32", "s8"):
            together.wait()
            rates.append(flops(kernels["peak", type_]))
        together.wait()
        return rates[0], _bytes(kernels["stream", "f32"], part), rates[1]

    with ThreadPoolExecutor(len(cores)) as pool:
        return Peak(*map(sum, zip(*pool.map(measure, pinnable(cores), parts), strict=True)))


def flops(kernel: str, runs: int = RUNS) -> float:
    """Operations each second, in the fastest of so many runs of a kernel of op "peak" on this thread."""
    products = _a_round(kernel)
    x = np.zeros(2 * products, np.float32)  # bytes of 0 too
    rounds = 1000
    while _time(kernel, rounds, x) < RUN_NS:
        rounds *= 2
    return 2e9 * rounds * products / min(_time(kernel, rounds, x) for _ in range(runs))


def _bytes(kernel: str, part: np.ndarray) -> float:
    rounds = len(part) // _a_round(kernel)
    return 1e9 * part.nbytes / min(_time(kernel, rounds, part) for _ in range(PASSES))


def _a_round(kernel: str) -> int:
    """Products, or floats read."""
    row = next(row for row in ROWS if row.name == kernel)
    return row.mr * row.nr


def _time(kernel: str, rounds: int, x: np.ndarray) -> int:
    begin = perf_counter_ns()
    probe(kernel, rounds, x)
    return perf_counter_ns() - begin
