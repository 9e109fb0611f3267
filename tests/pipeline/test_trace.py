"""The recording of every step: against the steps of the plan, the stages' counters and the frames' time stamps."""

import json
from collections import Counter, defaultdict

import numpy as np
import pytest
from cl_faults import in_between
from graphs import Net, frames, small_net
from process import resident_bytes

from pipeall import ArgumentError, Pipeline, PipelineError
from pipeall.graph.lower.lower import lower
from pipeall.graph.partition import subgraph
from pipeall.pipeline import lane, trace
from pipeall.pipeline.devices.opencl.opencl_device import OpenCl
from pipeall.pipeline.trace import StageTrace

PLANS = ["big", "big-little:2", "B+L", "big-gpu-little:1,2", "gpu"]
COUNT = 12


def recorded(graph, plan, board, count=COUNT, **arguments):
    """Results, traces, counters, and time stamps of each frame."""
    with Pipeline(graph, plan, board=board, trace=True, **arguments) as pipe:
        assert pipe.trace == []
        results = list(pipe.map(frames(graph, count)))
        counters, times = pipe.counters(), {times.frame: times for times in pipe.times}
    return results, pipe.trace, counters, times


@pytest.mark.parametrize("plan", PLANS)
def test_rows_are_complete_in_order_and_agree_with_counters_and_time_stamps(plan, board_with_gpu):
    graph = small_net()
    _, traces, counters, times = recorded(graph, plan, board_with_gpu)
    by_lane = defaultdict(list)
    for t, row in zip(traces, counters, strict=True):
        assert (t.lane, t.stage, t.unit, t.groups) == (row.lane, row.stage, row.unit, row.groups)
        assert t.labels == tuple((step.kind, step.node) for step in lower(subgraph(graph, *t.groups)).steps)
        assert t.rows.shape == (row.frames, 7 + len(t.labels)) and t.rows.dtype == np.int64
        assert (np.diff(t.frame) > 0).all() and (np.diff(t.marks) >= 0).all()
        at_host = np.delete(t.rows, np.s_[t.GIVEN : t.RAN], axis=1) if t.queued else t.rows
        assert (np.diff(at_host[:, 1:]) >= 0).all() and (t.marks[:, -1] <= t.rows[:, t.RAN]).all()
        assert (t.rows[1:, t.IDLE] >= t.rows[:-1, t.END]).all()
        for frame, begin, end in t.rows[:, [t.FRAME, t.BEGIN, t.END]].tolist():
            assert (times[frame].begin_ns[t.stage], times[frame].end_ns[t.stage]) == (begin, end)
        _, idle, taken, begin = t.rows[:, : t.GIVEN].T
        assert row.wait_in_ns == (taken - idle).sum() and row.wait_out_ns == (begin - taken).sum()
        assert row.busy_ns == (t.rows[:, t.END] - begin).sum()
        around = t.marks[:, 0] - begin + t.rows[:, t.RAN] - t.marks[:, -1]  # of the steps, within the frame
        assert np.diff(t.marks).sum() + around.sum() == row.busy_ns
        assert row.map_ns + row.copy_ns <= row.busy_ns  # while the frame before is computed, or around the steps
        assert (row.map_ns > 0) == t.queued
        by_lane[t.lane].append(t)
    assert sorted(frame for stages in by_lane.values() for frame in stages[0].frame) == list(range(COUNT))


@pytest.mark.parametrize("unit", ["big", "gpu"])
def test_the_time_goes_to_the_step_that_takes_it(unit, board_with_gpu):
    """One layer has 680 M MACs, the other steps at most 1 M each."""
    net = Net((1, 4, 48, 48))
    heavy = net.conv(net.conv(net.conv("x0", 4), 64), 512, k=3)
    graph = net.graph(net.conv(net.global_pool(heavy), 4))
    (t,) = recorded(graph, unit, board_with_gpu)[1]
    commands = np.median(np.diff(t.marks), axis=0)  # others of the machine lengthen some frames
    spent = np.bincount(t.step_of, weights=commands)  # on OpenCL a step may take several: transforms around a GEMM
    assert t.labels[t.step_of.index(int(spent.argmax()))] == ("conv", heavy) and spent.max() > spent.sum() / 2


