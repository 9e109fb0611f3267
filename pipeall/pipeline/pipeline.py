"""Pipeline: frames in, results out, in order, through native stages.

Frames and plans live in ``lanes.Lanes``; here are the checks, the waiting, the statistics and the end.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import env
from ..errors import ArgumentError, DeviceError, PipelineError, PipelineTimeoutError
from ..graph.ir import Graph
from ..graph.onnx.source import ModelSource
from . import runtime
from .boards.board import Board
from .boards.machine import describe
from .boards.twin import Twin
from .border import Border, Frame
from .defaults import as_graph, chosen
from .lanes import Lanes
from .planning.names import component_name, parse_unit
from .planning.plan import Plan
from .planning.profile import Profile
from .planning.rings import MAX_SLOTS, FrameTimes
from .rebalance import Drift, Rebalancer
from .stats import Snapshot, StageCounters, Stats, StatsRecorder
from .trace import StageTrace, save


class Pipeline:
    """Runs a network by a plan: each stage on its unit, all at once.

    graph    the network, or the model that it is read from, as for ``load``
    plan     a Plan or its text, such as ``"G-B-L:3,5"`` or ``"Bx3-Bx1:4"``; default: the best of a search in the
             profile of ``rebalance``, of the board's model, or the one that ``pipeall.profile`` kept of this network on
             this machine; without any, all real components with about equal MACs (``choice`` says which it was)
    board    where to run; default ``Board.detect()``
    slots    slots per ring: 2 is double buffering; each more adds throughput under jitter, memory and latency
    threads  component name -> number of its cores to use, for stages of the plan that do not say; default all
    depth    most frames under way in a lane, results not taken included; default one more than its stages work on:
             that keeps all stages busy, each more only waits in a ring
    trace    record every step of the latest frames (``trace`` after ``close``); a path: also write them for Perfetto
    pace     run here at the pace of a board that is not at hand (``twin.py``): for ``board=Board.load(...)``
    time_scale  with ``pace``: how many times as long as on the board everything takes
    rebalance   a Profile of the network on this board (or True with ``pace``): the plan moves when a component gets
             slower or faster than it says (``rebalance.py``)

    Starts the stage threads. Use as a context manager, or call ``close``. One thread may submit while another
    takes results. Raises ArgumentError for a plan that does not fit the network or the board's cores, DeviceError for
    a component that is absent or does not start.
    """

    def __init__(
        self,
        graph: Graph | ModelSource,
        plan: Plan | str | None = None,
        board: Board | None = None,
        slots: int = 2,
        threads: Mapping[str, int] | None = None,
        depth: int | None = None,
        trace: bool | str | Path = False,
        pace: bool = False,
        time_scale: float = 1.0,
        rebalance: bool | Profile = False,
    ):
        self.rebalancer: Rebalancer | None = None
        self._closed = False
        self._trace: list[StageTrace] = []
        _check(slots, trace)
        graph = as_graph(graph)
        board = board or Board.detect()
        plan, self.choice = chosen(graph, board, plan, rebalance)
        plan = _limited(plan, threads or {})
        _check_depth(depth, slots, plan)
        fault = env.fault()
        if fault and all(fault[0] >= len(lane) for lane in plan.lanes):
            raise ArgumentError(f"PIPEALL_FAULT: expected a stage of plan {plan} (from 0), got {fault[0]}")
        _check_pace(pace, board)
        twin = Twin(graph, board, time_scale) if pace else None
        drift = _drift(graph, plan, board, twin, rebalance)
        self.graph, self.board = graph, board
        self._twin, self._trace_to = twin, trace
        self._submit_lock, self._result_lock, self._close_lock = (threading.Lock() for _ in range(3))
        self._process = os.getpid()
        self._error: PipelineError | None = None
        self._recorder = StatsRecorder()
        self.lanes = Lanes(graph, plan, board, twin, slots=slots, depth=depth, record=trace is not False, fault=fault)
        lane = self.lanes.all[0]
        self._border = Border(lane.slot_in, lane.outputs)
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
        number = self._wait(timeout, self._submit_lock, self._try_numbered, self._border.pieces(x))
        if number is None:
            raise PipelineTimeoutError(f"submit: the pipeline was full for {timeout} s")
        return number

    def _try_numbered(self, pieces: list[tuple[int, np.ndarray]]) -> int | None:
        """The number under which the frame was taken in; None while the pipeline is full."""
        number = self.lanes.frames.submitted
        if self.lanes.try_submit(pieces):
            return number
        if self.lanes.failed:
            raise PipelineError("a stage has failed: result() gives the earlier frames, then names stage and frame")
        return None

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
        arrived = self._wait(timeout, self._result_lock, self._try_result)
        if arrived is None:
            raise PipelineTimeoutError(f"result: frame {self.lanes.frames.delivered} did not arrive within {timeout} s")
        return self._border.result(arrived.arrays)

    def map(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Results of ``frames``, in order, lazily; the pipeline is kept full, no more is taken from the source.

        An error of the source, or a frame that does not fit, is raised after the results of the frames before it.
        Whoever breaks off early takes what is under way with ``result``, ``pending`` times, or drops it with ``close``.
        """
        if self.pending:
            raise ArgumentError(f"map: expected an empty pipeline, got one with {self.pending} results not taken")
        source = iter(frames)
        waiting: list[tuple[int, np.ndarray]] | None = None
        exhausted = False
        broken: Exception | None = None
        while True:
            self.check_open()
            ticket = self.lanes.gate.ticket()
            with self._result_lock:
                arrived = self._try_result()
            if arrived is not None:  # before the next frame is asked for: a slow source delays no finished result
                yield self._border.result(arrived.arrays)
            if waiting is None and not exhausted:
                try:
                    waiting = self._border.pieces(next(source))
                except StopIteration:
                    exhausted = True
                except Exception as error:  # whatever the source raises: kept until the earlier results are out
                    exhausted, broken = True, error
            if waiting is not None:
                with self._submit_lock:
                    if self.lanes.try_submit(waiting):
                        waiting = None
                        continue
            if arrived is not None:
                continue
            if exhausted and not self.pending:
                if broken:
                    raise broken
                return
            self.lanes.gate.wait(ticket)

    def _wait(self, timeout: float | None, lock: threading.Lock, attempt: Callable[..., Any], *arguments: Any) -> Any:
        """Calls ``attempt``, holding ``lock``, until it gives something; None after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self.check_open()  # before the lock: a fork may have been made while another thread held it
            ticket = self.lanes.gate.ticket()
            with lock:
                done = attempt(*arguments)
            if done is not None:
                return done
            left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
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
        self.lanes.throttle(self.board.component(component).name, factor)

    @property
    def plans(self) -> tuple[tuple[int, Plan], ...]:
        """The latest plans and the first frame that each was for, oldest first: more than one with ``rebalance``."""
        return tuple(self.lanes.plans)

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


def _check(slots: int, trace: bool | str | Path) -> None:
    if not isinstance(slots, int) or not 1 <= slots <= MAX_SLOTS:
        raise ArgumentError(f"slots: expected 1 to {MAX_SLOTS}, got {slots!r}")
    if not isinstance(trace, bool) and not (isinstance(trace, (str, Path)) and Path(trace).parent.is_dir()):
        raise ArgumentError(f"trace: expected True, False or a path in a folder that exists, got {trace!r}")


def _check_depth(depth: int | None, slots: int, plan: Plan) -> None:
    room = slots * (max(map(len, plan.lanes)) + 1)
    if depth is not None and (not isinstance(depth, int) or not 1 <= depth <= room):
        raise ArgumentError(f"depth: expected 1 to {room}, as many as {slots} slots a ring hold, got {depth!r}")


def _check_pace(pace: bool, board: Board) -> None:
    if pace and board.model is None:
        raise DeviceError("pace: expected a model of a board, such as Board.load('a311d'), got a real one")
    if not pace and board.model is not None:
        raise DeviceError(f"board {board.model.name} is a model: expected pace=True to run at its pace here")


def _drift(graph: Graph, plan: Plan, board: Board, twin: Twin | None, rebalance: bool | Profile) -> Drift | None:
    """What watches the plan; of the profile's units those that are real, or that the plan names."""
    if rebalance is False:
        return None
    profile = twin.profile if twin and rebalance is True else rebalance
    if not isinstance(profile, Profile):
        raise ArgumentError(f"rebalance: expected a Profile of {graph.name} on this board, got {rebalance!r}")
    real = {component.name for component in board.components.values() if not component.stand_in}
    here = {unit: times for unit, times in profile.units.items() if parse_unit(unit)[0] in real | {*plan.components}}
    return Drift(graph, replace(profile, units=here), plan)


def _limited(plan: Plan, threads: Mapping[str, int]) -> Plan:
    """The plan with these numbers of cores for the components that it takes whole."""
    limits = {component_name(key): count for key, count in threads.items()}
    whole = {stage.component for lane in plan.lanes for stage in lane if stage.cores is None}
    if unknown := limits.keys() - whole:
        raise ArgumentError(f"threads: expected whole components of plan {plan}, got {', '.join(sorted(unknown))}")
    lanes = (
        tuple(replace(stage, cores=stage.cores or limits.get(stage.component)) for stage in lane) for lane in plan.lanes
    )
    return replace(plan, lanes=tuple(lanes))
