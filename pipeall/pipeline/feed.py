"""Frames of live sources on their way in: capture and submit are threads of their own, so that none waits for another.

A ``Feed`` takes frames from sources and submits them while the caller takes results. Where old frames are dropped, a
frame that waits is replaced by the next one of its source, and it goes in when the slowest stage will be ready for it:
frames that wait inside of the pipeline grow old there. Several sources take turns.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from . import runtime
from .border import Frame
from .stats import SourceCounter, StageCounters, slowest_ms

WINDOW = 8  # frames over which the time of a stage is averaged
CHECK_S = 0.1  # how often a thread that waits looks whether it shall end


class Captured(NamedTuple):
    """A frame, when its source gave it (CLOCK_MONOTONIC), and what counts that source's frames."""

    frame: Frame
    ns: int
    counter: SourceCounter


class Waiting:
    """What a source has given that did not go in yet. ``turn``: when one of its frames was handed in last."""

    def __init__(self, frames: Iterable[Frame], counter: SourceCounter):
        self.frames, self.counter = frames, counter
        self.captured: Captured | None = None
        self.turn, self.exhausted = -1, False

    def taken(self) -> Captured | None:
        captured, self.captured = self.captured, None
        return captured


class Feed:
    """Submits the frames of sources from ``start`` until all end, one breaks or ``stop`` is called.

    sources     frames of each, and what counts them
    try_submit  takes a frame in, or says False
    gate        changes when there may be room
    newest      drop what waits for room when the next frame of its source is there
    pending     with ``newest``: frames under way, which are kept few
    counters    and of the stages, which say when they will be ready for another frame

    inside   the frames submitted, oldest first; whoever takes results takes them out
    broken   what a source, or submitting, raised: SystemExit and its like too, since the end of a thread is not that
             of the stream
    done     no frame will come any more
    stopped  no more results are wanted
    """

    def __init__(
        self,
        sources: Sequence[tuple[Iterable[Frame], SourceCounter]],
        try_submit: Callable[[Frame], bool],
        gate: runtime.Gate,
        newest: bool = False,
        pending: Callable[[], int] = int,
        counters: Callable[[], list[StageCounters]] = list,
    ):
        self.inside: deque[Captured] = deque()
        self.done, self.stopped = False, False
        self.broken: BaseException | None = None
        self._try_submit, self._gate, self._pending = try_submit, gate, pending
        self._newest, self._pace = newest, Pace(counters)
        self._sources = [Waiting(*source) for source in sources]
        self._changed = threading.Condition()
        self._direct = not newest and len(sources) == 1  # its thread submits what it captures
        self._threads = [
            threading.Thread(target=self._capture, args=(source,), name="pa-capture", daemon=True)
            for source in self._sources
        ]
        if not self._direct:
            self._threads.append(threading.Thread(target=self._hand_in, name="pa-submit", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Submits no frame any more, and wakes whoever waits for a result. Any thread may call it.

        A source that is waiting for its next frame ends when that comes.
        """
        with self._changed:
            self.stopped = True
            self._changed.notify_all()
        self._gate.signal()

    def join(self) -> None:
        """Waits a little for its threads to end."""
        for thread in self._threads:
            thread.join(CHECK_S)

    def _capture(self, source: Waiting) -> None:
        try:
            for frame in source.frames:
                captured = Captured(frame, runtime.now_ns(), source.counter)
                if self.stopped or self.broken:
                    return
                if self._direct:
                    self._submit(captured, source)
                else:
                    self._replace(captured, source)
        except BaseException as error:  # whatever the source raises: it is raised where the results are taken
            self.broken = self.broken or error
        finally:
            with self._changed:
                source.exhausted = True
                self._changed.notify_all()
            if self._direct:
                self._finish()

    def _replace(self, captured: Captured, source: Waiting) -> None:
        with self._changed:
            while source.captured and not (self._newest or self.stopped or self.broken):
                self._changed.wait()
            source.counter.dropped += source.captured is not None
            source.captured = captured
            self._changed.notify_all()

    def _submit(self, captured: Captured, source: Waiting) -> None:
        while not self.stopped:
            ticket = self._gate.ticket()
            if not self._newest or self._pending() <= self._pace.most:
                self.inside.append(captured)  # before whoever takes results can ask for it
                if self._try_submit(captured.frame):
                    return
                self.inside.pop()
            self._gate.wait(ticket, CHECK_S)
            captured = (self._newest and self._newer(source)) or captured

    def _newer(self, source: Waiting) -> Captured | None:
        """What has come in the place of a frame that still waits for room."""
        with self._changed:
            newer = source.taken()
            source.counter.dropped += newer is not None
            return newer

    def _hand_in(self) -> None:
        """Submits the newest frame of the source that had to wait longest, when the slowest stage is ready for it."""
        due_ns, turn = 0, 0
        try:
            while source := self._next(due_ns):
                with self._changed:
                    captured = source.taken()
                    self._changed.notify_all()
                source.turn = turn = turn + 1
                self._submit(captured, source)
                if self._newest:
                    self._pace.look()
                    due_ns = runtime.now_ns() + self._pace.period_ns
        except BaseException as error:
            self.broken = self.broken or error
        finally:
            self._finish()

    def _next(self, due_ns: int) -> Waiting | None:
        """The source whose turn it is, once it is due; None when no more frame will come or is wanted."""
        with self._changed:
            while not self.stopped:
                ready = [source for source in self._sources if source.captured]
                if not ready and (self.broken or all(source.exhausted for source in self._sources)):
                    return None
                left = (due_ns - runtime.now_ns()) / 1e9
                if ready and left <= 0:
                    return min(ready, key=lambda source: source.turn)
                self._changed.wait(left if ready else None)
        return None

    def _finish(self) -> None:
        self.done = True
        with self._changed:
            self._changed.notify_all()
        self._gate.signal()


class Pace:
    """How often the stages take a frame, and how many are under way then, by the latest frames.

    period_ns  from one frame to the next: the slowest unit's time
    most       frames under way when the next one goes in. It meets no other then; each more would only wait
    """

    def __init__(self, counters: Callable[[], list[StageCounters]]):
        self._counters, self._before = counters, counters()
        self.period_ns, self.most = 0, max(len(self._before) - 1, 0)  # a frame for each stage, until it is known

    def look(self) -> None:
        rows = self._counters()
        if [(row.lane, row.stage) for row in rows] != [(row.lane, row.stage) for row in self._before]:
            self._before = rows  # the plan has moved
            return
        window = [row.since(self._before) for row in rows]
        if min(row.frames for row in window) < WINDOW:
            return
        whole: dict[int, float] = {}
        for row in window:
            whole[row.lane] = whole.get(row.lane, 0.0) + row.mean_ms()
        slowest = [max(ms, 1e-6) for ms in slowest_ms(window)]
        self._before = rows
        self.period_ns = int(1e6 / sum(1 / ms for ms in slowest))
        self.most = sum(int(ms / most) + 1 for ms, most in zip(whole.values(), slowest, strict=True)) - 1
