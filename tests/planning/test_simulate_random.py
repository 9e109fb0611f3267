"""The simulation of random plans: against a recurrence that knows no events, and within bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import UNITS, made_up, pipeline_of

from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.simulate import WARM_UP, simulate


def recurrence(work: np.ndarray, slots: int, depth: int, period_ms: float = 0.0) -> tuple[np.ndarray, ...]:
    """When each frame of a lane is submitted, and begun and ended by each stage; ``work`` is [frames, stages], ms.

    Every wait is for an event of an earlier frame or stage: of the frame ``slots`` before for a free slot, of the frame
    ``depth`` before for room.
    """
    frames, stages = work.shape
    submit, begin, end = np.zeros(frames), np.zeros(work.shape), np.zeros(work.shape)

    def ended(frame: int, stage: int) -> float:
        return end[frame, stage] if frame >= 0 else 0.0

    for k in range(frames):
        submit[k] = max(k * period_ms, ended(k - depth, stages - 1))
        for i in range(stages):
            waits = [end[k, i - 1] if i else submit[k], ended(k - 1, i)]
            if i + 1 < stages:
                waits.append(ended(k - slots, i + 1))
            begin[k, i] = max(waits)
            end[k, i] = begin[k, i] + work[k, i]
    return submit, begin, end


TIMES = st.lists(st.floats(0.1, 20.0), min_size=1, max_size=6)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(TIMES, st.integers(1, 4), st.integers(1, 9), st.sampled_from([0.0, 5.0, 19.0]), st.sampled_from([0.0, 0.1]))
def test_like_the_recurrence(stages, slots, depth, period_ms, spread):
    """Every submit, begin and end of every frame, to the nanosecond that they are rounded to (two for the drawn times,
    which the recurrence sees as differences of rounded stamps and adds up frame by frame)."""
    profile, plan = pipeline_of(stages, spread)
    found = simulate(profile, plan, frames=20, slots=slots, depth=depth, period_ms=period_ms, seed=5)
    assert [frame.frame for frame in found.times] == list(range(WARM_UP + 20))
    begin = np.array([frame.begin_ns for frame in found.times])
    end = np.array([frame.end_ns for frame in found.times])
    work = (end - begin) / 1e6 if spread else np.tile(stages, (len(begin), 1))
    expected = recurrence(work, slots, depth, period_ms)
    tolerance = 2 * len(begin) * len(stages) if spread else 1
    for got, ms in zip(([frame.submitted_ns for frame in found.times], begin, end), expected, strict=True):
        assert np.abs(np.array(got) - ms * 1e6).max() <= tolerance


@settings(derandomize=True, deadline=None, max_examples=40)
@given(TIMES, st.integers(1, 4), st.integers(1, 9))
def test_bounds(stages, slots, depth):
    """The period is that of the slowest circuit: a stage, two neighbours that share ``slots``, all with ``depth``.

    A path of n turns is turns of circuits and a rest that passes no stage twice, so n periods are off by no more than
    the time of two frames at either end. Latency is at least a frame's time alone.
    """
    profile, plan = pipeline_of(stages)
    found = simulate(profile, plan, frames=400, slots=slots, depth=depth, jitter=False)
    pairs = [(a + b) / slots for a, b in zip(stages, stages[1:], strict=False)]
    period = max(*stages, *pairs, sum(stages) / depth)
    slack = 4 * sum(stages)
    assert 400 * period - slack <= found.seconds * 1e3 <= 400 * period + slack
    assert min(frame.end_ns[-1] - frame.submitted_ns for frame in found.times) >= 1e6 * sum(stages) - 2
    for stage in found.stages:
        assert 0 < stage.use <= 1 + 1e-9


@settings(derandomize=True, deadline=None, max_examples=40)
@given(TIMES)
def test_slots_and_depth_enough(stages):
    """Then the slowest stage never waits."""
    profile, plan = pipeline_of(stages)
    found = simulate(profile, plan, frames=100, slots=8, depth=8 * len(stages), jitter=False)
    slowest = max(stages)
    assert found.stages[stages.index(slowest)].use == pytest.approx(1.0, rel=1e-9)
    assert 100 * slowest - sum(stages) <= found.seconds * 1e3 <= 100 * slowest + sum(stages)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(st.floats(1.0, 40.0), min_size=2, max_size=4), st.booleans(), st.integers(0, 99))
def test_no_frame_is_lost_or_doubled(lanes, contended, seed):
    """Of the frames submitted, all but those under way are there once."""
    names = UNITS[: len(lanes)]
    contention = {"gpu": {"little": (1.4,)}, "little": {"gpu": (1.2,)}} if contended else {}
    profile = made_up({name: [ms] for name, ms in zip(names, lanes, strict=True)}, 0.05, contention=contention)
    found = simulate(profile, Plan.parallel(names), frames=200, seed=seed)
    numbers = [frame.frame for frame in found.times]
    assert len(set(numbers)) == len(numbers) >= WARM_UP + 200
    assert max(numbers) < len(numbers) + 3 * len(lanes)
    slowest = 1.4 * max(lanes)
    assert 1000 / slowest <= found.fps <= sum(1000 / ms for ms in lanes) * 1.05  # 5 deviations of the mean of 200
    assert sum(stage.frames for stage in found.stages) == 200
