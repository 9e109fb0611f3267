"""The runtime: order, bounds, errors, threads and memory of pipelines of CPU stages."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from graphs import Net, inputs_of, random_graph, zoo_net

import pipeall
from pipeall import ArgumentError, Board, DeviceError, Engine, Pipeline, PipelineError, Plan
from pipeall.graph.ops import run_graph

ZOO = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")


@pytest.fixture(scope="module")
def board():
    """Two CPU components, on different cores where the machine has two, else both on the one it has."""
    board = Board.detect(gpu=False)
    if "little" not in board.components:
        pytest.skip("one core only: a pipeline of two CPU components needs two")
    return board


@pytest.fixture(scope="module")
def board_with_gpu():
    """All three components; without a GPU the CPU device of PoCL stands in."""
    board = Board.detect()
    missing = [name for name in ("big", "little", "gpu") if name not in board.components]
    if missing:
        pytest.skip(
            f"no {', '.join(missing)}: two cores are needed, and pip install 'pyopencl[pocl]' ({board.gpu_missing})"
        )
    return board


def small_net():
    """Four groups of 1x1 and 3x3 convolutions on 8 x 8 pixels; microseconds a frame."""
    net = Net((1, 4, 8, 8))
    x = net.conv("x0", 8, k=3)
    x = net.conv(x, 8)
    x = net.conv(x, 16, k=3)
    return net.graph(net.conv(x, 5))


def frames(graph, count):
    return [next(iter(inputs_of(graph, seed).values())) for seed in range(count)]


def run(graph, plan, board, inputs):
    with Pipeline(graph, plan, board=board) as pipe:
        return list(pipe.map(inputs))


# ---- results


@pytest.mark.parametrize("name", ZOO)
def test_two_stages_give_the_bits_of_one_engine_at_every_cut(name, board):
    graph = zoo_net(name)
    inputs = frames(graph, 2)
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in inputs]
    for cut in range(1, len(graph.groups)):
        for result, reference in zip(run(graph, f"big-little:{cut}", board, inputs), expected, strict=True):
            assert np.array_equal(result, reference), f"{name}, cut {cut}"


@pytest.mark.parametrize("seed", range(40))
def test_random_graph_matches_reference(seed, board):
    """Concat aliases, slices, several outputs, pass-through tensors: through the engine, against float64."""
    graph = random_graph(seed)
    inputs = inputs_of(graph, seed)
    expected = run_graph(graph, inputs)
    with Engine(graph, "big", board=board) as engine:
        result = engine(inputs if len(graph.inputs) > 1 else next(iter(inputs.values())))
    if len(graph.outputs) == 1:
        result = {graph.outputs[0].name: result}
    for name, value in expected.items():
        # A dozen small ops of up to a few hundred terms each: 1e-4 of the largest value is over a thousand roundings.
        assert np.allclose(result[name], value, rtol=0, atol=1e-4 * max(1, np.abs(value).max())), name


@pytest.mark.parametrize("plan", ["big", "little-big:2", "B+L"])
def test_results_come_in_order_and_complete(plan, board):
    graph = small_net()
    inputs = frames(graph, 7)
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in inputs]
    count = 5000
    with Pipeline(graph, plan, board=board) as pipe:
        for i, result in enumerate(pipe.map(inputs[i % 7] for i in range(count))):
            assert np.array_equal(result, expected[i % 7]), f"frame {i}"
        assert i == count - 1
        stats = pipe.stats()
        assert stats.frames == count and sum(stage.frames for stage in stats.stages) in (count, 2 * count)
        assert [times.frame for times in pipe.times] == list(range(count))
        assert all(t.submitted_ns <= t.begin_ns[0] <= t.end_ns[-1] for t in pipe.times)


def test_one_thread_submits_while_another_takes(board):
    graph = small_net()
    inputs = frames(graph, 5)
    with Pipeline(graph, "big-little:2", board=board) as pipe, Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in inputs]
        sender = threading.Thread(target=lambda: [pipe.submit(inputs[i % 5]) for i in range(500)])
        sender.start()
        for i in range(500):
            assert np.array_equal(pipe.result(timeout=10), expected[i % 5])
        sender.join()


def test_an_engine_serves_several_threads(board):
    graph = small_net()
    inputs = frames(graph, 4)
    with Engine(graph, "big", board=board) as engine:
        expected = [engine(x) for x in inputs]
        wrong = []

        def call(i):
            wrong.extend(i for _ in range(200) if not np.array_equal(engine(inputs[i]), expected[i]))

        threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_map_refuses_a_frame_of_none(board):
    with Pipeline(small_net(), "big", board=board) as pipe, pytest.raises(ArgumentError, match="got NoneType"):
        list(pipe.map([None]))


def test_two_crossing_tensors(board):
    """No single-tensor cut exists: two streams run side by side, and a stage passes one of them through."""
    net = Net((1, 4, 6, 6), (1, 4, 6, 6))
    a, b = net.conv("x0", 8, k=3), net.conv("x1", 8)
    a, b = net.conv(a, 8), net.conv(b, 8, k=3)
    graph = net.graph(net.op("concat", a, b))
    inputs = inputs_of(graph)
    (expected,) = run_graph(graph, inputs).values()
    assert len(graph.groups) > 1 and all(len(cut.tensors) > 1 for cut in graph.cuts)
    for cut in range(1, len(graph.groups)):
        (result,) = run(graph, f"big-little:{cut}", board, [inputs])
        assert np.allclose(result, expected, atol=1e-4)


# ---- bounds


def test_map_takes_no_more_frames_than_the_pipeline_holds(board):
    graph = small_net()
    taken = 0

    def source():
        nonlocal taken
        for x in frames(graph, 3) * 100:
            taken += 1
            yield x

    with Pipeline(graph, "big-little:2", board=board, slots=2) as pipe:
        results = pipe.map(source())
        for _ in range(10):
            next(results)
        time.sleep(0.05)
        # three rings of two slots, and one frame waiting for a slot
        assert 10 < taken <= 10 + 3 * 2 + 1


def test_full_pipeline_pushes_back(board):
    graph = small_net()
    (x,) = frames(graph, 1)
    with Pipeline(graph, "big-little:2", board=board, slots=2) as pipe:
        submitted = 0
        with pytest.raises(TimeoutError, match="full"):
            while submitted < 100:
                pipe.submit(x, timeout=0.3)
                submitted += 1
        assert submitted == 3 * 2
        for _ in range(submitted):
            pipe.result(timeout=5)
        with pytest.raises(TimeoutError, match="frame 6"):
            pipe.result(timeout=0.05)


@pytest.mark.parametrize("plan", ["big-little:9", "big-gpu-little:6,12"])
def test_stages_go_on_while_python_holds_the_gil(plan, board_with_gpu):
    """ctypes.PyDLL calls keep the GIL: nothing in Python can run, the frames inside must still reach the end."""
    graph = zoo_net("squeezenet")
    (x,) = frames(graph, 1)
    with Pipeline(graph, plan, board=board_with_gpu, slots=8) as pipe:
        for _ in range(8):
            pipe.submit(x)
        begin = time.monotonic_ns()
        ctypes.PyDLL(None).usleep(1_000_000)
        end = time.monotonic_ns()
        for _ in range(8):
            pipe.result()
        assert all(times.end_ns[-1] < end for times in pipe.times)
        for stage in range(len(pipe.times[0].begin_ns)):
            meanwhile = [times for times in pipe.times if begin < times.begin_ns[stage]]
            assert stage == 0 or meanwhile, f"no frame entered stage {stage} while the GIL was held"


def test_threads_are_pinned_one_to_a_core(board):
    graph = small_net()
    with Pipeline(graph, "big-little:2", board=board) as pipe:
        pipe.submit(frames(graph, 1)[0])
        pipe.result()
        allowed = {}
        for task in Path("/proc/self/task").iterdir():
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            if status["Name"].startswith("pa-"):
                allowed[status["Name"]] = status["Cpus_allowed_list"].strip()
        for name in ("big", "little"):
            cores = board.component(name).cluster.cores
            workers = [f"pa-{name}", *(f"pa-{name}/{i}" for i in range(1, len(cores)))]
            assert [allowed.pop(worker) for worker in workers] == [str(core) for core in cores]
        assert not allowed
    left = [p for p in Path("/proc/self/task").glob("*/comm") if p.read_text().startswith("pa-")]
    assert not left, "every thread ends when its pipeline closes"


MEMORY_SCRIPT = """
import ctypes, sys, resource
import numpy as np
from pipeall import Board, Pipeline, zoo
counter = ctypes.CDLL(None)
on, count = ctypes.c_int.in_dll(counter, "malloc_count_on"), ctypes.c_long.in_dll(counter, "malloc_count")
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
graph = zoo.mobilenet()
x = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
with Pipeline(graph, "big-little:14", board=Board.detect(gpu=False)) as pipe:
    for _ in pipe.map(x for _ in range(50)): pass
    before, on.value = rss(), 1
    for _ in pipe.map(x for _ in range(2000)): pass
    on.value = 0
    print(count.value, rss() - before)
