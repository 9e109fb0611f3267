"""Random profiles of small networks, and every configuration of a profile in plain Python, for tests of planning."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations, groupby, permutations, product

import numpy as np
from graphs import Net
from hypothesis import strategies as st

from pipeall.errors import ArgumentError
from pipeall.graph.ir import Graph
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.plan_table import PredictedPlan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import HOST, Link, Profile, UnitTimes, crossing_bytes
from pipeall.pipeline.planning.ranges import Ranges
from pipeall.pipeline.planning.units import Unit

THREE = ("big", "little", "gpu")
INF = float("inf")


def may_be(profile: Profile, unit: str, first: int, last: int) -> bool:
    """Whether a unit may have a stage of groups [first, last)."""
    ranges = profile.units[unit].ranges
    return ranges is None or (first, last) in ranges.groups


def may_run(profile: Profile, path: tuple[str, ...]) -> bool:
    """The same of all stages of a path, the unit of every group."""
    places, group = [], 0
    for unit, groups in groupby(path):
        count = len(list(groups))
        places.append((unit, group, group + count))
        group += count
    return all(may_be(profile, *place) for place in places)


@cache
def chain(groups: int) -> Graph:
    """A network of so many groups, with tensors of different sizes between them."""
    net = Net((1, 3, 2, 2))
    x = "x0"
    for i in range(groups):
        x = net.conv(x, 1 + (7 * i) % 5)
    return net.graph(x, name=f"chain{groups}")


def random_profile(
    graph: Graph,
    units: tuple[str, ...] = THREE,
    seed: int = 0,
    infinite: float = 0.0,
    power: bool = False,
    ties: bool = False,
    loaded: bool = True,
    ahead: bool = False,
) -> Profile:
    """Times up to 10 ms; few different ones with ``ties``. ``infinite`` is the share of groups that cannot run;
    ``loaded``: units slow each other down and handing over costs something; ``ahead``: the last unit has some ranges of
    groups only.
    """
    random, groups = np.random.default_rng(seed), len(graph.groups)

    def values(low: float, high: float, count: int = groups) -> tuple[float, ...]:
        steps = random.integers(1, 3, count) * 100 if ties else random.integers(1, 1000, count)
        return tuple((low + (high - low) * steps / 1000).round(6).tolist())

    def times() -> UnitTimes:
        refused = {i + 1: "no" for i in range(groups) if random.random() < infinite}
        ms = tuple(INF if i in refused else value for i, value in enumerate(values(0, 10), 1))
        return UnitTimes(ms, (0.0,) * groups, values(1, 8) if power else None, refused)

    def link() -> Link:
        return Link((16, 80), values(0, 0.5, 2), values(0, 2, 2), (0.0, 0.0))

    known = {unit: times() for unit in units}
    if ahead:
        every = [*combinations(range(groups + 1), 2)]
        files = [every[i] for i in np.random.default_rng(seed).choice(len(every), min(5, len(every)), replace=False)]
        known[units[-1]] = replace(known[units[-1]], ranges=Ranges.of(files, "slices"))
    components = sorted({Unit.parse(unit).whole for unit in units})
    pairs = list(permutations(components, 2)) if loaded else []
    contention = {a: {b: values(1, 1.6) for b in components} for a in components if loaded}
    ends = [*pairs, *((HOST, c) for c in components), *((c, HOST) for c in components)] if loaded else []
    return Profile(
        network=graph.name,
        groups=tuple(group.name for group in graph.groups),
        crossing_bytes=crossing_bytes(graph),
        units=known,
        contention=contention,
        links={pair: link() for pair in ends if random.random() < 0.8},
        same_pipeline={a: {b: values(1, 1.6) for b in components} for a in components[1:] if loaded},
        idle_w=2.5 if power else None,
    )


@st.composite
def profiles(draw, units: tuple[str, ...] = THREE, most_groups: int = 8) -> Profile:
    """Of 3 to ``most_groups`` groups, with and without ties, refusals, power, contention and links."""
    return random_profile(
        chain(draw(st.integers(3, most_groups))),
        units,
        seed=draw(st.integers(0, 2**32 - 1)),
        infinite=draw(st.sampled_from([0.0, 0.1, 0.4])),
        power=draw(st.booleans()),
        ties=draw(st.booleans()),
        loaded=draw(st.booleans()),
    )


def orders(units: tuple[str, ...], cores: Mapping[str, int], most: int) -> Iterator[tuple[str, ...]]:
    """Every sequence of units that can run at once."""
    for order in (order for stages in range(1, most + 1) for order in product(units, repeat=stages)):
        parts = [(unit.whole, unit.cores) for unit in map(Unit.parse, order)]
        alone = all(sum(other == name for other, _ in parts) == 1 for name, count in parts if count is None)
        used = {name: sum(count or 0 for other, count in parts if other == name) for name, _ in parts}
        if alone and all(used[name] <= cores.get(name, 0) for name in used if used[name]):
            yield order


def all_choices(
    profile: Profile, units: tuple[str, ...] = THREE, cores: Mapping[str, int] | None = None, most: int = 3
) -> list[PredictedPlan]:
    """Every pipeline with its prediction, the impossible ones included."""
    inside = range(1, len(profile.groups))
    return [
        PredictedPlan(plan, predict(profile, plan))
        for order in orders(units, cores or {}, most)
        for cuts in combinations(inside, len(order) - 1)
        for plan in [Plan.pipeline(order, cuts)]
    ]


def team_choices(profile: Profile, team: tuple[str, ...]) -> list[PredictedPlan]:
    """Every possible pipeline of all these units."""
    inside = range(1, len(profile.groups))
    plans = [
        Plan.pipeline(order, cuts)
        for order in sorted(set(permutations(team)))
        for cuts in combinations(inside, len(team) - 1)
    ]
    return [choice for choice in (PredictedPlan(plan, predict(profile, plan)) for plan in plans) if possible(choice)]


def possible(choice: PredictedPlan) -> bool:
    return choice.prediction.period_ms < INF


def criteria(choice: PredictedPlan, energy: bool) -> tuple[float, ...]:
    """Period, latency, and energy; what differs by less than a picosecond or picojoule is equal."""
    prediction = choice.prediction
    values = (prediction.period_ms, prediction.latency_ms, *([prediction.energy_mj] if energy else []))
    return tuple(round(value, 9) for value in values)


def undominated(values: set[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """By definition: no other is as good in everything."""
    rows = np.array(sorted(values))
    return {tuple(row) for row in rows.tolist() if not ((rows <= row).all(axis=1) & (rows < row).any(axis=1)).any()}


def raised(call, *arguments, **options) -> str | None:
    """The message of the ArgumentError, or None."""
    try:
        call(*arguments, **options)
    except ArgumentError as error:
        return str(error)
    return None
