"""What every stage did with every frame, step by step, and the same as a file for Perfetto (ui.perfetto.dev).

The file is in the Trace Event Format: one process per lane, one thread per stage; the commands of an OpenCL device
have a track of their own, in the device's times (program_cl.h); arrows lead a frame from stage to stage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..arguments import is_switch, refused
from ..arguments import path as as_path
from ..files import write_text
from ..graph.ir import Graph
from .devices.device import Algorithm
from .stats import NO_GROUPS, groups_text


def trace_of(name: str, value: Any) -> bool | Path:
    """A rule: True, False, or the path of a file that can be written."""
    if is_switch(value):
        return bool(value)
    if not isinstance(value, str | PathLike) or not (path := as_path(name, value)).parent.is_dir():
        raise refused(name, "True, False or a path in a folder that exists", value)
    return path


@dataclass(frozen=True, slots=True, eq=False)
class StageTrace:
    """The latest frames a stage completed, oldest first.

    queued  its commands ran on a queue of the device's own, not on the stage's thread
    groups  [first, last), those that float behind it included: what was left out took no time
    labels  (kind, node name) of each command
    rows    int64 (frames, 6 + 1 + commands), in ns of CLOCK_MONOTONIC but the first; the columns are FRAME (number),
            IDLE (the stage began to wait for it), TAKEN (it had come), BEGIN (and a slot for the result was free),
            GIVEN (the device began with it), then the end of each command, RAN (handed back), END (paced). They rise
            along a row, but for a device that works on two frames: it may compute one before its BEGIN, while the
            stage is at the one before
    algorithms, step_of  of each command, as the program has them (``device.py``)
    senders the numbers of the stages that hand it frames: several where branches join
    """

    FRAME: ClassVar[int] = 0
    IDLE: ClassVar[int] = 1
    TAKEN: ClassVar[int] = 2
    BEGIN: ClassVar[int] = 3
    GIVEN: ClassVar[int] = 4
    RAN: ClassVar[int] = -2
    END: ClassVar[int] = -1

    lane: int
    stage: int
    unit: str
    queued: bool
    groups: tuple[int, int]
    labels: tuple[tuple[str, str], ...]
    rows: np.ndarray
    algorithms: tuple[Algorithm | None, ...] = ()
    step_of: tuple[int, ...] = ()
    senders: tuple[int, ...] = ()

    @property
    def frame(self) -> np.ndarray:
        """The frames' numbers."""
        return self.rows[:, self.FRAME]

    @property
    def marks(self) -> np.ndarray:
        """(frames, 1 + commands): when the device began, and when each command ended; they lie between."""
        return self.rows[:, self.GIVEN : self.RAN]

    def together(self, rows: np.ndarray) -> np.ndarray:
        """How many frames were computed together, each of these among them."""
        _, where, counts = np.unique(rows[:, self.BEGIN], return_inverse=True, return_counts=True)
        return counts[where.reshape(-1)]

    def group_ms(self, graph: Graph, rows: np.ndarray) -> np.ndarray:
        """(frames, groups of the graph): time in the steps of each group; zeros for groups of other stages. Frames that
        were computed together share it.

        A step that bears no node's or tensor's name counts with the one before it.
        """
        nodes = [(node, index) for index, group in enumerate(graph.groups) for node in group.nodes]
        group = dict.fromkeys((tensor.name for tensor in graph.inputs), 0)
        group |= {node.output: index for node, index in nodes}
        group |= {node.name: index for node, index in nodes}  # a tensor's name may be that of another node
        ms = np.zeros((len(rows), len(graph.groups)))
        index = self.groups[0]
        for step, (_, name) in enumerate(self.labels):
            index = max(group.get(name, index), self.groups[0])
            ms[:, index] += (rows[:, self.GIVEN + step + 1] - rows[:, self.GIVEN + step]) / 1e6
        return ms / self.together(rows)[:, None]


