"""What every device must pass: each check raises AssertionError saying what was expected and what came."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import getpagesize
from typing import Any

import numpy as np

from ..errors import ArgumentError, DeviceError, PipelineError, PipelineTimeoutError
from ..graph.builder import GraphBuilder
from ..graph.ir import Graph, Tensor
from ..graph.partition import subgraph
from ..pipeline.lane import lowered_stages
from ..pipeline.measuring.footprint import footprint as stage_footprints
from ..pipeline.measuring.profiler import profile as profile_of
from ..pipeline.pipeline import Pipeline
from ..pipeline.planning.plan import Plan
from ..pipeline.planning.ranges import Ranges
from ..pipeline.planning.search import search as search_plans
from ..pipeline.planning.units import Unit, traits_of
from ..pipeline.trace import StageTrace
from .device_runs import DISTINCT, WAIT_S, Runs

MOST_DEPTH = 2  # PA_DEPTH_MAX of program.h
MOST_AHEAD = 64  # frames that go into a pipeline at most while nobody takes results
CYCLES = 10  # of opening and closing
LEAK_BYTES = 512  # of a frame: what memory grows by, in the mean of many
SPARE_BYTES = 8 << 20  # that memory may grow by in any case
PROFILE_S = 0.05
CLOCK_NS = 1_000_000  # that a device's own clock may be off from the CPU's
BESIDE = 100  # times as long as a frame that groups may take, or less: a busy machine, not another unit of time


def traits(runs: Runs) -> None:
    """What the device says of itself, and its precisions."""
    device, named = runs.device, traits_of(runs.name)
    texts = {"kind": device.kind, "worker": device.worker, "core_type": device.core_type,
             "precision": device.precision, "description": device.description}  # fmt: skip
    for name, text in texts.items():
        assert isinstance(text, str) and text and "\n" not in text, f"{name}: expected a line of text, got {text!r}"
    assert isinstance(device.width, int) and device.width >= 1, f"width: expected 1 or more, got {device.width!r}"
    assert device.max_mhz is None or device.max_mhz > 0, f"max_mhz: expected None or a clock, got {device.max_mhz!r}"
    ranges = device.ranges(runs.graph)
    assert ranges is None or isinstance(ranges, Ranges), f"ranges: expected None or pipeall's Ranges, got {ranges!r}"
    details = json.loads(json.dumps(device.details()))
    assert isinstance(details, dict), f"details: expected a dict, got {details!r}"
    assert (device.cores is not None) == named.cores, f"cores: expected some where plans may name them, {device.cores}"
    for precision in named.precisions:
        with_it = _with_precision(device, precision)
        assert with_it in (None, precision), f"with_precision({precision!r}): got {with_it!r}"
    for refused in (lambda: device.with_precision("fp1"), *([] if named.cores else [lambda: device.with_cores((0,))])):
        try:
            refused()
        except ArgumentError:
            continue
        raise AssertionError("with_precision and with_cores: expected ArgumentError for what it has not, got none")


def _with_precision(device: Any, precision: str) -> str | None:
    """The precision that it has then; None where this machine lacks it."""
    try:
        return device.with_precision(precision).precision
    except DeviceError:
        return None


def programs(runs: Runs) -> None:
    """What ``compile`` gives, and how it refuses."""
    (lowered,) = lowered_stages(runs.graph, Plan.single(runs.name).lanes[0], [runs.component])
    program = runs.device.compile(lowered, "check", record=True)
    assert isinstance(program.handle, int) and program.handle, f"handle: expected an address, got {program.handle!r}"
    assert program.depth in range(1, MOST_DEPTH + 1), f"depth: expected 1 to {MOST_DEPTH}, got {program.depth!r}"
    counts = [len(program.labels), len(program.step_of), len(program.algorithms)]
    assert counts[0] and len(set(counts)) == 1, (
        f"labels, step_of, algorithms: expected one of each command, got {counts}"
    )
    rising = list(program.step_of) == sorted(program.step_of) and program.step_of[-1] < max(1, len(lowered.steps))
    assert rising, f"step_of: expected numbers of steps that rise, got {program.step_of}"
    assert all(len(label) == 2 for label in program.labels), f"labels: expected (kind, node), got {program.labels}"
    if runs.device.owns_slots:
        slot = program.slot(1000)
        assert slot.nbytes >= 1000 and slot.data, (
            f"slot(1000): expected so many bytes, got {slot.nbytes} at {slot.data}"
        )
    for graph in _odd_graphs():
        _refusal(runs, graph)


def _odd_graphs() -> Iterator[Graph]:
    """Networks of one op that few devices have."""
    for op, attrs in (
        ("cumsum", {"axis": 1}),
        ("erf", {}),
        ("softmax", {"axis": 2}),
        ("transpose", {"perm": (3, 0, 2, 1)}),
    ):
        image = Tensor("input", (1, 3, 4, 5))
        net = GraphBuilder(Graph("odd", (), {image.name: image}, {}, (image,), (image,)))
        yield net.graph([net.add(op, f"the-{op}", [image.name], **attrs)])


def _refusal(runs: Runs, graph: Graph) -> None:
    """What it cannot compute it refuses by a DeviceError that names the node, ahead or when it compiles."""
    (lowered,) = lowered_stages(graph, Plan.single(runs.name).lanes[0], [runs.component])
    node = graph.nodes[0].name
    reason = runs.device.unsupported(lowered)
    assert reason is None or node in reason, f"unsupported: expected the node {node!r} in it, got {reason!r}"
    try:
        runs.device.compile(lowered, "check")
    except DeviceError as error:
        assert node in str(error), f"compile: expected an error that names the node {node!r}, got {error}"
    else:
        assert reason is None, f"unsupported: expected None for what compiles, got {reason!r}"


def order(runs: Runs) -> None:
    """Every result in its turn, at every place of a pipeline."""
    for plan in runs.plans:
        with _named(plan), runs.pipeline(plan) as pipe:
            runs.run(pipe, 4 * DISTINCT)


def back_pressure(runs: Runs) -> None:
    """While nobody takes results few frames go in, and none is lost or written over; the same where they are late."""
    for plan in runs.plans:
        with _named(plan), runs.pipeline(plan, slots=1) as pipe:
            given = _fill(runs, pipe)
            assert 1 <= given < MOST_AHEAD, f"expected a full pipeline after some frames, {given} went in"
            for number in range(given):
                runs.check(number, pipe.result(timeout=WAIT_S))
        with _named(plan), runs.pipeline(plan) as pipe:
            runs.run(pipe, 3 * DISTINCT, slow=True)


def _fill(runs: Runs, pipe: Pipeline) -> int:
    for number in range(MOST_AHEAD):
        try:
            pipe.submit(runs.frames[number % DISTINCT], timeout=0.3)
        except (PipelineError, PipelineTimeoutError):
            return number
    return MOST_AHEAD


def errors(runs: Runs) -> None:
    """A stage that fails is one PipelineError, after the results of the frames before; then all goes on anew."""
    failing = 5
    for plan in runs.plans:
        for stage in range(len(plan.split("-"))):
            with _named(f"{plan}, stage {stage} fails"), _fault(f"{stage}:{failing}"), runs.pipeline(plan) as pipe:
                results = pipe.map(runs.frames[: failing + 3])
                for number in range(failing):
                    runs.check(number, next(results))
                _fails(results, plan.split(":")[0].split("-")[stage])
    with runs.pipeline(runs.name) as pipe:
        runs.run(pipe, DISTINCT)


def _fails(results: Iterator[Any], name: str) -> None:
    try:
        found = next(results)
    except PipelineError as error:
        assert name in str(error), f"expected an error that names {name}, got {error}"
    else:
        raise AssertionError(f"expected a PipelineError, got a result of {type(found).__name__}")


@contextmanager
def _fault(text: str) -> Iterator[None]:
    before = os.environ.get("PIPEALL_FAULT")
    os.environ["PIPEALL_FAULT"] = text
    try:
        yield
    finally:
        os.environ.pop("PIPEALL_FAULT")
        if before is not None:
            os.environ["PIPEALL_FAULT"] = before


def close(runs: Runs) -> None:
    """Closed early, late or twice it ends, and leaves no thread and no open file behind."""

    def cycle() -> None:
        with runs.pipeline(runs.together) as pipe:
            for frame in runs.frames[:2]:
                pipe.submit(frame, timeout=WAIT_S)
        pipe.close()
        with runs.pipeline(runs.together):
            pass
        gc.collect()

    cycle()  # what a driver keeps from its first use on
    before = _left()
    for _ in range(CYCLES):
        cycle()
    for what, count in _left().items():
        more = count - before[what]
        assert more < CYCLES // 2, f"expected as many {what} after {CYCLES} pipelines as before, got {more} more"


def _left() -> dict[str, int]:
    return {
        what: len(os.listdir(f"/proc/self/{folder}")) for what, folder in (("threads", "task"), ("open files", "fd"))
    }


def footprint(runs: Runs) -> None:
    """Bytes ahead of compiling: known by name, and weights for what has some."""
    parts = [subgraph(runs.graph, 0, last) for last in (1, len(runs.graph.groups))]
    weights = []
    for part in parts:
        (lowered,) = lowered_stages(part, Plan.single(runs.name).lanes[0], [runs.component])
        sizes = runs.device.footprint(lowered)
        known = set(sizes) == {"weights", "arena", "scratch"} and all(type(n) is int and n >= 0 for n in sizes.values())
        assert known, f"expected whole bytes of weights, arena and scratch, got {sizes}"
        weights.append(sizes["weights"])
        least = part.parameters // 8
        assert sizes["weights"] >= least, f"expected {least} bytes of weights or more, got {sizes['weights']}"
    assert weights[0] < weights[1], f"expected more weights in more groups, got {weights}"
    stages = [stage.unit for stage in stage_footprints(runs.graph, Plan.parse(runs.together), runs.board)]
    assert stages == list(Plan.parse(runs.together).units), f"expected a footprint for each stage, got {stages}"


def profile(runs: Runs) -> None:
    """A time for every group, which together take about as long as a frame does."""
    found = profile_of(runs.graph, runs.board, [runs.name], seconds=PROFILE_S).units[Unit.parse(runs.name)]
    assert len(found.ms) == len(runs.graph.groups), f"expected a time of each group, got {found.ms}"
    assert all(0 <= ms < 1e6 for ms in found.ms) and sum(found.ms) > 0, f"expected times above 0, got {found.ms}"
    with runs.pipeline(runs.name, depth=0) as pipe:
        runs.run(pipe, DISTINCT, ahead=1)
        (stage,) = pipe.stats().stages
    busy = stage.busy_ms
    within = busy / BESIDE < sum(found.ms) < BESIDE * busy
    assert within, f"expected groups of about {busy:.3g} ms together, as a frame takes, got {sum(found.ms):.3g}"


def search(runs: Runs) -> None:
    """Plans with it are found, predicted and run."""
    units = [runs.name, *runs.others[:1]]
    known = profile_of(runs.graph, runs.board, units, seconds=PROFILE_S)
    found = search_plans(runs.graph, known, plans="pipelines")
    with_it = [row.plan for row in found.ranked if Unit.parse(runs.name) in row.plan.units]
    assert with_it, f"expected a plan with {runs.name} in it, got {', '.join(str(row.plan) for row in found.ranked)}"
    with _named(str(with_it[0])), runs.pipeline(str(with_it[0])) as pipe:
        runs.run(pipe, DISTINCT)


def trace(runs: Runs) -> None:
    """The time when each command ended, within the frame that it is of."""
    with runs.pipeline(runs.together, trace=True) as pipe:
        runs.run(pipe, DISTINCT)
    stage = pipe.trace[runs.stage(runs.together)]
    assert list(stage.rows[:, StageTrace.FRAME]) == list(range(DISTINCT)), "expected a row for each frame, in order"
    marks = stage.rows[:, StageTrace.GIVEN : StageTrace.RAN]
    assert marks.shape[1] == len(stage.labels) + 1, (
        f"expected {len(stage.labels) + 1} times a frame, got {marks.shape[1]}"
    )
    assert (np.diff(marks) >= 0).all(), "expected times of commands that rise"
    assert (np.diff(marks[:, -1]) > 0).all(), "expected each frame to end after the one before"
    begun, ran = stage.rows[:, StageTrace.TAKEN].copy(), stage.rows[:, StageTrace.RAN]
    if stage.queued:  # a frame may be given to it while the stage waits for the one before
        begun[1:] = begun[:-1]
    assert (marks[:, 0] >= begun - CLOCK_NS).all() and (marks[:, -1] <= ran + CLOCK_NS).all(), (
        "expected times of CLOCK_MONOTONIC between the frame's begin and its end"
    )


def fork(runs: Runs) -> None:
    """A fork cannot use the parent's pipeline, ends in peace, and does the parent no harm."""
    with runs.pipeline(runs.together) as pipe:
        runs.run(pipe, DISTINCT)
        child = os.fork()
        if not child:
            _in_fork(pipe, runs)
        _child_ends(child)
        runs.run(pipe, DISTINCT)


