"""What a run measured: wall-clock throughput, end-to-end latency, and how each stage spent its time."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

KEPT = 100_000  # latest frames whose times are kept


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """When a frame was submitted, and when each stage of its lane began and ended it (ns, CLOCK_MONOTONIC)."""

    frame: int
    submitted_ns: int
    begin_ns: tuple[int, ...]
    end_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StageStats:
    """One stage: mean ms per frame computing (hand-over included), waiting for input, waiting for a free slot, and
    handing over (map, unmap, copy); ``use`` is the share of the run it computed. ``groups``: [first, last)."""

    component: str
    groups: tuple[int, int]
    frames: int
    busy_ms: float
    wait_in_ms: float
    wait_out_ms: float
    handover_ms: float
    use: float


@dataclass(frozen=True, slots=True)
class Stats:
    """fps: frames / (first submit to last result ready). Latency: submit to result ready, over the latest frames."""

    frames: int
    seconds: float
    fps: float
    latency_p50_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    stages: tuple[StageStats, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class StatsRecorder:
    """Collects the times of delivered frames, in bounded memory."""

    def __init__(self) -> None:
        self.frames = 0
        self.times: deque[FrameTimes] = deque(maxlen=KEPT)
        self._first_ns = self._last_ns = 0

    def add(self, times: FrameTimes) -> None:
        if not self.frames:
            self._first_ns = times.submitted_ns
        self._last_ns = max(self._last_ns, times.end_ns[-1])
        self.frames += 1
        self.times.append(times)

    def stats(self, counters: list[tuple[str, tuple[int, int], dict[str, int]]]) -> Stats:
        """``counters``: component, groups and ``Lane.counters`` row of every stage."""
        seconds = (self._last_ns - self._first_ns) / 1e9
        latency = [(times.end_ns[-1] - times.submitted_ns) / 1e6 for times in tuple(self.times)] or [0.0]
        p50, p95, p99 = np.percentile(latency, (50, 95, 99))
        stages = []
        for component, groups, row in counters:
            frames = max(1, row["frames"])
            mean = {key: row[f"{key}_ns"] / frames / 1e6 for key in ("busy", "wait_in", "wait_out", "handover")}
            stages.append(
                StageStats(
                    component,
                    groups,
                    row["frames"],
                    mean["busy"],
                    mean["wait_in"],
                    mean["wait_out"],
                    mean["handover"],
                    row["busy_ns"] / 1e9 / seconds if seconds else 0.0,
                )
            )
        fps = self.frames / seconds if seconds else 0.0
        return Stats(self.frames, seconds, fps, float(p50), float(p95), float(p99), tuple(stages))
