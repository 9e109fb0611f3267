"""Live sources: capture, submit and result each on a thread of their own, so that none waits for another.

A ``Feed`` takes frames from a source and submits them while the caller takes results. Where old frames are dropped, a
frame that waits is replaced by the next one, and it goes in when the slowest stage will be ready for it: frames that
wait inside of the pipeline grow old there.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..picture import Placed
from . import runtime
from .border import Frame
from .stats import StageCounters, slowest_ms

Outcome = tuple["LiveResult | None", BaseException | None]  # of asking for the next: what came, or what was raised
Task = Callable[[dict[str, np.ndarray], Placed], Any]
DROPS = ("oldest", "none")
WINDOW = 8  # frames over which the time of a stage is averaged
CHECK_S = 0.1  # how often a thread that waits looks whether it shall end
CLOSE_S = 1.0  # for whoever takes results to leave a stream that is closed by another: a task may take long


@dataclass(frozen=True, slots=True)
class LiveResult:
    """A frame of a live source, and what came of it.

    number       of the frame in the pipeline
    frame        as the source gave it
    result       of the network, or of the task
    placed       where the frame lies in the network's input; None without ``Picture``
    captured_ns, ready_ns   when the source gave it, and when its result was there (CLOCK_MONOTONIC)
    """

    number: int
    frame: Frame
    result: Any
    placed: Placed | None
    captured_ns: int
    ready_ns: int

    @property
    def latency_ms(self) -> float:
        """From capture to result."""
        return (self.ready_ns - self.captured_ns) / 1e6


class Feed:
    """Submits the frames of a source from ``start`` until it ends, breaks or ``stop`` is called.

    try_submit  takes a frame in, or says False
    gate        changes when there may be room
    newest      drop what waits for room when the next frame is there
    pending     with ``newest``: frames under way, which are kept few
    counters    and of the stages, which say when they will be ready for another frame

    inside   (frame, when it was captured) of the frames submitted, oldest first; whoever takes results takes them out
    dropped  frames that were replaced while they waited
    broken   what the source, or submitting, raised: SystemExit and its like too, since the end of a thread is not that
             of the stream
    done     no frame will come any more
    stopped  no more results are wanted
    """

    def __init__(
        self,
        source: Iterable[Frame],
        try_submit: Callable[[Frame], bool],
        gate: runtime.Gate,
        newest: bool = False,
        pending: Callable[[], int] = int,
        counters: Callable[[], list[StageCounters]] = list,
    ):
        self.inside: deque[tuple[Frame, int]] = deque()
        self.dropped, self.done, self.stopped = 0, False, False
        self.broken: BaseException | None = None
        self._try_submit, self._gate, self._pending = try_submit, gate, pending
        self._pace = Pace(counters)
        self._waiting: tuple[Frame, int] | None = None
        self._changed = threading.Condition()
        self._exhausted = False
        self._threads = [threading.Thread(target=self._capture, args=(source, newest), name="pa-capture", daemon=True)]
        if newest:
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

    def _capture(self, source: Iterable[Frame], newest: bool) -> None:
        try:
            for frame in source:
                captured = frame, runtime.now_ns()
                if self.stopped:
                    return
                if newest:
                    self._replace(captured)
                else:
                    self._submit(captured, newest)
        except BaseException as error:  # whatever the source raises: it is raised where the results are taken
            self.broken = error
        finally:
            with self._changed:
                self._exhausted = True
                self._changed.notify_all()
            if not newest:
                self._finish()

    def _replace(self, captured: tuple[Frame, int]) -> None:
        with self._changed:
            self.dropped += self._waiting is not None
            self._waiting = captured
            self._changed.notify_all()

    def _submit(self, captured: tuple[Frame, int], newest: bool) -> None:
        while not self.stopped:
            ticket = self._gate.ticket()
            if not newest or self._pending() <= self._pace.most:
                self.inside.append(captured)  # before whoever takes results can ask for it
                if self._try_submit(captured[0]):
                    return
                self.inside.pop()
            self._gate.wait(ticket, CHECK_S)
            captured = self._newer() or captured

    def _newer(self) -> tuple[Frame, int] | None:
        """What has come in the place of a frame that still waits for room."""
        with self._changed:
            newer, self._waiting = self._waiting, None
            self.dropped += newer is not None
            return newer

    def _hand_in(self) -> None:
        """Submits the newest frame whenever the slowest stage will be ready for it."""
        due_ns = 0
        try:
            while True:
                with self._changed:
                    while not self.stopped and not (self._exhausted and self._waiting is None):
                        left = (due_ns - runtime.now_ns()) / 1e9
                        if self._waiting is not None and left <= 0:
                            break
                        self._changed.wait(left if self._waiting is not None else None)
                    captured, self._waiting = self._waiting, None
                if self.stopped or captured is None:
                    return
                self._submit(captured, newest=True)
                self._pace.look()
                due_ns = runtime.now_ns() + self._pace.period_ns
        except BaseException as error:
            self.broken = self.broken or error
        finally:
            self._finish()

    def _finish(self) -> None:
        self.done = True
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


class Stream:
    """What comes of a live source, each as soon as it is there: ``for seen in stream`` or ``async for``. Ends with the
    source; ``close``, or leaving the loop, ends it before. Frames under way are then taken out and dropped."""

    def __init__(self, results: Generator[LiveResult, None, None], stop: Callable[[], None]):
        self._results, self._stop = results, stop
        self._lock = threading.Lock()  # one thread at a time, also where an asyncio task was cancelled
        self._taker: int | None = None  # the thread that holds it
        self._asked: deque[Future[Outcome]] = deque()  # by event loops, oldest first; answered one at a time
        self._answering = threading.Lock()
        self._left: deque[Future[Outcome]] = deque()  # asked for by what was cancelled: who asks next gets them

    def __iter__(self) -> Iterator[LiveResult]:
        return self

    def __next__(self) -> LiveResult:
        seen, error = self._left.popleft().result() if self._left else self._outcome()
        if error is not None:
            raise error
        if seen is None:
            raise StopIteration
        return seen

    def __aiter__(self) -> AsyncIterator[LiveResult]:
        return self

    async def __anext__(self) -> LiveResult:
        asked = self._left.popleft() if self._left else self._ask(asyncio.get_running_loop())
        try:
            seen, error = await asyncio.shield(asyncio.wrap_future(asked))
        except asyncio.CancelledError:  # wait_for was tired of it, say
            self._left.append(asked)
            raise
        if error is not None:
            raise error
        if seen is None:
            raise StopAsyncIteration
        return seen

    def _ask(self, loop: asyncio.AbstractEventLoop) -> Future[Outcome]:
        """For the next outcome, of a thread. Unlike the loop's own futures, a later loop can wait for it too."""
        asked: Future[Outcome] = Future()
        self._asked.append(asked)
        loop.run_in_executor(None, self._answer)
        return asked

    def _answer(self) -> None:
        with self._answering:
            outcome = self._outcome()
            self._asked.popleft().set_result(outcome)

    def _outcome(self) -> Outcome:
        with self._lock:
            self._taker = threading.get_ident()
            try:
                return next(self._results, None), None
            except BaseException as error:  # raised by whoever takes it
                return None, error
            finally:
                self._taker = None

    def close(self) -> None:
        """Ends the stream: also from within its task, from another thread, and in an event loop, while a thread waits
        for the next result, which then is none. Waits CLOSE_S for that thread at most. Safe to call twice."""
        self._stop()
        self._left.clear()
        if self._taker != threading.get_ident() and self._lock.acquire(timeout=CLOSE_S):
            try:
                self._results.close()
            finally:
                self._lock.release()
