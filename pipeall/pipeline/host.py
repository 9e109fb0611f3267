"""The host's side of a pipeline: waiting for room and for results, in which order results are handed out, and the end.

Frames live in ``lanes.Lanes``. One thread may submit while another takes results.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from ..arguments import seconds
from ..errors import PipelineError, PipelineTimeoutError
from ..graph.ir import Graph
from ..graph.passes.picture_input import pictures_of
from ..picture import Placed
from . import runtime
from .boards.emulator import Emulator
from .border import Border, Entry, Frame
from .feed import Feed
from .lane import Lane
from .lanes import Lanes
from .planning.plan import Plan
from .stats import StatsRecorder

CHECK_S, STALLED_S = 0.2, 10.0  # after which submit asks whether another thread takes results
Given = TypeVar("Given")
Task = Callable[[dict[str, np.ndarray], Placed], Any]  # makes the result of a stream


class Delivered(NamedTuple):
    """The outputs of a frame, with the border of the network that computed it, and the task of its stream if that
    network has its own. ``times`` as of ``runtime.Arrived``."""

    times: Any
    arrays: list[np.ndarray]
    border: Border
    task: Task | None

    def result(self) -> Frame:
        """An array, or a dict by output name where the model has several outputs."""
        return self.border.result(self.arrays)


class FrameFuture:
    """The result of a frame that ``Pipeline.submit`` took in. It needs no thread: the caller of ``result`` waits.

    Attributes
    ----------
    number : int
        Of the frame, from 0.
    """

    def __init__(self, host: Host, number: int):
        self.number = number
        self._host = host
        self._arrived: Delivered | None = None

    def __repr__(self) -> str:
        return f"<FrameFuture of frame {self.number}{', done' if self._arrived else ''}>"

    def result(self, timeout: float | None = None) -> Frame:
        """The frame's result: an array, or a dict where the model has several outputs.

        The results of earlier frames stay, for ``result`` of the pipeline or of their own futures.

        Raises
        ------
        PipelineError
            When this frame or an earlier one failed, and once the pipeline is closed.
        PipelineTimeoutError
            After ``timeout`` seconds.
        """
        if self._arrived is None:
            self._host.take_of(self, seconds("timeout", timeout))
        if self._arrived is None:
            raise PipelineTimeoutError(f"result: frame {self.number} did not arrive within {timeout} s")
        return self._arrived.result()

    def done(self) -> bool:
        """Whether ``result`` would not wait."""
        try:
            self.result(0)
        except PipelineTimeoutError:
            return False
        except PipelineError:
            pass
        return True


class Host:
    """Frames in and results out of ``lanes``. Each result is handed out once: in order, or for its future.

    border    of the present network; it may be replaced between two frames
    recorder  collects the times of results
    error     of the stage that failed, once its frame has been reached
    closed    set by the pipeline
    """

    def __init__(self, lanes: Lanes):
        self.lanes, self.recorder = lanes, StatsRecorder()
        self.border = border = Border(lanes.all[0].slot_in, lanes.graph, pictures_of(lanes.graph))
        self._borders: deque[tuple[int, Border, Task | None]] = deque([(0, border, None)])  # and from which frame on
        self.error: PipelineError | None = None
        self.closed = False
        self._process = os.getpid()
        self._submitting, self._taking = threading.Lock(), threading.Lock()
        self._calling = threading.Lock()  # a call is a frame in and the result of that very frame
        self._taker: threading.Thread | None = None  # that took a result last
        self._futures: WeakValueDictionary[int, FrameFuture] = WeakValueDictionary()
        self._passed: dict[int, Delivered] = {}  # results that came before one that a future was asked for

    @property
    def pending(self) -> int:
        """Frames submitted whose results have not been taken."""
        return self.lanes.pending + len(self._passed)

    @property
    def forked(self) -> bool:
        """Whether this is a fork of the process that has the threads."""
        return self._process != os.getpid()

    def check_open(self) -> None:
        """Raises PipelineError once a frame has failed, after ``close``, and in a fork."""
        if self.error and not self._passed:
            error = self.error
            raise PipelineError(str(error), error.stage, error.component, error.frame)
        if self.closed:
            raise PipelineError("the pipeline is closed: expected submit and result before close()")
        if self._process != os.getpid():
            raise PipelineError(f"the pipeline's threads are in process {self._process}: a fork has to make its own")

    # ---- frames in

    def submit(self, x: Frame, timeout: float | None) -> FrameFuture:
        attempt = partial(self._try_submit, self.border.entry(x))
        limit = seconds("timeout", timeout)
        future = self._wait(attempt, limit, partial(self._make_room, raises=limit == inf))
        if future is None:
            raise PipelineTimeoutError(f"submit: the pipeline was full for {timeout} s")
        return future

    def compute(self, x: Frame) -> Frame:
        entry = self.border.entry(x)
        self.check_open()
        return self._compute(entry)

    def call(self, x: Frame) -> Frame:
        """``compute`` for threads that take turns."""
        entry = self.border.entry(x)
        self.check_open()  # before any lock
        with self._calling:
            while self.pending:  # a call that was interrupted left its frame
                self.result(None)
            return self._compute(entry)

    def _compute(self, entry: Entry) -> Frame:
        with self._submitting:
            computed = self.lanes.run_inline(entry.at(self.border))
        if not computed:
            self._wait(partial(self._try_submit, entry), inf)
            return self.result(None)
        with self._taking:
            arrived, border = self._try_arrived(), self._borders[0][1]
        return border.result(arrived.arrays) if arrived else self.result(None)

    def feed(self, x: Frame) -> bool:
        """Takes a frame of a source in; False while the pipeline is full."""
        self.check_open()
        entry = self.border.entry(x)
        with self._submitting:
            return self.lanes.try_submit(entry.at(self.border)) >= 0

    def _try_submit(self, entry: Entry) -> FrameFuture | None:
        """The future of a frame that was taken in; None while the pipeline is full."""
        with self._submitting:
            number = self.lanes.try_submit(entry.at(self.border))
            if number >= 0:
                future = self._futures[number] = FrameFuture(self, number)
                return future
        if self.lanes.failed:
            raise PipelineError("a stage has failed: result() gives the earlier frames, then names stage and frame")
        return None

    def _make_room(self, waited_s: float, raises: bool) -> None:
        """Takes a result out for its future, where a full pipeline can only wait for ``result`` and no other thread
        calls that. Raises PipelineError where there is no such future: at once if there is no other thread, else after
        STALLED_S."""
        taker = self._taker
        if taker is not None and taker is not threading.current_thread() and taker.is_alive():
            return
        with self._taking:
            oldest = next(iter(self._passed), self.lanes.frames.delivered)
            if oldest in self._futures and self.lanes.frames.delivered in self._futures:
                if arrived := self._try_delivered():
                    self._passed[arrived.times[0]] = arrived
                return
        late = waited_s > (STALLED_S if threading.active_count() > 1 else CHECK_S)
        if raises and late and self.lanes.ready:
            raise PipelineError(
                f"submit: the pipeline is full, {self.pending} results are ready: expected another thread to call "
                "result(), or a timeout"
            )

    def replace(
        self, lanes: tuple[Lane, ...], graph: Graph, plan: Plan, emulator: Emulator | None, task: Task | None
    ) -> None:
        """Lets new lanes of ``Lanes.started`` take the frames from the next one on; ends them where that cannot be."""
        try:
            border = Border(lanes[0].slot_in, graph, pictures_of(graph))
            with self._submitting:
                self.check_open()
                self.lanes.turn_to(lanes, graph, plan, emulator, "replaced")
                self._borders.append((self.lanes.frames.submitted, border, task))
                self.border = border
        except BaseException:
            self.lanes.end(lanes)
            raise
        self.lanes.end_left()

    # ---- results out

    def result(self, timeout: float | None) -> Frame:
        self._taker = threading.current_thread()
        arrived = self._wait(self._try_take, seconds("timeout", timeout))
        if arrived is None:
            raise PipelineTimeoutError(f"result: frame {self.lanes.frames.delivered} did not arrive within {timeout} s")
        with self._submitting:  # a frame that is being submitted gets its future first
            future = self._futures.get(arrived.times[0])
        if future:
            future._arrived = arrived
        return arrived.result()

    def take_of(self, future: FrameFuture, timeout: float) -> None:
        """Waits for the result of a future, and gives it that; after ``timeout`` seconds it stays without."""
        self._taker = threading.current_thread()
        self._wait(partial(self._try_take_of, future), timeout)

    def next_of(self, feed: Feed) -> Delivered | None:
        """The next result of what is fed; None after the last, and once it is stopped. Raises what ended it early."""

        def attempt() -> tuple[Delivered | None] | None:
            if feed.stopped:
                return (None,)
            done = feed.done  # before the results are looked at: what is submitted then comes before its end
            if arrived := self._try_take():
                return (arrived,)
            if not done or self.pending:
                return None
            if feed.broken:
                raise feed.broken
            return (None,)

        (arrived,) = self._wait(attempt, inf)
        return arrived

    def _try_take(self) -> Delivered | None:
        """The oldest result that was not handed out, if it has arrived."""
        with self._taking:
            return self._passed.pop(next(iter(self._passed))) if self._passed else self._try_delivered()

    def _try_take_of(self, future: FrameFuture) -> bool | None:
        with self._taking:
            if future._arrived is None:
                future._arrived = self._passed.pop(future.number, None)
            while future._arrived is None and (arrived := self._try_delivered()):
                if arrived.times[0] == future.number:
                    future._arrived = arrived
                else:
                    self._passed[arrived.times[0]] = arrived
            return True if future._arrived else None

    def _try_delivered(self) -> Delivered | None:
        arrived = self._try_arrived()
        return Delivered(arrived.times, arrived.arrays, *self._borders[0][1:]) if arrived else None

    def _try_arrived(self) -> runtime.Arrived | None:
        """The next result in order, if it has arrived, of the first of ``_borders``; with ``_taking``."""
        arrived = self.lanes.try_result()
        if arrived is None:
            return None
        if arrived.error:
            self.error = arrived.error
            raise arrived.error
        self.recorder.add(arrived.times)
        while len(self._borders) > 1 and self._borders[1][0] <= arrived.times[0]:
            self._borders.popleft()
        if len(self.lanes.all) > len(self.lanes.open):
            self.lanes.end_left()
        return arrived

    def _wait(
        self, attempt: Callable[[], Given | None], timeout: float, while_waiting: Callable[[float], Any] | None = None
    ) -> Given | None:
        """Calls ``attempt`` until it gives something; None after ``timeout`` seconds.

        ``while_waiting`` is told for how long no result was taken.
        """
        begin, delivered = time.monotonic(), self.lanes.frames.delivered
        deadline = begin + timeout
        while True:
            self.check_open()  # before any lock: a fork may have been made while another thread held it
            ticket = self.lanes.gate.ticket()
            if (done := attempt()) is not None:
                return done
            if self.lanes.frames.delivered != delivered:
                begin, delivered = time.monotonic(), self.lanes.frames.delivered
            if while_waiting:
                while_waiting(time.monotonic() - begin)
            left = min(0.1, deadline - time.monotonic())
            if left <= 0:
                return None
            self.lanes.gate.wait(ticket, left)
