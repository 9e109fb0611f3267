"""Faults, one by one and in pairs (fault_runs.py has the long version), and those that need a process of their own."""

import itertools
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import fault_runs
import numpy as np
import pytest
from build_trees import REPOSITORY, WITH_TESTS, ending, run
from fault_runs import FAULTS, Interrupt, inject, raise_interrupt, warm_up
from graphs import frames, small_net
from leak_check import Watched
from preload import built

from pipeall import Engine

PAIRS = list(itertools.combinations(FAULTS, 2))


@pytest.fixture(scope="module")
def watched(board):
    with Watched() as found:
        yield found, warm_up(found)


def needs_gpu(fault):
    if fault == "OpenCL call fails" and "gpu" not in fault_runs.reference()[1].components:
        pytest.skip("no OpenCL device: pip install 'pyopencl[pocl]'")


@pytest.fixture(autouse=True)
def no_fault_stays(monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "")


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault(fault, watched, some):
    needs_gpu(fault)
    for seed in some(range(4)):
        inject((fault,), seed, *watched)


@pytest.mark.parametrize("first", FAULTS)
def test_two_faults(first, watched, some):
    needs_gpu(first)
    pairs = [pair for pair in PAIRS if pair[0] == first and pair[1] != "OpenCL call fails"]
    for seed, pair in some(enumerate(pairs)):
        inject(pair, seed, *watched)


def median_call_s(engine, inputs):
    """Seconds that a call takes on this machine: moments are drawn from within calls, however fast its cores are."""
    seconds = []
    for x in inputs * 20:
        started = time.perf_counter()
        engine(x)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def test_an_engine_that_is_interrupted_at_any_moment_answers_for_the_right_frame(board):
    """Ctrl-C in a notebook: the next call neither hangs nor gives the result of the one that was broken off."""
    graph = small_net()
    inputs = frames(graph, 7)
    random = np.random.default_rng(0)

    old = signal.signal(signal.SIGALRM, lambda _, frame: raise_interrupt(frame))
    interrupted = 0
    try:
        with Engine(graph, "big", board=board) as engine:
            expected = [engine(x) for x in inputs]
            longest = 3 * median_call_s(engine, inputs)
            for i in range(3000):
                try:
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-6, longest))
                    result = engine(inputs[i % 7])
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    assert np.array_equal(result, expected[i % 7]), f"call {i}"
                except Interrupt:
                    interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert interrupted > 100


MEMORY = """
import resource, sys
import numpy as np
from pipeall import Board, PipeallError, Pipeline, zoo
from process import address_space_bytes

def attempt(spare):
    resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes() + spare, resource.RLIM_INFINITY))
    try:
        with Pipeline(graph, "big-little:9", board=board) as pipe:
            return all(np.array_equal(y, expected) for y in pipe.map([x] * 3))
    except (MemoryError, PipeallError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

graph, board = zoo.squeezenet(), Board.detect(gpu=False)
x = np.ones(graph.inputs[0].shape, np.float32)
with Pipeline(graph, "big-little:9", board=board) as pipe:
    (expected,) = pipe.map([x])
found = [attempt(mb << 18) for mb in range(0, 1200, 48)]
assert found[-1] is True, found[-1]
assert sum(answer is not True for answer in found) >= 4, found
print(sorted({str(answer).split(":")[0] for answer in found}))
"""


def test_memory_that_runs_out_anywhere_is_said(board):
    """By a limit on the address space, in steps of 12 MB: a named error, and with enough of it the right results."""
    assert "'True'" in run(REPOSITORY, "-c", MEMORY, PIPEALL_TUNE="off", **WITH_TESTS)


RESULT_WITHOUT_MEMORY = """
import resource
import numpy as np
from pipeall import Board, Pipeline
from graphs import Net
from process import address_space_bytes

net = Net((1, 64, 256, 256))  # a result of 16 MB
graph = net.graph(net.op("clip", "x0"))
x = np.ones((1, 64, 256, 256), np.float32)
with Pipeline(graph, "big", board=Board.detect(gpu=False)) as pipe:
    pipe.submit(x)
    pipe.submit(2 * x)
    resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes() + (1 << 20), resource.RLIM_INFINITY))
    try:
        pipe.result()
        raise SystemExit("expected no memory")
    except MemoryError:
        pass
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert pipe.result().max() == 1 and pipe.result().max() == 2
"""


def test_a_result_there_was_no_memory_for_is_not_lost(board):
    run(REPOSITORY, "-c", RESULT_WITHOUT_MEMORY, **WITH_TESTS)


FORKS = """
import os, signal, sys
import numpy as np
from graphs import frames, small_net
from pipeall import Board, DeviceError, Engine, Pipeline
graph = small_net()
(x,) = frames(graph, 1)
board, when = Board.detect(), sys.argv[1]
if when == "opened":
    with Engine(graph, "gpu", board=board) as engine:
        engine(x)
elif when == "listed":
    with Pipeline(graph, board=board) as pipe:  # its plan is one of CPUs where a CPU plays the GPU
        list(pipe.map([x]))
elif when == "running":
    pipe = Pipeline(graph, "gpu-big:2", board=board)
    pipe.submit(x)
child = os.fork()
if not child:
    signal.alarm(20)
    if when == "running":
        sys.exit(3)  # with the parent's pipeline, as its interpreter ends
    try:
        with Engine(graph, "big", board=board) as engine:
            engine(x)  # the CPU is free to all
        with Engine(graph, "gpu", board=board) as engine:
            engine(x)
    except DeviceError as error:
        sys.exit(4 if "fork" in str(error) else 5)
    sys.exit(3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
if when == "running":
    pipe.result()
    pipe.close()
sys.exit(code)
"""


