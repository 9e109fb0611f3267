"""Faults injected into running pipelines, one by one and in pairs, at random moments; and what must hold after each.

    python -m tests.long.fault_runs --minutes 10        # random ones; the seed of one that fails is in its message
    python -m tests.long.fault_runs --seed 1234 -n 1    # that one again

After each run: a clean end or an error that names its place; each result is that of its frame, in order; no frame that
was accepted is missing before the end; ``close`` is prompt; no thread, descriptor, OpenCL buffer, event
or mapping is left.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from types import FrameType

import numpy as np
from graphs import frames, small_net
from leak_check import Watched
from process import promptly

from pipeall import Board, DeviceError, Engine, Pipeline, PipelineError, PipelineTimeoutError
from pipeall.graph.ir import Graph

FRAMES = 40
PLANS = ("big", "big-little:2", "B+L", "gpu", "gpu-big:2", "big-gpu:2", "little-gpu-big:1,3", "gpu-big-little:1,2",
         "big-little-big:1,3", "big-gpu-big:1,3", "gpu-big-gpu:1,3", "big-gpu-big-little:1,2,3")  # fmt: skip
CALLS = ("clSetKernelArg", "clEnqueueNDRangeKernel", "clEnqueueReadBuffer", "clEnqueueWriteBuffer",
         "clEnqueueMapBuffer", "clEnqueueUnmapMemObject", "clWaitForEvents", "clFlush")  # fmt: skip
CL_OUT_OF_RESOURCES = -5
PATIENCE_S = 30  # without any progress: a hang
CALLBACKS = ("_weakrefset.py", "weakref.py", "junkdrawer.py")  # files with callbacks of the garbage collector


class Interrupt(BaseException):
    """What the handler of a signal raises at any moment, as Ctrl-C's does."""


class Broken(Exception):
    """The error of a source of frames."""


@dataclass(frozen=True)
class Scenario:
    """A run and what goes wrong in it; a fault that is None, or 0, does not happen."""

    plan: str
    slots: int
    full: bool  # the pipeline holds as many frames as its rings; else as few as keep its stages busy
    by_map: bool  # frames by ``map``, else from another thread by ``submit``
    stage_fails: tuple[int, int] | None = None  # stage, frame
    call_fails: tuple[str, int] | None = None  # OpenCL function, which call of it
    consumer_ms: float = 0
    producer_ms: float = 0
    source_breaks: int | None = None  # at this frame
    producer_stops: int | None = None  # before this frame, for good
    consumer_leaves: int | None = None  # after so many frames
    close_ms: float | None = None  # another thread closes so long after the start
    interrupt_ms: float | None = None
    fork_ms: float | None = None
    shrink_ms: float | None = None  # all threads are left one core

    @property
    def offered(self) -> int:
        """Frames that the producer comes to."""
        stops = [self.producer_stops, self.source_breaks if not self.by_map else None]
        return min([FRAMES, *(frame for frame in stops if frame is not None)])


FAULTS = {  # name -> the fields of a scenario that make it happen, from a source of random numbers and the scenario
    "OpenCL call fails": lambda r, s: dict(call_fails=(r.choice(CALLS), int(2 ** r.uniform(0, 8)) - 1)),
    "stage fails": lambda r, s: dict(stage_fails=(r.randrange(s.plan.count("-") + 1), r.randrange(FRAMES))),
    "slow consumer": lambda r, s: dict(consumer_ms=r.uniform(0, 3)),
    "slow producer": lambda r, s: dict(producer_ms=r.uniform(0, 3)),
    "source breaks": lambda r, s: dict(source_breaks=r.randrange(FRAMES), by_map=True),
    "producer stops": lambda r, s: dict(producer_stops=r.randrange(FRAMES), by_map=False),
    "consumer leaves": lambda r, s: dict(consumer_leaves=r.randrange(1, FRAMES)),
    "close elsewhere": lambda r, s: dict(close_ms=r.uniform(0, 8)),
    "interrupt": lambda r, s: dict(interrupt_ms=r.uniform(0.01, 8)),
    "fork": lambda r, s: dict(fork_ms=r.uniform(0, 8)),
    "cores taken away": lambda r, s: dict(shrink_ms=r.uniform(0, 8)),
}


def scenario(faults: tuple[str, ...], seed: int) -> Scenario:
    """A random run with these faults."""
    r = random.Random(seed)
    plans = [plan for plan in reference()[3] if "gpu" in plan or "OpenCL call fails" not in faults]
    made = Scenario(r.choice(plans), r.randint(1, 3), r.random() < 0.5, r.random() < 0.5)
    for name in faults:
        made = replace(made, **FAULTS[name](r, made))
    return made


