"""Pipeline: frames in, results out, in order, through native stages.

Frames and plans live in ``lanes.Lanes``, waiting in ``host.Host``; here are arguments, sources, statistics and the end.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .. import _kernels, env  # noqa: F401 _kernels says where nothing was built, ahead of runtime
from ..arguments import a, checked, function, gone_through, number, one_of, optional, switch, whole
from ..errors import ArgumentError
from ..graph.ir import Graph
from ..graph.onnx.read.given import network
from ..graph.onnx.read.source import ModelSource
from ..picture import Picture
from .arrangement import arranged
from .boards.board import Board, board_of
from .boards.machine import describe
from .border import Frame
from .feed import Feed
from .host import FrameFuture, Host, Task
from .lanes import Lanes, Move
from .lease import CORES, Lease, board_for
from .live import DROPS, Stream, live_results
from .planning.plan import Plan, plan_of
from .planning.profile import Profile, profile_of
from .planning.rings import MAX_SLOTS, FrameTimes
from .realtime import NORMAL, allow
from .rebalance import Drift, Rebalancer
from .shared_units import ALONE
from .stats import Snapshot, SourceCounter, StageCounters, Stats
from .trace import StageTrace, save, trace_of

FACTOR = number(0, 1e6, above=True)  # how many times as long something takes


class Pipeline:
    """Runs a network by a plan: each stage on its unit, all at once.

    Use it as a context manager, or call ``close``. One thread may submit while another takes results.

    Parameters
    ----------
    graph : Graph or model
        The network, or the model that it is read from, as for ``load``.
    plan : Plan, str or path, optional
        A plan, its text, such as ``"G-B-L:3,5"`` or ``"Bx3-Bx1:4"``, or its file. Default: the pipeline or copies on
        equal units with most frames, by ``profile``, the board's model, or the profile that ``pipeall.profile`` made of
        this network on this machine; without any, all real components with about equal MACs (``choice`` says which).
    board : Board, str or path, optional
        Where to run, or what ``Board.load`` takes; default ``Board.detect()``. A board that is not at hand is emulated:
        the stages run here and end no earlier than its model says.
    slots : int
        Of each ring: 2 is double buffering; each more adds throughput under jitter, memory and latency.
    depth : int, optional
        Most frames under way in a lane, results not taken included. The default is one more than its stages work on:
        that keeps all stages busy, each more only waits in a ring. 0: as many as it has units, which hardly wait.
    trace : bool or path
        Record every step of the latest frames (``trace`` after ``close``); a path: also write them for Perfetto.
    time_scale : float
        Of an emulated board: how many times as long everything takes.
    profile : Profile, optional
        Of the network on this board: the default plan and ``rebalance`` go by it.
    rebalance : bool
        Move the plan when a component gets slower or faster than ``profile``, or the model of an emulated board, says:
        to the best by the goal that the plan was made for.
    input : Picture, optional
        How pictures become the network's input. Frames are then pictures of any size, read in place when their frame is
        computed, so they must not change until its result is there.
    realtime : bool
        Give the stages' threads a real-time priority, and keep the process's memory from being paged out until it ends.
        A RuntimeWarning says what the system refuses; without that it runs as usual.
    cores : str
        Where another pipeline, here or in another process, holds some of the plan's cores or devices: ``share`` them,
        with a warning that names it; ``refuse``; or take what is ``free``, so that ``board`` has only that.

    Raises
    ------
    ArgumentError
        For a plan that does not fit the network or the board's cores.
    DeviceError
        For a component that is absent or does not start, or that others hold, as ``cores`` says.
    """

    _place = ALONE  # of one network of several: what it shares with the others

    @checked(
        graph=network,
        plan=optional(plan_of),
        board=board_of,
        slots=whole(1, MAX_SLOTS),
        depth=optional(whole(0)),
        trace=trace_of,
        time_scale=FACTOR,
        profile=optional(profile_of),
        rebalance=switch,
        input=optional(a(Picture, "a pipeall.Picture")),
        realtime=switch,
        cores=one_of(*CORES),
    )
    def __init__(
        self,
        graph: Graph | ModelSource,
        plan: Plan | str | Path | None = None,
        board: Board | str | Path | None = None,
        slots: int = 2,
        depth: int | None = None,
        trace: bool | str | Path = False,
        time_scale: float = 1.0,
        profile: Profile | None = None,
        rebalance: bool = False,
        input: Picture | None = None,
        realtime: bool = False,
        cores: str = "share",
    ):
        self.rebalancer: Rebalancer | None = None
        self._trace: list[StageTrace] = []
        board = board_for(board, cores)
        self.board, self._given, self._input = board, graph, input
        options: dict[str, Any] = {"slots": slots, "depth": depth, "fault": env.fault()}
        self._arrange = partial(arranged, board=board, time_scale=time_scale, copies=not rebalance, **options)
        first = self._arrange(graph, plan, profile, input)
        drift = Drift.of(first.divided, first.plan, board, first.profile) if rebalance else None
        self.choice = first.choice
        self._trace_to, self._close_lock, self._replace_lock = trace, threading.Lock(), threading.Lock()
        options |= {"record": trace is not False, "place": self._place, "realtime": allow() if realtime else NORMAL}
        self.lanes = Lanes(first.graph, first.plan, board, first.emulator, Lease(cores), **options)
        self.host = Host(self.lanes)
        if drift:
            self.rebalancer = Rebalancer(drift, self.lanes.end_left, self.lanes.move, time_scale)
            weakref.finalize(self, self.rebalancer.close)  # at the interpreter's exit: before the lanes it has left

    def __repr__(self) -> str:
        return f"<Pipeline of {self.about}, plan {self.choice}>" if "host" in vars(self) else "<Pipeline, not started>"

    @property
    def about(self) -> str:
        """Network, plan, board and progress, in a line."""
        host = self.host
        state = "closed" if host.closed else "failed" if host.error else "open"
        return f"{self.graph.name} on {self.plan}: {host.recorder.frames} frames done, {self.pending} pending, {state}"

    @property
    def graph(self) -> Graph:
        """The present network, with its picture's step."""
        return self.lanes.graph

    @property
    def plan(self) -> Plan:
        """The present plan."""
        return self.lanes.plan

    @property
    def trace(self) -> list[StageTrace]:
        """What was recorded with ``trace=``, by stage, after ``close``."""
        return self._trace

    # ---- one frame

    def check_open(self) -> None:
        """Raises PipelineError once a frame has failed, after ``close``, and in a fork."""
        self.host.check_open()

    def submit(self, x: Frame, timeout: float | None = None) -> FrameFuture:
        """Copies a frame in; waits while the pipeline is full.

        Where a signal handler raises (Ctrl-C), ``pending`` tells whether the frame went in.

        Parameters
        ----------
        x : array, or dict of arrays by input name
            Of the model's own layout and type.
        timeout : float, optional
            Seconds to wait at most.

        Returns
        -------
        FrameFuture
            Its ``result()`` is the frame's. You may as well drop it, and take results in order with ``result``: each is
            handed out once.

        Raises
        ------
        ArgumentError
            For another shape or type.
        PipelineError
            Once a stage has failed, after ``close``, and where the pipeline stays full because results are not taken.
        PipelineTimeoutError
            After ``timeout`` seconds.
        """
        return self.host.submit(x, timeout)

    def compute(self, x: Frame) -> Frame:
        """The result of a frame while no other is under way: as of ``submit`` and ``result``, or sooner, where this
        thread computes it inline (``stage.h``).

        Raises ArgumentError for another shape or type, PipelineError (with stage, component and frame) when the frame
        failed, and after ``close``.
        """
        return self.host.compute(x)

    def result(self, timeout: float | None = None) -> Frame:
        """The oldest result not yet taken: an array, or a dict where the model has several outputs.

        Waits for it, also where nothing has been submitted yet. Raises PipelineError (with stage, component and frame)
        when that frame failed or the pipeline is closed, PipelineTimeoutError after ``timeout`` s.
        """
        return self.host.result(timeout)

    # ---- another network or plan

    @checked(
        graph=optional(network),
        plan=optional(plan_of),
        profile=optional(profile_of),
        input=optional(a(Picture, "a pipeall.Picture")),
        task=optional(function),
    )
    def replace(
        self,
        graph: Graph | ModelSource | None = None,
        plan: Plan | str | Path | None = None,
        *,
        profile: Profile | None = None,
        input: Picture | None = None,
        task: Task | None = None,
    ) -> None:
        """Runs another network, another plan, or both, from the next frame on.

        The new stages start beside the old ones, which end when their last result is taken. No frame is lost, all come
        out in order. Any thread may call it. Where it raises, all runs on as before.

        Parameters
        ----------
        graph, input : optional
            As for Pipeline; default the present ones. Frames have to fit them from the next ``submit`` on.
        plan, profile : optional
            As for Pipeline, by default too.
        task : callable, optional
            What makes the results of a ``stream`` of the new network's outputs; default the stream's own.

        Raises
        ------
        ArgumentError
            As of Pipeline, and with ``rebalance``, which goes by the first network's profile.
        DeviceError
            For a component that is absent or does not start, or that others hold.
        PipelineError
            Once a frame has failed, and after ``close``.
        """
        if self.rebalancer:
            raise ArgumentError("replace: expected a pipeline without rebalance, which goes by the first profile")
        with self._replace_lock:
            self.host.check_open()
            given, input = graph or self._given, input or self._input
            new = self._arrange(given, plan, profile, input)
            lanes = self.lanes.started(new.graph, new.plan)
            with self._close_lock:
                self.host.replace(lanes, new.graph, new.plan, new.emulator, task)
            self._given, self._input, self.choice = given, input, new.choice

    # ---- sources

    def map(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Results of ``frames``, in order, lazily, each as soon as it is ready; the pipeline is kept full, no more is
        taken from the source than fits and one. A thread of its own takes them, so that no result waits for a source.

        An error of the source, or a frame that does not fit, is raised after the results of the frames before it.
        Whoever breaks off early takes what is under way with ``result``, ``pending`` times, or drops it with ``close``.
        """
        gone_through("frames", frames)
        self._check_empty("map")
        feed = Feed([(frames, SourceCounter())], self.host.feed, self.lanes.gate)
        feed.start()
        try:
            while (arrived := self.host.next_of(feed)) is not None:
                feed.inside.popleft()
                yield arrived.result()
        finally:
            feed.stop()
            feed.join()

    def stream(
        self,
        source: Iterable[Frame] | Mapping[str, Iterable[Frame]],
        drop: str = "oldest",
        task: Task | None = None,
    ) -> Stream:
        """What comes of live sources (``LiveResult``), in order, each as soon as it is ready; for ``async for`` too.

        Parameters
        ----------
        source : iterable of frames, or dict of them by name
            Of several the frames take turns, and ``stats().sources`` says how each does.
        drop : str
            ``oldest``: where the pipeline is slower, a frame that waits is dropped when the next of its source is
            there, and counted (``stats``); ``none``: the source waits.
        task : callable, optional
            Makes the result of the outputs by name, and of where the picture lies in the network's input, as
            ``pipeall.tasks.task`` does.

        Raises
        ------
        PipeallError
            As ``map``.
        """
        given = source if isinstance(source, Mapping) else {None: source}
        for frames in given.values():
            gone_through("source", frames)
        one_of(*DROPS)("drop", drop)
        optional(function)("task", task)
        if task is not None and not self.host.border.pictured:
            raise ArgumentError("stream: expected a pipeline with input=Picture(...) for a task, got one without")
        if not given:
            raise ArgumentError("source: expected one at least, got none")
        self._check_empty("stream")
        sources = [(frames, self.host.recorder.source(name)) for name, frames in given.items()]
        feed = Feed(sources, self.host.feed, self.lanes.gate, drop == "oldest", lambda: self.pending, self.counters)
        return Stream(live_results(self.host, feed, task), feed.stop)

    def _check_empty(self, what: str) -> None:
        if self.pending:
            raise ArgumentError(f"{what}: expected an empty pipeline, got one with {self.pending} results not taken")

    # ---- about the run

    def stats(self, since: Snapshot | None = None) -> Stats:
        """Measured throughput, latency and use of each stage since the start, or since a ``snapshot``."""
        return self.host.recorder.stats(self.counters(), since)

    def snapshot(self) -> Snapshot:
        """Where a window of ``stats`` begins: what has been measured until now."""
        return self.host.recorder.snapshot(self.counters())

    def counters(self) -> list[StageCounters]:
        """What each stage of each lane that takes frames has done until now; any thread may ask at any time."""
        return self.lanes.counters()

    def throttle(self, component: str, factor: float) -> None:
        """On an emulated board: from their next frame on, a component's stages take so many times as long as modelled.

        So a board that gets too hot is played; 1 is as modelled again. Any thread may call it. Raises ArgumentError
        on a real board, and unless the factor is above 0 and finite.
        """
        if self.board.model is None:
            raise ArgumentError(f"throttle {component}: expected a pipeline on an emulated board")
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
        return self.host.pending

    @property
    def times(self) -> tuple[FrameTimes, ...]:
        """Time stamps of the latest results taken, oldest first."""
        return self.host.recorder.times

    def close(self) -> None:
        """Ends the stages, drops frames whose results were not taken, and writes the trace. Safe to call twice.

        Raises ArgumentError where the trace cannot be written.
        """
        with self._close_lock:
            first, self.host.closed = not self.host.closed, True
            if self.rebalancer:
                self.rebalancer.close()
            self.lanes.close()
            if first and self._trace_to is not False and not self.host.forked:
                self._trace = self.lanes.end_traces()
                if self._trace_to is not True:
                    plans = [[frame, str(plan)] for frame, plan in self.lanes.plans]
                    about = describe(self.board) | {"network": self.graph.name, "plans": plans}
                    save(self._trace_to, self._trace, about)

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
