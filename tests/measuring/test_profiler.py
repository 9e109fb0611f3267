"""Profiles of this machine: what is measured, marked, kept, resumed, and that every step counts with its group."""

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from graphs import NETS, branching_net, small_net
from hypothesis import given
from hypothesis import strategies as st
from plans_reference import chain
from traces import stage_trace

from pipeall import ArgumentError, Board, DeviceError, Pipeline
from pipeall.pipeline import lane
from pipeall.pipeline.devices.cpu.cpu_device import Cpu
from pipeall.pipeline.measuring import links, profiler
from pipeall.pipeline.measuring.profiler import profile
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.profile import Profile, UnitTimes, crossing_bytes
from pipeall.pipeline.planning.units import Unit, unit_sets

SECONDS = 0.01  # each part: no test here looks at how long something took


@pytest.fixture(autouse=True)
def short_links(monkeypatch):
    monkeypatch.setattr(links, "SIZES", (4096, 16384))
    monkeypatch.setattr(links, "FRAMES", 4)


# ---- what a profile has


def check(found, graph, units):
    """Complete for these units, and nothing that a file could not hold."""
    count = len(graph.groups)
    assert (found.network, found.modelled) == (graph.name, False)
    assert found.groups == tuple(group.name for group in graph.groups) and found.crossing_bytes == crossing_bytes(graph)
    assert list(found.units) == units
    for times in found.units.values():
        assert len(times.ms) == len(times.half_iqr_ms) == count and min(times.half_iqr_ms) >= 0
    assert {unit: list(row) for unit, row in found.same_pipeline.items()} == {
        unit: list(row) for unit, row in found.contention.items()
    }
    for row in (*found.contention.values(), *found.same_pipeline.values()):
        for factors in row.values():
            assert len(factors) == count and min(factors) >= 1 and max(factors) < np.inf
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert Profile.from_dict(content, "text").to_dict() == found.to_dict()


@pytest.mark.parametrize("net", NETS)
def test_every_unit_pair_and_link_is_measured(net, board):
    graph = net()
    found = profile(graph, board, seconds=SECONDS)
    check(found, graph, ["big", "little"])
    for times in found.units.values():
        assert not times.refused and max(times.ms) < np.inf
        empty = [not any(node.op != "reshape" for node in group.nodes) for group in graph.groups]
        assert [ms == 0 for ms in times.ms] == empty
    assert {unit: list(row) for unit, row in found.contention.items()} == {"big": ["little"], "little": ["big"]}
    assert list(found.links) == [("big", "little"), ("little", "big")]
    assert found.about["components"].keys() == {"big", "little"} and {"before", "after"} <= found.about.keys()