@cache
def reference() -> tuple[Graph, Board, list[np.ndarray], dict[str, list[np.ndarray]]]:
    """The network, the board, seven inputs, and their results by each plan without faults: the same bits every time."""
    graph, board = small_net(), Board.detect()
    inputs = frames(graph, 7)
    expected = {}
    for plan in PLANS if "gpu" in board.components else PLANS[:3]:
        with Pipeline(graph, plan, board=board) as pipe:
            expected[plan] = list(pipe.map(inputs))
    with Engine(graph, "big", board=board) as engine:
        for results in expected.values():
            assert all(np.allclose(engine(x), y, rtol=1e-4, atol=1e-4) for x, y in zip(inputs, results, strict=True))
    return graph, board, inputs, expected


class Run:
    """One scenario on a real pipeline."""

    def __init__(self, s: Scenario, watched: Watched):
        self.s, self.watched = s, watched
        self.graph, self.board, self.inputs, expected = reference()
        self.expected = expected[s.plan]
        self.taken = self.accepted = 0
        self.produced = threading.Event()  # no further frame will be submitted

    def check(self, result: np.ndarray) -> None:
        assert np.array_equal(result, self.expected[self.taken % 7]), f"result {self.taken} is not that of its frame"
        self.taken += 1

    def run(self) -> str:
        """Returns how the stream ended, after checking that it may end so."""
        s = self.s
        os.environ["PIPEALL_FAULT"] = "" if s.stage_fails is None else "{}:{}".format(*s.stage_fails)
        function, nth = s.call_fails or ("", 0)
        self.watched.shim.cl_faults_arm(function.encode(), nth, CL_OUT_OF_RESOURCES)
        depth = s.slots * (s.plan.count("-") + 2) if s.full else None
        try:
            self.pipe = Pipeline(self.graph, s.plan, board=self.board, slots=s.slots, depth=depth)
            with ExitStack() as stack:
                self.start_actors(stack)
                end = self.consume()
                self.check_end(end)
            return end
        except DeviceError as error:
            assert function and f"{function} failed with CL_OUT_OF_RESOURCES" in str(error), error
            return "refused to start"
        finally:
            self.watched.shim.cl_faults_arm(None, 0, 0)

    def start_actors(self, stack: ExitStack) -> None:
        s = self.s
        if s.shrink_ms is not None:
            stack.callback(self.allow, os.sched_getaffinity(0))
        for delay_ms, act in ((s.close_ms, self.pipe.close), (s.fork_ms, self.fork), (s.shrink_ms, self.shrink)):
            if delay_ms is not None:
                timer = threading.Timer(delay_ms / 1e3, act)
                timer.start()
                stack.callback(timer.join)
        if not s.by_map:
            producer = threading.Thread(target=self.produce)
            producer.start()
            stack.callback(producer.join)
        stack.callback(self.close)  # before the others end: a producer may wait for room

    def close(self) -> None:
        with promptly():
            self.pipe.close()

    def fork(self) -> None:
        child = os.fork()
        if not child:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)  # a child that hangs dies of it
            try:
                self.pipe.result(timeout=1)
            except PipelineError as error:
                os._exit(0 if "fork" in str(error) or "closed" in str(error) or error.stage >= 0 else 2)
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.child = {0: ""}.get(code, f"a fork that asks for a result ended with {code}")

    def shrink(self) -> None:
        self.allow({min(os.sched_getaffinity(0))})

    @staticmethod
    def allow(cores: set[int]) -> None:
        for task in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(task), cores)

    def source(self):
        for i in range(FRAMES):
            time.sleep(self.s.producer_ms / 1e3)
            if i == self.s.source_breaks:
                raise Broken
            yield self.inputs[i % 7]

    def produce(self) -> None:
        try:
            for i, x in enumerate(self.source()):
                if i == self.s.producer_stops:
                    return
                assert self.pipe.submit(x, timeout=PATIENCE_S).number == i
                self.accepted += 1
        except (Broken, PipelineError):
            pass
        finally:
            self.produced.set()

    def results(self):
        if self.s.by_map:
            yield from self.pipe.map(self.source())
            return
        deadline = time.monotonic() + PATIENCE_S
        while not (self.produced.is_set() and self.taken == self.accepted):
            try:
                yield self.pipe.result(timeout=0.1)
            except PipelineTimeoutError:
                assert time.monotonic() < deadline, "no result arrives"

    def consume(self) -> str:
        old = signal.signal(signal.SIGALRM, self.interrupt)
        try:
            try:
                self.interruptible = True
                if self.s.interrupt_ms is not None:
                    signal.setitimer(signal.ITIMER_REAL, self.s.interrupt_ms / 1e3)
                return self.take(self.results())
            except Interrupt:
                return self.after_interrupt()
            finally:
                self.interruptible = False
        except PipelineError as error:
            self.error = error
            return "closed" if error.stage < 0 else "stage failed"
        except Broken:
            return "source broke"
        except Interrupt:  # on the way out
            return "interrupted"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)

    def interrupt(self, _: int, frame: FrameType | None) -> None:
        if self.interruptible:
            raise_interrupt(frame)

    def take(self, results) -> str:
        for result in results:
            self.check(result)
            time.sleep(self.s.consumer_ms / 1e3)
            if self.taken == self.s.consumer_leaves:
                return "consumer left"
        return "complete"

    def after_interrupt(self) -> str:
        """What was under way is still to be had; a result on its way out of the call that was interrupted is not."""
        frames = self.pipe.lanes.frames
        assert 0 <= frames.delivered - self.taken <= 1
        self.taken = frames.delivered
        if self.s.by_map:
            while self.pipe.pending:
                self.check(self.pipe.result(timeout=PATIENCE_S))
            return "interrupted"
        return self.take(self.results())

    def check_end(self, end: str) -> None:
        s = self.s
        assert not getattr(self, "child", ""), self.child
        if end == "complete":
            refused = s.close_ms is not None and not s.by_map and self.taken == self.accepted  # closed, then submitted
            assert self.taken == s.offered or refused, f"{self.taken} of {s.offered} frames"
            assert s.stage_fails is None or s.stage_fails[1] >= self.taken, "a failed stage shows nowhere"
        elif end == "stage failed":
            assert s.stage_fails or s.call_fails
            assert self.error.frame == self.taken, f"frames before {self.error.frame} are missing from {self.taken} on"
            if s.stage_fails and not s.call_fails:
                assert (self.error.stage, self.error.frame) == s.stage_fails
            for call in (self.pipe.result, lambda: self.pipe.submit(self.inputs[0])):  # and it stays so
                try:
                    call()
                    raise AssertionError("a failed pipeline goes on")
                except PipelineError as error:
                    assert error.stage == self.error.stage or s.close_ms is not None
        elif end == "closed":
            assert s.close_ms is not None
        elif end == "source broke":
            assert self.taken == s.source_breaks
        elif end == "consumer left":
            assert self.taken == s.consumer_leaves
        else:
            assert end == "interrupted" and s.interrupt_ms is not None


