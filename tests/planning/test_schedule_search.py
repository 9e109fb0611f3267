"""Joint plans of several networks against every choice of a plan for each, by SciPy, and what simulations say."""

from itertools import groupby, pairwise, product
from math import prod

import numpy as np
import pytest
from plans_reference import INF, chain, may_run, random_profile
from profiles import made_up, profile_of
from scipy.optimize import linprog

from pipeall import ArgumentError, Demand, Plan, schedule_search, simulate_schedule
from pipeall.pipeline.planning.profile import HOST, Profile
from pipeall.pipeline.planning.schedule_division import MARGIN, Division, Networks
from pipeall.pipeline.planning.units import Unit

EXACT = 1e-7
STAGES = 4

# ---- what is independent: every assignment of groups to units, and a linear program of SciPy


def every_load(profile: Profile, units: tuple[str, ...], least: bool = False) -> dict[tuple[str, ...], np.ndarray]:
    """Assignment of groups to units -> what a frame takes of each of them, all the others running: those of the same
    lane, and those of other networks. ``least``: of two ways to count contention the less."""
    found = {}
    for path in product(units, repeat=len(profile.groups)):
        if sum(1 for _ in groupby(path)) > STAGES or not may_run(profile, path):
            continue
        load = dict.fromkeys(units, 0.0)
        for group, unit in enumerate(path):
            slow = [
                min(profile.slowdown(unit, other, same_pipeline=same)[group] for same in ways(path, other, least))
                for other in units
                if other != unit
            ]
            load[unit] += profile.units[unit].ms[group] * prod(slow)
        for border, (one, other) in enumerate(pairwise((HOST, *path, HOST))):
            if one != other:
                send, receive = profile.handover(one, other)
                load |= {one: load[one] + send[border]} if one != HOST else {}
                load |= {other: load[other] + receive[border]} if other != HOST else {}
        if all(np.isfinite(list(load.values()))):
            found[path] = np.array(list(load.values()))
    return found


def ways(path: tuple[str, ...], other: str, least: bool) -> tuple[bool, ...]:
    return (True, False) if least else (other in path,)


def level(loads: list[np.ndarray], weights: list[float], fixed: list[bool]) -> float:
    """The highest level; minus infinity where there is no time for the fixed rates. loads: (paths, units) of each."""
    columns = np.vstack(loads).T
    owner = np.repeat(np.arange(len(loads)), [len(rows) for rows in loads])
    equal = np.zeros((len(loads), 1 + len(owner)))
    equal[owner, 1 + np.arange(len(owner))] = 1.0
    equal[:, 0] = [0.0 if one else -weight for one, weight in zip(fixed, weights, strict=True)]
    needed = [weight if one else 0.0 for one, weight in zip(fixed, weights, strict=True)]
    busy = np.hstack([np.zeros((len(columns), 1)), columns])
    objective = -np.eye(1, 1 + len(owner))[0]
    solved = linprog(objective, busy, np.ones(len(columns)), equal, needed)
    return -solved.fun if solved.status == 0 else -INF


CASES = [  # units, groups of each network, whether the first has a rate
    (("big", "gpu"), (4, 3), False),
    (("big", "gpu"), (3, 4), True),
    (("big", "little", "gpu"), (3, 3), False),
    (("big", "little", "gpu"), (4, 2), True),
    (("big", "gpu"), (3, 2, 2), False),
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("units", "groups", "given"), CASES)
def test_against_every_choice(units, groups, given, seed):
    """The bound is that of every mixture of paths, and the best choice is the best of all. Some groups of every third
    network cannot run on some unit."""
    profiles = [
        random_profile(
            chain(count), units, 10 * seed + number, infinite=0.1 * ((seed + number) % 3 == 0), ahead=seed % 2
        )
        for number, count in enumerate(groups)
    ]
    every = [every_load(profile, units) for profile in profiles]
    rates = [1 / min(load.max() for load in loads.values()) for loads in every]
    fixed = [given and number == 0 for number in range(len(groups))]
    weights = [0.3 * rate if one else rate for rate, one in zip(rates, fixed, strict=True)]
    count = len(groups)
    networks = Networks(tuple(profiles), tuple(weights), tuple(fixed), (INF,) * count, (0,) * count)
    division = Division(networks, tuple(map(Unit.parse, units)), STAGES)

    lightest = [every_load(profile, units, least=True) for profile in profiles]
    bound = level([np.array(list(loads.values())) for loads in lightest], weights, fixed)
    assert division.bound.level == pytest.approx(bound, rel=EXACT)
    with_margin = [weight * (1 + MARGIN * one) for weight, one in zip(weights, fixed, strict=True)]
    best = max(
        level([load[None] for load in row], with_margin, fixed)
        for row in product(*(_not_worse(list(loads.values())) for loads in every))
    )
    found = division.best(1, -INF)
    assert division.exact
    assert max(choice.level for choice in found) == pytest.approx(best, rel=EXACT)
    assert best <= bound * (1 + EXACT)
    assert all(division.refined(choice).level <= bound * (1 + EXACT) for choice in found)


def _not_worse(loads: list[np.ndarray]) -> list[np.ndarray]:
    """Those that take less of some unit than any other."""
    return [one for one in loads if not any((other <= one).all() and (other < one).any() for other in loads)]


def test_prices_prove_what_is_not_possible():
    """Two networks of 10 ms on one unit, at 60 frames a second each."""
    profile = made_up({"big": [10.0]})
    networks = Networks((profile,) * 2, (0.06,) * 2, (True, False), (INF,) * 2, (0, 0))
    division = Division(networks, (Unit.parse("big"),), 1)
    assert division.bound.level == pytest.approx((1 - 0.6) / 0.6)
    networks = Networks((profile,) * 2, (0.06,) * 2, (True, True), (INF,) * 2, (0, 0))
    assert Division(networks, (Unit.parse("big"),), 1).bound.level == -INF