def test_commands_last_as_long_when_their_stage_wakes_up_late(board_with_gpu):
    """At every other frame, when the one behind it has ended, too: both have their own times, and those they take."""
    graph, late_ns = small_net(), 20_000_000
    with in_between() as shim, Pipeline(graph, "gpu", board_with_gpu, slots=8, depth=8, trace=True) as pipe:
        list(pipe.map(frames(graph, 10)))
        shim.cl_faults_late(4, late_ns // 1000)  # a frame waits twice: for its last command, and for its slots
        list(pipe.map(frames(graph, 20)))
        shim.cl_faults_late(0, 0)
    rows, marks = pipe.trace[0].rows[10:], pipe.trace[0].marks[10:]
    assert (rows[:, StageTrace.RAN] - marks[:, -1] > late_ns / 2).mean() > 0.7  # what the host was late by
    assert (marks[:, -1] < rows[:, StageTrace.BEGIN]).mean() > 0.3  # over while the stage was at the frame before
    assert (np.diff(marks) > 0).all() and np.median(np.diff(marks).sum(axis=1)) < late_ns / 2


@pytest.mark.parametrize("plan", PLANS)
def test_results_are_the_same_with_and_without(plan, board_with_gpu):
    graph = small_net()
    with Pipeline(graph, plan, board=board_with_gpu) as pipe:
        expected = list(pipe.map(frames(graph, COUNT)))
        times = pipe.times
    assert pipe.trace == [] and len(times) == COUNT
    results = recorded(graph, plan, board_with_gpu)[0]
    assert len(results) == COUNT and all(map(np.array_equal, results, expected))


def test_the_latest_frames_are_kept(board, monkeypatch):
    monkeypatch.setattr(lane, "LOG_FRAMES", 8)
    for count in (7, 8, 9, 30):
        for t in recorded(small_net(), "big-little:2", board, count)[1]:
            assert t.frame.tolist() == list(range(max(0, count - 8), count))


def test_a_queue_without_profiling_is_an_error(board_with_gpu, monkeypatch):
    compile_all = OpenCl.compile
    monkeypatch.setattr(OpenCl, "compile", lambda self, lowered, name, **options: compile_all(self, lowered, name))
    with pytest.raises(PipelineError, match="failed at frame 0: .*PROFILING_INFO_NOT_AVAILABLE .-7. in step x0"):
        recorded(small_net(), "gpu", board_with_gpu)


# ---- the file


def check_events(events, traces):
    """What the Trace Event Format asks for, and that slices of one track lie in each other or side by side."""
    tracks, flows, names = defaultdict(list), defaultdict(dict), {}
    for event in events:
        assert event["ph"] in "XMsf" and event["ts"] >= 0 and event["name"]
        track = event["pid"], event["tid"]
        if event["ph"] == "M":
            names[(event["name"], *track)] = event["args"]["name"]
        elif event["ph"] == "X":
            assert event["dur"] >= 0
            tracks[track].append((event["ts"], event["ts"] + event["dur"], event))
        else:
            assert event["ph"] not in flows[event["id"]]
            flows[event["id"]][event["ph"]] = event
    for track, slices in tracks.items():
        assert names[("thread_name", *track)] and names["process_name", track[0], 0]
        open_until = []
        for begin, end, _ in sorted(slices, key=lambda slice_: (slice_[0], -slice_[1])):
            while open_until and open_until[-1] <= begin + 1e-3:  # ts and dur are rounded to ns apart
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 2e-3
            open_until.append(end)
    for ends in flows.values():
        start, finish = ends["s"], ends["f"]
        assert start["ts"] <= finish["ts"] and start["cat"] == finish["cat"] and finish["bp"] == "e"
        for event in (start, finish):
            assert any(begin <= event["ts"] <= end for begin, end, _ in tracks[event["pid"], event["tid"]])
    following = sum(len(t.frame) for t in traces if t.stage > 0)
    assert len(flows) == following
    return tracks


@pytest.mark.parametrize("plan", PLANS)
def test_the_file_has_every_step_of_every_frame(plan, board_with_gpu, tmp_path):
    graph, path = small_net(), tmp_path / "trace.json"
    with Pipeline(graph, plan, board=board_with_gpu, trace=path) as pipe:
        list(pipe.map(frames(graph, COUNT)))
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]
    document = json.loads(path.read_text())
    assert document.keys() == {"traceEvents", "displayTimeUnit", "otherData"}
    about = document["otherData"]
    assert (about["format"], about["network"], about["plans"]) == ("pipeall.trace/1", graph.name, [[0, str(pipe.plan)]])
    assert about["components"].keys() == board_with_gpu.components.keys()
    tracks = check_events(document["traceEvents"], pipe.trace)
    found = Counter((e["name"], e["args"]["frame"]) for track in tracks.values() for *_, e in track)
    expected = Counter()
    for t in pipe.trace:
        parts = ["wait in", "wait out", "hand-over in", "hand-over out", *(node for _, node in t.labels)]
        expected.update((name, frame) for frame in t.frame.tolist() for name in [*parts, f"frame {frame}"])
    assert found == expected
    total = sum(e["dur"] for track in tracks.values() for *_, e in track if e["cat"] == "frame") * 1e3
    assert total == pytest.approx(sum((t.rows[:, t.END] - t.rows[:, t.BEGIN]).sum() for t in pipe.trace), rel=1e-9)
    queues = {e["tid"] for track in tracks.values() for *_, e in track if e["cat"] == "queued"}
    assert len(queues) == sum(t.queued for t in pipe.trace)


