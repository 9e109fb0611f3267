"""Pipeline and Engine: frames in, results out, in order, through native stages.

A plan's lanes (``lane.Lane``) share one gate. A frame goes to the lane with room that has the fewest under way; with
several lanes (Parallel) results are put back into frame order here, with a bounded number of frames under way. A plan
that moves (``rebalance.py``) gets a lane of its own: new frames go there, those under way end in the lane they are in.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import env
from ..errors import ArgumentError, DeviceError, PipelineError, PipelineTimeoutError
from ..graph.ir import Graph
from . import runtime
from .boards.board import Board
from .boards.machine import describe
from .boards.twin import Twin
from .boards.units import units
from .devices.component import Component
from .lane import Lane
from .planning.names import component_name, parse_unit
from .planning.plan import Plan, StagePlan
from .planning.profile import Profile
from .planning.rings import MAX_SLOTS, REORDER, FrameTimes
from .rebalance import Drift, Rebalancer
from .stats import Snapshot, StageCounters, Stats, StatsRecorder
from .trace import StageTrace, save

KEPT_PLANS = 100  # latest plans that a rebalanced pipeline remembers
KEPT_TRACES = 12  # stages of lanes that it has left; the log of one has some megabytes

Frame = np.ndarray | Mapping[str, np.ndarray]


class Pipeline:
    """Runs a network by a plan: each stage on its unit, all at once.

    graph    the network
    plan     a Plan or its text, such as ``"G-B-L:3,5"`` or ``"Bx3-Bx1:4"``
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
        graph: Graph,
        plan: Plan | str,
        board: Board | None = None,
        slots: int = 2,
        threads: Mapping[str, int] | None = None,
        depth: int | None = None,
        trace: bool | str | Path = False,
        pace: bool = False,
        time_scale: float = 1.0,
        rebalance: bool | Profile = False,
    ):
        self.trace: list[StageTrace] = []
        self._lanes: tuple[Lane, ...] = ()  # replaced as a whole, so that other threads see all or nothing of a move
        self._open: tuple[Lane, ...] = ()  # those of them that take new frames
        self._rebalancer: Rebalancer | None = None
        self._closed = False
        if not isinstance(graph, Graph):
            raise ArgumentError(f"graph: expected one of pipeall.load or pipeall.zoo, got {type(graph).__name__}")
        if not isinstance(slots, int) or not 1 <= slots <= MAX_SLOTS:
            raise ArgumentError(f"slots: expected 1 to {MAX_SLOTS}, got {slots!r}")
        if not isinstance(trace, bool) and not (isinstance(trace, (str, Path)) and Path(trace).parent.is_dir()):
            raise ArgumentError(f"trace: expected True, False or a path in a folder that exists, got {trace!r}")
        self.graph = graph
        self.plan = _limited(Plan.parse(plan) if isinstance(plan, str) else plan, threads or {})
        room = slots * (max(map(len, self.plan.lanes)) + 1)
        if depth is not None and (not isinstance(depth, int) or not 1 <= depth <= room):
            raise ArgumentError(f"depth: expected 1 to {room}, as many as {slots} slots a ring hold, got {depth!r}")
        fault = env.fault()
        if fault and all(fault[0] >= len(lane) for lane in self.plan.lanes):
            raise ArgumentError(f"PIPEALL_FAULT: expected a stage of plan {self.plan} (from 0), got {fault[0]}")
        self.board = board or Board.detect()
        if pace != (self.board.model is not None):
            if pace:
                raise DeviceError("pace: expected a model of a board, such as Board.load('a311d'), got a real one")
            raise DeviceError(f"board {self.board.model.name} is a model: expected pace=True to run at its pace here")
        self._twin = Twin(graph, self.board, time_scale) if pace else None
        drift = self._drift(rebalance)
        self._slots, self._depth, self._trace, self._fault = slots, depth, trace, fault
        self._gate = runtime.Gate()
        self._submit_lock, self._result_lock, self._close_lock, self._lanes_lock = (threading.Lock() for _ in range(4))
        self._process = os.getpid()
        self._frames = runtime.Frames()
        self._error: PipelineError | None = None
        self._plans = deque([(0, self.plan)], maxlen=KEPT_PLANS)
        self._recorder = StatsRecorder()
        try:
            for number, (stages, parts) in enumerate(zip(self.plan.lanes, units(self.plan, self.board), strict=True)):
                self._lanes += (self._start(number, stages, parts),)
            self._open = self._lanes
            self._keep_pace()
        except BaseException:
            for lane in self._lanes:
                lane.close()
            raise
        if drift:
            self._rebalancer = Rebalancer(drift, self._watched, self._move, time_scale)
            weakref.finalize(self, self._rebalancer.close)  # at the interpreter's exit: before the lanes it has left

    def _drift(self, rebalance: bool | Profile) -> Drift | None:
        if rebalance is False:
            return None
        profile = self._twin.profile if self._twin and rebalance is True else rebalance
        if not isinstance(profile, Profile):
            raise ArgumentError(f"rebalance: expected a Profile of {self.graph.name} on this board, got {rebalance!r}")
        real = {part.name for part in self.board.components.values() if not part.device.stand_in} | set(
            self.plan.components
        )
        here = {unit: times for unit, times in profile.units.items() if parse_unit(unit)[0] in real}
        return Drift(self.graph, replace(profile, units=here), self.plan)

    def _start(self, number: int, stages: Sequence[StagePlan], parts: Sequence[Component]) -> Lane:
        lane = Lane(
            self.graph,
            stages,
            parts,
            self._gate,
            number=number,
            slots=self._slots,
            depth=self._depth,
            record=self._trace is not False,
            fault=self._fault,
        )
        # Also at the interpreter's exit: finalizers run newest first, so the threads end before OpenCL slots are freed.
        lane.end = weakref.finalize(self, lane.close)
        self._slot_in, self._outputs = lane.slot_in, lane.outputs  # the same for all lanes: the network's own
        return lane

    def _keep_pace(self) -> None:
        if self._twin:
            for lane, paces_ms in zip(self._open, self._twin.paces_ms(self.plan), strict=True):
                lane.set_paces(paces_ms)

    def _move(self, plan: Plan) -> None:
        """Runs ``plan``, a single lane, from the next frame on; frames under way end in the lane before it."""
        lane = self._start(self._lanes[-1].number + 1, plan.lanes[0], units(plan, self.board)[0])
        with self._lanes_lock:
            self._lanes, self._open, self.plan = (*self._lanes, lane), (lane,), plan
            self._plans.append((self._frames.submitted, plan))
            self._keep_pace()
        self._gate.signal()  # there is room for another frame

    def _watched(self) -> list[StageCounters]:
        """The counters, for the rebalancer; ends lanes that were left and are empty by now."""
        ended = [lane for lane in self._lanes if lane not in self._open and not lane.under_way]
        if ended:
            self._lanes = tuple(lane for lane in self._lanes if lane not in ended)
            self._gate.signal()  # frames may be as far ahead as fits the lanes that are left
        for lane in ended:
            lane.end()
            if self._trace is not False:
                self.trace = [*self.trace, *lane.traces()][-KEPT_TRACES:]
        return self.counters()

    # ---- frames in

    def _pieces(self, x: Frame) -> list[tuple[int, np.ndarray]]:
        """The arrays of one frame with their offsets in the slot; raises ArgumentError unless they fit the model."""
        if not isinstance(x, np.ndarray) and isinstance(x, Mapping):
            names = [tensor.name for tensor in self._slot_in]
            if x.keys() != set(names):
                raise ArgumentError(f"frame: expected the inputs {', '.join(names)}, got {', '.join(map(str, x))}")
            arrays = [x[name] for name in names]
        elif len(self._slot_in) == 1:
            arrays = [x]
        else:
            names = [tensor.name for tensor in self._slot_in]
            raise ArgumentError(f"frame: expected a dict with {', '.join(names)}, got {type(x).__name__}")
        pieces = []
        for tensor, array in zip(self._slot_in, arrays, strict=True):
            if not isinstance(array, np.ndarray):
                raise ArgumentError(f"input {tensor.name!r}: expected a NumPy array, got {type(array).__name__}")
            if array.shape != tensor.shape or array.dtype != tensor.dtype:
                raise ArgumentError(
                    f"input {tensor.name!r}: expected {tensor.dtype} {tensor.shape}, got {array.dtype} {array.shape}"
                )
            pieces.append((tensor.offset_bytes, array.reshape(-1)))  # a copy, where the array is not contiguous
        return pieces

    def _check_open(self) -> None:
        if self._error:
            error = self._error
            raise PipelineError(str(error), error.stage, error.component, error.frame)
        if self._closed:
            raise PipelineError("the pipeline is closed: expected submit and result before close()")
        if self._process != os.getpid():
            raise PipelineError(f"the pipeline's threads are in process {self._process}: a fork has to make its own")

    def _failed(self) -> bool:
        for lane in self._lanes:
            if lane.native.failed:
                return True
        return False

    def _try_submit(self, pieces: list[tuple[int, np.ndarray]]) -> bool:
        """False while the pipeline is full, and once a stage has failed: the earlier frames come first then."""
        if self._failed():
            return False
        with self._lanes_lock:
            if len(self._lanes) > 1 and self.pending >= REORDER * len(self._lanes):
                return False
            lanes = self._open
            for lane in lanes if len(lanes) == 1 else sorted(lanes, key=lambda lane: lane.under_way):
                if lane.try_submit(self._frames, pieces):
                    return True
        return False

    def submit(self, x: Frame, timeout: float | None = None) -> int:
        """Copies a frame in and returns its number (from 0); waits while the pipeline is full.

        x: an array of the model's own layout and type, or a dict of them by input name. Raises ArgumentError for
        another shape or type, PipelineError once a stage has failed or after close(), PipelineTimeoutError after
        ``timeout`` s.
        Where a signal handler raises (Ctrl-C), ``pending`` tells whether the frame went in.
        """
        number = self._wait(timeout, self._submit_lock, self._try_numbered, self._pieces(x))
        if number is None:
            raise PipelineTimeoutError(f"submit: the pipeline was full for {timeout} s")
        return number

    def _try_numbered(self, pieces: list[tuple[int, np.ndarray]]) -> int | None:
        """The number under which the frame was taken in; None while the pipeline is full."""
        number = self._frames.submitted
        if self._try_submit(pieces):
            return number
        if self._failed():
            raise PipelineError("a stage has failed: result() gives the earlier frames, then names stage and frame")
        return None

    # ---- results out

    def _try_result(self) -> runtime.Arrived | None:
        """The next result in order, if it has arrived."""
        arrived = self._frames.next()
        for lane in self._lanes:
            while arrived is None and lane.try_result(self._frames):
                arrived = self._frames.next()
        if arrived is None:
            return None
        if arrived.error:
            self._error = arrived.error
            raise arrived.error
        if len(self._lanes) > 1:
            self._gate.signal()  # the window of REORDER frames has moved on
        self._recorder.add(arrived.times)
        return arrived

    def _output(self, arrived: runtime.Arrived) -> Frame:
        if len(arrived.arrays) == 1:
            return arrived.arrays[0]
        return dict(zip(self._outputs, arrived.arrays, strict=True))

    def result(self, timeout: float | None = None) -> Frame:
        """The oldest result not yet taken: an array, or a dict where the model has several outputs.

        Waits for it, also where nothing has been submitted yet. Raises PipelineError (with stage, component and frame)
        when that frame failed or the pipeline is closed, PipelineTimeoutError after ``timeout`` s.
        """
        arrived = self._wait(timeout, self._result_lock, self._try_result)
        if arrived is None:
            raise PipelineTimeoutError(f"result: frame {self._frames.delivered} did not arrive within {timeout} s")
        return self._output(arrived)

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
            self._check_open()
            ticket = self._gate.ticket()
            with self._result_lock:
                arrived = self._try_result()
            if arrived is not None:  # before the next frame is asked for: a slow source delays no finished result
                yield self._output(arrived)
            if waiting is None and not exhausted:
                try:
                    waiting = self._pieces(next(source))
                except StopIteration:
                    exhausted = True
                except Exception as error:  # whatever the source raises: kept until the earlier results are out
                    exhausted, broken = True, error
            if waiting is not None:
                with self._submit_lock:
                    if self._try_submit(waiting):
                        waiting = None
                        continue
            if arrived is not None:
                continue
            if exhausted and not self.pending:
                if broken:
                    raise broken
                return
            self._gate.wait(ticket)

    def _wait(self, timeout: float | None, lock: threading.Lock, attempt: Callable[..., Any], *arguments: Any) -> Any:
        """Calls ``attempt``, holding ``lock``, until it gives something; None after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._check_open()  # before the lock: a fork may have been made while another thread held it
            ticket = self._gate.ticket()
            with lock:
                done = attempt(*arguments)
            if done is not None:
                return done
            left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
            if left <= 0:
                return None
            self._gate.wait(ticket, left)

    # ---- about the run

    def stats(self, since: Snapshot | None = None) -> Stats:
        """Measured throughput, latency and use of each stage since the start, or since a ``snapshot``."""
        return self._recorder.stats(self.counters(), since)

    def snapshot(self) -> Snapshot:
        """Where a window of ``stats`` begins: what has been measured until now."""
        return self._recorder.snapshot(self.counters())

    def counters(self) -> list[StageCounters]:
        """What each stage of each lane that takes frames has done until now; any thread may ask at any time."""
        return [row for lane in self._open for row in lane.counters()]

    def throttle(self, component: str, factor: float) -> None:
        """With ``pace``: from their next frame on, a component's stages take ``factor`` times as long as modelled.

        So a board that gets too hot is played; 1 is as modelled again. Any thread may call it. Raises ArgumentError
        without ``pace``, and unless the factor is above 0 and finite.
        """
        if self._twin is None:
            raise ArgumentError(f"throttle {component}: expected a pipeline with pace=True")
        with self._lanes_lock:
            self._twin.throttle(self.board.component(component).name, factor)
            self._keep_pace()

    @property
    def plans(self) -> tuple[tuple[int, Plan], ...]:
        """The latest plans and the first frame that each was for, oldest first: more than one with ``rebalance``."""
        return tuple(self._plans)

    @property
    def pending(self) -> int:
        """Frames submitted whose results have not been taken."""
        return self._frames.submitted - self._frames.delivered

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
            if self._rebalancer:
                self._rebalancer.close()
            for lane in self._lanes:
                lane.close()
            if first and self._trace is not False and self._process == os.getpid():
                self.trace += [trace for lane in self._lanes for trace in lane.traces()]
                if self._trace is not True:
                    plans = [[frame, str(plan)] for frame, plan in self._plans]
                    about = describe(self.board) | {"network": self.graph.name, "plans": plans}
                    save(self._trace, self.trace, about)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Engine:
    """A whole network on one component, one frame at a time: ``y = engine(x)``, from any thread.

    threads: how many of the component's cores to use; default all. Errors as for Pipeline.
    """

    def __init__(self, graph: Graph, component: str = "big", board: Board | None = None, threads: int | None = None):
        plan = Plan.single(component)
        limits = None if threads is None else {plan.components[0]: threads}
        self._pipeline = Pipeline(graph, plan, board=board, slots=1, threads=limits)
        self._lock = threading.Lock()  # a call is a submit and the result of that very frame

    def __call__(self, x: Frame) -> Frame:
        self._pipeline._check_open()
        with self._lock:
            while self._pipeline.pending:  # a call that was interrupted left its frame
                self._pipeline.result()
            self._pipeline.submit(x)
            return self._pipeline.result()

    def stats(self) -> Stats:
        """As ``Pipeline.stats``."""
        return self._pipeline.stats()

    def close(self) -> None:
        """Ends its threads. Safe to call twice."""
        self._pipeline.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _limited(plan: Plan, threads: Mapping[str, int]) -> Plan:
    """The plan with these numbers of cores for the components that it takes whole."""
    limits = {component_name(key): count for key, count in threads.items()}
    whole = {stage.component for lane in plan.lanes for stage in lane if stage.cores is None}
    if unknown := limits.keys() - whole:
        raise ArgumentError(f"threads: expected whole components of plan {plan}, got {', '.join(sorted(unknown))}")
    return Plan(
        tuple(
            tuple(replace(stage, cores=stage.cores or limits.get(stage.component)) for stage in lane)
            for lane in plan.lanes
        )
    )
