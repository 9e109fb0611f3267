"""Which algorithm computes each convolution on a cluster, and which steps are computed in strips: timed when a shape is
first met, then known from a file.

A layer's candidates take turns on the cluster's own cores, with cold caches: in a network its weights come from memory.
One that is behind by more than the leader's spread is out; on a busy machine that takes more turns.
``PIPEALL_TUNE=off`` chooses by the model of ``_kernels.algorithms`` instead, the same on every machine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from .... import env
from ...._kernels.cpu.algorithms import (
    GEMM,
    STRASSEN,
    Algorithm,
    candidates,
    fits_sparse,
    kept_weights,
    modelled,
    sensible,
)
from ...._kernels.cpu.cluster import Cluster
from ...._kernels.cpu.sparse_panels import SPARSE_COLUMNS
from ...._kernels.cpu.table import ROWS, Kernels
from ....cache import cached_path
from ....graph.memory import side_by_side
from ....graph.onnx.read.wire import release
from ....steps import SLOT_IN, SLOT_OUT, Lowered, Step
from ..timings import ALGORITHMS, Shapes, add_times, known_times, shape_key

if TYPE_CHECKING:
    from ...._kernels.cpu.kernels import CpuProgram

TURNS = 3, 12  # of each candidate, at least and at most; the fastest of its times counts
SECONDS = 0.2  # for a shape; what has had its least turns by then is decided
MARGIN = 0.97  # of the modelled algorithm's time: another must be faster than that
SAME = 1.01  # of the time of steps that are whole: strips take it, for they need less memory
CACHE_BYTES = 32 << 20  # read between turns where the size of the last cache is not known, and at most

log = logging.getLogger(__name__)


def choose_algorithms(steps: Sequence[Step], cluster: Cluster, kernels: Kernels) -> list[Algorithm | None]:
    """The algorithm of each step on the cluster; None for steps that have no choice.

    ``kernels`` as ``table.choose`` gives them. What is timed now is written to the cache folder at once; a file that
    is damaged, of another version or cannot be written costs the time again, the latter with a warning.
    Of uneven cores the first one is timed alone: it does most of the work, and may do a step by itself.
    """
    choices = modelled_algorithms(steps, cluster, kernels)
    if not env.tune():
        for step, choice in zip(steps, choices, strict=True):
            if choice is not None:
                log.debug("%s takes %s: by the model, as PIPEALL_TUNE is off", step.node, choice)
        return choices
    tuner = Tuner(replace(cluster, cores=cluster.cores[:1]) if cluster.uneven else cluster, kernels)
    for index, step in enumerate(steps):
        if len(candidates(step)) > 1:
            choices[index] = tuner.fastest(step, choices[index])
    if tuner.learned:
        add_times(tuner.path, ALGORITHMS, tuner.learned)
    return choices


def modelled_algorithms(steps: Sequence[Step], cluster: Cluster, kernels: Kernels) -> list[Algorithm | None]:
    """The algorithms that ``choose_algorithms`` would take by the model alone: nothing is timed.

    Uneven cores take no Strassen: the slow one would read all weights for a few rows.
    """
    gemms = gemm_kernels(kernels)
    choices = [modelled(step, *gemms) if candidates(step) else None for step in steps]
    return [GEMM if cluster.uneven and choice == STRASSEN else choice for choice in choices]


def gemm_kernels(kernels: Kernels) -> tuple[int, str, str]:
    """NR and instruction set of the GEMM of floats, and the instruction set of that of integers."""
    floats, whole = (next(row for row in ROWS if row.name == kernels["gemm", type_]) for type_ in ("f32", "s8"))
    return floats.nr, floats.isa, whole.isa


class Tuner:
    """Times of the candidates of each shape, in us, under their names, as in the file."""

    def __init__(self, cluster: Cluster, kernels: Kernels):
        self.cluster, self.kernels, self.gemms = cluster, kernels, gemm_kernels(kernels)
        self.path = cached_path(ALGORITHMS, f"{cluster.core_type}-{kernels['gemm', 'f32']}")
        self.shapes = known_times(self.path, ALGORITHMS)
        self.learned: Shapes = {}  # what the file does not have
        self.evicting: np.ndarray | None = None

    def fastest(self, step: Step, default: Algorithm) -> Algorithm:
        ways = [way for way in sensible(step, *self.gemms) if not (way == STRASSEN and self.cluster.uneven)]
        if len(ways) == 1:
            return ways[0]
        times = self.shapes.setdefault(self.key(step), {})
        if not times.keys() >= set(map(str, ways)):
            times.clear()
            times.update(self.measured(step, ways))
            self.learned[self.key(step)] = times
        best = min(ways, key=lambda way: times[str(way)])
        taken = best if times[str(best)] < MARGIN * times[str(default)] else default
        if log.isEnabledFor(logging.DEBUG):
            timed = ", ".join(f"{way} {times[str(way)]:.0f} us" for way in ways)
            log.debug("%s takes %s: %s; the model's choice is %s", step.node, taken, timed, default)
        return taken

    def key(self, step: Step) -> str:
        return f"{self.shape(step)} {self.team}"

    @property
    def team(self) -> str:
        return f"team{len(self.cluster.cores)}"

    def shape(self, step: Step) -> str:
        x, y = step.src[0], step.dst
        text = shape_key(step) if step.kind == "conv" else f"{x.h}x{x.w}x{y.c} {step.params.get('op', step.kind)}"
        if step.kind == "conv" and fits_sparse(step):
            text += f" {kept_weights(step) // SPARSE_COLUMNS} kept"
        kernel = {"int8": f" {self.kernels['gemm', 's8']}", "float16": " float16"}
        return text + kernel.get(y.dtype, "")

    def faster_in_strips(self, whole: Lowered, strips: Lowered, compile: Callable[[Lowered], CpuProgram]) -> bool:
        """Whether steps that would fill the cache are faster in strips, or as fast in less memory."""
        (cut,) = strips.strips
        steps = " > ".join(map(self.shape, whole.steps))
        key = f"{steps} by {cut.local_bytes} bytes {self.team}"
        times = self.shapes.setdefault(key, {})
        if times.keys() != {"whole", "strips"}:
            programs = {"whole": compile(whole), "strips": compile(strips)}
            times.clear()
            times.update(_on_own_thread(lambda: in_turns(programs)))
            add_times(self.path, ALGORITHMS, {key: times})
        log.debug("%s takes %.0f us whole, %.0f us in strips", steps, times["whole"], times["strips"])
        return times["strips"] <= SAME * times["whole"]

    def measured(self, step: Step, ways: Sequence[Algorithm]) -> dict[str, float]:
        from ...._kernels.cpu.kernels import CpuProgram

        alone, sizes = _alone(step)

        def run() -> dict[str, float]:
            programs = {}
            for way in ways:
                programs[str(way)] = CpuProgram(self.kernels, self.cluster.cores, "pa-tune", (0, *sizes))
                programs[str(way)].add(alone, way)
            return in_turns(programs, self.evict)

        try:
            return _on_own_thread(run)
        finally:
            release(step.weight)

    def evict(self) -> None:
        if self.evicting is None:
            last = self.cluster.l3_bytes or self.cluster.l2_bytes or CACHE_BYTES
            self.evicting = np.ones(min(last, CACHE_BYTES) // 8, np.int64)
        self.evicting.sum()


def in_turns(programs: Mapping[str, CpuProgram], evict: Callable[[], object] = lambda: None) -> dict[str, float]:
    """The least time of each program, in us; ``evict`` is called before each."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    left, end = list(programs), perf_counter() + SECONDS
    for turn in range(1, TURNS[1] + 1):
        for name in left:
            evict()
            times[name].append(float(programs[name].time(1)[0]) / 1e3)
        if turn >= TURNS[0]:
            left = in_the_race(times, left)
            if len(left) == 1 or perf_counter() > end:
                break
    return {name: min(taken) for name, taken in times.items()}


def in_the_race(times: Mapping[str, Sequence[float]], left: Sequence[str]) -> list[str]:
    """Those whose best time is within the leader's spread of its best: noise only ever adds to a time."""
    best = {name: min(times[name]) for name in left}
    leader = min(left, key=best.__getitem__)
    limit = best[leader] + 2 * (median(times[leader]) - best[leader])
    return [name for name in left if name == leader or best[name] <= limit]


def _on_own_thread(run: Callable[[], dict[str, float]]) -> dict[str, float]:
    """What ``run`` gives: a program pins the thread that it runs on."""
    with ThreadPoolExecutor(1, "pa-tune") as threads:
        return threads.submit(run).result()


def _alone(step: Step) -> tuple[Step, tuple[int, int]]:
    """The step on views of its own in two slots, and the slots' sizes in bytes."""
    src, in_bytes = side_by_side(step.src, SLOT_IN)
    (dst,), out_bytes = side_by_side([step.dst], SLOT_OUT)
    return replace(step, src=src, dst=dst), (in_bytes, out_bytes)
