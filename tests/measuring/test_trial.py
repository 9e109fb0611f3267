"""Trials: their statistics in closed form, and that a turn sees nothing but the full pipeline."""

import json
from dataclasses import asdict
from itertools import accumulate
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
from graphs import small_net

from pipeall import Pipeline
from pipeall.pipeline.measuring import trial
from pipeall.pipeline.measuring.trial import Trial, compare
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.stats import StageStats, Stats

PAIR = Plan.pipeline(["big", "little"], [2])


def turn(fps, frames=10, late=0, p50=2.0, p95=3.0, p99=4.0):
    """A turn of a two-stage plan; ``late`` of the first stage."""
    stages = (
        StageStats("big", (0, 2), frames, late, fps, 0, 0, 0, 0, 0.5),
        StageStats("little", (2, 4), frames, 0, fps, 0, 0, 0, 0, 0.5),
    )
    return Stats(frames, frames / fps, fps, p50, p95, p99, stages)


def test_figures_are_medians_over_the_turns():
    found = Trial(PAIR, tuple(turn(*row) for row in [(50, 1, 0, 5.0), (10,), (40,), (20, 7, 0, 1.0), (30, 3)]))
    assert found.median("fps") == 30 and found.period_ms == 1000 / 30 and found.median("latency_p50_ms") == 2.0
    assert found.stages == turn(30, 3).stages
    assert found.spread == pytest.approx((45 - 15) / 2 / 30)  # quartiles of 10 20 30 40 50, at 1.5 and 4.5 of them


def test_of_an_even_number_of_turns_the_stages_are_those_next_above_the_median():
    found = Trial(PAIR, tuple(map(turn, (10, 40, 30, 20))))
    assert found.median("fps") == 25 and found.stages == turn(30).stages


def test_one_turn_has_no_spread():
    found = Trial(PAIR, (turn(8),))
    assert (found.period_ms, found.spread, found.stages) == (125, 0, turn(8).stages)


def test_late_is_counted_per_frame():
    assert Trial(PAIR, (turn(9, frames=10, late=5), turn(9, frames=30, late=1))).late_share == 6 / 40
    assert Trial(PAIR, (turn(9, frames=0),)).late_share == 0


def test_what_is_printed_is_the_same_and_plain_json():
    found = Trial(PAIR, (turn(10, 4, p99=7.0), turn(30, 5, p99=9.0), turn(20, 6, p99=8.0)), 0.5)
    content = found.to_dict()
    assert content == {
        "plan": "big-little:2",
        "frames": 15,
        "others_cores": 0.5,
        "fps": 20,
        "latency_p50_ms": 2.0,
        "latency_p95_ms": 3.0,
        "latency_p99_ms": 8.0,
        "fps_spread": found.spread,
        "stages": [asdict(stage) for stage in found.stages],
    }
    rows = [{**row, "groups": list(row["groups"])} for row in content["stages"]]
    assert json.loads(json.dumps(content, allow_nan=False)) == {**content, "stages": rows}


# ---- stages of a known pace: they sleep, so that what this machine computes does not matter


@pytest.fixture
def paced(monkeypatch):
    """A function that sets the paces of stages in ms, by unit; the pipelines that compare opens, and what they got.

    fed  (index of the pipeline, its first frame, its last) of each turn
    """
    paces, opened, fed = {"big": 0, "little": 0}, [], []

    class Paced(Pipeline):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            for open_lane in self.lanes.all:
                open_lane.set_paces([paces[stage.unit.name] for stage in open_lane.stages])
            opened.append(self)

        def map(self, source):
            first = len(self.times)
            yield from super().map(source)
            fed.append((opened.index(self), first, len(self.times) - 1))

    monkeypatch.setattr(trial, "Pipeline", Paced)
    return SimpleNamespace(set=paces.update, opened=opened, fed=fed)


def ready_ns(pipe):
    """When each frame's result and all before it were ready."""
    return np.maximum.accumulate([times.end_ns[-1] for times in pipe.times])