def test_times_are_medians_and_half_the_quartiles_distance():
    rows = np.array([[5.0, 0.0], [1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [400.0, 7.0]])
    assert profiler.unit_times(rows) == UnitTimes((3.0, 0.0), (1.5, 0.0))  # quartiles of 1 2 3 5 400 are 2 and 5


def test_a_gpu_stand_in_is_measured_only_when_asked_for(board_with_gpu):
    if not board_with_gpu.component("gpu").stand_in:
        pytest.skip("a real GPU here")
    graph = small_net()
    assert list(profile(graph, board_with_gpu, seconds=SECONDS).units) == ["big", "little"]
    found = profile(graph, board_with_gpu, ["G", "big"], seconds=SECONDS)
    check(found, graph, ["gpu", "big"])
    assert found.contention["gpu"].keys() == {"big"} and found.contention["big"].keys() == {"gpu"}
    assert set(found.links) == {("gpu", "big"), ("big", "gpu"), ("host", "gpu"), ("gpu", "host")}


def test_a_modelled_board_says_what_its_model_says():
    board = Board.load("a311d-armcl")
    graph = small_net()
    assert profile(graph, board) == board.model.profile(graph)


@pytest.mark.parametrize(
    "units, error, message",
    [
        (["big", "gpu"], DeviceError, "no component 'gpu'"),
        (["bigx99"], ArgumentError, "expected at most [0-9]+ cores of big"),
        (["tpu"], ArgumentError, "expected big, mid, little, gpu or cpu"),
    ],
)
def test_units_that_are_not_there_are_errors_and_nothing_is_measured(units, error, message, board):
    with pytest.raises(error, match=message):
        profile(small_net(), board, units, progress=lambda *_: pytest.fail("began to measure"))


# ---- side by side


@pytest.fixture
def one_cluster(board):
    """A board of one component, with two cores."""
    cores = [board.component(name).device.cluster.cores[0] for name in ("big", "little")]
    return Board.detect(clusters=[cores], gpu=False)


def test_cores_of_one_component_are_measured_beside_each_other(one_cluster):
    graph, texts = small_net(), []
    units = ["bigx1", "Bx2", "big", "B"]
    found = profile(graph, one_cluster, units, seconds=SECONDS, progress=lambda text, *_: texts.append(text))
    check(found, graph, ["bigx1", "bigx2", "big"])
    assert texts == ["bigx1 alone", "bigx2 alone", "big alone", "bigx1 beside bigx1"]
    assert {unit: list(row) for unit, row in found.contention.items()} == {"bigx1": ["bigx1"]}
    assert found.slowdown("bigx1", "bigx1").tolist() == list(found.contention["bigx1"]["bigx1"])


def test_the_pairs_are_the_teams_of_two_that_search_allows(board):
    cluster = replace(board.component("big").device.cluster, cores=(0, 1, 2, 3))
    four = Board([cluster, board.component("little").device.cluster], gpu=False)
    units = ["bigx1", "bigx2", "bigx3", "big", "little"]
    graph = small_net()
    nothing = Profile(graph.name, (), (), {})
    texts = [text for text, _ in profiler.missing_parts(graph, four, list(map(Unit.parse, units)), nothing, SECONDS)]
    pairs = {tuple(sorted(text.split(" beside "))) for text in texts if " beside " in text}
    expected = {tuple(sorted(team)) for team in unit_sets(units, 2, {"big": 4, "little": 1}) if len(team) == 2}
    assert pairs == expected and ("bigx2", "bigx2") in pairs and ("bigx3", "bigx3") not in pairs
    assert len(set(texts)) == len(texts)


def test_contention_is_side_by_side_over_alone(board, monkeypatch):
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
    both = profiler.with_contention(graph, board, found, Unit("big", 1), Unit("big", 1), SECONDS)
    assert asked[2:] == [["bigx1", "2*bigx1"], ["bigx1", "bigx1-bigx1:1~2"]]
    # as lanes 3, 3, 90, 10, 10 ms and 4, 4, 90, 30, 30; in line the middle group 10, 8 and 9
    assert both.contention == {**found.contention, "bigx1": {"bigx1": (5.0, 6.0, 1.0)}}
    assert both.same_pipeline == {**found.same_pipeline, "bigx1": {"bigx1": (2.0, 1.8, 1.0)}}


@given(
    count=st.integers(2, 9),
    order=st.sampled_from([("big", "little"), ("little", "big"), ("bigx1", "bigx1")]),
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


def test_rows_are_of_the_time_in_which_every_lane_ran():
    graph = small_net()
    random = np.random.default_rng(0)

    def lane_rows(base, period, count, numbers):
        rows = np.repeat(stage_trace(graph, (0, 4)).rows, count, axis=0)
        rows[:, 1:] += base + (period * np.arange(count) + random.integers(0, 5, count))[:, None]
        rows[:, 0] = numbers
        return rows

    fast = np.concatenate([lane_rows(0, 2000, 20, range(0, 40, 2)), lane_rows(10**6, 2000, 20, range(100, 140, 2))])
    slow = np.concatenate([lane_rows(5500, 7000, 4, [1, 5, 9, 41]), lane_rows(10**6 + 99, 7000, 7, range(101, 115, 2))])
    empty = stage_trace(graph, (0, 4))
    traces = [replace(empty, rows=fast), replace(empty, rows=slow)]
    turns = [range(0, 100), range(100, 200)]
    expected = []
    for t in traces:
        kept = []
        for turn in turns:
            both = [[row for row in o.rows.tolist() if row[0] in turn] for o in traces]
            begin, end = max(rows[0][3] for rows in both), min(rows[-1][-1] for rows in both)
            kept += [row for row in t.rows.tolist() if row[0] in turn and begin <= row[3] and row[-1] <= end]
        assert 0 < len(kept) < len(t.rows)
        expected.append(t.group_ms(graph, np.array(kept)))
    found = profiler.steady_rows(graph, traces, turns)
    assert all(map(np.array_equal, found, expected))


def test_a_slow_lane_has_its_share_of_the_rows(board, monkeypatch):
    class Paced(Pipeline):
        """Its second lane takes 3 ms a frame, some hundred times as long as the first."""

        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            for slow in self.lanes.all[1:]:
                slow.set_paces([3.0])

    monkeypatch.setattr(profiler, "Pipeline", Paced)
    (rows,) = profiler.traced_rows(small_net(), [Plan.parallel(["big", "little"])], board, 0.0)
    assert min(len(lane_rows) for lane_rows in rows) >= profiler.ROUNDS


def test_small_networks_keep_the_rows_of_every_turn(board, monkeypatch):
    monkeypatch.setattr(lane, "LOG_FRAMES", 40)
    monkeypatch.setattr(profiler, "MOST", 10)
    ((rows,),) = profiler.traced_rows(small_net(), [Plan.single("big")], board, 60.0)
    assert len(rows) == profiler.ROUNDS * 10


# ---- what a unit cannot run


def refuse(monkeypatch, unit, when):
    """Makes the CPU device refuse what ``when`` says of a lowered graph, on one unit."""
    compile_all = Cpu.compile

    def compile(self, lowered, name, *, record=False, **shared):
        if name == unit and when(lowered):
            raise DeviceError("no kernel for this")
        return compile_all(self, lowered, name, record=record)

    monkeypatch.setattr(Cpu, "compile", compile)


def test_a_group_that_fails_is_marked_and_the_rest_is_measured(board, monkeypatch, tmp_path):
    graph = small_net()
    bad = graph.groups[2].nodes[0].name
    refuse(monkeypatch, "little", lambda lowered: bad in {step.node for step in lowered.steps})
    found = profile(graph, board, seconds=SECONDS)
    check(found, graph, ["big", "little"])
    assert found.units["little"].refused == {3: "no kernel for this"} and found.units["big"].refused == {}
    assert [ms == np.inf for ms in found.units["little"].ms] == [False, False, True, False]
    assert min(found.units["little"].ms) > 0 and max(found.units["big"].ms) < np.inf
    assert found.contention == {} and (found.slowdown("big", "little") == 1).all()  # nobody measured it
    assert set(found.links) == set(permutations(["big", "little"]))
    found.save(tmp_path / "profile.json")
    kept = Profile.load(tmp_path / "profile.json")
    assert profile(graph, board, kept=kept, progress=lambda *_: pytest.fail("measured again")) is kept


def test_a_unit_that_fails_while_it_runs_is_marked_too(board, monkeypatch):
    monkeypatch.setenv("PIPEALL_FAULT", "0:2")
    graph = small_net()
    found = profile(graph, board, ["big"], seconds=SECONDS)
    check(found, graph, ["big"])
    assert set(found.units["big"].ms) == {np.inf} and list(found.units["big"].refused) == [1, 2, 3, 4]
    assert all("frame 2" in reason for reason in found.units["big"].refused.values())


def test_a_unit_that_runs_every_group_but_not_all_at_once_is_an_error(board, monkeypatch):
    graph = small_net()
    names = {group.nodes[0].name for group in graph.groups}
    refuse(monkeypatch, "little", lambda lowered: names <= {step.node for step in lowered.steps})
    kept = []
    with pytest.raises(DeviceError, match="little runs every group of net by itself, but not all at once: no kernel"):
        profile(graph, board, seconds=SECONDS, checkpoint=kept.append)
    assert [list(found.units) for found in kept] == [["big"]]


# ---- resuming


def test_each_checkpoint_can_be_loaded_and_resumed(board, tmp_path):
    graph, path = small_net(), tmp_path / "profile.json"
    seen, saved = [], []

    def checkpoint(found):
        found.save(path)
        saved.append(Profile.load(path))

    profile(
        graph, board, seconds=SECONDS, checkpoint=checkpoint, progress=lambda text, *counts: seen.append((text, counts))
    )
    texts = ["big alone", "little alone", "big beside little", "big to little", "little to big"]
    assert seen == [(text, (done, 5)) for done, text in enumerate(texts)] and len(saved) == 5
    for done, kept in enumerate(saved, 1):
        again = []
        found = profile(graph, board, seconds=SECONDS, kept=kept, progress=lambda text, *_, to=again: to.append(text))
        assert again == texts[done:]
        check(found, graph, ["big", "little"])
        assert all(found.units[unit] == times for unit, times in kept.units.items())
        assert all(found.contention[unit] == row for unit, row in kept.contention.items())
        assert all(found.links[ends] == link for ends, link in kept.links.items())
        if again:
            assert found.about["earlier"] == kept.about
        else:
            assert found is kept


def test_more_units_are_added_to_a_kept_profile(board):
    graph = small_net()
    kept, texts = profile(graph, board, ["little"], seconds=SECONDS), []
    found = profile(graph, board, ["big"], seconds=SECONDS, kept=kept, progress=lambda text, *_: texts.append(text))
    check(found, graph, ["little", "big"])
    assert texts == ["big alone"] and found.units["little"] == kept.units["little"]


def test_a_kept_profile_of_another_network_is_refused(board):
    kept = profile(branching_net(), board, ["big"], seconds=SECONDS)
    with pytest.raises(ArgumentError, match="expected one of net with 4 groups"):
        profile(small_net(), board, kept=kept, progress=lambda *_: pytest.fail("began to measure"))
