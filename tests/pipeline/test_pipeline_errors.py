"""What a pipeline does when something is wrong: refused arguments, failing stages, early ends."""

import os
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from build_trees import ending
from graphs import frames, small_net, zoo_net
from process import no_longer, promptly, statuses

import pipeall
from pipeall import ArgumentError, Board, DeviceError, Engine, Pipeline, PipelineError, Plan
from pipeall._kernels.opencl import cl_devices as opencl
from pipeall.pipeline.devices.device import Component
from pipeall.pipeline.devices.opencl.opencl_device import OpenCl
from pipeall.pipeline.lanes import Lanes
from pipeall.pipeline.planning.plan import StagePlan
from pipeall.pipeline.planning.units import Unit


@pytest.mark.parametrize(
    "x, message",
    [
        (
            np.zeros((1, 4, 8, 7), np.float32),
            r"input 'x0': expected float32 \(1, 4, 8, 8\), got float32 \(1, 4, 8, 7\)",
        ),
        (np.zeros((1, 4, 8, 8)), "input 'x0': expected float32 .* got float64"),
        ([1, 2, 3], "input 'x0': expected a NumPy array, got list"),
        ({"other": np.zeros((1, 4, 8, 8), np.float32)}, "frame: expected the inputs x0, got other"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused(x, message, board):
    with Engine(small_net(), "big", board=board) as engine:
        with pytest.raises(ArgumentError, match=message):
            engine(x)
        engine(np.zeros((1, 4, 8, 8), np.float32))  # the engine still works


@pytest.mark.parametrize(
    "plan, message",
    [
        ("big-little:4", "cuts between 1 and 3"),
        ("big-little:9", "cuts between 1 and 3"),
        ("big-little:0", "increasing group counts"),
        ("big-little", "expected 1 for 2 stages, got 0"),
        ("big-big:2", "another component"),
        ("gpu-gpu@fp16:2", "another component"),
        ("big-little:two", "expected ORDER"),
        ("big-huge:2", "component: expected big, mid, little, gpu, npu or cpu"),
        ("", "component: expected"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(plan, message, board):
    with pytest.raises(ArgumentError, match=message):
        Pipeline(small_net(), plan, board=board)


def test_plan_texts_round_trip():
    for text in ("gpu-big-little:3,5", "big", "big+little+gpu", "big-gpu@fp16-little:3,5", "gpu1@mixed"):
        assert str(Plan.parse(text)) == text
    assert str(Plan.parse("G-B-L:3,5")) == "gpu-big-little:3,5"


def test_a_missing_component_is_named(board):
    with pytest.raises(DeviceError, match="no component 'gpu' on this board .it has big, little.: .*gpu=False"):
        Pipeline(small_net(), "G-B:2", board=board)


def test_threads_beyond_the_cluster_are_refused(board):
    with pytest.raises(ArgumentError, match="stage bigx99: expected at most [0-9]+ cores of big .* got 99"):
        Engine(small_net(), "big", board=board, threads=99)


def test_cores_beyond_the_cluster_are_refused(board):
    both = Board.detect(clusters=[sorted(os.sched_getaffinity(0))[:2]], gpu=False)
    with pytest.raises(
        ArgumentError, match=r"stage bigx2: expected at most 1 cores of big \(2, 1 of them taken .* got 2"
    ):
        Pipeline(small_net(), "Bx1-Bx2:2", board=both)
    with pytest.raises(
        ArgumentError, match=r"stage big@fp32x2: expected at most 1 cores of .* 1 of them taken .* got 2"
    ):
        Pipeline(small_net(), "Bx1-B@fp32x2:2", board=both)
    gpu = Plan(((StagePlan(Unit("gpu", 2)),),))
    device = Component("gpu", OpenCl(opencl.DeviceInfo(0, "p", "n", "v", "d", 1, True, False, False)))
    with pytest.raises(ArgumentError, match="stage gpux2: expected no number of cores"):
        type("OneGpu", (Board,), {"component": lambda self, key: device})((), gpu=False).units(gpu)


@pytest.mark.parametrize("depth", [-1, 7, 1.5, "3"])
def test_a_depth_that_cannot_be_is_refused(depth, board):
    with pytest.raises(ArgumentError, match="depth: expected (0 to 6, as many as 2 slots a ring hold|a whole number)"):
        Pipeline(small_net(), "big-little:2", board=board, depth=depth)


@pytest.mark.parametrize("cores", [{"nonsense": 1}, {"little": 1}, {"G": 1}])
def test_cores_of_a_component_that_does_not_run_are_refused(cores):
    with pytest.raises(ArgumentError, match="component: expected|cores: expected whole components of plan big"):
        Plan.single("big").with_cores(cores)


@pytest.mark.parametrize(
    "fault, message", [("2:0", "expected a stage of plan"), ("0:9223372036854775808", "STAGE:FRAME")]
)
def test_a_fault_that_cannot_happen_is_refused(fault, message, board, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", fault)
    with pytest.raises(ArgumentError, match=message):
        Pipeline(small_net(), "big-little:2", board=board)


def test_a_core_that_is_not_allowed_fails_the_start(board, monkeypatch):
    cluster = replace(board.component("big").device.cluster, cores=(4095,))
    with pytest.raises(DeviceError, match="stage 0 on big: cannot pin"):
        Engine(small_net(), "big", board=Board([cluster], gpu=False))


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("order", ["big-little-gpu", "gpu-big-little", "little-gpu-big"])
def test_a_failing_stage_is_named_and_earlier_frames_arrive(stage, order, board_with_gpu, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", f"{stage}:5")
    graph = small_net()
    component = order.split("-")[stage]
    results = []
    with ExitStack() as stack, Pipeline(graph, f"{order}:1,2", board=board_with_gpu) as pipe:
        with pytest.raises(PipelineError) as caught:
            for result in pipe.map(frames(graph, 3) * 10):
                results.append(result)
        assert len(results) == 5
        error = caught.value
        assert (error.stage, error.component, error.frame) == (stage, component, 5)
        assert str(error) == f"stage {stage} on {component} failed at frame 5: injected fault (PIPEALL_FAULT)"
        with pytest.raises(PipelineError, match="frame 5"):
            pipe.result()
        with pytest.raises(PipelineError):
            pipe.submit(frames(graph, 1)[0])
        stack.enter_context(promptly())


def test_a_failing_lane_of_parallel_is_named_in_its_place(board, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "0:5")
    graph = small_net()
    results = []
    with Pipeline(graph, "B+L", board=board) as pipe, pytest.raises(PipelineError, match="failed at frame 5"):
        for result in pipe.map(frames(graph, 3) * 10):
            results.append(result)
    assert len(results) == 5


@pytest.mark.parametrize("submitted", [0, 1, 6])
@pytest.mark.parametrize("plan", ["big-little:9", "gpu-big-little:6,12"])
def test_close_ends_an_empty_a_busy_and_a_full_pipeline(plan, submitted, board_with_gpu):
    graph = zoo_net("squeezenet")
    (x,) = frames(graph, 1)
    pipe = Pipeline(graph, plan, board=board_with_gpu, depth=6)
    for _ in range(submitted):
        pipe.submit(x, timeout=30)
    with promptly():
        pipe.close()
    pipe.close()
    with pytest.raises(PipelineError, match="closed"):
        pipe.submit(x)
    with pytest.raises(PipelineError, match="closed"):
        pipe.result()


def test_close_wakes_a_waiting_result(board):
    pipe = Pipeline(small_net(), "big", board=board)
    timer = threading.Timer(0.2, pipe.close)
    timer.start()
    with promptly(), pytest.raises(PipelineError, match="closed"):
        pipe.result()
    timer.join()


def test_map_refuses_a_pipeline_with_untaken_results(board):
    graph = small_net()
    with Pipeline(graph, "big", board=board) as pipe:
        pipe.submit(frames(graph, 1)[0])
        with pytest.raises(ArgumentError, match="1 results not taken"):
            next(pipe.map([]))


def test_a_source_that_breaks_loses_no_earlier_result(board):
    graph = small_net()
    good = frames(graph, 1)[0]
    with Pipeline(graph, "big-little:2", board=board) as pipe:
        results = pipe.map([good, good, np.zeros(3, np.float32), good])
        assert np.array_equal(next(results), next(results))
        with pytest.raises(ArgumentError, match="expected float32"):
            next(results)
        assert pipe.pending == 0 and len(list(pipe.map([good]))) == 1  # and the pipeline still works


def test_an_interrupted_call_leaves_no_stale_result(board, monkeypatch):
    """By a signal between the submit and the result of a call."""
    graph = zoo_net("squeezenet")
    first, second = frames(graph, 2)
    with Engine(graph, "big", board=board) as engine:
        expected = engine(second)

        def interrupted(lanes):
            raise KeyboardInterrupt

        for _ in range(5):  # computed by the stage's thread, or by this one
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(Lanes, "try_result", interrupted)
                engine(first)
            assert np.array_equal(engine(second), expected)


def test_stats_may_be_asked_while_results_are_taken(board):
    graph = small_net()
    with Pipeline(graph, "big", board=board) as pipe:
        taker = threading.Thread(target=lambda: [None for _ in pipe.map(frames(graph, 1) * 5000)])
        taker.start()
        while taker.is_alive():
            assert pipe.stats().frames <= 5000
        taker.join()


def test_timeout_holds_while_another_thread_waits(board):
    with Pipeline(small_net(), "big", board=board) as pipe:
        other = threading.Thread(target=lambda: pytest.raises(PipelineError, pipe.result))
        other.start()
        time.sleep(0.1)
        with promptly(), pytest.raises(pipeall.PipelineTimeoutError):
            pipe.result(timeout=0.1)
        pipe.close()
        other.join()


def test_a_fork_is_told_that_it_has_no_threads(board):
    pipe = Pipeline(small_net(), "big", board=board)
    child = os.fork()
    if not child:  # no assertion here: pytest's machinery belongs to the parent
        try:
            pipe.result(timeout=1)
        except PipelineError as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    pipe.close()


EXIT_SCRIPT = """
import sys, numpy as np
from pipeall import Pipeline, zoo
graph = zoo.squeezenet()
pipe = Pipeline(graph, sys.argv[1], slots=4, depth=4)
for _ in range(4):
    pipe.submit(np.zeros(graph.inputs[0].shape, np.float32))
raise SystemExit(7)
"""


@pytest.mark.parametrize("plan", ["big-little:9", "gpu-big-little:6,12", "big-gpu:9"])
def test_exit_with_frames_inside_is_clean(plan, board_with_gpu):
    assert ending(EXIT_SCRIPT, plan) == (7, "")


def test_dropping_a_pipeline_without_close_ends_its_threads(board):
    import gc

    pipe = Pipeline(small_net(), "big", board=board)
    pipe.submit(frames(small_net(), 1)[0])
    threads = {task for task, status in statuses().items() if status["Name"].startswith("pa-")}
    assert threads
    del pipe
    gc.collect()
    assert no_longer(threads)


def test_public_names():
    assert all(hasattr(pipeall, name) for name in pipeall.__all__)
