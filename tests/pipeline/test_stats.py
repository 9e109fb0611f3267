"""What StatsRecorder makes of hand-made times and counters, worked out by hand."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from pipeall.pipeline import stats
from pipeall.pipeline.planning.rings import FrameTimes
from pipeall.pipeline.stats import StageCounters, StageStats, Stats, StatsRecorder

MS = 1_000_000


def frame(number: int, submitted: int, ready: int) -> FrameTimes:
    """A frame of two stages; times in ms. The first stage's end is no part of any figure."""
    return FrameTimes(number, submitted * MS, (submitted * MS, (ready - 1) * MS), ((ready - 2) * MS, ready * MS))


def test_throughput_and_latency():
    """Five frames of 30, 10, 50, 20 and 40 ms; the third is ready last, as one of a slower lane, at 160 ms.

    From the first submit at 100 ms that is 60 ms for five frames. The second waits for the first, the last two wait for
    the third: their latencies are 30, 25, 50, 45 and 44 ms. Percentile p of five values, between the two at rank 4p
    from 0: 95 % is rank 3.8, 45 + 0.8 * 5 ms; 99 % is rank 3.96.
    """
    recorder = StatsRecorder()
    for number, (submitted, ready) in enumerate([(100, 130), (105, 115), (110, 160), (115, 135), (116, 156)]):
        recorder.add(frame(number, submitted, ready))
    assert recorder.stats([]) == Stats(
        frames=5,
        seconds=pytest.approx(0.060),
        fps=pytest.approx(5 / 0.060),
        latency_p50_ms=pytest.approx(44),
        latency_p95_ms=pytest.approx(49),
        latency_p99_ms=pytest.approx(49.8),
        stages=(),
    )


def test_stages():
    """Means over the frames of the stage itself, which may have begun more than were delivered; use over the 0.2 s."""
    recorder = StatsRecorder()
    recorder.add(frame(0, 0, 100))
    recorder.add(frame(1, 50, 200))
    big = dict(frames=4, late=3, busy_ns=160 * MS, wait_in_ns=8 * MS, wait_out_ns=20 * MS)
    gpu = dict(frames=2, busy_ns=50 * MS, wait_in_ns=140 * MS, wait_out_ns=3 * MS, map_ns=10 * MS, copy_ns=4 * MS)
    counters = [StageCounters(0, 0, "bigx2", (0, 3), **big), StageCounters(0, 1, "gpu", (3, 7), **gpu)]
    found = recorder.stats(counters).stages
    numbers = pytest.approx
    assert found == (
        StageStats(
            "bigx2", (0, 3), 4, 3, busy_ms=numbers(40), wait_in_ms=numbers(2), wait_out_ms=numbers(5),
            map_ms=0, copy_ms=0, use=numbers(0.8),
        ),
        StageStats(
            "gpu", (3, 7), 2, 0, busy_ms=numbers(25), wait_in_ms=numbers(70), wait_out_ms=numbers(1.5),
            map_ms=numbers(5), copy_ms=numbers(2), use=numbers(0.25),
        ),
    )  # fmt: skip


