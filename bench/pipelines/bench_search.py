"""Searching MobileNet's plans: 2,106 three-stage configurations, the default search, one with parts of clusters.

    pytest bench/pipelines/bench_search.py --benchmark-only

The times are made up, from multiply-adds: how long a search takes does not depend on them. ``configurations`` in
extra_info says among how many the search found the best. The bound for the first two is 50 ms.
"""

from itertools import combinations, permutations

import numpy as np
import pytest

from bench.common import network
from pipeall import Profile, search
from pipeall.graph.ops import macs
from pipeall.pipeline.planning.profile import HOST, Link, UnitTimes, crossing_bytes
from pipeall.pipeline.planning.stage_tables import StageTables, handovers

WHOLE = {"big": 18.0, "little": 5.0, "gpu": 15.0}  # GMAC/s
PARTS = {
    f"{name}x{n}": WHOLE[name] * n / cores for name, cores in (("big", 4), ("little", 2)) for n in range(1, cores + 1)
}


def made_up(graph, rates: dict[str, float]) -> Profile:
    work = np.array([sum(macs(node, graph) for node in group.nodes) for group in graph.groups], float)
    units = {unit: UnitTimes(tuple(work / rate / 1e6 + 0.1), (0.0,) * len(work)) for unit, rate in rates.items()}
    slower = {unit: {other: (1.1,) * len(work) for other in WHOLE} for unit in WHOLE}
    link = Link((0, 1 << 20), (0.1, 0.5), (0.1, 0.6), (0.05, 0.05))
    links = {(one, other): link for one in (*WHOLE, HOST) for other in (*WHOLE, HOST)}
    names = tuple(group.name for group in graph.groups)
    return Profile(graph.name, names, crossing_bytes(graph), units, slower, links)


@pytest.fixture(scope="module")
def graph():
    return network("mobilenet")


def bench_three_stages(benchmark, graph):
    profile = made_up(graph, WHOLE)

    def evaluate() -> int:
        tables = StageTables(profile, tuple(WHOLE), handovers(profile, WHOLE))
        cuts = np.array(list(combinations(range(1, tables.groups), 2)))
        return sum(len(tables.evaluate(order, cuts).period_ms) for order in permutations(range(3)))

    assert benchmark(evaluate) == 2106
    benchmark.extra_info["configurations"] = 2106


@pytest.mark.parametrize("rates", [WHOLE, WHOLE | PARTS], ids=["whole", "parts"])
def bench_search(rates, benchmark, graph):
    profile = made_up(graph, rates)
    found = benchmark(search, graph, profile, plans="pipelines")
    benchmark.extra_info["configurations"] = sum(found.evaluated.values()) + sum(found.covered.values())
