"""How each convolution is computed on an OpenCL device: timed by ``pipeall profile tune``, then read from a file.

A convolution runs several times behind itself, between two buffers of its own; the queue's profiling tells when each
ended. Without a file the family's defaults are used (``methods.modelled``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...._kernels.opencl import cl_devices as opencl
from ...._kernels.opencl.methods import Choose, Method, methods, modelled
from ....cache import cached_path
from ....graph.ir import Graph
from ....graph.lower.lower import lower
from ....graph.memory import side_by_side
from ....steps import ARENA, Lowered, Step, item_bytes
from ..device import Tuned
from ..timings import OPENCL_METHODS, add_times, known_times, shape_key
from .opencl_program import ClProgram

REPEATS = 4  # of a convolution in a frame; the first is not counted
TURNS = 3  # of each method; the least of its times counts
MARGIN = 0.97  # of the default's time: another must be faster than that

log = logging.getLogger(__name__)


class Target(NamedTuple):
    """A device, and what it computes in."""

    info: opencl.DeviceInfo
    precision: str


def known(info: opencl.DeviceInfo, precision: str) -> Choose:
    """Chooses the fastest of the methods where the file has all their times, else the default."""
    shapes = known_times(_path(info, precision), OPENCL_METHODS)

    def choose(step: Step, candidates: Sequence[Method]) -> Method:
        times = shapes.get(shape_key(step), {})
        timed = times.keys() >= set(map(str, candidates))
        taken = _fastest(candidates, times) if timed else candidates[0]
        log.debug("%s takes %s: %s", step.node, taken, f"times in us {times}" if timed else "nothing was timed")
        return taken

    return choose


def tune(graph: Graph, target: Target, progress: Callable[[str, int, int], None]) -> list[Tuned]:
    """Times every method of every convolution of a network on a device, except those the file has.

    progress  called with a shape, the number of shapes done, and how many there are
    Raises DeviceError where the device refuses.
    """
    path = _path(*target)
    shapes, tuned = known_times(path, OPENCL_METHODS), []
    steps = {shape_key(step): step for step in lower(graph, int8=False).steps if step.kind == "conv"}
    for done, (shape, step) in enumerate(steps.items()):
        candidates = methods(step, *target)
        if not candidates:
            continue
        progress(shape, done, len(steps))
        times = shapes.get(shape, {})
        if not times.keys() >= set(map(str, candidates)):
            times = timed(step, target, candidates)
            add_times(path, OPENCL_METHODS, {shape: times})
        default, best = candidates[0], _fastest(candidates, times)
        tuned.append(Tuned(shape, str(default), times[str(default)], str(best), times[str(best)]))
    return tuned


def _fastest(candidates: Sequence[Method], times: dict[str, float]) -> Method:
    best = min(candidates, key=lambda method: times[str(method)])
    return best if times[str(best)] < MARGIN * times[str(candidates[0])] else candidates[0]


def timed(step: Step, target: Target, candidates: Sequence[Method]) -> dict[str, float]:
    programs = {
        str(method): alone(step, target, lambda step, candidates, method=method: method) for method in candidates
    }
    times = dict.fromkeys(programs, inf)
    for _ in range(TURNS):
        for name, program in programs.items():
            marks = np.empty(len(program.labels) + 1, np.int64)
            program.run(np.zeros(1, np.float32), marks)
            ends = marks[1 + len(step.src) :]  # of all but the fills
            each = np.diff(ends[len(ends) // REPEATS - 1 :: len(ends) // REPEATS])
            times[name] = min(times[name], float(each.min()) / 1e3)
    return times


def alone(step: Step, target: Target, choose: Choose = modelled):
    """A ``ClProgram`` of the step, REPEATS times, on views of its own in the arena, which start as ones."""
    views, arena_bytes = side_by_side((*step.src, step.dst), ARENA)
    moved = replace(step, src=views[:-1], dst=views[-1])
    fills = [Step("fill", step.node, (), view, {"value": 1.0}) for view in moved.src]
    lowered = Lowered((*fills, *[moved] * REPEATS), arena_bytes, (), item_bytes("float32"), (), item_bytes("float32"))
    return ClProgram(lowered, opencl.opened(target.info), True, target.precision, choose)


def _path(info: opencl.DeviceInfo, precision: str) -> Path:
    return cached_path(OPENCL_METHODS, info.name, info.platform, info.driver, precision)
