"""What StatsRecorder makes of hand-made times and counters, worked out by hand."""

import pytest

from pipeall.pipeline import stats
from pipeall.pipeline.stats import FrameTimes, StageStats, Stats, StatsRecorder

MS = 1_000_000
NO_COUNTERS = dict(frames=0, busy_ns=0, wait_in_ns=0, wait_out_ns=0, handover_ns=0)


def frame(number: int, submitted: int, ready: int) -> FrameTimes:
    """A frame of two stages; times in ms. The first stage's end is no part of any figure."""
    return FrameTimes(number, submitted * MS, (submitted * MS, (ready - 1) * MS), ((ready - 2) * MS, ready * MS))


def test_throughput_and_latency():
    """Five frames of 30, 10, 50, 20 and 40 ms; the third is ready last, as one of a slower lane, at 160 ms.

    From the first submit at 100 ms that is 60 ms for five frames. Percentile p of five values, between the two at
    rank 4p from 0: 95 % is rank 3.8, 40 + 0.8 * 10 ms; 99 % is rank 3.96.
    """
    recorder = StatsRecorder()
    for number, (submitted, ready) in enumerate([(100, 130), (105, 115), (110, 160), (115, 135), (116, 156)]):
        recorder.add(frame(number, submitted, ready))
    assert recorder.stats([]) == Stats(
        frames=5,
        seconds=pytest.approx(0.060),
        fps=pytest.approx(5 / 0.060),
        latency_p50_ms=pytest.approx(30),
        latency_p95_ms=pytest.approx(48),
        latency_p99_ms=pytest.approx(49.6),
        stages=(),
    )


def test_stages():
    """Means over the frames of the stage itself, which may have begun more than were delivered; use over the 0.2 s."""
    recorder = StatsRecorder()
    recorder.add(frame(0, 0, 100))
    recorder.add(frame(1, 50, 200))
    big = dict(frames=4, busy_ns=160 * MS, wait_in_ns=8 * MS, wait_out_ns=20 * MS, handover_ns=2 * MS)
    gpu = dict(frames=2, busy_ns=50 * MS, wait_in_ns=140 * MS, wait_out_ns=3 * MS, handover_ns=10 * MS)
    counters = [("big", (0, 3), big), ("gpu", (3, 7), gpu)]
    found = recorder.stats(counters).stages
    numbers = pytest.approx
    assert found == (
        StageStats(
            "big", (0, 3), 4, busy_ms=numbers(40), wait_in_ms=numbers(2), wait_out_ms=numbers(5),
            handover_ms=numbers(0.5), use=numbers(0.8),
        ),
        StageStats(
            "gpu", (3, 7), 2, busy_ms=numbers(25), wait_in_ms=numbers(70), wait_out_ms=numbers(1.5),
            handover_ms=numbers(5), use=numbers(0.25),
        ),
    )  # fmt: skip


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
    stage = StageStats("big", (0, 3), 0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert StatsRecorder().stats([("big", (0, 3), NO_COUNTERS)]) == Stats(0, 0.0, 0.0, 0.0, 0.0, 0.0, (stage,))
