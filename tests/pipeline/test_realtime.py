"""Real-time threads and locked memory: what the kernel says of the threads, and what is told where it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import picture, ran
from graphs import frames, small_net
from process import no_longer, promptly, statuses

from pipeall import Board, Pipeline
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.pipeline import realtime

HERE = Path(__file__).parent
REFUSED = f"""
import os, resource, sys, warnings
sys.path[:0] = {[str(HERE.parent / "support"), str(HERE)]!r}
from graphs import frames, small_net
from pipeall import Board, Pipeline, env
env.sysfs()
graph, board = small_net(), Board.detect(gpu=False)
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
os.environ["PIPEALL_TUNE"] = "off"
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    with Pipeline(graph, "big", board, realtime=True) as pipe:
        print(len(list(pipe.map(frames(graph, 3)))))
for line in told:
    print(line.message)
"""


def scheduled(name: str) -> list[tuple[int, int]]:
    """(policy, priority) of this process's threads of this name, as the kernel knows them."""
    tasks = [task for task in Path("/proc/self/task").iterdir() if (task / "comm").read_text().startswith(name)]
    return [(os.sched_getscheduler(int(task.name)), os.sched_getparam(int(task.name)).sched_priority) for task in tasks]


@pytest.fixture
def allowed():
    """What this process may; memory stays locked until it ends, so that the tests after it do not mind."""
    if realtime.threads_refused():
        pytest.skip("this user may give no thread a real-time priority")


def test_threads_of_units_and_teams_come_before_others(allowed, monkeypatch):
    monkeypatch.setattr(realtime, "lock_refused", lambda: None)
    graph, board = small_net(), Board.detect([sorted(os.sched_getaffinity(0))], gpu=False)
    xs, others = frames(graph, 4), set(statuses())
    with Pipeline(graph, "big", board) as pipe:
        expected = [pipe.compute(x) for x in xs]
        assert set(scheduled("pa-big")) == {(os.SCHED_OTHER, 0)}
        ordinary = statuses().keys() - others
    assert no_longer(ordinary)
    with Pipeline(graph, "big", board, realtime=True) as pipe:
        results = list(pipe.map(xs)) + [pipe.compute(xs[0])]
        rows = scheduled("pa-big")
        assert len(rows) == board.component("big").device.width and set(rows) == {(os.SCHED_FIFO, realtime.CORES)}
        assert os.sched_getscheduler(0) == os.SCHED_OTHER  # whoever hands in frames
    for y, x in zip(expected + expected[:1], results, strict=True):
        np.testing.assert_array_equal(y, x)


def test_another_plan_of_the_pipeline_has_priorities_too(allowed, monkeypatch, board):
    monkeypatch.setattr(realtime, "lock_refused", lambda: None)
    graph = small_net()
    with Pipeline(graph, "big", board, realtime=True) as pipe:
        pipe.replace(plan="little")
        list(pipe.map(frames(graph, 3)))
        assert set(scheduled("pa-little")) == {(os.SCHED_FIFO, realtime.CORES)}


def test_whoever_feeds_a_device_comes_before_cores(allowed, monkeypatch, board_with_gpu):
    """The driver's own threads have no priority from us."""
    monkeypatch.setattr(realtime, "lock_refused", lambda: None)
    graph = small_net()
    with Pipeline(graph, "gpu-big:2", board_with_gpu, realtime=True) as pipe:
        list(pipe.map(frames(graph, 3)))
        assert scheduled("pa-gpu") == [(os.SCHED_FIFO, realtime.DEVICE)]
        assert set(scheduled("pa-big")) == {(os.SCHED_FIFO, realtime.CORES)}
        urgent = [policy for policy, _ in scheduled("") if policy == os.SCHED_FIFO]
        assert len(urgent) == 1 + board_with_gpu.component("big").device.width


def test_a_unit_without_work_leaves_its_core(allowed, monkeypatch):
    """Every core has a thread with a priority, and this one, which has none, computes on: they sleep."""
    monkeypatch.setattr(realtime, "lock_refused", lambda: None)
    graph, board = small_net(), Board.detect([sorted(os.sched_getaffinity(0))], gpu=False)
    with Pipeline(graph, "big", board, realtime=True) as pipe, promptly():
        for _ in range(3):
            list(pipe.map(frames(graph, 20)))
            for core in os.sched_getaffinity(0):
                os.sched_setaffinity(0, {core})  # runs there, so nobody with a priority does
                sum(range(10_000))
            os.sched_setaffinity(0, set(board.component("big").device.cores))


def test_refused_rights_are_told_and_the_pipeline_runs():
    """As a user without rights or limits."""
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    count, threads, memory, *_ = done.stdout.splitlines()  # others are of what else a user may not do
    assert count == "3"
    assert threads.startswith("no real-time priority: Operation not permitted; ")
    assert all(word in threads for word in ("CAP_SYS_NICE", "ulimit -r", "limits.conf", "LimitRTPRIO="))
    assert memory.startswith("memory is not locked: the limit is 1024 KiB; ") and "ulimit -l" in memory


def test_the_command_goes_on_without(tmp_path, monkeypatch):
    monkeypatch.setattr(realtime, "threads_refused", lambda: "no real-time priority: a test")
    monkeypatch.setattr(realtime, "lock_refused", lambda: None)
    with pytest.warns(RuntimeWarning, match="no real-time priority: a test"):
        _, ran_so = ran("squeezenet", picture(tmp_path), "--plan", "B", "--realtime")
    assert ran_so["frames"] == 1


def test_no_priority_where_the_kernel_leaves_others_no_time(tmp_path, monkeypatch):
    """Stages that never wait would take all cores from everything else."""
    limit = tmp_path / realtime.THROTTLE
    limit.parent.mkdir(parents=True)
    limit.write_text("-1\n")
    monkeypatch.setenv("PIPEALL_SYSFS", str(tmp_path))
    assert "sched_rt_runtime_us is -1" in realtime.threads_refused()
    limit.write_text("950000\n")
    assert "sched_rt_runtime_us" not in (realtime.threads_refused() or "")


def test_memory_is_locked_as_it_is_used(tmp_path):
    """In a process of its own: the lock lasts as long as it. Weights that lie in a file are given back to it, or would
    be: locked ones stay."""
    (tmp_path / "net.onnx").write_bytes(onnx_bytes(small_net()))
    code = f"""
import pipeall
from pipeall.pipeline import realtime
print(realtime.lock_refused() or open("/proc/self/status").read())
graph = pipeall.load({str(tmp_path / "net.onnx")!r})
with pipeall.Pipeline(graph, "big") as pipe:
    print("runs")
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    if told.startswith("memory is not locked"):
        pytest.skip("this user may not lock memory")
    rows = dict(line.split(":") for line in told.splitlines() if line.startswith("Vm"))
    assert int(rows["VmLck"].split()[0]) > 0 and told.endswith("runs\n")