def _in_fork(pipe: Pipeline, runs: Runs) -> None:
    code = 3
    try:
        pipe.submit(runs.frames[0])
    except PipelineError:
        pipe.close()
        del pipe
        gc.collect()
        code = 0
    finally:
        os._exit(code)


def _child_ends(child: int) -> None:
    alarm = threading.Timer(WAIT_S / 2, os.kill, (child, signal.SIGKILL))
    alarm.start()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    alarm.cancel()
    assert code != -signal.SIGKILL, f"expected a fork that ends within {WAIT_S / 2:g} s, got none"
    assert code == 0, f"expected a fork that is told off and ends with 0, got {code}"


def two_at_once(runs: Runs) -> None:
    """Two pipelines, each with its own weights, at the same time."""
    other = Runs(runs.board, runs.component, runs.other, runs.other, runs.tolerance, runs.count)
    with runs.pipeline(runs.together) as one, other.pipeline(other.together) as two:
        for number in range(4 * DISTINCT):
            one.submit(runs.frames[number % DISTINCT], timeout=WAIT_S)
            two.submit(other.frames[number % DISTINCT], timeout=WAIT_S)
            runs.check(number, one.result(timeout=WAIT_S))
            with _named("the second pipeline"):
                other.check(number, two.result(timeout=WAIT_S))
        raised: list[Exception] = []
        both = [threading.Thread(target=_run, args=(r, pipe, raised)) for r, pipe in ((runs, one), (other, two))]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        for error in raised:
            raise error


def _run(runs: Runs, pipe: Pipeline, raised: list[Exception]) -> None:
    try:
        runs.run(pipe, 4 * DISTINCT)
    except Exception as error:
        raised.append(error)


def many_frames(runs: Runs) -> None:
    """As right after many frames as at first, in the same memory."""
    with runs.pipeline(runs.together) as pipe:
        runs.run(pipe, runs.count // 10)
        before = _resident_bytes()
        runs.run(pipe, runs.count)
    more, most = _resident_bytes() - before, SPARE_BYTES + LEAK_BYTES * runs.count
    assert more <= most, f"expected at most {most} bytes more after {runs.count} frames, got {more}"


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Puts what was done before an error."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error


CHECKS: dict[str, Callable[[Runs], None]] = {
    re.sub("_", " ", check.__name__): check
    for check in (
        traits, programs, order, back_pressure, errors, close, footprint, profile, search, trace, fork, two_at_once,
        many_frames,
    )
}  # fmt: skip
