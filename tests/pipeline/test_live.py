"""Live sources: nobody waits for anybody, old frames are dropped and counted, and every thread ends."""

import asyncio
import threading
import time
from itertools import repeat

import numpy as np
import pytest
from graphs import frames, picture_net, small_net

from pipeall import ArgumentError, Board, Engine, Picture, Pipeline, PipelineError
from pipeall.picture import Placed

NAMES = ("pa-capture", "pa-submit")


@pytest.fixture
def pipe(board):
    with Pipeline(small_net(), "big-little:1", board) as pipe:
        yield pipe


@pytest.fixture(autouse=True)
def _every_thread_ends():
    yield
    deadline = time.monotonic() + 10
    while left := [thread.name for thread in threading.enumerate() if thread.name in NAMES]:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.01)


class AnsweredCamera:
    """Gives its next frame only when the result of the one before has been seen."""

    def __init__(self, given):
        self.given, self.seen = given, threading.Semaphore(0)

    def __iter__(self):
        for x in self.given:
            yield x
            assert self.seen.acquire(timeout=30), "the result waited for the next frame"


def test_map_hands_out_a_result_while_its_source_waits(pipe):
    camera = AnsweredCamera(frames(pipe.graph, 20))
    for _ in pipe.map(camera):
        camera.seen.release()


@pytest.mark.parametrize("drop", ["oldest", "none"])
def test_stream_hands_out_a_result_while_its_source_waits(pipe, board, drop):
    given = frames(pipe.graph, 20)
    camera = AnsweredCamera(given)
    with Engine(pipe.graph, "big", board) as engine:
        expected = [engine(x) for x in given]
    for i, seen in enumerate(pipe.stream(camera, drop=drop)):
        assert (seen.number, seen.placed) == (i, None) and seen.frame is given[i]
        np.testing.assert_array_equal(seen.result, expected[i])
        assert 0 < seen.latency_ms == (seen.ready_ns - seen.captured_ns) / 1e6
        camera.seen.release()
    assert i == 19 and pipe.stats().dropped == 0 and pipe.stats().live_p50_ms > 0


def test_no_frame_is_dropped_unless_asked_for(pipe):
    given = frames(pipe.graph, 7) * 30
    seen = list(pipe.stream(given, drop="none"))
    assert [one.number for one in seen] == list(range(210)) and all(
        a.frame is b for a, b in zip(seen, given, strict=True)
    )
    assert pipe.stats().dropped == 0


def test_frames_are_dropped_and_counted_and_the_newest_is_seen(pipe):
    """The consumer is the slow part: frames come as fast as Python makes them."""
    taken = []

    def camera():
        for x in frames(pipe.graph, 3) * 400:
            taken.append(x)
            yield x

    before, numbers = pipe.snapshot(), []
    for seen in pipe.stream(camera()):
        numbers.append(seen.number)
        last = seen.frame
        time.sleep(0.002)
    stats = pipe.stats(before)
    assert numbers == list(range(len(numbers))) and last is taken[-1]
    assert len(taken) == 1200 == stats.frames + stats.dropped and stats.dropped > 0
    assert list(pipe.stream(iter(()))) == [] and pipe.stats(pipe.snapshot()).dropped == 0


def test_a_wait_that_is_given_up_loses_no_frame(pipe):
    """A frame that was asked for then is the next one: of the same event loop, of another, and of a plain loop."""
    given, ready = frames(pipe.graph, 6), threading.Semaphore(0)

    def source():
        for x in given:
            assert ready.acquire(timeout=30)
            yield x

    stream = pipe.stream(source(), drop="none")

    async def gives_up():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(stream.__anext__(), 0.01)

    async def seen_after_giving_up():
        await gives_up()
        await gives_up()
        for _ in range(2):
            ready.release()
        return [(await stream.__anext__()).number for _ in range(2)]

    async def leaves_with_one_asked_for():
        await gives_up()
        ready.release()

    assert asyncio.run(seen_after_giving_up()) == [0, 1]
    asyncio.run(leaves_with_one_asked_for())
    ready.release(len(given))
    assert [seen.number for seen in stream] == [2, 3, 4, 5]


def test_who_asks_first_gets_the_first_frame(pipe):
    async def seen():
        stream = pipe.stream(frames(pipe.graph, 20), drop="none")
        return [one.number for one in await asyncio.gather(*(stream.__anext__() for _ in range(20)))]

    assert asyncio.run(seen()) == list(range(20))