@pytest.mark.parametrize("queue", [True, False])
@pytest.mark.parametrize("plan, ms", [("big-little:2", (10, 20)), ("big-little:2", (20, 10)), ("big+little", (5, 20))])
def test_a_turn_counts_from_one_result_to_another_while_the_pipeline_is_full(plan, ms, queue, paced, board):
    """To the nanosecond; neither the frames that fill it nor those that drain it are in the window.

    Where both lanes of a plan end together they stand still until the next frames come: the window begins with them.
    """
    big, little = ms
    paced.set(big=big, little=little)
    (found,) = compare(small_net(), [Plan.parse(plan)], board, turns=3, seconds=0.1, queue=queue)
    (pipe,) = paced.opened
    ready, submitted = ready_ns(pipe), np.array([times.submitted_ns for times in pipe.times])
    latency = (ready - submitted) / 1e6
    drained = 0
    for turn, (_, first, last) in zip(found.turns, paced.fed[1:], strict=True):
        windows = [range(begin, begin + turn.frames) for begin in range(first + 1, last - turn.frames + 2)]
        # Results that waited for an earlier one are ready at once, so that several windows may last as long.
        begins = {w: max(ready[w[0] - 1], submitted[w[0]]) for w in windows}
        fitting = [w for w, begin in begins.items() if ready[w[-1]] - begin == round(turn.seconds * 1e9)]
        if plan == "big+little":
            rates = [1000 / (row.busy_ms + row.wait_in_ms + row.wait_out_ms) for row in turn.stages]
            assert turn.fps == pytest.approx(sum(rates), rel=1e-12)
            assert all(rate <= 1000 / least for rate, least in zip(rates, ms, strict=True))
        else:
            assert turn.fps == pytest.approx(turn.frames / turn.seconds, rel=1e-12)
        fitting = [w for w in fitting if turn.latency_p50_ms == pytest.approx(np.median(latency[w]), rel=1e-12)]
        assert fitting
        drained += all(w[-1] == last for w in fitting)
    # The window may end with the last frame where both lanes end together, and where the machine stood still.
    assert plan == "big+little" or drained < len(found.turns)
    if plan == "big-little:2":
        assert latency.min() >= big + little  # no stage ends before its pace
        if little == 20:
            assert found.period_ms > 19.999


@pytest.mark.parametrize(
    "plan, options, most",
    [
        (PAIR, dict(queue=False), 2),
        (PAIR, dict(queue=True), 3),
        (Plan.single("big"), dict(queue=True), 2),
        (PAIR, dict(queue=False, singly=[PAIR]), 1),
    ],
)
def test_so_many_frames_are_under_way(plan, options, most, paced, board):
    """As many as stages, so that balanced ones make a frame wait for nothing; with a queue one more; singly one."""
    paced.set(big=10, little=10)
    compare(small_net(), [plan], board, turns=2, seconds=0.0, **options)
    (pipe,) = paced.opened
    events = [(times.submitted_ns, 1) for times in pipe.times] + [(times.end_ns[-1], -1) for times in pipe.times]
    assert max(accumulate(change for _, change in sorted(events))) == most


def test_every_stage_runs_its_least_however_slow(paced, board):
    paced.set(big=0, little=20)
    (found,) = compare(small_net(), [Plan.parallel(["big", "little"])], board, turns=2, seconds=0.0)
    assert all(stage.frames >= trial.LEAST for turn in found.turns for stage in turn.stages)


def test_plans_take_turns(paced, board):
    plans, done = [Plan.single("big"), PAIR, Plan.single("little")], []
    found = compare(small_net(), plans, board, turns=2, seconds=0.0, progress=lambda *_: done.append(len(paced.fed)))
    assert [row.plan for row in found] == plans and [pipe.plan for pipe in paced.opened] == plans
    assert [index for index, *_ in paced.fed] == [0, 1, 2] * 3  # to warm up, and two turns
    assert done == [4, 5, 6, 7, 8, 9]
    for row in found:
        assert len(row.turns) == 2
        least = trial.LEAST * len(row.plan.units)
        assert all(stage.frames >= least for turn in row.turns for stage in turn.stages)
        assert 0 < row.period_ms < inf and json.dumps(row.to_dict(), allow_nan=False)


def test_late_frames_are_counted(paced, board):
    """All of one stage, which may have run as many frames more than came out as are under way, of 8 and more."""
    paced.set(big=1e-6)
    (found,) = compare(small_net(), [PAIR], board, turns=2, seconds=0.0)
    for turn in found.turns:
        first, second = turn.stages
        assert first.frames > 0 == second.late, turn
        assert abs(first.late - first.frames) <= 1, turn  # counters are read one by one while the stage goes on
    assert found.late_share == pytest.approx(1, abs=3 / 8)


def test_the_rate_of_a_lane_whose_unit_serves_several_stages(paced, three_clusters):
    """big takes 10 ms twice a frame, mid 5 ms for one of its own: 50 + 200 FPS at most, and not 100 + 200."""
    paced.set(big=10, little=1, mid=5)
    (found,) = compare(small_net(), [Plan.parse("(big-little-big:1,2)+mid")], three_clusters, turns=1, seconds=0.3)
    rows = [row.busy_ms + row.wait_in_ms + row.wait_out_ms for row in found.stages]
    assert found.median("fps") == pytest.approx(1000 / (rows[0] + rows[2]) + 1000 / rows[3])
    assert found.median("fps") <= 250
