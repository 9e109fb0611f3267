"""What a run measured: wall-clock throughput, end-to-end latency, and how each stage spent its time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate, islice
from typing import Any

import numpy as np

from ..arguments import a, optional
from ..notebook import html_table
from .planning.rings import FrameTimes
from .planning.units import unit_numbers

NO_GROUPS = (0, 0)  # of a stage in front of the plan's (``front.py``)
TIMES = ("busy_ns", "wait_in_ns", "wait_out_ns", "map_ns", "copy_ns")
COUNTED = ("frames", "floated", "late", *TIMES)  # of StageCounters: what grows
KEPT = 20_000  # latest frames whose times are kept: some 400 bytes each with two stages


def slowest_ms(counters: Sequence[StageCounters]) -> list[float]:
    """Of each lane: ms a frame that its slowest unit computes, over all the stages that it serves."""
    busy: dict[tuple[int, int], float] = {}
    for number, row in zip(unit_numbers([row.unit for row in counters]), counters, strict=True):
        busy[row.lane, number] = busy.get((row.lane, number), 0.0) + row.mean_ms()
    return [max(ms for (of, _), ms in busy.items() if of == lane) for lane in dict.fromkeys(lane for lane, _ in busy)]


def groups_text(groups: tuple[int, int]) -> str:
    """A stage's groups [first, last), counted from 1: "3 to 5"; "picture" of a stage that has none of the plan's."""
    return "picture" if groups == NO_GROUPS else f"{groups[0] + 1} to {groups[1]}"


@dataclass(frozen=True, slots=True)
class StageCounters:
    """What one stage has done so far, in all: frames, and time in ns.

    ``floated``: frames on which it also computed the floating groups behind its own. ``late``: frames whose
    computing took longer than the stage's pace. ``busy_ns`` includes hand-over and pacing.
    ``groups``: [first, last); NO_GROUPS where it makes the network's input of a picture.
    ``started_ns``: when its lane started (CLOCK_MONOTONIC).
    """

    lane: int
    stage: int
    unit: str
    groups: tuple[int, int]
    frames: int = 0
    floated: int = 0
    late: int = 0
    busy_ns: int = 0
    wait_in_ns: int = 0
    wait_out_ns: int = 0
    map_ns: int = 0
    copy_ns: int = 0
    started_ns: int = 0

    def since(self, before: Sequence[StageCounters]) -> StageCounters:
        """Its work since it was ``before``; all, where it was not among these."""
        old = next((row for row in before if (row.lane, row.stage) == (self.lane, self.stage)), None)
        if old is None:
            return self
        return replace(self, **{key: getattr(self, key) - getattr(old, key) for key in COUNTED})

    def mean_ms(self, counted: str = "busy_ns") -> float:
        """A time of ``COUNTED`` in ms a frame."""
        return getattr(self, counted) / max(1, self.frames) / 1e6


@dataclass(frozen=True, slots=True)
class StageStats:
    """One stage: mean ms per frame computing (hand-over and pacing included), waiting for input, waiting for a free
    slot, and handing over: mapping and unmapping, copying. ``use`` is the share of its time it computed; ``floated``
    are frames on which it also computed the floating groups behind its own, ``late`` those whose computing took
    longer than the stage's pace. ``groups``: [first, last)."""

    unit: str
    groups: tuple[int, int]
    frames: int
    late: int
    busy_ms: float
    wait_in_ms: float
    wait_out_ms: float
    map_ms: float
    copy_ms: float
    use: float
    floated: int = 0

    def __repr__(self) -> str:
        waits = f"waiting {self.wait_in_ms:.2f} ms for input, {self.wait_out_ms:.2f} ms for a slot"
        return f"<StageStats of {self.unit}: {self.frames} frames, busy {self.busy_ms:.2f} ms a frame, {waits}>"


@dataclass(frozen=True, slots=True)
class UnitStats:
    """One unit: how many stages it serves, mean ms that they compute a frame, and the share of its time they do."""

    unit: str
    stages: int
    busy_ms: float
    use: float


