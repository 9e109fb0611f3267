"""A model's card: what people compare engines by, for each precision and number of threads.

Each row is of a process of its own, so that its memory and the time to its first answer are those of a program that
does nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArgumentError, PipeallError, PipelineError
from ...graph.ir import Graph
from ...graph.onnx.read.read import load
from ...progress import Progress, silent
from ..boards.board import Board
from ..pipeline import Pipeline
from ..planning.plan import Plan
from ..planning.units import Unit, traits_of
from .peak_memory import peak_memory, resident
from .precision import allowed_precisions
from .trial import random_frame

LEAST = 20  # frames that count
PRECISIONS = ("fp32", "fp16", "bf16", "int8", "mixed")
FIGURES = ("p50_ms", "p90_ms", "p99_ms", "first_ms", "peak_bytes", "mean_bytes")


def card(
    model: str | Path,
    components: Sequence[str],
    board: Board,
    *,
    seconds: float = 2.0,
    data: str | Path | None = None,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """The rows of a model's card: one core and all cores of each component, in each precision that it computes in.

    Parameters
    ----------
    model
        An .onnx file.
    components
        Whole ones, such as ["big"].
    board
        This machine.
    seconds
        How long each row runs, one frame of noise after the other.
    data
        An .npz file with inputs ``x`` (N, ...) and classes ``y`` (N,), for the accuracy.
    progress
        Called after each row.

    Returns
    -------
    list of dict
        Per row ``unit``, ``precision``, ``threads``; ``p50_ms``, ``p90_ms``, ``p99_ms`` of a frame, of ``frames``;
        ``first_ms`` from the start of the process to the first answer; ``peak_bytes`` and ``mean_bytes`` resident;
        ``memory``, of the peak: weights, arena, scratch and slots as ``footprint`` counts them, ``python`` before the
        model is read, and the ``rest``; ``accuracy``, a share, or None.

    Raises
    ------
    PipeallError
        As ``load`` and Pipeline; ArgumentError for a component that is not of this machine.
    """
    if board.model is not None:
        raise ArgumentError(f"card: expected this machine, got a model of {board.model.name}")
    names = list(dict.fromkeys(str(unit) for name in components for unit in (_of_one(board, name), name)))
    units = allowed_precisions(load(model), names, PRECISIONS, board).units
    rows = []
    for unit in map(Unit.parse, map(str, units)):
        rows.append(_measured(str(model), unit, board, seconds, data))
        progress("card", len(rows), len(units))
    return rows


def _of_one(board: Board, name: str) -> str:
    """One core of a component, or all of one that has no cores."""
    return f"{name}x1" if traits_of(name).cores and board.component(name).device.width > 1 else name


def _measured(model: str, unit: Unit, board: Board, seconds: float, data: str | Path | None) -> dict[str, Any]:
    """A row, by another process."""
    given = {
        "model": model,
        "unit": str(unit),
        "seconds": seconds,
        "data": data and str(data),
        "began": time.monotonic(),
    }
    command = [sys.executable, "-m", __name__, json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PipelineError(f"{model} on {unit}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    threads = unit.cores or board.component(unit.whole).device.width
    return {"unit": str(unit), "precision": unit.precision or "fp32", "threads": threads} | json.loads(done.stdout)


def _row(model: str, unit: str, seconds: float, data: str | None, began: float) -> dict[str, Any]:
    python = resident("VmRSS")
    graph, plan = load(model), Plan.single(unit)
    with Pipeline(graph, plan, slots=1) as pipe:
        frame = random_frame(graph)
        pipe.compute(frame)
        first_ms = 1e3 * (time.monotonic() - began)
        times, sizes = _timed(pipe, frame, seconds)
        memory = peak_memory(graph, plan, slots=1)
        accuracy = None if data is None else _accuracy(pipe, graph, data)
    p50, p90, p99 = np.percentile(times, (50, 90, 99)).tolist()
    figures = (p50, p90, p99, first_ms, memory.pop("peak"), int(np.mean(sizes)))
    memory |= {"python": python, "rest": memory["rest"] - python}
    return dict(zip(FIGURES, figures, strict=True)) | {
        "frames": len(times),
        "memory": memory,
        "accuracy": accuracy,
    }


def _timed(pipe: Pipeline, frame: Mapping[str, Any], seconds: float) -> tuple[list[float], list[int]]:
    """Milliseconds of each frame, and the bytes that were resident after it."""
    times: list[float] = []
    sizes: list[int] = []
    end = time.monotonic() + seconds
    while len(times) < LEAST or time.monotonic() < end:
        before = time.perf_counter_ns()
        pipe.compute(frame)
        times.append((time.perf_counter_ns() - before) / 1e6)
        sizes.append(resident("VmRSS"))
    return times, sizes


def _accuracy(pipe: Pipeline, graph: Graph, data: str) -> float:
    """The share of inputs whose largest output is that of their class."""
    with np.load(data) as arrays:
        if {"x", "y"} - set(arrays):
            raise ArgumentError(f"{data}: expected arrays x and y, got {', '.join(arrays) or 'none'}")
        x, y = arrays["x"], arrays["y"]
    (tensor,) = graph.inputs
    if y.shape != (len(x),) or not len(x) or x.shape[1:] != tensor.shape[1:]:
        raise ArgumentError(f"{data}: expected x of (N, {tensor.shape[1:]}) and y of (N,), got {x.shape} and {y.shape}")
    right = 0
    for inputs, label in zip(x, y, strict=True):
        result = pipe.compute(inputs[None].astype(tensor.dtype))
        result = next(iter(result.values())) if isinstance(result, Mapping) else result
        right += int(np.argmax(result)) == int(label)
    return right / len(x)


if __name__ == "__main__":
    try:
        print(json.dumps(_row(**json.loads(sys.argv[1]))))
    except (PipeallError, OSError) as error:
        sys.exit(str(error))