def test_async(pipe):
    async def run():
        ticks = 0

        async def others():
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        task = asyncio.create_task(others())
        numbers = [seen.number async for seen in pipe.stream(frames(pipe.graph, 30), drop="none")]
        task.cancel()
        return numbers, ticks

    numbers, ticks = asyncio.run(run())
    assert numbers == list(range(30)) and ticks > 0


@pytest.mark.parametrize("way", ["map", "oldest", "none"])
def test_an_error_of_the_source_comes_after_the_results_before_it(pipe, way):
    def camera():
        yield from frames(pipe.graph, 1)
        yield from frames(pipe.graph, 1) if way != "oldest" else ()
        raise OSError("the cable")

    results = pipe.map(camera()) if way == "map" else pipe.stream(camera(), drop=way)
    count = 0
    with pytest.raises(OSError, match="the cable"):
        for _ in results:
            count += 1
    assert count == (1 if way == "oldest" else 2) and pipe.pending == 0
    assert len(list(pipe.map(frames(pipe.graph, 3)))) == 3  # and the pipeline still works


@pytest.mark.parametrize("drop", ["oldest", "none"])
def test_a_frame_that_does_not_fit(pipe, drop):
    with pytest.raises(ArgumentError, match="expected float32"):
        list(pipe.stream([np.zeros(3)], drop=drop))
    assert pipe.pending == 0


@pytest.mark.parametrize("drop", ["oldest", "none"])
def test_whoever_leaves_finds_the_pipeline_empty(pipe, drop):
    stream = pipe.stream(repeat(*frames(pipe.graph, 1)), drop=drop)
    for seen in stream:
        if seen.number == 5:
            break
    stream.close()
    stream.close()
    assert pipe.pending == 0
    assert len(list(pipe.map(frames(pipe.graph, 3)))) == 3


@pytest.mark.parametrize("drop", ["oldest", "none"])
def test_a_failing_stage_ends_the_stream(board, monkeypatch, drop):
    monkeypatch.setenv("PIPEALL_FAULT", "1:3")
    with Pipeline(small_net(), "big-little:1", board) as pipe:
        numbers = []
        with pytest.raises(PipelineError, match="frame 3"):
            for seen in pipe.stream(repeat(*frames(pipe.graph, 1)), drop=drop):
                numbers.append(seen.number)
        assert numbers == [0, 1, 2]


def test_closing_ends_a_stream_that_waits_for_its_source(board):
    waits, given = threading.Event(), frames(small_net(), 1)[0]

    def camera():
        yield given
        waits.wait(30)

    with Pipeline(small_net(), "big-little:1", board) as pipe:
        stream = pipe.stream(camera())
        next(stream)
        closer = threading.Timer(0.2, pipe.close)
        closer.start()
        with pytest.raises(PipelineError, match="closed"):
            next(stream)
        closer.join()
    waits.set()


def test_a_task_makes_the_result(board):
    """It gets the outputs by name, and where the picture lies."""
    graph, picture = picture_net((24, 24)), Picture(fit="letterbox")
    shots = [np.full((30 + i, 50, 3), 9, np.uint8) for i in range(4)]

    def task(outputs, placed):
        assert isinstance(placed, Placed) and set(outputs) == {graph.outputs[0].name}
        return placed.size

    with Pipeline(graph, "big-little:1", board, input=picture) as pipe:
        assert [seen.result for seen in pipe.stream(shots, "none", task)] == [(30 + i, 50) for i in range(4)]
        with pytest.raises(ArgumentError, match=r"^drop: expected one of oldest, none, got 'newest'"):
            pipe.stream(shots, drop="newest")
    with Pipeline(graph, "big-little:1", board) as pipe:
        with pytest.raises(ArgumentError, match=r"^stream: expected a pipeline with input=Picture"):
            pipe.stream(shots, task=task)
        pipe.submit(frames(graph, 1)[0])
        with pytest.raises(ArgumentError, match=r"^stream: expected an empty pipeline, got one with 1 results"):
            pipe.stream(shots)


def test_submitting_alone_says_that_nobody_takes_results(pipe):
    (x,) = frames(pipe.graph, 1)
    with pytest.raises(PipelineError, match=r"^submit: the pipeline is full, \d results are ready: expected another"):
        for _ in range(100):
            pipe.submit(x)
    for _ in range(pipe.pending):
        pipe.result()
    assert pipe.submit(x, timeout=1).number > 0 and pipe.result() is not None


