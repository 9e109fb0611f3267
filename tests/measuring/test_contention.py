"""Contention: units of a profile beside each other, as lanes and as stages, and what each causes of it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from graphs import frames, small_net
from hypothesis import given
from hypothesis import strategies as st
from plans_reference import chain

from pipeall import Board, Pipeline
from pipeall.pipeline.boards.default_units import cores_of
from pipeall.pipeline.measuring import links, profiler
from pipeall.pipeline.measuring.profiler import profile
from pipeall.pipeline.planning.profile import Profile, UnitTimes
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.units import Unit, unit_sets

SECONDS = 0.01  # each part: no test here looks at how long something took


@pytest.fixture(autouse=True)
def short_links(monkeypatch):
    monkeypatch.setattr(links, "SIZES", (4096, 16384))
    monkeypatch.setattr(links, "FRAMES", 4)


@pytest.fixture
def one_cluster(board):
    """A board of one component, with two cores."""
    cores = [board.component(name).device.cluster.cores[0] for name in ("big", "little")]
    return Board.detect(clusters=[cores], gpu=False)


def test_cores_of_one_component_are_measured_beside_each_other(one_cluster):
    graph, texts = small_net(), []
    units = ["bigx1", "Bx2", "big", "B"]
    found = profile(graph, one_cluster, units, seconds=SECONDS, progress=lambda text, *_: texts.append(text))
    assert list(found.units) == ["bigx1", "bigx2", "big"]
    assert texts == ["bigx1 alone", "bigx2 alone", "big alone", "bigx1 beside bigx1"]
    assert {unit: list(row) for unit, row in found.contention.items()} == {"bigx1": ["bigx1"]}
    assert found.slowdown("bigx1", "bigx1").tolist() == list(found.contention["bigx1"]["bigx1"])


def test_the_pairs_are_the_teams_of_two_that_search_allows(board):
    cluster = replace(board.component("big").device.cluster, cores=(0, 1, 2, 3))
    four = Board([cluster, board.component("little").device.cluster], gpu=False)
    units = ["bigx1", "bigx2", "bigx3", "big", "little"]
    graph = small_net()
    nothing = Profile(graph.name, (), (), {})
    texts = [text for text, _ in profiler.missing_parts(graph, four, list(map(Unit.parse, units)), nothing)]
    pairs = {tuple(sorted(text.split(" beside "))) for text in texts if " beside " in text}
    expected = {tuple(sorted(team)) for team in unit_sets(units, 2, {"big": 4, "little": 1}) if len(team) == 2}
    assert pairs == expected and ("bigx2", "bigx2") in pairs and ("bigx3", "bigx3") not in pairs
    assert len(set(texts)) == len(texts)


def test_contention_is_side_by_side_over_alone(board, one_cluster, monkeypatch):
    """As lanes of whole networks, and as stages: a group that floats is timed by the frames in which a stage had it."""
    graph = chain(3)
    times = {"big": (2.0, 5.0, 0.0), "little": (10.0, 10.0, 5.0), "bigx1": (2.0, 5.0, 0.0)}
    known = Profile(graph.name, (), (), {unit: UnitTimes(ms, (0.0,) * 3) for unit, ms in times.items()})
    big, little = np.array([[2.0, 5, 0]]), np.array([[10.0, 10, 5]])
    loaded = [np.array([[3.0, 4, 0], [3, 4, 0], [90, 90, 0]]), np.array([[10.0, 30, 5], [10, 30, 5]])]
    rows = {
        "big": [big],
        "bigx1": [big],
        "little": [little],
        "big+little": loaded,
        "2*bigx1": loaded,
        "big-little:1~2": [np.array([[4.0, 6, 0], [4, 5, 0], [4, 7, 0]]), np.array([[0.0, 0, 10], [0, 0, 10]])],
        "little-big:1": [np.array([[30.0, 0, 0]] * 3), np.array([[0.0, 20, 0], [0, 7, 0]])],
        "bigx1-bigx1:1~2": [np.array([[4.0, 0, 0], [4, 10, 0]]), np.array([[0.0, 8, 0], [0, 0, 0], [0, 9, 0]])],
    }
    asked = []

    def traced(graph, plans, board, seconds):
        asked.append([str(plan) for plan in plans])
        return [rows[text] for text in asked[-1]]

    monkeypatch.setattr(profiler, "traced_rows", traced)
    found = profiler.with_contention(graph, board, known, Unit("big"), Unit("little"), SECONDS)
    assert asked == [["big", "little", "big+little"], ["big", "little", "big-little:1~2", "little-big:1"]]
    assert found.contention == {"big": {"little": (1.5, 1.0, 1.0)}, "little": {"big": (1.0, 3.0, 1.0)}}
    # big's middle group: 6, 5, 7, 20 and 7 ms; little's took no time in its stages, so 3.0 as lanes
    assert found.same_pipeline == {"big": {"little": (2.0, 1.4, 1.0)}, "little": {"big": (3.0, 3.0, 2.0)}}
    both = profiler.with_contention(graph, one_cluster, found, Unit("big", 1), Unit("big", 1), SECONDS)
    assert asked[2:] == [["bigx1", "2*bigx1"], ["bigx1", "bigx1-bigx1:1~2"]]
    # as lanes 3, 3, 90, 10, 10 ms and 4, 4, 90, 30, 30; in line the middle group 10, 8 and 9
    assert both.contention == {**found.contention, "bigx1": {"bigx1": (5.0, 6.0, 1.0)}}
    assert both.same_pipeline == {**found.same_pipeline, "bigx1": {"bigx1": (2.0, 1.8, 1.0)}}


@pytest.fixture
def four_cores(board):
    """A board of one component with four cores, on whichever this machine has."""
    return Board([replace(board.component("big").device.cluster, cores=(-1,) * 4)], gpu=False)


def test_equal_units_fill_the_cores_and_each_causes_an_equal_part(four_cores, monkeypatch):
    """Of 8 times as long beside three others each causes twice; stages are as many as there are groups."""
    graph, asked = chain(3), []
    known = Profile(graph.name, (), (), dict.fromkeys(("bigx1", "bigx2"), UnitTimes((2.0, 5, 3), (0.0,) * 3)))
    alone = np.array([[2.0, 5, 3]])
    rows = {
        "bigx1": [alone],
        "bigx2": [alone],
        "4*bigx1": [8 * alone] * 4,
        "3*bigx1": [99 * alone] * 3,
        "bigx1-bigx1-bigx1:1,2": [np.diag([8.0, 0, 0]), np.diag([0, 5.0, 0]), np.diag([0, 0, 48.0])],
        "bigx1+bigx2": [7 * alone, 99 * alone],
        "2*bigx1+bigx2": [99 * alone, 99 * alone, 25 * alone],
    }

    def traced(graph, plans, board, seconds):
        asked.append([str(plan) for plan in plans])
        return [rows[text] for text in asked[-1]]

    monkeypatch.setattr(profiler, "traced_rows", traced)
    one, two = Unit("big", 1), Unit("big", 2)
    found = profiler.with_contention(graph, four_cores, known, one, one, SECONDS)
    assert asked == [["bigx1", "4*bigx1"], ["bigx1", "bigx1-bigx1-bigx1:1,2"]]
    assert found.contention["bigx1"]["bigx1"] == pytest.approx((2.0,) * 3)
    assert found.same_pipeline["bigx1"]["bigx1"] == pytest.approx((2.0, 1.0, 4.0))
    both = profiler.with_contention(graph, four_cores, found, one, two, SECONDS)
    assert asked[2:] == [["bigx1", "bigx2", "bigx1+bigx2", "2*bigx1+bigx2"]]
    assert both.contention["bigx1"]["bigx2"] == pytest.approx((7.0,) * 3)
    assert both.contention["bigx2"]["bigx1"] == pytest.approx((5.0,) * 3)
    assert both.same_pipeline == found.same_pipeline


def test_cores_of_a_machine_of_equal_ones_are_measured(four_cores):
    graph, texts = small_net(), []
    found = profile(graph, four_cores, seconds=SECONDS, progress=lambda text, *_: texts.append(text))
    assert list(found.units) == ["big", "bigx1", "bigx2"]
    assert texts[3:] == ["bigx1 beside bigx1", "bigx1 beside bigx2", "bigx2 beside bigx2"]
    assert Profile.from_dict(json.loads(json.dumps(found.to_dict())), "text").to_dict() == found.to_dict()
    best = search(graph, found, cores=cores_of(four_cores)).ranked[0]
    with Pipeline(graph, best.plan, four_cores) as pipe:
        assert len(list(pipe.map(frames(graph, 9)))) == 9


@given(count=st.integers(2, 9), stages=st.integers(2, 5), seed=st.integers(0, 2**32 - 1))
def test_equal_units_have_equal_parts(count, stages, seed):
    """Each end of a part lies in the group that floats there, unless another stage needs that group."""
    stages, ms = min(stages, count), np.random.default_rng(seed).uniform(0.1, 9, count)
    (lane,) = profiler.even_parts(
        Profile("net", (), (), {"bigx1": UnitTimes(tuple(ms), (0.0,) * count)}), "bigx1", stages
    ).lanes
    cuts = [(stage.last, stage.last + stage.floating) for stage in lane[:-1]]
    done = [0.0, *ms.cumsum()]
    for number, (early, late) in enumerate(cuts, 1):
        part = done[-1] * number / stages
        before, behind = cuts[number - 2][1] if number > 1 else 0, count - stages + number
        assert before < early <= late <= behind and late - early <= 1
        assert done[early] <= part * (1 + 1e-12) or early == before + 1 or early == behind
        assert done[late] >= part * (1 - 1e-12) or late == behind


@given(
    count=st.integers(2, 9),
    order=st.sampled_from([("big", "little"), ("little", "big")]),
    seed=st.integers(0, 2**32 - 1),
)
def test_halves_are_as_even_as_one_floating_group_makes_them(count, order, seed):
    random = np.random.default_rng(seed)
    units = {unit: UnitTimes(tuple(random.uniform(0.1, 9, count)), (0.0,) * count) for unit in set(order)}
    (lane,) = profiler.even_halves(Profile("net", (), (), units), order).lanes
    cut = (lane[0].last, lane[0].last + lane[0].floating)
    first, second = (units[unit].ms for unit in order)
    ahead = [sum(first[:at]) - sum(second[at:]) for at in range(count + 1)]  # of the first stage, by the cut
    assert [stage.unit for stage in lane] == list(order) and 1 <= cut[0] <= cut[1] <= count - 1
    assert cut[1] - cut[0] == 1 or cut[0] in (1, count - 1)
    assert (ahead[cut[0]] <= 0 or cut[0] == 1) and (ahead[cut[1]] >= 0 or cut[1] == count - 1)
