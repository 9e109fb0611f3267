"""One source for several readers: each gets each frame, none runs ahead, and the end and errors reach all."""

import threading

import pytest

from pipeall import ArgumentError, Tee


def read(readers, each=lambda reader, frame: True):
    """What each reader got on a thread of its own, and what it raised; it leaves where ``each`` says False."""
    got, raised = [[] for _ in readers], [None] * len(readers)

    def run(number, reader):
        try:
            for frame in reader:
                got[number].append(frame)
                if not each(number, frame):
                    return reader.close()
        except RuntimeError as error:
            raised[number] = error

    threads = [threading.Thread(target=run, args=entry) for entry in enumerate(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    return got, raised


def test_each_reader_gets_each_frame():
    got, _ = read(list(Tee(range(500), 3)))
    assert got == [list(range(500))] * 3


def test_none_runs_ahead():
    """While one reader is at a frame, the source has given the next at most, and one more that nobody has yet."""
    given, most = [], []
    got, _ = read(
        list(Tee((given.append(n) or n for n in range(100)), 2)), lambda r, n: most.append(given[-1] - n) or 1
    )
    assert got == [list(range(100))] * 2 and max(most) <= 2


def test_a_reader_that_leaves_is_not_waited_for():
    got, _ = read(list(Tee(range(50), 3)), lambda reader, frame: reader or frame < 3)
    assert got == [[0, 1, 2, 3], list(range(50)), list(range(50))]


def test_an_error_reaches_all_after_the_frames_before_it():
    def source():
        yield from range(3)
        raise RuntimeError("the cable was pulled")

    got, raised = read(list(Tee(source(), 2)))
    assert got == [[0, 1, 2]] * 2 and all("cable" in str(error) for error in raised)


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="^source: expected frames, one after the other, got 3"):
        Tee(3, 2)
    with pytest.raises(ArgumentError, match="^readers: expected a whole number of at least 1, got 0"):
        Tee([], 0)