@dataclass(frozen=True, slots=True)
class SourceStats:
    """One of several live sources: results, results a second, frames dropped, and ms from capture to result (the latest
    frames)."""

    frames: int
    fps: float
    dropped: int
    live_p50_ms: float
    live_p95_ms: float


@dataclass(slots=True, eq=False)
class SourceCounter:
    """What one source of a stream has done so far; ``name`` is None where there is one source. Its feed counts
    ``dropped``, whoever takes results ``frames``."""

    name: str | None = None
    frames: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """What a pipeline did in a window of time.

    Attributes
    ----------
    frames : int
        Results that were taken.
    seconds : float
        From the first submit, or the last result before the window, to the last result ready.
    fps : float
        Frames a second in these seconds.
    latency_p50_ms, latency_p95_ms, latency_p99_ms : float
        From submit to when the result can be taken, which is in order: it is ready, and all before it. Over the latest
        frames.
    stages : tuple of StageStats
        How each stage spent its time; ``units``: how each unit did, which may serve several.
    live_p50_ms, live_p95_ms : float
        Of a live source (``Pipeline.stream``): from capture to result, decoding by a task included.
    dropped : int
        Frames of live sources that were dropped.
    sources : mapping of str to SourceStats
        How each did, where a stream has several.
    """

    frames: int
    seconds: float
    fps: float
    latency_p50_ms: float
    latency_p95_ms: float
    latency_p99_ms: float
    stages: tuple[StageStats, ...]
    live_p50_ms: float = 0.0
    live_p95_ms: float = 0.0
    dropped: int = 0
    sources: Mapping[str, SourceStats] = field(default_factory=dict)

    @property
    def units(self) -> tuple[UnitStats, ...]:
        """The stages' time by the unit that serves them."""
        rows: dict[int, list[StageStats]] = {}
        for number, stage in zip(unit_numbers([stage.unit for stage in self.stages]), self.stages, strict=True):
            rows.setdefault(number, []).append(stage)
        return tuple(
            UnitStats(row[0].unit, len(row), sum(s.busy_ms for s in row), min(1.0, sum(s.use for s in row)))
            for row in rows.values()
        )

    def __repr__(self) -> str:
        use = ", ".join(f"{unit.unit} {unit.use:.0%}" for unit in self.units)
        latency = f"p50 {self.latency_p50_ms:.2f}, p95 {self.latency_p95_ms:.2f}, p99 {self.latency_p99_ms:.2f} ms"
        return f"<Stats of {self.frames} frames in {self.seconds:.2f} s: {self.fps:.1f} FPS; latency {latency}; {use}>"

    def _repr_html_(self) -> str:
        head = ("unit", "groups", "frames", "use", "busy ms", "wait in ms", "wait out ms", "hand-over ms")
        rows = [
            (s.unit, groups_text(s.groups), s.frames, f"{s.use:.0%}")
            + (s.busy_ms, s.wait_in_ms, s.wait_out_ms, s.map_ms + s.copy_ms)
            for s in self.stages
        ]
        return html_table(repr(self)[1:-1], head, rows)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"units": [asdict(unit) for unit in self.units]}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Where a window of statistics begins: results taken until then, when the last of them was ready, and counters."""

    frames: int = 0
    ready_ns: int = 0
    counters: tuple[StageCounters, ...] = ()
    sources: Mapping[str | None, tuple[int, int]] = field(default_factory=dict)  # frames and dropped


class StatsRecorder:
    """Collects the times of delivered frames, in bounded memory. One thread may add while another asks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.frames = 0
        self._kept: deque[tuple] = deque(maxlen=KEPT)
        self._first_ns = self._last_ns = 0
        self._live: deque[tuple[float, str | None]] = deque(maxlen=KEPT)  # ms, and of which source
        self._sources: dict[str | None, SourceCounter] = {}

    def source(self, name: str | None) -> SourceCounter:
        """What counts the frames of a live source: one of this name, also over several streams."""
        return self._sources.setdefault(name, SourceCounter(name))

    def add_live(self, source: SourceCounter, latency_ns: int) -> None:
        """Of a result of a live source."""
        with self._lock:
            source.frames += 1
            self._live.append((latency_ns / 1e6, source.name))

    def _counted(self) -> dict[str | None, tuple[int, int]]:
        return {name: (source.frames, source.dropped) for name, source in tuple(self._sources.items())}

    def add(self, times: tuple) -> None:
        """times: the fields of FrameTimes; a bare tuple will do, as this happens while the user waits for a result."""
        _, submitted_ns, _, end_ns = times
        with self._lock:
            if not self.frames:
                self._first_ns = submitted_ns
            if end_ns[-1] > self._last_ns:
                self._last_ns = end_ns[-1]
            self.frames += 1
            self._kept.append(times)

    @property
    def times(self) -> tuple[FrameTimes, ...]:
        """Times of the latest frames, oldest first."""
        return tuple(map(FrameTimes._make, tuple(self._kept)))  # copied in one step: another thread may be adding

    def snapshot(self, counters: Sequence[StageCounters]) -> Snapshot:
        with self._lock:
            return Snapshot(self.frames, self._last_ns, tuple(counters), self._counted())

    def stats(self, counters: Sequence[StageCounters], since: Snapshot | None = None) -> Stats:
        """Statistics of all that happened, or of what happened after the snapshot."""
        since = optional(a(Snapshot, "what snapshot() gave"))("since", since) or Snapshot()
        with self._lock:  # what is taken meanwhile is of the next window, in all of these
            frames, last_ns, kept = self.frames - since.frames, self._last_ns, tuple(self._kept)
            live, counted = tuple(self._live), self._counted()
        times = tuple(map(FrameTimes._make, kept[-frames:])) if frames else ()
        begin_ns = max(since.ready_ns, self._first_ns)
        if times and len(times) == frames:  # the pipeline may have stood still between the snapshot and this frame
            begin_ns = max(begin_ns, times[0].submitted_ns)
        seconds = (last_ns - begin_ns) / 1e9
        latency = latencies_ms(times, since.ready_ns) or [0.0]
        p50, p95, p99 = np.percentile(latency, (50, 95, 99))
        stages = []
        for row in (row.since(since.counters) for row in counters):
            ran_s = (last_ns - max(begin_ns, row.started_ns)) / 1e9  # a plan may have moved since
            use = min(1.0, row.busy_ns / 1e9 / ran_s) if ran_s > 0 else 0.0  # it was in a frame
            means = map(row.mean_ms, TIMES)
            stages.append(StageStats(row.unit, row.groups, row.frames, row.late, *means, use, row.floated))
        fps = frames / seconds if seconds else 0.0
        live = live[-frames:] if frames else ()
        counted = {
            name: tuple(now - then for now, then in zip(counts, since.sources.get(name, (0, 0)), strict=True))
            for name, counts in counted.items()
        }
        sources = {
            name: SourceStats(done, done / seconds if seconds else 0.0, dropped, *_live_ms(live, name))
            for name, (done, dropped) in counted.items()
            if name is not None
        }
        dropped = sum(dropped for _, dropped in counted.values())
        latencies = float(p50), float(p95), float(p99)
        return Stats(frames, seconds, fps, *latencies, tuple(stages), *_live_ms(live), dropped, sources)


def latencies_ms(times: Sequence[FrameTimes], ready_ns: int = 0) -> list[float]:
    """Of frames in order: from submit to when the result can be taken, which is when all before it are ready too.

    ``ready_ns``: when the results before these were ready.
    """
    delivered_ns = accumulate((frame.end_ns[-1] for frame in times), max, initial=ready_ns)
    return [(ns - frame.submitted_ns) / 1e6 for ns, frame in zip(islice(delivered_ns, 1, None), times, strict=True)]


def _live_ms(live: Sequence[tuple[float, str | None]], source: str | None = None) -> list[float]:
    """50th and 95th percentile of all sources, or of one; 0 where there is none."""
    return np.percentile([ms for ms, name in live if source in (None, name)] or (0.0,), (50, 95)).tolist()