"""


def test_two_thousand_frames_allocate_nothing(board, tmp_path):
    """MobileNet, the network with the least work of the zoo; an LD_PRELOAD shim counts what stage threads allocate."""
    shim = tmp_path / "malloc_count.so"
    source = Path(__file__).parent / "native" / "malloc_count.c"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", shim, source], check=True)
    env = {**os.environ, "LD_PRELOAD": str(shim)}
    done = subprocess.run([sys.executable, "-c", MEMORY_SCRIPT], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    allocations, growth = map(int, done.stdout.split())
    assert allocations == 0
    # The host side keeps the times of up to 100,000 frames: 2,000 of them are under 1 MB.
    assert growth < 2 << 20, f"RSS grew by {growth} bytes"


# ---- errors


@pytest.mark.parametrize(
    "x, message",
    [
        (
            np.zeros((1, 4, 8, 7), np.float32),
            r"input 'x0': expected float32 \(1, 4, 8, 8\), got float32 \(1, 4, 8, 7\)",
        ),
        (np.zeros((1, 4, 8, 8)), "input 'x0': expected float32 .* got float64"),
        ([1, 2, 3], "input 'x0': expected a NumPy array, got list"),
        ({"other": np.zeros((1, 4, 8, 8), np.float32)}, "input 'x0': expected a NumPy array, got NoneType"),
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
        ("big-big:2", "distinct"),
        ("big-little:two", "expected ORDER"),
        ("big-huge:2", "component: expected big, mid, little or gpu"),
        ("", "component: expected"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(plan, message, board):
    with pytest.raises(ArgumentError, match=message):
        Pipeline(small_net(), plan, board=board)


def test_plan_texts_round_trip():
    for text in ("gpu-big-little:3,5", "big", "big+little+gpu"):
        assert str(Plan.parse(text)) == text
    assert str(Plan.parse("G-B-L:3,5")) == "gpu-big-little:3,5"


def test_a_missing_component_is_named(board):
    with pytest.raises(DeviceError, match="no component 'gpu' on this board .it has big, little.: .*gpu=False"):
        Pipeline(small_net(), "G-B:2", board=board)


def test_threads_beyond_the_cluster_are_refused(board):
    with pytest.raises(ArgumentError, match="threads on big: expected 1 to"):
        Engine(small_net(), "big", board=board, threads=99)


@pytest.mark.parametrize("threads", [{"nonsense": 1}, {"little": 1}, {"G": 1}])
def test_threads_of_a_component_that_does_not_run_are_refused(threads, board):
    with pytest.raises(ArgumentError, match="component: expected|threads: expected components of plan big"):
        Pipeline(small_net(), "big", board=board, threads=threads)


@pytest.mark.parametrize(
    "fault, message", [("2:0", "expected a stage of plan"), ("0:9223372036854775808", "STAGE:FRAME")]
)
def test_a_fault_that_cannot_happen_is_refused(fault, message, board, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", fault)
    with pytest.raises(ArgumentError, match=message):
        Pipeline(small_net(), "big-little:2", board=board)


def test_a_core_that_is_not_allowed_fails_the_start(board, monkeypatch):
    from dataclasses import replace

    from pipeall.pipeline.board import Component

    cluster = replace(board.component("big").cluster, cores=(4095,))
    monkeypatch.setitem(board._cpus, "big", Component("big", cluster=cluster))
    with pytest.raises(DeviceError, match="stage 0 on big: cannot pin"):
        Engine(small_net(), "big", board=board)


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("order", ["big-little-gpu", "gpu-big-little", "little-gpu-big"])
def test_a_failing_stage_is_named_and_earlier_frames_arrive(stage, order, board_with_gpu, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", f"{stage}:5")
    graph = small_net()
    component = order.split("-")[stage]
    results = []
    with Pipeline(graph, f"{order}:1,2", board=board_with_gpu) as pipe:
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
        begin = time.monotonic()
    assert time.monotonic() - begin < 1


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
    pipe = Pipeline(graph, plan, board=board_with_gpu)
    for _ in range(submitted):
        pipe.submit(x, timeout=30)
    begin = time.monotonic()
    pipe.close()
    assert time.monotonic() - begin < 1
    pipe.close()
    with pytest.raises(PipelineError, match="closed"):
        pipe.submit(x)
    with pytest.raises(PipelineError, match="closed"):
        pipe.result()


def test_close_wakes_a_waiting_result(board):
    pipe = Pipeline(small_net(), "big", board=board)
    timer = threading.Timer(0.2, pipe.close)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(PipelineError, match="closed"):
        pipe.result()
    assert time.monotonic() - begin < 1.2
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


def test_an_interrupted_call_leaves_no_stale_result(board):
    graph = zoo_net("squeezenet")
    first, second = frames(graph, 2)
    with Engine(graph, "big", board=board) as engine:
        expected = engine(second)
        engine._pipeline.submit(first)  # what a call leaves behind that a signal ends between submit and result
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
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            pipe.result(timeout=0.1)
        assert time.monotonic() - begin < 1
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
pipe = Pipeline(graph, sys.argv[1], slots=4)
for _ in range(4):
    pipe.submit(np.zeros(graph.inputs[0].shape, np.float32))
raise SystemExit(7)
"""


@pytest.mark.parametrize("plan", ["big-little:9", "gpu-big-little:6,12", "big-gpu:9"])
def test_exit_with_frames_inside_is_clean(plan, board_with_gpu):
    done = subprocess.run([sys.executable, "-c", EXIT_SCRIPT, plan], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (7, "")


def test_dropping_a_pipeline_without_close_ends_its_threads(board):
    import gc

    pipe = Pipeline(small_net(), "big", board=board)
    pipe.submit(frames(small_net(), 1)[0])
    del pipe
    gc.collect()
    assert not [p for p in Path("/proc/self/task").glob("*/comm") if p.read_text().startswith("pa-")]


def test_public_names():
    assert all(hasattr(pipeall, name) for name in pipeall.__all__)
