"""Plans within a limit of memory, by a function that says what each takes."""

import pytest
from plans_reference import all_choices, chain, possible, raised, random_profile

from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.search import search


def taken(plan: Plan) -> float:
    """Bytes: of big and of more stages more."""
    return 1e6 * sum({"big": 5, "little": 2, "gpu": 3}[unit] for unit in plan.units)


@pytest.mark.parametrize("objective", ["throughput", "energy"])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_pipeline_within_the_limit(seed, objective):
    graph, profile = chain(6), random_profile(chain(6), seed=seed, power=True)
    for most in (2, 5, 7, 8):
        found = search(graph, profile, objective, max_memory_mb=most, memory=taken, plans="pipelines")
        within = [one for one in all_choices(profile) if possible(one) and taken(one.plan) <= most * 1e6]
        value = {"throughput": "period_ms", "energy": "energy_mj"}[objective]
        assert getattr(found.ranked[0].prediction, value) == pytest.approx(
            min(getattr(one.prediction, value) for one in within)
        )
        assert all(one.memory_mb == taken(one.plan) / 1e6 <= most for one in found.ranked)
        assert found.ranked[0].to_dict()["memory_mb"] == found.ranked[0].memory_mb


@pytest.mark.parametrize("seed", range(3))
def test_plans_of_any_kind_keep_the_limit(seed):
    graph, profile = chain(6), random_profile(chain(6), seed=seed)
    asked = []
    found = search(graph, profile, max_memory_mb=7, memory=lambda plan: asked.append(plan) or taken(plan))
    assert found.ranked and all(one.memory_mb <= 7 for one in found.ranked) and found.parallel is None
    assert found.simpler is None or taken(found.simpler.plan) <= 7e6
    assert len(asked) == len(set(asked)), "no plan is asked for twice"
    free = search(graph, profile, memory=taken)
    assert [one.plan for one in free.ranked] == [one.plan for one in search(graph, profile).ranked]
    assert free.ranked[0].memory_mb == taken(free.best) / 1e6
    soon = search(graph, profile, "latency", max_memory_mb=3, memory=taken)
    assert all(len(one.plan.units) == 1 for one in soon.ranked)


def test_a_limit_that_nothing_keeps_is_told():
    graph, profile = chain(6), random_profile(chain(6))
    words = "max_memory_mb: expected at least 2.0, the least of "
    assert raised(search, graph, profile, max_memory_mb=1, memory=taken).startswith(words)
    assert "expected memory beside it" in raised(search, graph, profile, max_memory_mb=1)