def test_events_of_a_paced_frame():
    """One frame of two stages, by hand: times in us after 5 ms."""
    gpu = [0, 10, 12, 13, 20, 30, 31, 40]
    big = [2, 40, 41, 42, 50, 52, 52]
    gpu, big = (np.array([[7, *(5_000_000 + 1000 * us for us in row)]]) for row in (gpu, big))
    stages = [
        StageTrace(0, 0, "gpu", True, (0, 1), (("conv", "a"), ("copy", "b")), gpu),
        StageTrace(0, 1, "bigx1", False, (1, 2), (("conv", "c"),), big, senders=(0,)),
    ]
    events = trace.chrome(stages, {})["traceEvents"]
    check_events(events, stages)
    slices = [(e["name"], e["cat"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [
        ("wait in", "wait", 0, 10),
        ("wait out", "wait", 10, 2),
        ("frame 7", "frame", 12, 28),
        ("hand-over in", "hand-over", 12, 1),
        ("a", "queued", 13, 7),
        ("b", "queued", 20, 10),
        ("hand-over out", "hand-over", 30, 1),
        ("pace", "wait", 31, 9),
        ("wait in", "wait", 2, 38),
        ("wait out", "wait", 40, 1),
        ("frame 7", "frame", 41, 11),
        ("hand-over in", "hand-over", 41, 1),
        ("c", "conv", 42, 8),
        ("hand-over out", "hand-over", 50, 2),
    ]
    tids = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    assert tids.keys() == {"gpu: groups 1 to 1", "gpu queue", "bigx1: groups 2 to 2"}
    assert {e["tid"] for e in events if e.get("cat") == "queued"} == {tids["gpu queue"]}
    assert [(e["ph"], e["ts"], e["tid"]) for e in events if e["ph"] in "sf"] == [
        ("s", 26, tids["gpu: groups 1 to 1"]),
        ("f", 41, tids["bigx1: groups 2 to 2"]),
    ]


def test_a_failed_run_is_written_too(board, tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "1:5")
    graph, path = small_net(), tmp_path / "trace.json"
    with (
        pytest.raises(PipelineError, match="frame 5"),
        Pipeline(graph, "big-little:2", board=board, trace=path) as pipe,
    ):
        list(pipe.map(frames(graph, COUNT)))
    first, second = pipe.trace
    assert second.frame.tolist() == list(range(5)) and first.frame.tolist()[:6] == list(range(6))
    check_events(json.loads(path.read_text())["traceEvents"], pipe.trace)


def test_no_frame_gives_an_empty_trace(board, tmp_path):
    with Pipeline(small_net(), "big", board=board, trace=tmp_path / "trace.json") as pipe:
        pass
    assert [len(t.rows) for t in pipe.trace] == [0]
    assert {e["ph"] for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]} == {"M"}


@pytest.mark.parametrize("path", [1, None, "/nowhere/at/all/trace.json"])
def test_a_path_that_cannot_be_is_refused(path, board):
    with pytest.raises(ArgumentError, match="trace: expected True, False or a path in a folder that exists"):
        Pipeline(small_net(), "big", board=board, trace=path)


def test_events_are_released(board_with_gpu):
    """PoCL keeps some 300 bytes per event: unreleased, 1,000 frames would grow the process by 1,000 x steps x 300.

    The allocator's own growth comes now and then: the least growth of several rounds is without it.
    """
    graph = small_net()
    inputs = frames(graph, 4) * 250
    growths = []
    with Pipeline(graph, "gpu", board=board_with_gpu, trace=True) as pipe:
        for _ in range(5):
            before = resident_bytes()
            sum(1 for _ in pipe.map(inputs))
            growths.append(resident_bytes() - before)
    steps = len(pipe.trace[0].labels)
    kept, limit = 1000 * 400, 1000 * steps * 300 / 2  # kept: the host's time stamps of each frame
    assert kept < limit and min(growths) < limit, f"grew by {growths} bytes"