def chrome(traces: Sequence[StageTrace], about: Mapping[str, Any]) -> dict[str, Any]:
    """The traces in the Trace Event Format, times in us since the first; ``about`` the run: plain JSON values."""
    origin_ns = min((int(trace.rows[:, trace.IDLE].min()) for trace in traces if len(trace.rows)), default=0)
    threads = count(1)
    events: list[dict[str, Any]] = []
    for lane in sorted({trace.lane for trace in traces}):
        stages = [trace for trace in traces if trace.lane == lane]
        pid = lane + 1
        events.append(_named("process_name", pid, 0, f"lane {lane}: {'-'.join(trace.unit for trace in stages)}"))
        tids = [next(threads) for _ in stages]
        for trace, tid in zip(stages, tids, strict=True):
            what = "picture" if trace.groups == NO_GROUPS else f"groups {groups_text(trace.groups)}"
            events.append(_named("thread_name", pid, tid, f"{trace.unit}: {what}"))
            queue = tid
            if trace.queued:
                queue = next(threads)
                events.append(_named("thread_name", pid, queue, f"{trace.unit} queue"))
            events.extend(_slices(trace, pid, tid, queue, origin_ns))
        known = {trace.stage: (trace, tid) for trace, tid in zip(stages, tids, strict=True)}
        for receiver, received_tid in known.values():
            for sender, sent_tid in (known[number] for number in receiver.senders if number in known):
                events.extend(_arrows(sender, receiver, pid, sent_tid, received_tid, origin_ns))
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"format": "pipeall.trace/1", **about}}


def save(path: str | Path, traces: Sequence[StageTrace], about: Mapping[str, Any]) -> None:
    """Writes ``chrome`` atomically. Raises ArgumentError naming the file where it cannot be written."""
    write_text(path, json.dumps(chrome(traces, about), allow_nan=False) + "\n")


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "ts": 0, "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _slices(trace: StageTrace, pid: int, tid: int, queue: int, origin_ns: int) -> Iterator[dict[str, Any]]:
    """The stage's waits and frames; inside of a frame lies what happens to it, queued commands on track ``queue``."""
    free = 0  # the device's clock, read anew for each frame, may let one seem to begin before the last has ended
    rows, last = trace.rows.tolist(), None
    for row, together in zip(rows, trace.together(trace.rows).tolist(), strict=True):
        frame, idle, taken, begin, *marks, ran, end = row
        if begin == last:  # computed together with the frame before
            continue
        last = begin
        given, *ends = (max(mark, free) for mark in marks)
        free = ends[-1] if ends else given

        def slice_(name: str, category: str, first: int, last: int, on: int = tid, frame: int = frame) -> dict:
            ts, dur = (first - origin_ns) / 1000, (last - first) / 1000
            named = {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": on}
            return named | {"ts": ts, "dur": dur, "args": {"frame": frame}}

        yield slice_("wait in", "wait", idle, taken)
        yield slice_("wait out", "wait", taken, begin)
        named = f"frame {frame}" if together == 1 else f"frames {frame} to {frame + together - 1}"
        yield slice_(named, "frame", begin, end)
        yield slice_("hand-over in", "hand-over", begin, max(begin, given))
        for (kind, node), (first, last) in zip(trace.labels, pairwise([given, *ends]), strict=True):
            yield slice_(node, "queued" if queue != tid else kind, first, last, queue)
        yield slice_("hand-over out", "hand-over", max(begin, free), ran)
        if end > ran:
            yield slice_("pace", "wait", ran, end)


def _arrows(
    sender: StageTrace, receiver: StageTrace, pid: int, sent_tid: int, received_tid: int, origin_ns: int
) -> Iterator[dict[str, Any]]:
    """From the middle of each frame (an arrow has to start inside of a slice) to its begin in the next stage."""
    begins = dict(zip(receiver.frame.tolist(), receiver.rows[:, receiver.BEGIN].tolist(), strict=True))
    for row in sender.rows.tolist():
        frame = row[sender.FRAME]
        if frame in begins:
            flow = {"name": "frame", "cat": "frame", "id": f"{frame}.{sender.stage}.{receiver.stage}", "pid": pid}
            middle_ns = (row[sender.BEGIN] + row[sender.END]) / 2
            yield flow | {"ph": "s", "tid": sent_tid, "ts": (middle_ns - origin_ns) / 1000}
            yield flow | {"ph": "f", "bp": "e", "tid": received_tid, "ts": (begins[frame] - origin_ns) / 1000}