# ---- the search


def two(seed: int = 3) -> tuple[dict, dict]:
    graphs = {"a": chain(4), "b": chain(3)}
    return graphs, {
        name: random_profile(graph, ("big", "gpu"), seed + index) for index, (name, graph) in enumerate(graphs.items())
    }


@pytest.mark.parametrize("seed", [3, 11])
def test_what_is_found_is_what_the_simulation_does(seed):
    graphs, profiles = two(seed)
    found = schedule_search(graphs, profiles)
    assert found.exact
    assert 0 < found.level <= found.bound * (1 + EXACT)
    assert found.gap == pytest.approx(1 - found.level / found.bound)
    again = schedule_search(graphs, profiles)
    assert (again.plan, again.rates) == (found.plan, found.rates)
    assert all(rate <= found.level * found.alone[name] * (1 + EXACT) for name, rate in found.plan.rates.items())
    longer = simulate_schedule(profiles, found.plan, 4 * found.simulated.seconds, seed=1)
    for name, one in longer.networks.items():
        assert one.fps == pytest.approx(found.rates[name], rel=0.05)
        assert one.fps >= 0.95 * found.plan.rates[name]


def test_equal_units_may_have_copies():
    """A network that four threads do not help has a lane on each core."""
    graph = chain(4)
    profile = profile_of(graph, {"big": [5.0] * 4, "bigx1": [5.5] * 4})
    found = schedule_search({"a": graph, "b": graph}, {"a": profile, "b": profile}, cores={"big": 4})
    assert {str(plan) for plan in found.plan.plans.values()} == {"4*bigx1"}
    assert found.gain == pytest.approx(1.0, abs=0.03)


def test_rates_and_limits_are_kept():
    graphs, profiles = two()
    alone = schedule_search(graphs, profiles).alone
    demands = {"a": Demand(0.3 * alone["a"], priority=2, max_latency_ms=60.0), "b": Demand()}
    found = schedule_search(graphs, profiles, demands)
    assert found.rates["a"] >= 0.98 * demands["a"].fps
    assert found.latencies_ms["a"] <= 60.0
    assert found.rates["b"] > 0.3 * alone["b"]
    assert found.plan.demands == demands
    assert found.bound >= found.level


def test_where_all_have_rates_the_units_have_time_left():
    graphs, profiles = two()
    alone = schedule_search(graphs, profiles).alone
    demands = {name: Demand(0.3 * fps) for name, fps in alone.items()}
    found = schedule_search(graphs, profiles, demands)
    assert found.level > 1.3
    assert found.rates == pytest.approx({name: demand.fps for name, demand in demands.items()}, rel=0.03)
    assert max(found.simulated.use.values()) < 1 / 1.3


@pytest.mark.parametrize(
    ("demands", "told"),
    [
        ({"a": Demand(1e5), "b": Demand(2e5)}, r"most [\d.]+ of a and [\d.]+ of b together, got 100000, 200000"),
        ({"a": Demand(1e5), "b": Demand()}, r"fps: expected at most [\d.]+ of a, got 100000"),
        ({"a": Demand(5.0, max_latency_ms=0.01)}, r"max_latency_ms: expected at least [\d.]+ of a, .* got 0.01"),
        ({"c": Demand()}, "demands: expected those of a, b, got a, b, c"),
    ],
)
def test_what_cannot_be_is_told_with_what_can(demands, told):
    graphs, profiles = two()
    with pytest.raises(ArgumentError, match=told):
        schedule_search(graphs, profiles, demands)


def test_what_is_possible_is_possible():
    """A little less than the rates that an error names."""
    graphs, profiles = two()
    with pytest.raises(ArgumentError) as error:
        schedule_search(graphs, profiles, {"a": Demand(1e5), "b": Demand(1e5)})
    most = float(str(error.value).split()[4])
    found = schedule_search(graphs, profiles, {"a": Demand(0.9 * most), "b": Demand(0.9 * most)})
    assert found.level >= 1
    with pytest.raises(
        ArgumentError, match=r"no plan was found near the bound of [\d.]+ of a and [\d.]+ of b together"
    ):
        schedule_search(graphs, profiles, {"a": Demand(0.997 * most), "b": Demand(0.997 * most)})


def test_a_rare_frame_takes_no_long_simulation():
    graphs, profiles = two()
    found = schedule_search(graphs, profiles, {"a": Demand(0.01)})
    assert sum(one.frames for one in found.simulated.networks.values()) < 10_000


def test_a_unit_that_a_profile_lacks_is_told():
    graphs, profiles = two()
    with pytest.raises(ArgumentError, match="units: expected some of the profile of a .*, got little"):
        schedule_search(graphs, profiles, units=["little"])
    with pytest.raises(ArgumentError, match="graphs: expected at least one network"):
        schedule_search({}, {})
    lone = {"a": profile_of(graphs["a"], {"little": [1.0] * 4}), "b": profiles["b"]}
    with pytest.raises(ArgumentError, match="profiles: expected some unit that all have"):
        schedule_search(graphs, lone)


def test_one_network_is_as_fast_as_its_best_pipeline():
    graphs, profiles = two()
    found = schedule_search({"a": graphs["a"]}, {"a": profiles["a"]})
    assert found.level >= 0.9
    assert isinstance(found.plan.plans["a"], Plan)
