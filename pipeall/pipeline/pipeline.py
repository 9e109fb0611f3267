"""Pipeline: frames in, results out, in order, through native stages.

Frames and plans live in ``lanes.Lanes``; here are the checks, the waiting, the statistics and the end.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from .. import _kernels, env  # noqa: F401 _kernels says where nothing was built, ahead of runtime
from ..arguments import checked, function, gone_through, one_of, optional, seconds
from ..errors import ArgumentError, PipelineError, PipelineTimeoutError
from ..graph.ir import Graph
from ..graph.onnx.read.source import ModelSource
from ..graph.passes.picture_input import pictures_of, with_picture
from ..picture import Picture, Placed
from . import runtime
from .boards.board import Board
from .boards.machine import describe
from .boards.twin import Twin
from .border import Border, Entry, Frame
from .checks import FACTOR, RULES, check_depth, check_pace, drift_of, limited
from .defaults import chosen
from .lanes import Lanes, Move
from .live import DROPS, Feed, LiveResult, Stream
from .planning.plan import Plan
from .planning.profile import Profile
from .planning.rings import FrameTimes
from .rebalance import Rebalancer
from .stats import Snapshot, StageCounters, Stats, StatsRecorder
from .trace import StageTrace, save

CHECK_S, STALLED_S = 0.2, 10.0  # after which submit asks whether anybody takes results


class Pipeline:
    """Runs a network by a plan: each stage on its unit, all at once.

    graph    the network, or the model that it is read from, as for ``load``
    plan     a Plan, its text, such as ``"G-B-L:3,5"`` or ``"Bx3-Bx1:4"``, or its file; default: the best of a search
             in the profile of ``rebalance``, of the board's model, or the one that ``pipeall.profile`` kept of this
             network on this machine; without any, all real components with about equal MACs (``choice`` says which)
    board    where to run: a Board, or what ``Board.load`` takes; default ``Board.detect()``
    slots    slots per ring: 2 is double buffering; each more adds throughput under jitter, memory and latency
    threads  component name -> number of its cores to use, for stages of the plan that do not say; default all
    depth    most frames under way in a lane, results not taken included; default one more than its stages work on:
             that keeps all stages busy, each more only waits in a ring
    trace    record every step of the latest frames (``trace`` after ``close``); a path: also write them for Perfetto
    pace     run here at the pace of a board that is not at hand (``twin.py``): for ``board=Board.load(...)``
    time_scale  with ``pace``: how many times as long as on the board everything takes
    rebalance   a Profile of the network on this board (or True with ``pace``): the plan moves when a component gets
             slower or faster than it says (``rebalance.py``), to the best by the goal that it was found for

    input       how pictures become the network's input: frames are then pictures of any size (``pipeall.Picture``),
                read in place when their frame is computed, so they must not change until its result is there

    Starts the stage threads. Use as a context manager, or call ``close``. One thread may submit while another
    takes results. Raises ArgumentError for a plan that does not fit the network or the board's cores, DeviceError for
    a component that is absent or does not start.
    """

    @checked(**RULES)
    def __init__(
        self,
        graph: Graph | ModelSource,
        plan: Plan | str | Path | None = None,
        board: Board | str | Path | None = None,
        slots: int = 2,
        threads: Mapping[str, int] | None = None,
        depth: int | None = None,
        trace: bool | str | Path = False,
        pace: bool = False,
        time_scale: float = 1.0,
        rebalance: bool | Profile = False,
        input: Picture | None = None,
    ):
        self.rebalancer: Rebalancer | None = None
        self._closed = False
        self._trace: list[StageTrace] = []
        pictured = graph if input is None else with_picture(graph, input)
        divided = pictured if input and input.apart else graph  # what profiles that are kept know
        plan, self.choice = chosen(divided, board, plan, rebalance)
        graph = pictured
        plan = limited(plan, threads or {})
        check_depth(depth, slots, plan)
        fault = env.fault()
        if fault and all(fault[0] >= len(lane) for lane in plan.lanes):
            raise ArgumentError(f"PIPEALL_FAULT: expected a stage of plan {plan} (from 0), got {fault[0]}")
        check_pace(pace, board)
        twin = Twin(graph, board, time_scale) if pace else None
        drift = drift_of(divided, plan, board, twin, rebalance)
        self.graph, self.board = graph, board
        self._twin, self._trace_to = twin, trace
        self._submit_lock, self._result_lock, self._close_lock = (threading.Lock() for _ in range(3))
        self._process = os.getpid()
        self._error: PipelineError | None = None
        self._taker: threading.Thread | None = None  # who took a result last
        self._recorder = StatsRecorder()
        self.lanes = Lanes(graph, plan, board, twin, slots=slots, depth=depth, record=trace is not False, fault=fault)
        lane = self.lanes.all[0]
        self._border = Border(lane.slot_in, graph, pictures_of(graph))
        if drift:
            self.rebalancer = Rebalancer(drift, self.lanes.end_left, self.lanes.move, time_scale)
            weakref.finalize(self, self.rebalancer.close)  # at the interpreter's exit: before the lanes it has left

    def __repr__(self) -> str:
        return f"<Pipeline of {self.about}, plan {self.choice}>" if "lanes" in vars(self) else "<Pipeline, not started>"

    @property
    def about(self) -> str:
        """Network, plan, what it runs on and how far it is, in a line."""
        state = "closed" if self._closed else "failed" if self._error else "open"
        return f"{self.graph.name} on {self.plan}: {self._recorder.frames} frames done, {self.pending} pending, {state}"

    @property
    def plan(self) -> Plan:
        """The present plan."""
        return self.lanes.plan

    @property
    def trace(self) -> list[StageTrace]:
        """What was recorded with ``trace=``, by stage, after ``close``."""
        return self._trace

    # ---- frames in

    def check_open(self) -> None:
        """Raises PipelineError once a frame has failed, after ``close``, and in a fork."""
        if self._error:
            error = self._error
            raise PipelineError(str(error), error.stage, error.component, error.frame)
        if self._closed:
            raise PipelineError("the pipeline is closed: expected submit and result before close()")
        if self._process != os.getpid():
            raise PipelineError(f"the pipeline's threads are in process {self._process}: a fork has to make its own")

    def submit(self, x: Frame, timeout: float | None = None) -> int:
        """Copies a frame in and returns its number (from 0); waits while the pipeline is full.

        x: an array of the model's own layout and type, or a dict of them by input name. Raises ArgumentError for
        another shape or type, PipelineError once a stage has failed or after close(), PipelineTimeoutError after
        ``timeout`` s.
        Where a signal handler raises (Ctrl-C), ``pending`` tells whether the frame went in.
        """
        number = self._wait(seconds("timeout", timeout), self._submit_lock, self._try_numbered, self._border.entry(x))
        if number is None:
            raise PipelineTimeoutError(f"submit: the pipeline was full for {timeout} s")
        return number

    def compute(self, x: Frame) -> Frame:
        """The result of a frame while no other is under way: that of ``submit`` and ``result``, or sooner, where this
        thread computes it in the place of the only stage's (``stage.h``).

        x: as for ``submit``. Returns what ``result`` does, and waits for it. Raises ArgumentError for another shape or
        type, PipelineError (with stage, component and frame) when the frame failed, and after close().
        """
        entry = self._border.entry(x)
        self.check_open()
        with self._submit_lock:
            computed = self.lanes.run_inline(entry)
        if not computed:
            self._wait(inf, self._submit_lock, self._try_numbered, entry)
            return self.result()
        with self._result_lock:
            arrived = self._try_result()
        return self._border.result(arrived.arrays) if arrived else self.result()

    def _try_numbered(self, entry: Entry) -> int | None:
        """The number under which the frame was taken in; None while the pipeline is full."""
        number = self.lanes.frames.submitted
        if self.lanes.try_submit(entry):
            return number
        if self.lanes.failed:
            raise PipelineError("a stage has failed: result() gives the earlier frames, then names stage and frame")
        return None

    def _check_taken(self, waited_s: float) -> None:
        """Raises PipelineError where a full pipeline can only wait for ``result``, which no other thread
        has ever called: at once if there is none, else after STALLED_S."""
        taker = self._taker
        if taker is not None and taker is not threading.current_thread() and taker.is_alive():
            return
        if waited_s > (STALLED_S if threading.active_count() > 1 else CHECK_S) and self.lanes.ready:
            raise PipelineError(
                f"submit: the pipeline is full, {self.pending} results are ready: expected another thread to call "
                "result(), or a timeout"
            )

    # ---- results out

    def _try_result(self) -> runtime.Arrived | None:
        """The next result in order, if it has arrived."""
        arrived = self.lanes.try_result()
        if arrived is None:
            return None
        if arrived.error:
            self._error = arrived.error
            raise arrived.error
        self._recorder.add(arrived.times)
        return arrived

    def result(self, timeout: float | None = None) -> Frame:
        """The oldest result not yet taken: an array, or a dict where the model has several outputs.

        Waits for it, also where nothing has been submitted yet. Raises PipelineError (with stage, component and frame)
        when that frame failed or the pipeline is closed, PipelineTimeoutError after ``timeout`` s.
        """
        self._taker = threading.current_thread()
        arrived = self._wait(seconds("timeout", timeout), self._result_lock, self._try_result)
        if arrived is None:
            raise PipelineTimeoutError(f"result: frame {self.lanes.frames.delivered} did not arrive within {timeout} s")
        return self._border.result(arrived.arrays)

    def map(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Results of ``frames``, in order, lazily, each as soon as it is ready; the pipeline is kept full, no more is
        taken from the source than fits and one. A thread of its own takes them, so that no result waits for a source.

        An error of the source, or a frame that does not fit, is raised after the results of the frames before it.
        Whoever breaks off early takes what is under way with ``result``, ``pending`` times, or drops it with ``close``.
        """
        gone_through("frames", frames)
        self._check_empty("map")
        feed = Feed(frames, self._try_submit, self.lanes.gate)
        feed.start()
        try:
            while (arrived := self._next_of(feed)) is not None:
                feed.inside.popleft()
                yield self._border.result(arrived.arrays)
        finally:
            feed.stop()
            feed.join()

    def stream(
        self,
        source: Iterable[Frame],
        drop: str = "oldest",
        task: Callable[[dict[str, np.ndarray], Placed], Any] | None = None,
    ) -> Stream:
        """What comes of a live source (``LiveResult``), in order, each as soon as it is ready.

        drop  ``oldest``: where the pipeline is slower than the source, a frame that waits is dropped when the next one
              is there, and counted (``stats``); ``none``: the source waits
        task  makes the result of the outputs by name, and of where the picture lies in the network's input, as
              ``pipeall.tasks.task`` does

        Errors as for ``map``. For ``async for`` as well.
        """
        gone_through("source", source)
        one_of(*DROPS)("drop", drop)
        optional(function)("task", task)
        if task is not None and not self._border.pictured:
            raise ArgumentError("stream: expected a pipeline with input=Picture(...) for a task, got one without")
        self._check_empty("stream")
        newest = drop == "oldest"
        feed = Feed(source, self._try_submit, self.lanes.gate, newest, lambda: self.pending, self.counters)
        return Stream(self._live(feed, task), feed.stop)

    def _live(self, feed: Feed, task: Callable[..., Any] | None) -> Generator[LiveResult, None, None]:
        feed.start()
        try:
            while (arrived := self._next_of(feed)) is not None:
                frame, captured_ns = feed.inside.popleft()
                result, placed = self._border.result(arrived.arrays), self._border.placed(frame)
                ready_ns = arrived.times[3][-1]
                if task is not None:
                    result = task(self._border.named(arrived.arrays), placed)
                    ready_ns = runtime.now_ns()
                    if feed.stopped:  # by the task
                        return
                self._recorder.add_live(ready_ns - captured_ns, feed.dropped)
                yield LiveResult(arrived.times[0], frame, result, placed, captured_ns, ready_ns)
        finally:
            feed.stop()
            feed.join()
            while self.pending and not self._closed and not self._error:
                self.result()

    def _check_empty(self, what: str) -> None:
        if self.pending:
            raise ArgumentError(f"{what}: expected an empty pipeline, got one with {self.pending} results not taken")

    def _try_submit(self, x: Frame) -> bool:
        self.check_open()
        entry = self._border.entry(x)
        with self._submit_lock:
            return self.lanes.try_submit(entry)

    def _next_of(self, feed: Feed) -> runtime.Arrived | None:
        """The next result of what is fed; None after the last, and once it is stopped. Raises what ended it early."""
        while True:
            self.check_open()
            ticket = self.lanes.gate.ticket()
            if feed.stopped:
                return None
            done = feed.done  # before the results are looked at: what is submitted then comes before its end
            with self._result_lock:
                arrived = self._try_result()
            if arrived is not None:
                return arrived
            if done and not self.pending:
                if feed.broken:
                    raise feed.broken
                return None
            self.lanes.gate.wait(ticket)

    def _wait(self, timeout: float, lock: threading.Lock, attempt: Callable[..., Any], *arguments: Any) -> Any:
        """Calls ``attempt``, holding ``lock``, until it gives something; None after ``timeout`` seconds."""
        begin, delivered = time.monotonic(), self.lanes.frames.delivered
        deadline = begin + timeout
        while True:
            self.check_open()  # before the lock: a fork may have been made while another thread held it
            ticket = self.lanes.gate.ticket()
            with lock:
                done = attempt(*arguments)
            if done is not None:
                return done
            if self.lanes.frames.delivered != delivered:
                begin, delivered = time.monotonic(), self.lanes.frames.delivered
            if timeout == inf and lock is self._submit_lock:
                self._check_taken(time.monotonic() - begin)
            left = min(0.1, deadline - time.monotonic())
            if left <= 0:
                return None
            self.lanes.gate.wait(ticket, left)

    # ---- about the run

    def stats(self, since: Snapshot | None = None) -> Stats:
        """Measured throughput, latency and use of each stage since the start, or since a ``snapshot``."""
        return self._recorder.stats(self.counters(), since)

    def snapshot(self) -> Snapshot:
        """Where a window of ``stats`` begins: what has been measured until now."""
        return self._recorder.snapshot(self.counters())

    def counters(self) -> list[StageCounters]:
        """What each stage of each lane that takes frames has done until now; any thread may ask at any time."""
        return self.lanes.counters()

    def throttle(self, component: str, factor: float) -> None:
        """With ``pace``: from their next frame on, a component's stages take ``factor`` times as long as modelled.

        So a board that gets too hot is played; 1 is as modelled again. Any thread may call it. Raises ArgumentError
        without ``pace``, and unless the factor is above 0 and finite.
        """
        if self._twin is None:
            raise ArgumentError(f"throttle {component}: expected a pipeline with pace=True")
        self.lanes.throttle(self.board.component(component).name, FACTOR("factor", factor))

    @property
    def plans(self) -> tuple[tuple[int, Plan], ...]:
        """The latest plans and the first frame that each was for, oldest first: more than one with ``rebalance``."""
        return tuple(self.lanes.plans)

    @property
    def moves(self) -> tuple[Move, ...]:
        """The latest moves to another plan: the first frame that each was for, the plan, and why."""
        return tuple(self.lanes.moves)

    @property
    def pending(self) -> int:
        """Frames submitted whose results have not been taken."""
        return self.lanes.pending

    @property
    def times(self) -> tuple[FrameTimes, ...]:
        """Time stamps of the latest results taken, oldest first."""
        return self._recorder.times

    def close(self) -> None:
        """Ends the stages, drops frames whose results were not taken, and writes the trace. Safe to call twice.

        Raises ArgumentError where the trace cannot be written.
        """
        with self._close_lock:
            first, self._closed = not self._closed, True
            if self.rebalancer:
                self.rebalancer.close()
            self.lanes.close()
            if first and self._trace_to is not False and self._process == os.getpid():
                self._trace = self.lanes.end_traces()
                if self._trace_to is not True:
                    plans = [[frame, str(plan)] for frame, plan in self.lanes.plans]
                    about = describe(self.board) | {"network": self.graph.name, "plans": plans}
                    save(self._trace_to, self._trace, about)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
