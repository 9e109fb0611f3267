"""Explanations: their parts against predictions of other plans and of profiles without contention or hand-over."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans_reference import INF, chain, profiles, random_profile
from toy_board import period_ms

from pipeall.errors import ArgumentError
from pipeall.pipeline.planning.explain import explain
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.plan_table import PredictedPlan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import UnitTimes
from pipeall.pipeline.planning.search import search

UNITS = ("big", "bigx1", "little", "gpu")


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    profile=profiles(UNITS),
    order=st.sampled_from(["big", "gpu-big", "bigx1-bigx1", "gpu-bigx1-little"]),
    data=st.data(),
)
def test_parts_and_bounds(profile, order, data):
    units, groups = order.split("-"), len(profile.groups)
    cuts = sorted(data.draw(st.permutations(range(1, groups)))[: len(units) - 1])
    plan = Plan.pipeline(units, cuts)
    if period_ms(profile, plan) == INF:
        with pytest.raises(ArgumentError, match="expected units that can run their groups"):
            explain(profile, plan)
        return
    found = explain(profile, plan)
    totals = found.prediction.stage_ms[0]
    assert found.prediction == predict(profile, plan)
    assert tuple(stage.total_ms for stage in found.stages) == pytest.approx(totals)
    assert totals[found.bottleneck] == max(totals) == pytest.approx(found.prediction.period_ms)
    assert found.balance * found.prediction.period_ms * len(totals) == pytest.approx(found.prediction.latency_ms)

    # each part is what is missing when the profile knows nothing of it
    free = predict(replace(profile, links={}), plan).stage_ms[0]
    alone = predict(replace(profile, links={}, contention={}, same_pipeline={}), plan).stage_ms[0]
    assert [stage.alone_ms for stage in found.stages] == pytest.approx(alone)
    assert [stage.alone_ms + stage.contention_ms for stage in found.stages] == pytest.approx(free)
    assert found.ideal_ms == pytest.approx(max(alone))
    silent = {ends: replace(link, send_ms=(0.0, 0.0)) for ends, link in profile.links.items()}
    deaf = predict(replace(profile, links=silent), plan).stage_ms[0]
    assert [stage.receive_ms for stage in found.stages] == pytest.approx(
        [with_it - without for with_it, without in zip(deaf, free, strict=True)], abs=1e-12
    )

    expected = []
    for i in range(len(cuts)):
        for step in (-1, 1):
            moved = [*cuts[:i], cuts[i] + step, *cuts[i + 1 :]]
            if [0, *moved, groups] == sorted({0, *moved, groups}):
                expected.append(Plan.pipeline(units, moved))
    assert [move.plan for move in found.moves] == expected
    assert [move.prediction for move in found.moves] == [predict(profile, other) for other in expected]

    rates = [1 / period_ms(replace(profile, links={}), Plan.single(unit)) for unit in units]
    assert found.rates_ms == (pytest.approx(1 / sum(rates)) if sum(rates) else INF)
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_plan_worked_out_by_hand():
    """big 3 x 2 ms, twice as slow beside gpu; gpu 1 + 2 + 4 ms, of which the last is its own."""
    units = {"big": UnitTimes((2.0, 2.0, 2.0), (0.0,) * 3), "gpu": UnitTimes((1.0, 2.0, 4.0), (0.0,) * 3)}
    slow = {"big": {"gpu": (2.0, 2.0, 2.0)}}
    profile = replace(random_profile(chain(3), loaded=False), units=units, contention=slow)
    found = explain(profile, Plan.parse("big-gpu:2"), search(chain(3), profile).ranked)
    assert (found.bottleneck, found.balance, found.ideal_ms) == (0, 6 / 8, 4.0)
    assert found.rates_ms == pytest.approx(1 / (1 / 6 + 1 / 7))
    assert [(str(move.plan), move.prediction.period_ms) for move in found.moves] == [("big-gpu:1", 6.0)]
    assert str(found.next_best[0].plan) == "gpu-big:2"  # 3 and 4 ms
    assert "big-gpu:2" not in [str(choice.plan) for choice in found.next_best]
    assert found.lines()[:9] == [
        "big-gpu:2: 125.00 FPS, period 8.00 ms, latency 12.00 ms, alone 8.00 ms",
        "bottleneck: stage 1 on big; balance 75% (mean / slowest unit)",
        "  big        groups   1-2        8.00 ms = 4.00 alone + 4.00 contention + 0.00 receiving + 0.00 sending",
        "  gpu        groups   3-3        4.00 ms = 4.00 alone + 0.00 contention + 0.00 receiving + 0.00 sending",
        "without contention and hand-over: 4.00 ms (-50.0%)",
        "if the units' rates alone added up: 3.23 ms (-59.6%)",
        "if their rates beside each other did: 4.42 ms (-44.7%)",
        "bound of all plans of these units: 3.50 ms (-56.2%); the plan reaches 44% of its throughput",
        "good at, compared: big 3; gpu 1-2",
    ]
    assert found.lines()[9:11] == [
        "a cut moved (period): big-gpu:1: 6.00 ms (-25.0%), latency 10.00 ms",
        "next best (period): gpu-big:2: 4.00 ms (-50.0%), latency 7.00 ms",
    ]
    content = found.to_dict()
    assert content["stages"][1]["groups"] == [3, 3] and content["moves"][0]["period_ms"] == 6.0
    assert content["plan"] == "big-gpu:2" and content["energy_mj"] is None


def test_moves_to_a_unit_that_cannot_run_them_say_so():
    units = {"big": UnitTimes((2.0, 2.0, 2.0), (0.0,) * 3), "gpu": UnitTimes((INF, INF, 4.0), (0.0,) * 3)}
    profile = replace(random_profile(chain(3), loaded=False), units=units)
    found = explain(profile, Plan.parse("big-gpu:2"))
    assert "a cut moved (period): big-gpu:1: a unit cannot run one of its groups" in found.lines()
    assert found.to_dict()["moves"][0]["period_ms"] is None
    assert found.rates_ms == 6.0  # the gpu alone adds nothing
    assert "4.00 ms" in found.lines()[-3]


def test_energy_is_told_where_it_is_known():
    units = {"big": UnitTimes((2.0, 2.0), (0.0, 0.0), (5.0, 5.0))}
    profile = replace(random_profile(chain(2), loaded=False, power=True), units=units)
    found = explain(
        profile, Plan.single("big"), [PredictedPlan(plan := Plan.single("bigx1"), predict(parts(profile), plan))]
    )
    assert found.lines()[0].endswith(", 20 mJ a frame")
    assert found.lines()[-1] == "next best (period): bigx1: 8.00 ms (+100.0%), latency 8.00 ms, 40 mJ a frame"


def parts(profile):
    """bigx1 takes twice as long as big."""
    return replace(profile, units={"bigx1": replace(profile.units["big"], ms=(4.0, 4.0))})


def test_lanes_and_a_unit_of_two_stages():
    """big takes 1 + 1 ms of 4 groups in two stages, gpu 2 x 2 between; little all four in 16 ms beside them."""
    units = {unit: UnitTimes((ms,) * 4, (0.0,) * 4) for unit, ms in dict(big=1.0, gpu=2.0, little=4.0).items()}
    profile = replace(random_profile(chain(4), loaded=False), units=units)
    found = explain(profile, Plan.parse("(big-gpu-big:1,3)+little"))
    assert [stage.total_ms for stage in found.stages] == [1.0, 4.0, 1.0, 16.0]
    assert found.prediction.period_ms == found.ideal_ms == pytest.approx(1 / (1 / 4 + 1 / 16))
    assert (found.bottleneck, found.balance, found.moves) == (3, 1.0, ())
    assert found.rates_ms == found.loaded_rates_ms == found.bound_ms == pytest.approx(1 / (1 / 4 + 1 / 8 + 1 / 16))
    found = explain(profile, Plan.parse("big-gpu-big:1,3"))
    assert (found.bottleneck, found.balance) == (1, 3 / 4)
    assert explain(profile, Plan.parse("big-gpu-big:1,2")).bottleneck == 2  # of big's 3 ms
