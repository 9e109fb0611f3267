"""The lanes of a pipeline: where its frames go, what comes out in their order, and how a plan moves.

A frame goes to the lane with room that has the fewest under way; with several lanes (Parallel) results are put back
into frame order, with a bounded number of frames under way. A plan that moves gets a lane of its own: new frames go
there, those under way end in the lane they are in.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

from ..graph.ir import Graph
from . import runtime
from .boards.board import Board
from .boards.emulator import Emulator
from .border import Entry
from .devices.device import Component
from .front import spare_unit
from .lane import Lane
from .lease import Lease
from .planning.plan import Plan
from .planning.rings import REORDER, in_turn
from .planning.schedule_plan import real_units
from .realtime import NORMAL, Realtime
from .shared_units import ALONE, Place, SharedUnits
from .stats import StageCounters
from .trace import StageTrace

KEPT_PLANS = 100  # latest plans that are remembered
KEPT_TRACES = 12  # stages of lanes that were left; the log of one has some megabytes


class Move(NamedTuple):
    """A plan that took the place of another: from which frame on, and why."""

    frame: int
    plan: Plan
    why: str


class Lanes:
    """Runs ``plan`` from when it is made until ``close``. Arguments as for ``Pipeline`` and ``Lane``.

    place   what it has of the board beside other networks

    gate    changes when there is room or a result
    frames  counts frames in and out, and keeps results until their turn
    all     every lane; replaced as a whole, so that other threads see all or nothing of a move
    open    those that take new frames
    lease   has what the lanes run on, of this machine
    packed  weights that programs of the lanes share
    plan    the present one; ``plans``: the latest, and the first frame that each was for; ``moves``: why
    traces  of the lanes that have ended, where they are recorded

    One thread at a time may submit, one take results; ``move`` and ``throttle`` may be called by any.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        board: Board,
        emulator: Emulator | None,
        lease: Lease,
        *,
        slots: int,
        depth: int | None,
        record: bool,
        fault: tuple[int, int] | None,
        place: Place = ALONE,
        realtime: Realtime = NORMAL,
    ):
        self.graph, self.plan, self.board, self.lease = graph, plan, board, lease
        self.gate, self.frames = runtime.Gate(), runtime.Frames(place.rate, place.priority)
        self.all: tuple[Lane, ...] = ()
        self.open: tuple[Lane, ...] = ()
        self.plans = deque([(0, plan)], maxlen=KEPT_PLANS)
        self.moves: deque[Move] = deque(maxlen=KEPT_PLANS)
        self.traces: list[StageTrace] = []
        self._emulator, self._record, self._place, self._realtime = emulator, record, place, realtime
        self.packed: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        self._options = {"slots": slots, "depth": depth, "record": record, "fault": fault, "packed": self.packed}
        self._lock = threading.Lock()  # of a move, and of what must not see half of one
        self.all = self.open = self.started(graph, plan)
        try:
            self._keep_pace()
        except BaseException:
            self.close()
            raise

    def started(self, graph: Graph, plan: Plan) -> tuple[Lane, ...]:
        """New lanes of a plan for a network, which take no frames yet (``turn_to``)."""
        lanes: tuple[Lane, ...] = ()
        shared = self._place.units or SharedUnits(self._realtime)  # of its own: lanes that were left free all they had
        about = f"{graph.name} on {plan}"
        try:
            self._hold(plan, chain(*self.board.units(plan)), about)
            for index in range(len(plan.lanes)):
                lanes += (self._start(graph, plan, index, shared),)
                self._hold(lanes[-1].number, (stage.unit for stage in lanes[-1].stages), about)
        except BaseException:
            self.end(lanes)
            raise
        finally:
            self.lease.drop(plan)
        return lanes

    def _hold(self, part: Plan | int, units: Iterable[Component], about: str) -> None:
        if self.board.model is None:  # else they are free threads that stand in for another board's
            self.lease.hold(part, units, about)

    def end(self, lanes: Iterable[Lane]) -> None:
        """Ends some of the lanes, which then hold nothing."""
        for lane in lanes:
            lane.end()
            self.lease.drop(lane.number)

    def _start(self, graph: Graph, plan: Plan, index: int, shared: SharedUnits) -> Lane:
        """Lane ``index`` of a plan."""
        stages, units = plan.lanes[index], self.board.units(plan)[index]
        first = sum(map(len, plan.lanes[:index]))
        spare = spare_unit(graph, plan, self.board) if units[0].device.cores is None else None
        real = real_units(plan)[first : first + len(stages)]
        number = self.all[-1].number + 1 + index if self.all else index
        lane = Lane(graph, stages, units, real, shared, self.gate, number=number, spare=spare, **self._options)
        # Also at the interpreter's exit: finalizers run newest first, so the threads end before OpenCL slots are freed.
        lane.end = weakref.finalize(self, lane.close)
        return lane

    # ---- frames

    @property
    def pending(self) -> int:
        """Frames submitted whose results have not been taken."""
        return self.frames.submitted - self.frames.delivered

    @property
    def failed(self) -> bool:
        """A stage has failed: its frame is, or will be, the last to arrive."""
        for lane in self.all:
            if lane.native.failed:
                return True
        return False

    @property
    def ready(self) -> bool:
        """A result waits to be taken out of a lane."""
        return any(lane.native.ready for lane in self.all)

    def try_submit(self, entry: Entry) -> int:
        """The number of the frame; -1 while all lanes are full, and once a stage has failed: the earlier frames come
        first then."""
        if self.failed:
            return -1
        with self._lock:
            if len(self.all) > 1 and self.pending >= REORDER * len(self.all):
                return -1
            lanes = self.open
            for lane in lanes if len(lanes) == 1 else sorted(lanes, key=lambda lane: lane.under_way):
                number = lane.native.try_submit(self.frames, entry.pieces, entry.alive)
                if number >= 0:
                    return number
        return -1

    def run_inline(self, entry: Entry) -> bool:
        """Computes a frame on this thread (``runtime.NativeLane.run_inline``); False where that cannot be."""
        return len(self.all) == 1 and self.all[0].native.run_inline(self.frames, entry.pieces)

    def try_result(self) -> runtime.Arrived | None:
        """The next result in order, if it has arrived; one with an error stays."""
        arrived = self.frames.next()
        for lane in self.all:
            while arrived is None and lane.try_result(self.frames):
                arrived = self.frames.next()
        if arrived is not None and len(self.all) > 1:
            self.gate.signal()  # the window of REORDER frames has moved on
        return arrived

    # ---- plans that move

    def move(self, plan: Plan, why: str = "") -> None:
        """Runs ``plan`` from the next frame on; frames under way end in the lanes before it."""
        self.turn_to(self.started(self.graph, plan), self.graph, plan, self._emulator, why)

    def turn_to(self, lanes: tuple[Lane, ...], graph: Graph, plan: Plan, emulator: Emulator | None, why: str) -> None:
        """Lets ``lanes`` (``started``) take the frames from the next one on."""
        with self._lock:
            if emulator and emulator is not self._emulator:
                emulator.heat_as(self._emulator)
            self.graph, self._emulator = graph, emulator
            self.all, self.open, self.plan = (*self.all, *lanes), lanes, plan
            self.plans.append((self.frames.submitted, plan))
            self.moves.append(Move(self.frames.submitted, plan, why))
            self._keep_pace()
        self.gate.signal()  # there is room for another frame

    def end_left(self) -> list[StageCounters]:
        """Ends lanes that were left and are empty by now; the counters of the others (``counters``)."""
        with self._lock:
            ended = [lane for lane in self.all if lane not in self.open and not lane.under_way]
            self.all = tuple(lane for lane in self.all if lane not in ended)
        if ended:
            self.gate.signal()  # frames may be as far ahead as fits the lanes that are left
        self.end(ended)
        for lane in ended if self._record else ():
            self.traces = [*self.traces, *lane.traces()][-KEPT_TRACES:]
        return self.counters()

    def counters(self) -> list[StageCounters]:
        """What each stage of each lane that takes frames has done until now; any thread may ask at any time."""
        return [row for lane in self.open for row in lane.counters()]

    # ---- the pace of an emulated board

    def throttle(self, component: str, factor: float) -> None:
        """A component of the emulated board takes ``factor`` times as long from each stage's next frame on."""
        with self._lock:
            self._emulator.throttle(component, factor)
            self._keep_pace()

    def _keep_pace(self) -> None:
        if self._emulator:
            alone, beside = in_turn(self.plan, self._options["depth"]), self._place.beside
            paces_ms = self._emulator.paces_ms(self.plan, alone=alone and not beside, beside=beside)
            for lane, ms in zip(self.open, paces_ms, strict=True):
                lane.set_paces(ms)

    def close(self) -> None:
        """Ends the stages; frames inside are dropped. Safe to call twice."""
        for lane in self.all:
            lane.close()
        self.lease.close()

    def end_traces(self) -> list[StageTrace]:
        """The traces of all lanes, those that were left first; after ``close``."""
        return [*self.traces, *(trace for lane in self.all for trace in lane.traces())]