def raise_interrupt(frame: FrameType | None) -> None:
    """Raises Interrupt, or a moment later: a callback of the garbage collector would swallow it, and whoever is told of
    that keeps all frames below it, with the pipeline in them, alive."""
    while frame is not None:
        if os.path.basename(frame.f_code.co_filename) in CALLBACKS:
            signal.setitimer(signal.ITIMER_REAL, 1e-4)
            return
        frame = frame.f_back
    raise Interrupt


def warm_up(watched: Watched) -> Counter[str]:
    """Drivers start threads and open files when first used; what is there after that must be there at the end."""
    reference()
    for plan in reference()[3]:
        Run(Scenario(plan, 1, False, True), watched).run()
    return watched.left()


def inject(faults: tuple[str, ...], seed: int, watched: Watched, before: Counter[str]) -> str:
    """Runs a scenario and checks it; returns how the stream ended. An AssertionError names the scenario."""
    s = scenario(faults, seed)
    try:
        end = Run(s, watched).run()
        watched.check(before)
    except BaseException as error:
        error.add_note(f"faults {faults}, seed {seed}: {s}") if sys.version_info >= (3, 11) else None
        raise
    return end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first run")
    parser.add_argument("-n", type=int, default=None, help="so many runs instead of so many minutes")
    arguments = parser.parse_args()
    os.environ["PIPEALL_TUNE"] = "off"
    possible = [name for name in FAULTS if name != "OpenCL call fails" or "gpu" in reference()[1].components]
    every = [(name,) for name in possible] + list(itertools.combinations(possible, 2))
    seed = random.randrange(10**6) * 1000 if arguments.seed is None else arguments.seed
    ends: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    deadline = time.monotonic() + 60 * arguments.minutes
    with Watched() as watched:
        before = warm_up(watched)
        for i in itertools.count(seed):
            if i - seed == arguments.n or (arguments.n is None and time.monotonic() > deadline):
                break
            chosen = every[i % len(every)]
            ends[inject(chosen, i, watched, before)] += 1
            faults.update(chosen)
    print(f"{sum(ends.values())} runs from seed {seed}, none failed; they ended:", dict(ends.most_common()))
    print("faults injected:", dict(faults))


if __name__ == "__main__":
    main()
