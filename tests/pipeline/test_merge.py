"""Several streams in one loop: order, bounded memory, the end, errors by name, and closing from elsewhere."""

import threading
import time

import pytest

from pipeall import ArgumentError, Merged, PipelineError


def test_each_stream_in_its_order():
    numbers = {"a": range(300), "b": range(100), "c": ()}
    got = list(Merged(numbers))
    assert {name: [n for at, n in got if at == name] for name in numbers} == {k: list(v) for k, v in numbers.items()}


def test_none_runs_far_ahead():
    given = []
    for count, _ in enumerate(Merged({"a": (given.append(n) for n in range(50)), "b": ()}), 1):
        time.sleep(0.002)
        assert len(given) <= count + 3  # one for each stream waits, and one is about to


def test_the_first_error_ends_all_and_says_whose_it_is():
    ended = threading.Event()

    def endless():
        try:
            while True:
                yield "frame"
                time.sleep(0.001)
        finally:
            ended.set()

    def broken():
        yield from range(3)
        raise PipelineError("stage 0 on big failed", 0, "big", 3)

    got = []
    with pytest.raises(PipelineError, match="^rec: stage 0 on big failed$") as raised:
        for name, seen in Merged({"det": endless(), "rec": broken()}):
            got.append((name, seen))
    assert [seen for name, seen in got if name == "rec"] == [0, 1, 2] and raised.value.stage == 0
    del got
    assert ended.wait(5)


def test_it_is_closed_from_elsewhere():
    waiting = threading.Event()

    def stuck():
        yield 1
        waiting.wait(20)

    merged = Merged({"a": stuck()})
    for _ in merged:
        threading.Timer(0.05, merged.close).start()
    waiting.set()


@pytest.mark.parametrize("streams", [[], {}, {"a": 3}, {1: []}], ids=str)
def test_bad_streams(streams):
    with pytest.raises(ArgumentError, match="^streams"):
        Merged(streams)
