"""Searching for plans against brute force: every configuration one by one, through ``predict``."""

from dataclasses import replace
from functools import partial
from math import comb, factorial

import pytest
from graphs import zoo_net
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans_reference import (
    INF,
    THREE,
    all_choices,
    chain,
    criteria,
    possible,
    profiles,
    raised,
    random_profile,
    team_choices,
    undominated,
)

from pipeall.errors import ArgumentError
from pipeall.pipeline.planning.dynamic import Dynamic
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.plan_table import PredictedPlan
from pipeall.pipeline.planning.profile import Profile, UnitTimes
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.stage_tables import StageTables, handovers
from pipeall.pipeline.planning.units import unit_sets

pipelines = partial(search, plans="pipelines")

TABLE_1 = dict(alexnet=126, googlenet=396, mobilenet=2106, resnet50=816, squeezenet=918)
PARTS = ("big", "bigx1", "bigx2", "little", "gpu")
VALUE = {"throughput": 0, "latency": 1, "energy": 2}
RANKED = ["throughput", "energy"]  # least latency: test_latency.py
WITHIN = 1e-9  # relative: what a limit may be missed by, and by how much sums in another order may differ at most
MANY = dict(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def at_rate(choice: PredictedPlan, idle_w: float, period_ms: float) -> float:
    """Energy per frame, mJ, at this period: the idle board draws on while the plan waits."""
    return choice.prediction.energy_mj + idle_w * (period_ms - choice.prediction.period_ms)


def best_first(
    choices: list[PredictedPlan], objective: str, energy: bool, idle: tuple[float, float] = (0, 0)
) -> list[str]:
    """Texts of the plans by the objective, equals by stages, latency and text; ``idle``: W, and the period, ms."""

    def key(choice: PredictedPlan) -> tuple:
        values = criteria(choice, energy)
        value = round(at_rate(choice, *idle), 9) if objective == "energy" and idle[1] else values[VALUE[objective]]
        return value, len(choice.plan.units), values[1], str(choice.plan)

    return [str(choice.plan) for choice in sorted(choices, key=key)]


def middle(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


@pytest.mark.parametrize("name", TABLE_1)
def test_counts_of_configurations_are_those_of_table_1(name):
    """Paper 001, Table 1: three stages. Two stages have 3 x 2 orders and N cuts each."""
    graph = zoo_net(name)
    found = pipelines(graph, random_profile(graph))
    assert found.evaluated == {1: 3, 2: 6 * len(graph.cuts), 3: TABLE_1[name]}
    assert found.covered == {}


@settings(max_examples=150, **MANY)
@given(profile=profiles(), objective=st.sampled_from(RANKED), share=st.floats(0, 1), top=st.integers(1, 12))
def test_three_units_against_brute_force(profile: Profile, objective: str, share: float, top: int):
    """Ranking, limits, ties and Pareto front over one, two and three stages; the dynamic programme of every team."""
    graph = chain(len(profile.groups))
    energy = profile.idle_w is not None
    everything = all_choices(profile)
    choices = [choice for choice in everything if possible(choice)]
    if objective == "energy" and not energy:
        assert "expected a profile with power" in raised(pipelines, graph, profile, objective)
        objective = "throughput"
    if not choices:
        assert raised(pipelines, graph, profile, objective).startswith("no plan for chain")
        return
    if objective == "throughput":
        limit = middle([choice.prediction.latency_ms for choice in choices], share)
        options = {"max_latency_ms": limit}
        within = [c for c in choices if c.prediction.latency_ms <= limit * (1 + WITHIN)]
    else:
        limit = middle([choice.prediction.period_ms for choice in choices], share)
        options = {"min_fps": 1000 / limit}
        within = [c for c in choices if c.prediction.period_ms <= limit * (1 + WITHIN)]

    free = pipelines(graph, profile, objective, top=top)
    assert [str(choice.plan) for choice in free.ranked] == best_first(choices, objective, energy)[:top]
    assert all(choice in choices for choice in free.ranked)
    assert sum(free.evaluated.values()) == len(everything)
    assert {criteria(choice, energy) for choice in free.pareto} == undominated(
        {criteria(choice, energy) for choice in choices}
    )
    limited = pipelines(graph, profile, objective, top=top, **options)
    assert [str(choice.plan) for choice in limited.ranked] == best_first(
        within, objective, energy, (profile.idle_w, limit)
    )[:top]
    assert limited.pareto == free.pareto

    for team in unit_sets(THREE, len(profile.groups)):
        own = [choice for choice in choices if sorted(choice.plan.units) == sorted(team)]
        check_dynamic(profile, team, own, share)


def check_dynamic(profile: Profile, team: tuple[str, ...], choices: list[PredictedPlan], share: float) -> None:
    """Every optimum that the dynamic programme finds for a team is that of brute force, with and without limits."""
    dynamic = Dynamic(StageTables(profile, team, handovers(profile, set(team))))
    energy = profile.idle_w is not None
    if not choices:
        assert dynamic.shortest_ms == INF
        assert dynamic.fastest() is dynamic.least_latency() is dynamic.least_busy() is None
        return
    rows = [(choice.prediction.period_ms, choice.prediction.latency_ms) for choice in choices]

    def close(value: float):
        return pytest.approx(value, rel=WITHIN)

    found = dynamic.fastest()
    shortest = min(period for period, _ in rows)
    assert found.period_ms == close(shortest) and dynamic.shortest_ms == close(shortest)
    assert found.latency_ms == close(min(latency for period, latency in rows if period <= shortest * (1 + WITHIN)))
    cap = middle([latency for _, latency in rows], share) * (1 + WITHIN)
    found = dynamic.fastest(cap)
    shortest = min(period for period, latency in rows if latency <= cap)
    assert found.period_ms == close(shortest) and found.latency_ms <= cap
    assert dynamic.fastest(min(latency for _, latency in rows) * (1 - WITHIN)) is None
    limit = middle([period for period, _ in rows], share) * (1 + WITHIN)
    found = dynamic.least_latency(limit)
    assert found.latency_ms == close(min(latency for period, latency in rows if period <= limit))
    assert found.period_ms <= limit
    assert dynamic.least_latency(shortest_of(rows) * (1 - WITHIN)) is None
    if energy:
        found = dynamic.thriftiest(profile.idle_w)
        least = min(c.prediction.energy_mj for c in choices)
        assert found.busy_mj + profile.idle_w * found.period_ms == close(least)
        found = dynamic.least_busy(limit)
        least = min(at_rate(c, profile.idle_w, limit) for c in choices if c.prediction.period_ms <= limit)
        assert found.busy_mj + profile.idle_w * limit == close(least)
    front = {(round(s.period_ms, 9), round(s.latency_ms, 9)) for s in dynamic.front("latency_ms", [])}
    assert undominated(front) == undominated({(round(period, 9), round(latency, 9)) for period, latency in rows})
    known = [(round(period, 9), round(0.9 * latency, 9)) for period, latency in rows[::5]]
    front = {(round(s.period_ms, 9), round(s.latency_ms, 9)) for s in dynamic.front("latency_ms", known)}
    assert undominated(front | set(known)) == undominated(
        {(round(period, 9), round(latency, 9)) for period, latency in rows} | set(known)
    )
    # an order and cuts that the figures belong to
    plan = Plan.pipeline([dynamic.tables.units[unit] for unit in found.order], found.cuts)
    assert any(choice.plan == plan for choice in choices)


def shortest_of(rows: list[tuple[float, float]]) -> float:
    return min(period for period, _ in rows)


@settings(max_examples=30, **MANY)
@given(profile=profiles(PARTS, 5), objective=st.sampled_from(RANKED), share=st.floats(0, 1))
def test_parts_of_a_component_against_brute_force(profile: Profile, objective: str, share: float):
    """Up to five stages: three cores of big in parts of one and two, or whole, with little and gpu."""
    graph, cores = chain(len(profile.groups)), {"big": 3}
    energy = profile.idle_w is not None
    everything = all_choices(profile, PARTS, cores, most=5)
    choices = [choice for choice in everything if possible(choice)]
    if objective == "energy" and not energy:
        objective = "throughput"
    if not choices:
        assert raised(pipelines, graph, profile, objective, cores=cores).startswith("no plan for chain")
        return
    found = pipelines(graph, profile, objective, cores=cores, top=1000)
    assert sum(found.evaluated.values()) + sum(found.covered.values()) == len(everything)
    value = VALUE[objective]
    best = min(criteria(choice, energy)[value] for choice in choices)
    assert criteria(found.ranked[0], energy)[value] == best
    ranked = [criteria(choice, energy)[value] for choice in found.ranked]
    assert ranked == sorted(ranked)
    listed = {str(choice.plan) for choice in found.ranked}
    assert len(listed) == len(found.ranked)
    assert listed >= {str(choice.plan) for choice in choices if len(choice.plan.units) <= 3} or len(listed) == 1000

    latency = middle([choice.prediction.latency_ms for choice in choices], share)
    capped = pipelines(graph, profile, cores=cores, max_latency_ms=latency).ranked[0].prediction
    within = [c.prediction.period_ms for c in choices if c.prediction.latency_ms <= latency * (1 + WITHIN)]
    assert capped.period_ms == pytest.approx(min(within), rel=WITHIN)
    assert capped.latency_ms <= latency * (1 + WITHIN)

    if energy:
        period = middle([choice.prediction.period_ms for choice in choices], share)
        thrifty = pipelines(graph, profile, "energy", cores=cores, min_fps=1000 / period).ranked[0]
        within = [c for c in choices if c.prediction.period_ms <= period * (1 + WITHIN)]
        least = min(at_rate(c, profile.idle_w, period) for c in within)
        assert at_rate(thrifty, profile.idle_w, period) == pytest.approx(least, rel=WITHIN)
        assert thrifty.prediction.period_ms <= period * (1 + WITHIN)

    front = {criteria(choice, energy) for choice in found.pareto}
    assert front <= {criteria(choice, energy) for choice in choices}
    assert undominated(front) == front
    for one, other in [(0, 1)] + ([(0, 2)] if energy else []):
        pairs = {(values[one], values[other]) for values in front}
        assert undominated(pairs) == undominated(
            {(values[one], values[other]) for values in (criteria(choice, energy) for choice in choices)}
        )


@pytest.mark.parametrize("team", [("bigx1", "bigx1", "bigx1", "little"), ("bigx2", "bigx1", "bigx1", "gpu")])
@pytest.mark.parametrize("seed", range(3))
def test_dynamic_programming_of_equal_units(team, seed):
    profile = random_profile(chain(6), tuple(dict.fromkeys(team)), seed, power=True)
    check_dynamic(profile, team, team_choices(profile, team), 0.3)


def test_configurations_covered_are_counted_by_a_closed_formula():
    """bigx1 twice, bigx2 and gpu on 9 groups: 4! / 2! orders, C(8, 3) cuts; bigx1 four times and gpu: 5 orders."""
    profile = random_profile(chain(9), ("bigx1", "bigx2", "gpu"))
    four = factorial(4) // 2 * comb(8, 3)
    assert pipelines(chain(9), profile, cores={"big": 4}).covered == {
        4: four + comb(8, 3) + 4 * comb(8, 3),  # bigx1 bigx1 bigx2 gpu; bigx1 x 4; bigx1 x 3 and gpu
        5: 5 * comb(8, 4),
    }


def test_leaving_a_weak_unit_out_wins():
    """little takes 50 ms for any group; big and gpu need 10 each for half of the six groups, slowed down by 1.5 and 1.2
    when little runs too: nothing beats big and gpu without it.
    """
    groups = 6
    units = {unit: UnitTimes((ms,) * groups, (0.0,) * groups) for unit, ms in dict(big=3, gpu=3, little=50).items()}
    slow = {"big": {"little": (1.5,) * groups}, "gpu": {"little": (1.2,) * groups}}
    found = pipelines(chain(6), replace(random_profile(chain(6), loaded=False), units=units, contention=slow))
    assert str(found.best) == "big-gpu:3" and found.ranked[0].prediction.period_ms == 9
    assert [str(choice.plan) for choice in found.ranked[:4]] == ["big-gpu:3", "gpu-big:3", "big-gpu:2", "big-gpu:4"]


def test_teams():
    """A component whole or in parts that fit into its cores, alone or with others; never both, never nothing."""
    assert unit_sets(["little", "big"], 9) == [("big",), ("little",), ("big", "little")]
    assert unit_sets(["big", "bigx1", "bigx2"], 9, {"B": 3}) == [
        ("big",),
        ("bigx1",),
        ("bigx2",),
        ("bigx1", "bigx1"),
        ("bigx1", "bigx2"),
        ("bigx1", "bigx1", "bigx1"),
    ]
    precisions = [("big",), ("big@fp32",), ("little",), ("big", "little"), ("big@fp32", "little")]
    assert unit_sets(["big", "big@fp32", "little"], 9) == precisions
    assert ("big@fp32x2", "bigx1") in unit_sets(["bigx1", "big@fp32x2"], 2, {"big": 3})
    assert unit_sets(["bigx1", "bigx2"], 9) == [("bigx1",), ("bigx2",), ("bigx1", "bigx1")]
    assert max(len(team) for team in unit_sets(["bigx1", "little"], 3, {"big": 8})) == 3
    with pytest.raises(ArgumentError, match="expected at most 5000 sets to run at once"):
        unit_sets([f"{name}x{count}" for name in ("big", "little", "mid") for count in range(1, 17)], 9)


def test_units_choose_what_may_be_used():
    profile = random_profile(chain(5), PARTS)
    found = pipelines(chain(5), profile, units=["G", "little", "gpu"])
    assert found.evaluated == {1: 2, 2: 2 * 4}
    assert {unit for choice in found.ranked for unit in choice.plan.units} == {"gpu", "little"}
    assert pipelines(chain(5), profile, units=["Bx1"], cores={"B": 2}).evaluated == {1: 1, 2: 4}
    for units, got in ((["mid"], "mid"), ([], "none")):
        with pytest.raises(ArgumentError, match=f"units: expected some of the profile .*, got {got}"):
            pipelines(chain(5), profile, units=units)


def test_given_power_takes_the_place_of_the_profiles():
    """Energy of big alone: 6 W while it runs. With big and gpu: 2 W idle, and 4 and 1 W more while each is busy."""
    times = {unit: UnitTimes((2.0, 2.0), (0.0, 0.0), (9.0, 9.0)) for unit in ("big", "gpu", "bigx1")}
    profile = replace(random_profile(chain(2), loaded=False, power=True), units=times)
    power = {"idle": 2.0, "B": 6.0, "gpu": 3.0}
    found = pipelines(chain(2), profile, "energy", power=power, top=20)
    energies = {str(choice.plan): choice.prediction.energy_mj for choice in found.ranked}
    assert energies["big"] == energies["bigx1"] == pytest.approx(4 * 6)
    assert energies["gpu"] == pytest.approx(4 * 3)
    assert energies["big-gpu:1"] == pytest.approx(2 * 2 + 2 * 4 + 2 * 1)
    with pytest.raises(ArgumentError, match="'energy': expected a profile with power, this one has none of unit 'gpu'"):
        pipelines(chain(2), profile, "energy", power={"idle": 2.0, "big": 6.0})
    with pytest.raises(ArgumentError, match="expected a profile with power, this one has none of the idle board"):
        pipelines(chain(2), profile, "energy", power={"big": 2.0, "gpu": 6.0})
    with pytest.raises(ArgumentError, match="power of gpu: expected a finite number of at least 0, got -1"):
        pipelines(chain(2), profile, "energy", power={"gpu": -1})


def test_least_energy_at_a_rate_differs_from_that_at_full_speed():
    """Idle 10 W. big: 10 ms at 12 W, 120 mJ; little: 20 ms at 10.5 W, 210 mJ. At 50 FPS big waits for another 10 ms:
    220 mJ.
    """
    units = {"big": UnitTimes((10.0,), (0.0,), (12.0,)), "little": UnitTimes((20.0,), (0.0,), (10.5,))}
    profile = replace(random_profile(chain(1), loaded=False), units=units, idle_w=10.0)
    assert str(pipelines(chain(1), profile, "energy").best) == "big"
    assert str(pipelines(chain(1), profile, "energy", min_fps=50).best) == "little"
    assert str(pipelines(chain(1), profile, "energy", min_fps=51).best) == "big"


def test_opencl_devices_are_never_next_to_each_other():
    """Of the four orders of two units and the six of three, four have a gpu next to another."""
    units = ("big", "gpu", "gpu1")
    profile = random_profile(chain(4), units)
    found = pipelines(chain(4), profile, top=100)
    plans = [choice.plan.units for choice in found.ranked]
    assert len(plans) == 3 + 4 * 3 + 2 * 3 and {("gpu", "big", "gpu1"), ("gpu1", "big", "gpu")} <= set(plans)
    beside = {("gpu", "gpu1"), ("gpu1", "gpu")}
    assert not any(beside & set(zip(order, order[1:], strict=False)) for order in plans)
    four = random_profile(chain(6), ("big", "little", "gpu", "gpu1"))
    order = pipelines(chain(6), four).best.units
    assert not beside & set(zip(order, order[1:], strict=False))
    check_dynamic(four, ("big", "little", "gpu", "gpu1"), team_choices(four, ("big", "little", "gpu", "gpu1")), 0.5)


def test_a_group_without_a_unit_is_named():
    profile = random_profile(chain(3))
    units = {
        unit: UnitTimes((1.0, INF, INF), (0.0,) * 3, refused={2: f"{unit} has no memory"}) for unit in ("big", "gpu")
    }
    with pytest.raises(
        ArgumentError,
        match=r"no plan for chain3: expected a unit for group 2 conv1 \(and 1 more\), "
        "got big: big has no memory; gpu: gpu has no memory",
    ):
        pipelines(chain(3), replace(profile, units=units))
    units = {
        "big": UnitTimes((1.0, INF, 1.0), (0.0,) * 3),
        "gpu": UnitTimes((INF, 1.0, INF), (0.0,) * 3),
    }
    with pytest.raises(ArgumentError, match="can each run consecutive groups; big not groups 2; gpu not groups 1, 3"):
        pipelines(chain(3), replace(profile, units=units))


@pytest.mark.parametrize("units", [THREE, ("bigx1", "bigx2", "little", "gpu")])
def test_limits_out_of_reach_say_what_is_within(units):
    profile, options = random_profile(chain(8), units), {"cores": {"big": 3}}
    least = min(choice.prediction.latency_ms for choice in pipelines(chain(8), profile, **options).pareto)
    most = pipelines(chain(8), profile, **options).ranked[0].prediction.fps
    with pytest.raises(ArgumentError, match=f"max_latency_ms: expected at least {least:.3f}, .* got 0.5"):
        pipelines(chain(8), profile, max_latency_ms=0.5, **options)
    with pytest.raises(ArgumentError, match=f"min_fps: expected at most {most:.3f}, .* got 100000.0"):
        pipelines(chain(8), profile, "latency", min_fps=1e5, **options)
    # what is named is within reach
    assert pipelines(chain(8), profile, max_latency_ms=least, **options).ranked[0].prediction.latency_ms == least
    assert pipelines(chain(8), profile, "latency", min_fps=most, **options).ranked[0].prediction.fps >= most


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(objective="speed"), "objective: expected one of throughput, latency, energy, got 'speed'"),
        (dict(min_fps=3), "min_fps: expected none with objective 'throughput', got 3"),
        (dict(objective="latency", max_latency_ms=3), "max_latency_ms: expected none with objective 'latency', got 3"),
        (dict(max_latency_ms=-1.0), "max_latency_ms: expected a number above 0, got -1.0"),
        (dict(max_latency_ms=float("nan")), "max_latency_ms: expected a number above 0, got nan"),
        (dict(max_latency_ms="5"), "max_latency_ms: expected a number above 0, got '5'"),
        (dict(top=0), "top: expected a whole number of at least 1, got 0"),
        (dict(top=1.5), "top: expected a whole number of at least 1, got 1.5"),
        (dict(top="3"), "top: expected a whole number of at least 1, got '3'"),
        (dict(power={"idle": "x"}), "power of idle: expected a finite number of at least 0, got 'x'"),
        (dict(cores={"big": -1}), "cores of big: expected a whole number of at least 1, got -1"),
        (dict(units=["tpu"]), "expected big, mid, little, gpu, npu or cpu"),
        (dict(cores={"tpu": 1}), "expected big, mid, little, gpu, npu or cpu"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        pipelines(chain(4), random_profile(chain(4)), **arguments)


def test_a_profile_of_another_network_is_refused():
    with pytest.raises(ArgumentError, match="profile of chain4 with 4 groups: expected one of chain5 with 5 groups"):
        pipelines(chain(5), random_profile(chain(4)))


def test_a_network_of_one_group_runs_on_one_unit():
    found = pipelines(chain(1), random_profile(chain(1)))
    assert found.evaluated == {1: 3} and len(found.ranked) == 3


def test_the_same_search_finds_the_same():
    profile = random_profile(chain(8), PARTS, power=True, ties=True)
    assert pipelines(chain(8), profile) == pipelines(chain(8), profile)
