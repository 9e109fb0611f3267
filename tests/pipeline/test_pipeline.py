"""The runtime: results, order, bounds, threads and memory of pipelines."""

import ctypes
import os
import threading
import time
import tracemalloc

import numpy as np
import pytest
from bounds import U, absolute
from build_trees import REPOSITORY, WITH_TESTS
from build_trees import run as run_python
from graphs import ZOO, Net, frames, inputs_of, random_graph, small_net, zoo_net
from preload import built
from process import PROMPT_S, no_longer, statuses

from pipeall import ArgumentError, Board, Engine, Pipeline
from pipeall.graph.ops import run_graph


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
        # 14 ops of up to 200 terms, roundings of random signs, five deviations (as bounds.classifier_bound)
        allowed = 5 * np.sqrt(14 * 200) * U * max(1, np.abs(value).max())
        assert np.abs(result[name] - value).max() <= allowed, name


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
    (total,) = run_graph(absolute(graph), {name: np.abs(x) for name, x in inputs.items()}).values()
    allowed = (9 * 8 + 8 * 9 + 8) * U * total  # at most the fan-ins of both layers, as in bounds.py
    assert len(graph.groups) > 1 and all(len(cut.tensors) > 1 for cut in graph.cuts)
    for cut in range(1, len(graph.groups)):
        (result,) = run(graph, f"big-little:{cut}", board, [inputs])
        assert (np.abs(result - expected) <= allowed).all()


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
        # two stages: three frames under way, and one waiting for its turn
        assert 10 <= taken <= 10 + 3 + 1


@pytest.mark.parametrize("plan", ["big", "big-little:2", "B+L"])
def test_map_hands_a_result_on_within_one_period_of_a_slow_source(plan, board):
    """As with a camera: a finished result must not wait until the rings are full.

    The source is slow as it gives a frame when those before it are computed; by then all but the last are handed on.
    """
    graph = small_net()
    (x,) = frames(graph, 1)
    taken = 0

    def camera():
        for sent in range(8):
            deadline = time.monotonic() + PROMPT_S
            while sum(row.frames for row in pipe.counters()) < sent * len(pipe.plan.lanes[0]) or taken < sent - 1:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            yield x

    with Pipeline(graph, plan, board=board) as pipe:
        for _ in pipe.map(camera()):
            taken += 1
    assert taken == 8


@pytest.mark.parametrize(
    "plan, depth, frames_inside",
    [("big-little:2", None, 3), ("big-little:2", 6, 6), ("big-little:2", 1, 1), ("B+L", 1, 2)],
)
def test_full_pipeline_pushes_back(plan, depth, frames_inside, board):
    graph = small_net()
    (x,) = frames(graph, 1)
    with Pipeline(graph, plan, board=board, slots=2, depth=depth) as pipe:
        submitted = 0
        with pytest.raises(TimeoutError, match="full"):
            while submitted < 100:
                pipe.submit(x, timeout=0.3)
                submitted += 1
        assert submitted == frames_inside
        pipe.result(timeout=5)
        pipe.submit(x, timeout=5)
        for _ in range(submitted):
            pipe.result(timeout=5)
        with pytest.raises(TimeoutError, match=f"frame {frames_inside + 1}"):
            pipe.result(timeout=0.05)


@pytest.mark.parametrize("plan, depth", [("big-little:2", 1), ("big-little:2", 3), ("B+L", 2), ("B+L", 1)])
def test_no_lane_has_more_than_depth_frames_under_way(plan, depth, board):
    """Counted from each lane's own log: a frame enters with its first stage and has left with its last."""
    graph = small_net()
    with Pipeline(graph, plan, board=board, depth=depth, trace=True) as pipe:
        lanes = len(pipe.plan.lanes)
        assert sum(1 for _ in pipe.map(frames(graph, 4) * 50)) == 200
    seen = 0
    for lane in range(lanes):
        stages = sorted((t for t in pipe.trace if t.lane == lane), key=lambda trace: trace.stage)
        first, last = stages[0], stages[-1]
        assert np.array_equal(first.frame, last.frame)
        begins, ends = first.rows[:, first.BEGIN], last.rows[:, last.END]
        inside = np.searchsorted(begins, begins, side="right") - np.searchsorted(ends, begins, side="right")
        assert 1 <= inside.max() <= depth
        seen += len(begins)
    assert seen == 200


