"""Pipeline and Engine: frames in, results out, in order, through native stages.

A plan's lanes become ``runtime.Lane`` objects that share one gate. With several lanes (Parallel) results are put
back into frame order here, with a bounded number of frames under way.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .. import env
from ..errors import ArgumentError, PipelineError, PipelineTimeoutError
from ..graph.ir import Graph
from ..graph.lower import lower
from ..graph.partition import subgraph
from . import runtime
from .board import Board, component_name
from .device import compile_program, ring_slots
from .plan import Plan, StagePlan
from .stats import FrameTimes, Stats, StatsRecorder

MAX_SLOTS = 64  # per ring: more would add nothing but memory and latency
REORDER = 64  # frames a lane may be ahead of the oldest one that is still under way, when there are several lanes

Frame = np.ndarray | Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class _Stage:
    component: str
    groups: tuple[int, int]
    program: Any


class Pipeline:
    """Runs a network by a plan: each stage on its component, all at once.

    graph    the network
    plan     a Plan or its text, such as ``"G-B-L:3,5"``
    board    where to run; default ``Board.detect()``
    slots    slots per ring: 2 is double buffering; each more adds throughput under jitter, memory and latency
    threads  component name -> number of its cores to use; default all

    Starts the stage threads. Use as a context manager, or call ``close``. One thread may submit while another
    takes results. Raises ArgumentError for a plan that does not fit the network, DeviceError for a component
    that is absent or does not start.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan | str,
        board: Board | None = None,
        slots: int = 2,
        threads: Mapping[str, int] | None = None,
    ):
        self._lanes: list[runtime.Lane] = []
        self._closed = False
        if not isinstance(graph, Graph):
            raise ArgumentError(f"graph: expected one of pipeall.load or pipeall.zoo, got {type(graph).__name__}")
        if not isinstance(slots, int) or not 1 <= slots <= MAX_SLOTS:
            raise ArgumentError(f"slots: expected 1 to {MAX_SLOTS}, got {slots!r}")
        self.graph = graph
        self.plan = Plan.parse(plan) if isinstance(plan, str) else plan
        limits = {component_name(key): count for key, count in (threads or {}).items()}
        if unknown := limits.keys() - set(self.plan.components):
            raise ArgumentError(f"threads: expected components of plan {self.plan}, got {', '.join(sorted(unknown))}")
        fault = env.fault()
        if fault and all(fault[0] >= len(lane) for lane in self.plan.lanes):
            raise ArgumentError(f"PIPEALL_FAULT: expected a stage of plan {self.plan} (from 0), got {fault[0]}")
        self.board = board or Board.detect()
        self._gate = runtime.Gate()
        self._submit_lock, self._result_lock, self._close_lock = (threading.Lock() for _ in range(3))
        self._process = os.getpid()
        self._submitted = self._delivered = 0
        self._ready: dict[int, runtime.Arrived] = {}
        self._error: PipelineError | None = None
        self._stages: list[list[_Stage]] = []
        try:
            for lane in self.plan.lanes:
                self._add_lane(lane, slots, limits, fault)
        except BaseException:
            self.close()
            raise
        self._recorder = StatsRecorder()

    def _add_lane(
        self, stages: Sequence[StagePlan], slots: int, threads: Mapping[str, int], fault: tuple[int, int] | None
    ) -> None:
        groups = len(self.graph.groups)
        built, lowered = [], []
        for stage in stages:
            component = self.board.component(stage.component)
            last = groups if stage.last is None else stage.last
            if not stage.first < last <= groups:
                raise ArgumentError(
                    f"plan {self.plan}: stage {stage.component} has groups {stage.first + 1} to {last}, "
                    f"expected cuts between 1 and {groups - 1} for {self.graph.name}"
                )
            part = lower(subgraph(self.graph, stage.first, last))
            program = compile_program(part, component, threads.get(stage.component))
            lowered.append(part)
            built.append(_Stage(stage.component, (stage.first, last), program))
        neighbours = [None, *(stage.program for stage in built), None]
        sizes = [lowered[0].slot_in_elements, *(part.slot_out_elements for part in lowered)]
        rings = [
            ring_slots(producer, consumer, size, slots)
            for (producer, consumer), size in zip(pairwise(neighbours), sizes, strict=True)
        ]
        self._slot_in, self._slot_out = lowered[0].slot_in, lowered[-1].slot_out
        self._stages.append(built)
        self._lanes.append(
            runtime.Lane(
                [stage.component for stage in built],
                [stage.program for stage in built],
                rings,
                self._gate,
                fault=fault,
            )
        )
        # Also at the interpreter's exit: finalizers run newest first, so the threads end before OpenCL slots are freed.
        weakref.finalize(self, self._lanes[-1].close)

    # ---- frames in

    def _pieces(self, x: Frame) -> list[tuple[int, np.ndarray]]:
        """The arrays of one frame with their offsets in the slot; raises ArgumentError unless they fit the model."""
        names = [tensor.name for tensor in self._slot_in]
        if not isinstance(x, Mapping):
            if len(names) != 1:
                raise ArgumentError(f"frame: expected a dict with {', '.join(names)}, got {type(x).__name__}")
            x = {names[0]: x}
        if x.keys() != set(names):
            raise ArgumentError(f"frame: expected the inputs {', '.join(names)}, got {', '.join(map(str, x))}")
        pieces = []
        for tensor in self._slot_in:
            array = x[tensor.name]
            if not isinstance(array, np.ndarray):
                raise ArgumentError(f"input {tensor.name!r}: expected a NumPy array, got {type(array).__name__}")
            if array.shape != tensor.shape or array.dtype != np.float32:
                raise ArgumentError(
                    f"input {tensor.name!r}: expected float32 {tensor.shape}, got {array.dtype} {array.shape}"
                )
            pieces.append((tensor.offset, np.ascontiguousarray(array).reshape(-1)))
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
        return any(lane.failed for lane in self._lanes)

    def _try_submit(self, pieces: list[tuple[int, np.ndarray]]) -> bool:
        """False while the pipeline is full, and once a stage has failed: the earlier frames come first then."""
        self._check_open()
        if self._failed():
            return False
        if len(self._lanes) > 1 and self.pending >= REORDER * len(self._lanes):
            return False
        for lane in self._lanes:
            if lane.try_submit(self._submitted, pieces):
                self._submitted += 1
                return True
        return False

    def submit(self, x: Frame, timeout: float | None = None) -> int:
        """Copies a frame in and returns its number (from 0); waits while the pipeline is full.

        x: float32 in the model's own layout, or a dict of them by input name. Raises ArgumentError for another
        shape or type, PipelineError once a stage has failed or after close(), PipelineTimeoutError after ``timeout`` s.
        """
        pieces = self._pieces(x)

        number = -1

        def attempt() -> bool:
            nonlocal number
            number = self._submitted
            if self._try_submit(pieces):
                return True
            if self._failed():
                raise PipelineError("a stage has failed: result() gives the earlier frames, then names stage and frame")
            return False

        if not self._wait(self._submit_lock, attempt, timeout):
            raise PipelineTimeoutError(f"submit: the pipeline was full for {timeout} s")
        return number

    # ---- results out

    def _try_result(self) -> runtime.Arrived | None:
        """The next result in order, if it has arrived."""
        self._check_open()
        for lane in self._lanes:
            while self._delivered not in self._ready:
                arrived = lane.try_result()
                if arrived is None:
                    break
                self._ready[arrived.frame] = arrived
        arrived = self._ready.pop(self._delivered, None)
        if arrived is None:
            return None
        if arrived.error:
            self._error = arrived.error
            raise arrived.error
        self._delivered += 1
        if len(self._lanes) > 1:
            self._gate.signal()  # the window of REORDER frames has moved on
        self._recorder.add(
            FrameTimes(arrived.frame, arrived.submitted_ns, tuple(arrived.begin_ns), tuple(arrived.end_ns))
        )
        return arrived

    def _output(self, arrived: runtime.Arrived) -> Frame:
        outputs = {}
        for tensor in self._slot_out:
            size = int(np.prod(tensor.shape))
            outputs[tensor.name] = arrived.values[tensor.offset : tensor.offset + size].reshape(tensor.shape)
        return outputs if len(outputs) > 1 else next(iter(outputs.values()))

    def result(self, timeout: float | None = None) -> Frame:
        """The oldest result not yet taken: an array, or a dict where the model has several outputs.

        Waits for it, also where nothing has been submitted yet. Raises PipelineError (with stage, component and frame)
        when that frame failed or the pipeline is closed, PipelineTimeoutError after ``timeout`` s.
        """
        arrived = self._wait(self._result_lock, self._try_result, timeout)
        if arrived is None:
            raise PipelineTimeoutError(f"result: frame {self._delivered} did not arrive within {timeout} s")
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

    def _wait(self, lock: threading.Lock, attempt: Callable[[], Any], timeout: float | None) -> Any:
        """Calls ``attempt``, holding ``lock``, until it gives something true; None after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not lock.acquire(timeout=-1 if timeout is None else max(0, timeout)):
            return None
        try:
            while True:
                ticket = self._gate.ticket()
                done = attempt()
                if done:
                    return done
                left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
                if left <= 0:
                    return None
                self._gate.wait(ticket, left)
        finally:
            lock.release()

    # ---- about the run

    def stats(self) -> Stats:
        """Measured throughput, latency and use of each stage since the start."""
        counters = [
            (stage.component, stage.groups, row)
            for stages, lane in zip(self._stages, self._lanes, strict=True)
            for stage, row in zip(stages, lane.counters(), strict=True)
        ]
        return self._recorder.stats(counters)

    @property
    def pending(self) -> int:
        """Frames submitted whose results have not been taken."""
        return self._submitted - self._delivered

    @property
    def times(self) -> tuple[FrameTimes, ...]:
        """Time stamps of the latest results taken, oldest first."""
        return tuple(self._recorder.times)

    def close(self) -> None:
        """Ends the stages and drops frames whose results were not taken. Safe to call twice."""
        self._closed = True
        with self._close_lock:
            for lane in self._lanes:
                lane.close()

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
