"""The plan of a schedule: demands, one division of the cores, its file."""

import json

import pytest

import pipeall
from pipeall import ArgumentError, Demand, Plan, SchedulePlan
from pipeall.pipeline.planning.schedule_plan import RealUnit, real_units


def schedule(**plans):
    parsed = {name: Plan.parse(text) for name, text in plans.items()}
    return SchedulePlan(parsed, {name: Demand() for name in parsed}, dict.fromkeys(parsed, 5.0))


def test_stages_on_some_cores_take_successive_ones():
    big, gpu = RealUnit("big", 0, None), RealUnit("gpu", 0, None)
    assert real_units(Plan.parse("Bx1-Bx2-G:2,4")) == [RealUnit("big", 0, 1), RealUnit("big", 1, 2), gpu]
    assert real_units(Plan.parse("B@fp16-G-B@fp16:2,4")) == [big, gpu, big]


def test_the_units_of_others_are_told_once():
    plan = schedule(a="B-L:3", b="L-G-L:1,2", c="G")
    assert plan.beside("a") == (RealUnit("little", 0, None), RealUnit("gpu", 0, None))


@pytest.mark.parametrize(
    "plans, told",
    [
        (dict(a="B-G:3", b="Bx2"), "all of big in a and big cores 0 to 1 in b"),
        (dict(a="2*Bx1", b="Bx2"), "big core 0 in a and big cores 0 to 1 in b"),
        (dict(a="cpu", b="L"), "all of cpu in a and all of little in b"),
    ],
)
def test_one_division_of_the_cores(plans, told):
    with pytest.raises(ArgumentError, match=told):
        schedule(**plans)


def test_one_division_allows_what_is_apart_or_equal():
    schedule(a="2*Bx1", b="Bx1-Bx1:5", c="Bx1")
    schedule(a="Bx2-G:3", b="Bx2", c="L")


def test_a_file_keeps_all(tmp_path):
    plan = SchedulePlan(
        {"det": Plan.parse("B-G:3").made_for(pipeall.zoo.squeezenet()), "rec": Plan.parse("L")},
        {"det": Demand(15, 2, 80.0), "rec": Demand(priority=0)},
        {"det": 15.0, "rec": None},
    )
    plan.save(tmp_path / "s.json", {"board": "a311d"})
    read = SchedulePlan.load(tmp_path / "s.json")
    assert read == plan and read.plans["det"].network == plan.plans["det"].network


@pytest.mark.parametrize(
    "change, told",
    [
        (dict(fps=0), "fps"),
        (dict(priority=1.5), "priority: expected a whole number"),
        (dict(priority=12), "priority"),
        (dict(rate=-1), "rate"),
        (dict(plan=3), "plan: expected text"),
        (dict(plan="B-"), "component"),
        (dict(groups=2.5, network="x"), "groups: expected a whole number"),
    ],
)
def test_a_wrong_entry_is_told_with_the_file(tmp_path, change, told):
    entry = {"plan": "B", "priority": 1, "rate": 3.0} | change
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"format": "pipeall.schedule/1", "networks": {"det": entry}}))
    with pytest.raises(ArgumentError, match=told) as error:
        SchedulePlan.load(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_names_agree():
    with pytest.raises(ArgumentError, match="rates: expected those of a, got b"):
        SchedulePlan({"a": Plan.parse("B")}, {"a": Demand()}, {"b": 1.0})
    with pytest.raises(ArgumentError, match="plans: expected one for each network"):
        SchedulePlan({}, {}, {})
