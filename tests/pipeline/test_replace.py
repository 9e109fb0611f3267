"""Another network or plan from the next frame on: none is lost, each result is of the network that took its frame."""

import gc
import threading
import weakref

import numpy as np
import pytest
from graphs import Net, frames
from process import resident_bytes
from toy_board import MS, toy_board

from pipeall import ArgumentError, Board, DeviceError, Engine, Picture, Pipeline, PipelineError


def other_net():
    """Another shape of input and of output than ``chain``, and two groups."""
    net = Net((1, 3, 12, 10))
    return net.graph(net.conv(net.conv("x0", 8, k=3), 5), name="other")


@pytest.fixture(scope="module")
def other():
    return other_net()


def results_of(graph, inputs):
    with Engine(graph, "big") as engine:
        return [engine(x) for x in inputs]


def native_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pa-")]


def test_frames_under_way_end_in_the_network_that_took_them(chain, other):
    first, second = frames(chain, 3), frames(other, 3)
    expected = [*results_of(chain, first), *results_of(other, second)]
    with Pipeline(chain, "big-little:4", depth=4) as pipe:
        futures = [pipe.submit(x) for x in first]
        pipe.replace(other, "little-big:1")
        assert pipe.graph is other and str(pipe.plan) == "little-big:1"
        with pytest.raises(ArgumentError, match="expected float32 .1, 3, 12, 10., got float32"):
            pipe.submit(first[0])
        futures += [pipe.submit(x) for x in second]
        assert pipe.pending == 6
        results = [pipe.result() for _ in range(5)] + [futures[5].result()]
        assert len(pipe.lanes.all) == 1  # what was left has ended
        assert [(frame, str(plan)) for frame, plan in pipe.plans] == [(0, "big-little:4"), (3, "little-big:1")]
        assert [(move.frame, move.why) for move in pipe.moves] == [(3, "replaced")]
        assert np.array_equal(futures[1].result(), expected[1])
    for result, reference in zip(results, expected, strict=True):
        assert np.array_equal(result, reference)
    assert not native_threads()


@pytest.mark.parametrize("plan", ["big+little", "big-little:2~5", "little", "big-little-big:2,4"])
def test_a_plan_alone(chain, plan):
    inputs = frames(chain, 8)
    expected = results_of(chain, inputs)
    with Pipeline(chain, "big-little:4") as pipe:
        results = list(pipe.map(inputs[:4]))
        pipe.replace(plan=plan)
        results += list(pipe.map(inputs[4:]))
        assert str(pipe.plan) == plan and pipe.choice == "given"
        pipe.replace()  # the default plan
        assert pipe.choice != "given"
        results += list(pipe.map(inputs))
    for result, reference in zip(results, [*expected, *expected], strict=True):
        assert np.array_equal(result, reference)


KEPT_BYTES = 400  # of each frame whose times are kept


@pytest.mark.parametrize("times", [20, pytest.param(1000, marks=pytest.mark.full)])
def test_swaps_under_load(chain, other, times):
    """A thread swaps networks while another maps frames that fit both: none is lost, what was left is freed."""
    wide = Net((1, 4, 8, 8))
    graphs = [chain, wide.graph(wide.conv("x0", 6), name="wide")]
    inputs = frames(chain, 7)
    expected = [results_of(graph, inputs) for graph in graphs]
    done, resident, lanes = threading.Event(), [], []

    def endless():
        number = 0
        while not done.is_set():
            yield inputs[number % 7]
            number += 1

    def swapper():
        try:
            for turn in range(1, times + 1):
                pipe.replace(
                    graphs[turn % 2], ("big-little:1", "big+little")[turn // 2 % 2] if turn % 2 == 0 else "big"
                )
                lanes.append(weakref.ref(pipe.lanes.open[0]))
                if turn in (times // 2, times):
                    resident.append(resident_bytes() - KEPT_BYTES * len(pipe.times))
        finally:
            done.set()

    with Pipeline(chain, "big-little:1") as pipe:
        thread = threading.Thread(target=swapper)
        results = pipe.map(endless())
        thread.start()
        seen = [0, 0]
        for number, result in enumerate(results):
            which = int(result.shape != expected[0][0].shape)
            assert np.array_equal(result, expected[which][number % 7])
            seen[which] += 1
        thread.join()
        assert pipe.pending == 0 and len(pipe.plans) == min(100, times + 1) and len(lanes) == times
        assert all(seen)
        gc.collect()
        assert not [lane for lane in lanes[:-1] if lane() is not None]
    if times == 1000:  # the heap of a test process may grow by some MB by itself
        assert resident[1] - resident[0] < 4e6
    assert not native_threads()


def test_where_it_is_refused_all_runs_on(chain, other):
    inputs = frames(chain, 2)
    expected = results_of(chain, inputs)
    with Pipeline(chain, "big-little:4") as pipe:
        pipe.submit(inputs[0])
        with pytest.raises(ArgumentError, match="expected cuts"):
            pipe.replace(other, "big-little:4")
        with pytest.raises((ArgumentError, DeviceError), match="npu"):
            pipe.replace(other, "big-npu:1")
        assert np.array_equal(pipe.result(), expected[0])
        pipe.submit(inputs[1])
        assert np.array_equal(pipe.result(), expected[1])
        assert str(pipe.plan) == "big-little:4" and len(pipe.lanes.all) == 1 and pipe.graph is chain
    with pytest.raises(PipelineError, match="closed"):
        pipe.replace(other)
    toy = toy_board(chain, MS)
    with Pipeline(chain, "big-little:4", board=toy, rebalance=True) as pipe:
        with pytest.raises(ArgumentError, match="without rebalance"):
            pipe.replace(plan="big")
    assert not native_threads()


def test_a_stream_goes_on_with_the_new_networks_task():
    """Pictures of any size: the new network reads them its own way."""
    small, large = (Net((1, 3, n, n)) for n in (8, 16))
    graphs = [net.graph(net.conv("x0", 4), name=f"n{net.shape('x0')[2]}") for net in (small, large)]
    photo = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)
    shapes = []
    with Pipeline(graphs[0], "big", input=Picture()) as pipe:

        def photos():
            for number in range(8):
                if number == 4:
                    pipe.replace(graphs[1], "little", task=lambda outputs, placed: ("new", placed))
                yield photo

        for seen in pipe.stream(photos(), "none", task=lambda outputs, placed: ("old", placed)):
            shapes.append((seen.result[0], seen.placed is not None))
    assert shapes == [("old", True)] * 4 + [("new", True)] * 4


def test_the_old_network_is_freed(chain):
    old = other_net()
    gone = weakref.ref(old)
    with Pipeline(old, "big") as pipe:
        pipe.replace(chain, "big")
        del old
        gc.collect()
        assert gone() is None


def test_an_emulated_board_stays_hot(chain):
    with Pipeline(chain, "big", board=toy_board(chain, MS), time_scale=2) as pipe:
        pipe.throttle("little", 3)
        pipe.replace(plan="little")
        pipe.submit(frames(chain, 1)[0])
        pipe.result()
        begin, end = pipe.times[-1].begin_ns[0], pipe.times[-1].end_ns[0]
        assert end - begin >= 2 * 3 * sum(MS["little"]) * 1e6
    assert Board.load("a311d").model
