"""What comes of live sources: results one by one, for loops of threads and of asyncio."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..picture import Placed
from . import runtime
from .border import Frame
from .feed import Feed
from .host import Host, Task

if TYPE_CHECKING:
    import asyncio

Outcome = tuple["LiveResult | None", BaseException | None]  # of asking for the next: what came, or what was raised
DROPS = ("oldest", "none")
CLOSE_S = 1.0  # for whoever takes results to leave a stream that is closed by another: a task may take long


@dataclass(frozen=True, slots=True)
class LiveResult:
    """A frame of a live source, and what came of it.

    number       of the frame in the pipeline
    frame        as the source gave it
    result       of the network, or of the task
    placed       where the frame lies in the network's input; None without ``Picture``
    captured_ns, ready_ns   when the source gave it, and when its result was there (CLOCK_MONOTONIC)
    source       the name of its source, where there are several
    """

    number: int
    frame: Frame
    result: Any
    placed: Placed | None
    captured_ns: int
    ready_ns: int
    source: str | None = None

    @property
    def latency_ms(self) -> float:
        """From capture to result."""
        return (self.ready_ns - self.captured_ns) / 1e6


def live_results(host: Host, feed: Feed, task: Task | None) -> Generator[LiveResult, None, None]:
    """What comes of the frames of a feed, which starts and ends with it; ``task`` as for ``Pipeline.stream``."""
    feed.start()
    try:
        while (arrived := host.next_of(feed)) is not None:
            captured = feed.inside.popleft()
            result, placed = arrived.result(), arrived.border.placed(captured.frame)
            ready_ns = arrived.times[3][-1]
            making = arrived.task or task
            if making is not None:
                result = making(arrived.border.named(arrived.arrays), placed)
                ready_ns = runtime.now_ns()
                if feed.stopped:  # by the task
                    return
            host.recorder.add_live(captured.counter, ready_ns - captured.ns)
            name = captured.counter.name
            yield LiveResult(arrived.times[0], captured.frame, result, placed, captured.ns, ready_ns, name)
    finally:
        feed.stop()
        feed.join()
        while host.pending and not host.closed and not host.error:
            host.result(None)


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
        import asyncio  # 7 MB, which loops of threads do without

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