def test_a_board_that_gets_slower_keeps_its_frames_fresh():
    """At the pace of an emulated board that is then throttled: frames that go in are those that were captured last."""
    graph = small_net()
    with Pipeline(graph, "big-little:1", Board.load("a311d-armcl"), time_scale=5) as pipe:
        captured = []

        def camera():
            for i in range(300):
                x = frames(graph, 1)[0]
                captured.append(x)
                time.sleep(0.001)
                if i == 100:
                    pipe.throttle("little", 3)
                yield x

        at = {}
        for seen in pipe.stream(camera()):
            at[seen.number] = next(i for i, x in enumerate(captured) if x is seen.frame)
        assert sorted(at.values()) == list(at.values()) and len(at) + pipe.stats().dropped == 300


def stalling(*given):
    """A source that gives these frames and then nothing, for as long as the test runs; its end."""
    end = threading.Event()

    def source():
        yield from given
        end.wait()

    return source(), end


@pytest.mark.parametrize("drop", ["oldest", "none"])
def test_close_from_another_thread_ends_a_stream_that_waits_for_its_source(pipe, drop):
    source, end = stalling(*frames(pipe.graph, 1))
    stream, left = pipe.stream(source, drop=drop), []
    assert next(stream).number == 0
    taker = threading.Thread(target=lambda: left.extend(stream))
    taker.start()
    stream.close()
    taker.join(10)
    assert not taker.is_alive() and left == [] and next(stream, None) is None and pipe.pending == 0
    end.set()
    assert len(list(pipe.map(frames(pipe.graph, 3)))) == 3


def test_close_in_an_event_loop_ends_a_stream_that_waits_for_its_source(pipe):
    source, end = stalling(*frames(pipe.graph, 1))

    async def run():
        stream = pipe.stream(source)
        await anext(stream)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(stream), 0.05)
        stream.close()
        return [seen async for seen in stream]

    assert asyncio.run(run()) == []  # and no thread of the loop is left, or this would wait for it
    end.set()


@pytest.mark.parametrize("drop", ["oldest", "none"])
def test_close_within_the_task_ends_the_stream(board, drop):
    with Pipeline(picture_net((8, 8)), "big-little:1", board, input=Picture()) as pipe:

        def task(outputs, placed):
            done.append(placed)
            if len(done) == 3:
                stream.close()
            return len(done)

        done = []
        stream = pipe.stream(repeat(np.zeros((9, 9, 3), np.uint8)), drop, task)
        assert [seen.result for seen in stream] == [1, 2] and len(done) == 3 and pipe.pending == 0


@pytest.mark.parametrize("way", ["map", "oldest", "none", "async"])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_a_source_that_is_ended_by_whatever_error_does_not_end_as_if_complete(pipe, way, error):
    """Raised in a thread of its own, SystemExit would end that thread without a word."""

    class Source:
        def __init__(self):
            self.given = iter(frames(pipe.graph, 1))

        def __iter__(self):
            return self

        def __next__(self):
            if (x := next(self.given, None)) is None:
                raise error("the end")
            return x

    async def all_seen():
        async for _ in pipe.stream(Source(), drop="none"):
            results.append(0)

    results = []
    with pytest.raises(error):
        if way == "async":
            asyncio.run(all_seen())
        else:
            for _ in pipe.map(Source()) if way == "map" else pipe.stream(Source(), drop=way):
                results.append(0)
    assert len(results) == 1 and pipe.pending == 0


@pytest.mark.parametrize("timeout", [float("nan"), np.float32("nan"), "1", True, [1], 1j])
def test_a_timeout_that_is_no_time_is_refused(pipe, timeout):
    x = frames(pipe.graph, 1)[0]
    for call in (lambda: pipe.result(timeout), lambda: pipe.submit(x, timeout)):
        with pytest.raises(ArgumentError, match="timeout: expected a number of seconds, or None, got"):
            call()


def test_odd_timeouts(pipe):
    x = frames(pipe.graph, 1)[0]
    for timeout in (float("inf"), 10**400, np.float32(30), np.int64(30), -1, 0):
        pipe.submit(x, timeout)
        while True:
            try:
                pipe.result(timeout)
                break
            except TimeoutError:  # at once
                assert timeout <= 0
