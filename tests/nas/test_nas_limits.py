"""Limits that are known before a training: a search trains what keeps them, and nothing else."""

import numpy as np
import pytest
from nas_landscapes import BitSpace, HashEvaluate, Landscape, TableEvaluate

from pipeall.nas.placement import Limits, Target, place
from pipeall.nas.search.archive import Archive
from pipeall.nas.search.evolve import SCREENED, Settings, first_candidates, search
from pipeall.nas.search.operators import DRAWS, allowed
from pipeall.nas.spaces.genome import Candidate
from pipeall.nas.spaces.mobile_space import MobileSpace
from pipeall.nas.training.evaluation import Training
from pipeall.nas.training.weighted_network import create, to_graph

LEVELS = (1, 1, 1, 1, 1)
HYPER = [LEVELS] * 10


def few(candidate):
    """At most three ones in ten bits: 176 networks of 1024."""
    return sum(candidate.bits) <= 3


@pytest.mark.parametrize(
    "options",
    [{}, {"guided": 0}, {"selection": "pareto"}, {"sever": 0.8, "guided": 0}],
    ids=lambda options: str(options),
)
@pytest.mark.parametrize("seed", [0, 3, 5])
def test_all_phases_evaluate_only_what_is_allowed(options, seed):
    """And find the best of it, by brute force; without limits it is another network."""
    table = Landscape(10, 2, seed).table()
    archive = Archive(BitSpace(10), TableEvaluate(table), seed, budget=150, limits=few)
    settings = Settings(evolve_hyper=False, mutation_rate=0.1, crossover_rate=0.5, **options)
    phases = {generation.phase for generation in search(archive, settings, HYPER)}
    assert all(few(member.candidate) for member in archive.members) and len(archive.members) > 50
    numbers = [number for number in range(1024) if number.bit_count() <= 3]
    least = table[numbers].min()
    assert archive.best.score.fitness == least > table.min()
    expected = {"evolution", "guided", "competition", "flips"} - ({"guided"} if options.get("guided") == 0 else set())
    assert phases == ({"evolution"} if "selection" in options else expected)


def test_known_networks_beyond_the_limits_are_left_out():
    known = [(1,) * 10, (1,) + (0,) * 9, (1,) * 4 + (0,) * 6, (0,) * 10]
    first = first_candidates(BitSpace(10), 10, np.random.default_rng(0), HYPER, None, known, few)
    assert [candidate.bits for candidate in first[:2]] == [known[1], known[3]]
    assert len(first) == 10 and all(map(few, first))
    drawn = []
    first_candidates(BitSpace(10), 10, np.random.default_rng(0), HYPER, lambda c: drawn.append(c) or 0.0, (), few)
    assert len(drawn) == SCREENED * 10 and all(map(few, drawn))


def test_draws_end():
    asked = []
    found = allowed(lambda: Candidate((0,) * (1 + len(asked))), lambda candidate: asked.append(candidate))
    assert len(asked) == DRAWS and found is asked[-1]
    assert allowed(lambda: Candidate((1,)), lambda candidate: True) == Candidate((1,))


def test_a_search_that_is_allowed_nothing_ends_after_its_first_networks():
    archive = Archive(BitSpace(10), HashEvaluate(), limits=lambda candidate: False)
    (generation,) = search(archive, Settings(), HYPER)
    assert len(generation.members) == 10 and len(archive.members) <= 10


def test_the_limits_of_a_network_that_is_not_trained(tmp_path):
    """As its placement says; asked once for networks that are trained alike."""
    space, target = MobileSpace(side=28, widths=(4, 8, 12, 16)), Target("rpi5", limits=Limits(min_fps=4000))
    training = Training(space, "digits", str(tmp_path), target=target)
    random, found = np.random.default_rng(0), []
    for _ in range(12):
        candidate = Candidate(space.random(random), LEVELS)
        graph = to_graph(create(space.decode(candidate.bits), training.load(), 1), training.load())
        found.append(place(graph, target).worst[0] >= 4000)
        assert training.allows(candidate) == found[-1]
    assert {True, False} == set(found)
    assert Training(space, "digits", str(tmp_path), target=Target("rpi5")).allows(candidate)
    asked = []
    archive = Archive(BitSpace(3), HashEvaluate(), limits=lambda candidate: asked.append(candidate) or True)
    assert archive.allows(Candidate((1, 0, 1), LEVELS)) and archive.allows(Candidate((1, 0, 1), (1, 1, 1, 0, 0)))
    assert len(asked) == 1