@pytest.mark.parametrize("when, code", [("imported", 3), ("listed", 4), ("opened", 4), ("running", 3)])
def test_fork(when, code, board_with_gpu):
    """A child computes, is told that OpenCL stays with its parent, and ends; it never hangs in a driver's lock."""
    assert ending(FORKS, when) == (code, "")


FORK_FREES_NOTHING = """
import gc, os, weakref
from graphs import frames, small_net
from pipeall import Board, Pipeline
from pipeall._kernels.opencl.cl_devices import Device
from pipeall.pipeline.devices.opencl.opencl_program import ClProgram, Slot
graph = small_net()
(x,) = frames(graph, 1)
pipe = Pipeline(graph, "gpu-big:2", board=Board.detect())
pipe.submit(x)
pipe.result()
owners = [weakref.ref(one) for one in gc.get_objects() if isinstance(one, (Device, ClProgram, Slot))]
assert {type(ref()) for ref in owners} == {Device, ClProgram, Slot}
child = os.fork()
if not child:
    del pipe
    gc.collect()
    os._exit(sum(ref() is None for ref in owners))  # those that have let go of what is OpenCL's
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
pipe.close()
del pipe
gc.collect()
assert {type(ref()) for ref in owners if ref()} == {Device}  # the parent frees them
"""


def test_a_fork_releases_nothing_of_opencl(board_with_gpu):
    """Its locks may be held for ever: a thread of the driver that had one when the fork was made is not in it."""
    run(REPOSITORY, "-c", FORK_FREES_NOTHING, **WITH_TESTS)


EXIT_WHILE_WAITING = """
import threading, time
import numpy as np
from graphs import small_net
from pipeall import Board, Pipeline
pipe = Pipeline(small_net(), "big-little:2", board=Board.detect(gpu=False))
def wait():
    pipe.result()
threading.Thread(target=wait, daemon=True).start()
time.sleep(0.2)
raise SystemExit(7)
"""


def test_exit_with_a_thread_waiting_for_a_result(board):
    assert ending(EXIT_WHILE_WAITING) == (7, "")


def test_clock_steps_change_nothing(board, tmp_path):
    """The wall clock jumps by up to a day at every look at it, forth and back; faults are injected meanwhile."""
    shim = built("clock_steps", tmp_path)
    printed = run(REPOSITORY, "-m", "tests.long.fault_runs", "--seed", "0", "-n", "33", LD_PRELOAD=str(shim),
                  PYTHONPATH=str(REPOSITORY))  # fmt: skip
    assert "33 runs from seed 0, none failed" in printed
    jumps = run(REPOSITORY, "-c", "import time; print(abs(time.time() - time.time()) > 1)", LD_PRELOAD=str(shim))
    assert jumps == "True\n"


def cpu_ticks(pid, name):
    """What a process's thread of this name has computed; 0 where there is none."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return sum(int(stat.split()[13]) for stat in stats if f"({name})" in stat)


def test_ctrl_c_ends_the_command(tmp_path, ctrl_c):
    """In the middle of a stream of minutes: status 130, nothing but the reason on stderr, within seconds."""
    command = [sys.executable, "-m", "pipeall", "run", "squeezenet", "examples", "--repeat", "100000", "--plan", "big"]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while cpu_ticks(process.pid, "pa-big") < 10:  # 0.1 s: several frames
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and "Traceback" not in errors


IN_A_CPUSET = """
import os, sys
from pathlib import Path
import numpy as np
from graphs import frames, small_net
from pipeall import Board, Pipeline
group, first, both = Path(sys.argv[1]), *sys.argv[2:]
cpus = group / "cpuset.cpus"
(group / "cgroup.procs").write_text(str(os.getpid()))
graph = small_net()
inputs = frames(graph, 7)

def changing():
    for number in range(3000):
        if number in (1000, 2000):
            cpus.write_text(first if number == 1000 else both)
        yield inputs[number % 7]

with Pipeline(graph, "big-little:2", board=Board.detect(gpu=False)) as pipe:
    expected = list(pipe.map(inputs))
    results = list(pipe.map(changing()))
assert len(results) == 3000 and all(np.array_equal(r, expected[i % 7]) for i, r in enumerate(results))
cpus.write_text(first)
assert [part.device.cluster.cores for part in Board.detect(gpu=False).components.values()] == [(int(first),)]
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only: there is none to take away")
def test_a_cpuset_that_shrinks_and_grows():
    """What unplugging a core does to threads pinned to it; the kernel's own cgroup, not only their affinity."""
    cores = sorted(map(str, os.sched_getaffinity(0)))[:2]
    group = Path("/sys/fs/cgroup/cpuset") / f"pipeall-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cpuset to make: run as root where cgroup v1 is mounted ({error})")
    try:
        (group / "cpuset.mems").write_text("0")
        (group / "cpuset.cpus").write_text(",".join(cores))
        run(REPOSITORY, "-c", IN_A_CPUSET, str(group), cores[0], ",".join(cores), **WITH_TESTS)
    finally:
        group.rmdir()
