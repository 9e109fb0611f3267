"""Futures: each frame's result by its own future, in any order, beside results in order, and when a stage fails."""

import gc
import threading
import weakref

import numpy as np
import pytest
from graphs import frames, small_net

from pipeall import Engine, Pipeline, PipelineError, PipelineTimeoutError

COUNT = 40


@pytest.fixture
def inputs():
    return frames(small_net(), COUNT)


@pytest.fixture
def expected(inputs, board):
    with Engine(small_net(), "big", board=board) as engine:
        return [engine(x) for x in inputs]


@pytest.fixture(params=["big-little:2", "big+little"])
def pipe(request, board):
    with Pipeline(small_net(), request.param, board=board) as pipe:
        yield pipe


@pytest.mark.parametrize("order", ["forth", "back", "shuffled"])
def test_more_frames_than_fit_are_submitted_at_once_and_taken_in_any_order(pipe, inputs, expected, order):
    futures = [pipe.submit(x) for x in inputs]
    assert [future.number for future in futures] == list(range(COUNT)) and pipe.pending == COUNT
    by = {"forth": range(COUNT), "back": range(COUNT)[::-1], "shuffled": np.random.default_rng(0).permutation(COUNT)}
    for index in by[order]:
        assert np.array_equal(futures[index].result(), expected[index])
    assert np.array_equal(futures[7].result(), expected[7]) and futures[7].done()  # again
    assert pipe.pending == 0 and len(list(pipe.map(inputs[:3]))) == 3


def test_results_in_order_are_those_that_no_future_took(pipe, inputs, expected):
    futures = [pipe.submit(x) for x in inputs[:6]]
    assert np.array_equal(futures[3].result(), expected[3]) and pipe.pending == 5
    for index in (0, 1, 2, 4, 5):
        assert np.array_equal(pipe.result(), expected[index])
        assert np.array_equal(futures[index].result(), expected[index])  # its future has it too
    assert pipe.pending == 0
    with pytest.raises(PipelineTimeoutError):
        pipe.result(0)


def test_another_thread_takes_all_results_in_order(pipe, inputs, expected):
    kept, results = [], []
    sender = threading.Thread(target=lambda: kept.extend(pipe.submit(x) for x in inputs))
    sender.start()
    results = [pipe.result() for _ in inputs]
    sender.join()
    assert all(map(np.array_equal, results, expected))
    assert all(np.array_equal(future.result(), y) for future, y in zip(kept, expected, strict=True))


def test_two_threads_wait_for_their_futures(pipe, inputs, expected):
    futures, results = [pipe.submit(x) for x in inputs], {}

    def take(part):
        for index in range(COUNT)[part::2]:
            results[index] = futures[index].result(60)

    threads = [threading.Thread(target=take, args=(part,)) for part in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(results[index], expected[index]) for index in range(COUNT))


def test_a_future_that_was_dropped_holds_nothing(pipe, inputs):
    """Where all are, a full pipeline can only wait, which is said."""
    dropped = []
    with pytest.raises(PipelineError, match="the pipeline is full, [0-9]+ results are ready"):
        for x in inputs:
            dropped.append(weakref.ref(pipe.submit(x)))
    gc.collect()
    assert dropped and not any(future() for future in dropped)


def test_a_future_waits_no_longer_than_it_may(board, inputs):
    with Pipeline(small_net(), "big", board=board) as pipe:
        pipe.lanes.all[0].set_paces([100.0])
        future = pipe.submit(inputs[0])
        assert not future.done() and "frame 0>" in repr(future)
        with pytest.raises(PipelineTimeoutError, match="frame 0 did not arrive within 0.01 s"):
            future.result(timeout=0.01)
        assert future.result(10) is not None and "done" in repr(future)


def test_futures_of_frames_around_one_that_failed(board, inputs, expected, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "1:2")
    with Pipeline(small_net(), "big-little:2", board=board) as pipe:
        futures = [pipe.submit(x) for x in inputs[:3]]
        with pytest.raises(PipelineError, match="failed at frame 2") as failure:
            futures[2].result()
        assert failure.value.frame == 2 and futures[2].done()
        assert np.array_equal(futures[1].result(), expected[1]) and np.array_equal(pipe.result(), expected[0])
        for call in (futures[2].result, pipe.result):
            with pytest.raises(PipelineError, match="failed at frame 2"):
                call()
    with pytest.raises(PipelineError, match="failed at frame 2"):
        futures[2].result()
    assert np.array_equal(futures[1].result(), expected[1])


def test_a_future_of_a_pipeline_that_was_closed(board, inputs):
    with Pipeline(small_net(), "big", board=board) as pipe:
        future = pipe.submit(inputs[0])
    with pytest.raises(PipelineError, match="the pipeline is closed"):
        future.result()
