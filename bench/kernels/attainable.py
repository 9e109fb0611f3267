"""What one core allows a step: the larger of the times that its memory and its arithmetic take; and its share of that.

Memory: as many bytes as any implementation both reads and writes are copied, the rest is summed where more is read and
filled where more is written. A copy, a sum and a fill work on memory of their own of that size, so that they find it in
the same caches. Arithmetic: multiplications, or multiply-adds, at the rate at which the core does those of registers.
What is no product counts nothing: some cores have other units for it, so the bound holds on all.

Step and memory are timed in turns, the fastest of a few runs each; the share is the median of those of the turns. The
rate of arithmetic is the highest that any turn found, as other work only makes it lower.
"""

from collections.abc import Callable
from time import perf_counter_ns

import numpy as np
from pipeall._kernels.cpu.kernels import CpuProgram, probe

from bench.common import in_turns
from bench.kernels.single_step import copy, kernels, program
from pipeall._kernels.buffers import aligned
from pipeall._kernels.cpu import peak_cpu
from pipeall._kernels.cpu.cluster import Cluster
from pipeall._kernels.cpu.table import ROWS
from pipeall.steps import SLOT_OUT, Step, View

TURNS = 15
RUNS = 5  # of a turn, the fastest of which counts


def judge(
    made: CpuProgram, cluster: Cluster, *, read: int, written: int, again: int = 0, products: float = 0
) -> dict[str, float | str]:
    """Median microseconds of a program, its bound, what that is of, and the share.

    Bytes that are read and written; bytes that are read again, since all have to be seen before the first result and
    the second-level cache does not hold them; products of floats.
    """
    runs = {"step": _fastest(made), "memory": _memory(read, written, again, cluster)}
    runs["flops"] = lambda: peak_cpu.flops(kernels(cluster)["peak", "f32"], RUNS)
    found = {name: np.array(times) for name, times in in_turns(runs, TURNS).items()}
    arithmetic = 2e9 * products / found["flops"].max()
    bound = np.maximum(found["memory"], arithmetic)
    return {
        "median_us": round(float(np.median(found["step"])) / 1e3, 1),
        "bound_us": round(float(np.median(bound)) / 1e3, 1),
        "of": "memory" if np.median(found["memory"]) > arithmetic else "arithmetic",
        "share": round(float(np.median(bound / found["step"])), 2),
    }


def _fastest(made: CpuProgram) -> Callable[[], float]:
    return lambda: float(made.time(RUNS).min())


def _memory(read: int, written: int, again: int, cluster: Cluster) -> Callable[[], float]:
    """Nanoseconds of so many bytes."""
    both = min(read, written) // 4
    parts = [_fastest(copy((both,), (1,), (1,), cluster)[0])] if both else []
    if written > read:
        parts.append(_fastest(_fill((written - read) // 4, cluster)))
    parts += [_sum(size, cluster) for size in (read - written, again) if size > 0]
    return lambda: sum(part() for part in parts)


def _fill(elements: int, cluster: Cluster) -> CpuProgram:
    target = View(SLOT_OUT, 0, 1, 1, elements, elements)
    return program(Step("fill", "fill", (), target, {"value": 1.0}), cluster)


def _sum(size: int, cluster: Cluster) -> Callable[[], float]:
    row = next(row for row in ROWS if row.name == kernels(cluster)["stream", "f32"])
    rounds = max(1, size // (4 * row.mr * row.nr))
    memory = aligned(rounds * row.mr * row.nr)
    memory.fill(1)

    def once() -> int:
        begin = perf_counter_ns()
        probe(row.name, rounds, memory)
        return perf_counter_ns() - begin

    return lambda: min(once() for _ in range(RUNS))