def test_frames_go_to_the_lane_with_the_fewest(board):
    """Of two that end no frame one has as many as the other. Then one ends them, and all go there but for those that
    stay with the slow one: results wait for its frames, so that the other is never further ahead than REORDER each."""
    graph = small_net()
    with Pipeline(graph, "B+L", board=board, slots=4, depth=8) as pipe:
        for lane in pipe.lanes.all:
            lane.set_paces([60_000.0])
        for submitted in range(1, 17):
            pipe.submit(frames(graph, 1)[0])
            assert [lane.under_way for lane in pipe.lanes.all] == [(submitted + 1) // 2, submitted // 2]
    with Pipeline(graph, "B+L", board=board) as pipe:
        pipe.lanes.all[0].set_paces([100.0])
        assert sum(1 for _ in pipe.map(frames(graph, 3) * 100)) == 300
        slow, fast = (row.frames for row in pipe.counters())
    assert slow + fast == 300 and 0 < slow < 30


@pytest.mark.parametrize("plan", ["big-little:2", "big-gpu-little:1,2"])
def test_stages_go_on_while_python_holds_the_gil(plan, board_with_gpu):
    """ctypes.PyDLL calls keep the GIL: nothing in Python can run, the frames inside must still reach the end.

    Stages are paced to 20 ms: the eight frames take a fifth of the second, whatever else this machine does.
    """
    graph = small_net()
    (x,) = frames(graph, 1)
    with Pipeline(graph, plan, board=board_with_gpu, slots=8, depth=8) as pipe:
        pipe.lanes.all[0].set_paces([20.0] * len(pipe.plan.units))
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


def native_threads():
    """Status by id of every thread of a pipeline."""
    return {task: status for task, status in statuses().items() if status["Name"].startswith("pa-")}


def pinned_threads():
    """(name, allowed cores) of each."""
    return sorted((status["Name"], status["Cpus_allowed_list"].strip()) for status in native_threads().values())


@pytest.mark.parametrize(
    "plan, names",
    [
        ("big-little:2", ["pa-big", "pa-little"]),  # two clusters of one core
        ("big", ["pa-big", "pa-big/1"]),  # from here on one cluster of both
        ("Bx1-Bx1:2", ["pa-bigx1", "pa-bigx1"]),
        ("Bx1+Bx1", ["pa-bigx1", "pa-bigx1"]),
        ("Bx1", ["pa-bigx1"]),
    ],
)
def test_threads_are_pinned_one_to_a_core(plan, names):
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.skip("one core only")
    clusters = [cores[:1], cores[1:]] if plan == "big-little:2" else [cores]
    graph = small_net()
    with Pipeline(graph, plan, board=Board.detect(clusters=clusters, gpu=False)) as pipe:
        pipe.submit(frames(graph, 1)[0])
        pipe.result()
        expected = [(name, str(core)) for name, core in zip(names, cores, strict=False)]
        deadline = time.monotonic() + PROMPT_S
        while (found := pinned_threads()) != expected and time.monotonic() < deadline:
            time.sleep(0.01)  # a thread names itself when it first runs
        mine = set(native_threads())
        assert found == expected
        assert [stage.unit for stage in pipe.stats().stages] == list(pipe.plan.units)
    assert no_longer(mine), "every thread ends when its pipeline closes"


def test_stages_on_parts_of_one_cluster_give_the_bits_of_one_engine():
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.skip("one core only")
    cluster = Board.detect(clusters=[cores], gpu=False)
    graph = small_net()
    inputs = frames(graph, 5)
    expected = run(graph, "big", cluster, inputs)
    for plan in ("Bx1-Bx1:2", "Bx1+Bx1", "Bx2"):
        assert all(map(np.array_equal, run(graph, plan, cluster, inputs), expected)), plan


MEMORY_SCRIPT = """
import ctypes
import numpy as np
from graphs import small_net
from pipeall import Board, Pipeline, zoo
from process import resident_bytes as rss
counter = ctypes.CDLL(None)
on, count = ctypes.c_int.in_dll(counter, "malloc_count_on"), ctypes.c_long.in_dll(counter, "malloc_count")
for graph, plan, frames in ((zoo.mobilenet(), "big-little:14", 100), (small_net(), "big-little:2", 2000)):
    x = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
    with Pipeline(graph, plan, board=Board.detect(gpu=False)) as pipe:
        for _ in pipe.map(x for _ in range(50)): pass
        before, on.value = rss(), 1
        for _ in pipe.map(x for _ in range(frames)): pass
        on.value = 0
        print(count.value, rss() - before)
"""


def test_two_thousand_frames_allocate_nothing(board, tmp_path):
    """Of a small network, and 100 of MobileNet; an LD_PRELOAD shim counts what stage threads allocate."""
    preload = {"LD_PRELOAD": str(built("malloc_count", tmp_path))}
    large, small = run_python(REPOSITORY, "-c", MEMORY_SCRIPT, **preload, **WITH_TESTS).splitlines()
    for line in (large, small):
        allocations, growth = map(int, line.split())
        assert allocations == 0
        # The host side keeps the times of up to 20,000 frames: 2,000 of them are under 1 MB.
        assert growth < 2 << 20, f"RSS grew by {growth} bytes"


def test_what_lies_apart_is_copied_once(board):
    """Into the slot: no array is made on the way."""
    net = Net((1, 3, 256, 256))
    graph = net.graph(net.conv("x0", 1))
    x = np.random.default_rng(0).standard_normal((1, 3, 256, 300), np.float32)[..., :256]
    with Pipeline(graph, "big", board) as pipe:
        tracemalloc.start()
        try:
            pipe.submit(x)
            assert tracemalloc.get_traced_memory()[1] < x.nbytes / 10
        finally:
            tracemalloc.stop()
        assert np.array_equal(pipe.result(), pipe.compute(np.ascontiguousarray(x)))


@pytest.mark.parametrize("way", ["engine", "submit", "map"])
def test_views_of_any_strides_are_read_as_they_are(board, way):
    """Some of these reshape without a copy, into a view that is not contiguous either."""
    graph = small_net()
    shape, rng = graph.inputs[0].shape, np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    wide = rng.standard_normal((*shape[:-1], 2 * shape[-1])).astype(np.float32)
    views = [
        wide[..., ::2],
        wide[..., ::-2],
        x[:, ::-1, ::-1, ::-1],
        (x + 1j * x).astype(np.complex64).imag,
        np.broadcast_to(np.float32(0.5), shape),
        np.broadcast_to(x[:, :, :1, :1], shape),
        np.moveaxis(rng.standard_normal((*shape, 3)).astype(np.float32), -1, 0)[1],
        np.asfortranarray(x),
        np.ma.masked_array(x),
    ]
    x.flags.writeable = False
    with Pipeline(graph, "big-little:2", board) as pipe, Engine(graph, "big", board) as engine:
        for view in views:
            y = engine(view) if way == "engine" else next(pipe.map([view])) if way == "map" else None
            if way == "submit":
                pipe.submit(view)
                y = pipe.result()
            assert np.array_equal(y, engine(np.array(view)))