def test_units_that_serve_several_stages():
    """What a unit does is the sum over its stages; cores of one component are units of their own."""
    rows = [("big", 30), ("gpu", 80), ("big", 40), ("bigx1", 20), ("bigx1", 10)]
    counters = [
        StageCounters(index // 3, index % 3, unit, (index, index + 1), frames=2, busy_ns=2 * ms * MS)
        for index, (unit, ms) in enumerate(rows)
    ]
    recorder = StatsRecorder()
    recorder.add(frame(0, 0, 100))
    recorder.add(frame(1, 50, 200))
    found = recorder.stats(counters)
    expected = [("big", 2, 70, 0.7), ("gpu", 1, 80, 0.8), ("bigx1", 1, 20, 0.2), ("bigx1", 1, 10, 0.1)]
    assert [(one.unit, one.stages) for one in found.units] == [row[:2] for row in expected]
    assert [(one.busy_ms, one.use) for one in found.units] == [pytest.approx(row[2:]) for row in expected]
    assert "big 70%, gpu 80%" in repr(found) and found.to_dict()["units"][0]["stages"] == 2
    assert stats.slowest_ms(counters) == pytest.approx([80, 20])
    assert stats.slowest_ms(counters[::2]) == pytest.approx([70, 10])


def test_latency_is_of_the_latest_frames_throughput_of_all(monkeypatch):
    """Two of four frames are kept, of 10 and 20 ms; the two before took 100 ms each."""
    monkeypatch.setattr(stats, "KEPT", 2)
    recorder = StatsRecorder()
    for number, (submitted, ready) in enumerate([(0, 100), (100, 200), (200, 210), (230, 250)]):
        recorder.add(frame(number, submitted, ready))
    found = recorder.stats([])
    assert (found.frames, found.latency_p50_ms) == (4, pytest.approx(15))
    assert (found.seconds, found.fps) == (pytest.approx(0.25), pytest.approx(16))


def test_before_the_first_frame_all_is_zero():
    stage = StageStats("big", (0, 3), 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    counters = [StageCounters(0, 0, "big", (0, 3))]
    assert StatsRecorder().stats(counters) == Stats(0, 0.0, 0.0, 0.0, 0.0, 0.0, (stage,))


@pytest.mark.parametrize("kept", [100, 3])
@pytest.mark.parametrize("submitted, begin", [(15, 20), (50, 50)], ids=["in the stream", "after a pause"])
def test_a_window_counts_what_came_after_its_snapshot(submitted, begin, kept, monkeypatch):
    """Two frames, ready at 10 and 20 ms; then three, ready at 60, 70 and 90 ms, 10 ms or more after their submit.

    The window begins when the last result before it was ready, or when its first frame was submitted, if later.
    A stage that is new since the snapshot counts from its start.
    """
    monkeypatch.setattr(stats, "KEPT", kept)
    recorder = StatsRecorder()
    recorder.add(frame(0, 0, 10))
    recorder.add(frame(1, 5, 20))
    since = recorder.snapshot([StageCounters(0, 0, "big", (0, 3), frames=2, late=1, busy_ns=20 * MS, copy_ns=MS)])
    for number, (begins, ready) in enumerate([(submitted, 60), (55, 70), (60, 90)], 2):
        recorder.add(frame(number, begins, ready))
    counters = [
        StageCounters(0, 0, "big", (0, 3), frames=6, late=2, busy_ns=60 * MS, copy_ns=9 * MS),
        StageCounters(1, 0, "gpu", (0, 3), frames=1, busy_ns=8 * MS),
    ]
    found = recorder.stats(counters, since)
    seconds = (90 - begin) / 1e3
    assert (found.frames, found.seconds, found.fps) == (3, pytest.approx(seconds), pytest.approx(3 / seconds))
    assert found.latency_p50_ms == pytest.approx(sorted([60 - submitted, 15, 30])[1])
    big, gpu = found.stages
    assert (big.frames, big.late, big.busy_ms, big.copy_ms) == (4, 1, pytest.approx(10), pytest.approx(2))
    assert big.use == pytest.approx(0.040 / seconds)
    assert (gpu.frames, gpu.busy_ms) == (1, pytest.approx(8))


def test_a_window_is_whole_while_another_thread_takes_results():
    """Frame i is submitted at 0 and ready at i ms: a window of n frames from f on has a median of f + (n - 1) / 2."""
    recorder, taken, ended = StatsRecorder(), count(), threading.Event()

    def take():
        while not ended.wait(1e-5):
            number = next(taken)
            recorder.add(frame(number, 0, number))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor() as pool:
        taking = pool.submit(take)
        try:
            for _ in range(300):
                since = recorder.snapshot([])
                while recorder.frames < since.frames + 5:
                    time.sleep(1e-5)
                found = recorder.stats([], since)
                assert found.latency_p50_ms == since.frames + (found.frames - 1) / 2
                assert found.seconds == pytest.approx((found.frames if since.frames else found.frames - 1) / 1000)
        finally:
            ended.set()
            sys.setswitchinterval(interval)
        taking.result()
