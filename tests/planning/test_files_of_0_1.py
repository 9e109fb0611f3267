"""Files that version 0.1 wrote are read by each version after it, with the same meaning.

The files lie in data/written_by_0.1. They are never written anew: a format that changes gets files beside them.
"""

from pathlib import Path

import pytest
from plans_reference import INF, chain
from toy_board import chain_net

from pipeall import Board, BoardModel, Plan, Profile, SchedulePlan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import Link, UnitTimes
from pipeall.pipeline.planning.schedule_plan import Demand

WRITTEN = Path(__file__).parents[1] / "data" / "written_by_0.1"

PROFILE = Profile(
    network="chain4",
    groups=tuple(group.name for group in chain(4).groups),
    crossing_bytes=(0, 4096, 8192, 16384, 0),
    units={
        "big": UnitTimes((1.5, 2.25, 0.000001, 4.0), (0.5, 0.0, 0.0, 0.1), (5.0, 6.0, 7.0, 8.0)),
        "bigx3": UnitTimes((1.0, INF, 3.0, 4.0), (0.0,) * 4, refused={2: "no kernel"}),
        "gpu": UnitTimes((1.0, 2.0, 3.0, 4.0), (0.0,) * 4),
    },
    contention={"big": {"gpu": (1.0, 1.1, 1.25, 2.0)}},
    same_pipeline={"gpu": {"bigx3": (1.5, 1.0, 1.0, 1.75)}},
    links={
        ("big", "gpu"): Link((16, 64), (0.5, 0.75), (1.0, 2.0), (0.25, 0.5)),
        ("host", "big"): Link((1,), (0.0,), (1.0,), (0.0,)),
    },
    idle_w=2.5,
    about={"machine": "test", "before": {"temperature_c": 40.5}},
    modelled=True,
)
PLANS = {
    "plan": Plan.parse("big-gpu-little:3,7").made_for(chain_net()),
    "plan_with_lanes": Plan.parse("(B-G-B:2,9)+L").made_for(chain_net()),
    "plan_of_precisions": Plan.parse("bigx3-gpu@fp16-little@int8:4,7").made_for(chain_net()),
}
SCHEDULE = SchedulePlan(
    {"detect": Plan.parse("B-G:3"), "name": Plan.parse("L")},
    {"detect": Demand(fps=15, priority=2), "name": Demand()},
    {"detect": 15.0, "name": 4.5},
)


def test_a_profile():
    assert Profile.load(WRITTEN / "profile.json") == PROFILE


@pytest.mark.parametrize("name", PLANS)
def test_a_plan(name):
    found = Plan.load(WRITTEN / f"{name}.json", chain_net())
    assert found == PLANS[name] and found.network == PLANS[name].network


def test_a_schedule():
    found = SchedulePlan.load(WRITTEN / "schedule.json")
    assert (found.plans, found.demands, found.rates) == (SCHEDULE.plans, SCHEDULE.demands, SCHEDULE.rates)


def test_a_board():
    """Its own network takes what was measured: 3 groups of 0.3, 2 of 0.2, 5 of 0.5 ms."""
    path = WRITTEN / "board.json"
    model = BoardModel.load(path)
    assert {name: part.count for name, part in model.components.items()} == {"big": 4, "little": 2, "gpu": 1}
    board, graph = Board.load(path), chain_net()
    profile = board.model.profile(graph)
    assert predict(profile, Plan.parse("big-gpu-little:3,5")).period_ms == pytest.approx(2.5)
