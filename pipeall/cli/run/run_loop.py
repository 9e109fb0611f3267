"""The loop of ``pipeall run``: frames in, answers out, and how long all of it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...errors import PipeallError
from ...graph.ir import Graph
from ...media.draw import drawn
from ...media.sources import Frames
from ...pipeline.host import Task
from ...pipeline.lanes import Move
from ...pipeline.live import LiveResult
from ...pipeline.pipeline import Pipeline
from ...pipeline.planning.plan import Plan
from ...pipeline.planning.rings import full_load
from ...pipeline.stats import Snapshot, Stats, slowest_ms
from ...tasks.text_reader import Reader
from ..output import progress
from .reload import Reload

Show = Callable[[LiveResult], None]


class Choice(NamedTuple):
    """What runs: a network, what reads its outputs, and its plan."""

    graph: Graph
    reader: Reader
    plan: Plan


class HandOn(Protocol):
    """Where drawn pictures go, with what they were made of; none is drawn while nobody wants one."""

    @property
    def wanted(self) -> bool: ...

    def add(self, picture: np.ndarray, seen: LiveResult) -> None: ...


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a run. Figures are of the frames after ``warm_up``.

    frames       all that were answered
    warm_up      the first ones, which figures leave out: as many as the pipeline holds, if at least so many follow
    unread       sources that could not be read
    dropped      frames that were dropped, in the warm-up too
    with_decoding    seconds and FPS of the whole program: reading, the pipeline, answers, drawing
    stages_fps   FPS that the slowest unit would do, fed without a wait
    each_ms      mean of what is done for each frame beside the pipeline: read (None: waited for), answer, draw
    broken       what ended it early; interrupted: whether Ctrl-C did
    """

    frames: int
    warm_up: int
    unread: int
    dropped: int
    with_decoding: dict[str, float]
    stages_fps: float
    each_ms: dict[str, float | None]
    stats: Stats
    plan: Plan
    plans: list[tuple[int, Plan]]
    moves: list[Move]
    broken: PipeallError | None
    interrupted: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it."""
        content = {
            "frames": self.frames,
            "warm_up": self.warm_up,
            "unread": self.unread,
            "dropped": self.dropped,
            "with_decoding": self.with_decoding,
            "stages_fps": self.stages_fps,
            "each_ms": self.each_ms,
            "stats": self.stats.to_dict(),
        }
        content |= {"interrupted": True} if self.interrupted else {}
        return content | ({"error": str(self.broken)} if self.broken else {})


class Meter:
    """Counts frames and what is done for them in Python; figures are of the frames after the first ones."""

    def __init__(self, pipe: Pipeline):
        self._pipe = pipe
        self._held = sum(map(full_load, pipe.plan.lanes))
        self._first = self._since = (time.perf_counter(), pipe.snapshot())
        self.frames = 0
        self.interrupted = False
        self._spent_ns = {"answer": 0, "draw": 0}

    def spent(self, on: str, begin_ns: int) -> None:
        self._spent_ns[on] += time.perf_counter_ns() - begin_ns

    def timed(self, reader: Reader) -> Task:
        """The reader, with the time that it takes counted."""

        def answer(outputs: dict[str, np.ndarray], placed: Any) -> Any:
            begin_ns = time.perf_counter_ns()
            answer = reader(outputs, placed)
            self.spent("answer", begin_ns)
            return answer

        return answer

    def seen(self) -> None:
        """A frame is done."""
        self.frames += 1
        if self.frames == self._held:
            self._since = (time.perf_counter(), self._pipe.snapshot())

    def ran(self, frames: Frames, broken: PipeallError | None) -> Ran:
        warm_up = self._held if self.frames >= 2 * self._held else 0
        begin, since = self._since if warm_up else self._first
        seconds = time.perf_counter() - begin
        each: dict[str, float | None] = {"read": frames.read_ms}
        each |= {name: ns / max(1, self.frames) / 1e6 for name, ns in self._spent_ns.items()}
        return Ran(
            self.frames,
            warm_up,
            frames.unread,
            self._pipe.stats().dropped,
            {"seconds": seconds, "fps": (self.frames - warm_up) / seconds},
            self._stages_fps(since),
            each,
            self._pipe.stats(since if warm_up else None),
            self._pipe.plan,
            list(self._pipe.plans),
            list(self._pipe.moves),
            broken,
            self.interrupted,
        )

    def _stages_fps(self, since: Snapshot) -> float:
        window = [row.since(since.counters) for row in self._pipe.counters()]
        return sum(1e3 / ms for ms in slowest_ms(window) if ms)


def run_frames(
    pipe: Pipeline,
    frames: Frames,
    drop: str,
    reader: Reader,
    show: Show,
    pictures: list[HandOn],
    chosen: Callable[[], Choice],
    quiet: bool,
) -> Ran:
    """Runs all frames and closes the pipeline. At SIGHUP it goes on with what ``chosen`` gives then.

    ``show`` gets each answer, once where sources are repeated; ``pictures`` get the frame with its answer drawn in.
    An error after the first answer, also of what closing it writes, and Ctrl-C end the run and are told.
    """
    broken, meter = None, Meter(pipe)
    try:
        with Reload(partial(_replace, pipe, meter, frames, chosen)).listening():
            _run(pipe, meter, frames, drop, reader, show, pictures, quiet)
    except PipeallError as error:
        if not meter.frames:
            raise
        broken = error
    return meter.ran(frames, broken)


def _replace(pipe: Pipeline, meter: Meter, frames: Frames, chosen: Callable[[], Choice]) -> str:
    """Runs what is chosen now; what that is, in words."""
    graph, reader, plan = chosen()
    pipe.replace(graph, plan, input=reader.fed(frames.layout), task=meter.timed(reader))
    return f"{graph.name} on {plan}"


def _run(
    pipe: Pipeline,
    meter: Meter,
    frames: Frames,
    drop: str,
    reader: Reader,
    show: Show,
    pictures: list[HandOn],
    quiet: bool,
) -> None:
    """Raises what ended it, or what came of closing the pipeline."""
    with pipe, progress(quiet or not sys.stderr.isatty()) as bar:
        shown = bar.add_task(f"{pipe.graph.name} on {pipe.plan}", total=frames.total)
        stream = pipe.stream(frames.apart(), drop, meter.timed(reader))
        try:
            for seen in stream:
                if not seen.frame.again:
                    show(seen)
                    begin_ns = time.perf_counter_ns()
                    wanted = [hand_on for hand_on in pictures if hand_on.wanted]
                    picture = drawn(seen.frame.rgb, seen.result) if wanted else None
                    for hand_on in wanted:
                        hand_on.add(picture, seen)
                    meter.spent("draw", begin_ns)
                meter.seen()
                bar.advance(shown)
        except KeyboardInterrupt:
            meter.interrupted = True
        finally:
            frames.close()
            with suppress(PipeallError):  # what ended it is known already
                stream.close()
