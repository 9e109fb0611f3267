"""Profiles of this machine: what is measured, marked, kept, resumed, and that every step counts with its group."""

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from graphs import NETS, branching_net, small_net
from traces import stage_trace

from pipeall import ArgumentError, Board, DeviceError, Pipeline
from pipeall.pipeline import lane
from pipeall.pipeline.boards.default_units import default_units
from pipeall.pipeline.devices.cpu.cpu_device import Cpu
from pipeall.pipeline.measuring import links, profiler
from pipeall.pipeline.measuring.profiler import profile
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.profile import Profile, UnitTimes, crossing_bytes

SECONDS = 0.01  # each part: no test here looks at how long something took
UNITS = ["big", "little"]


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
    check(found, graph, default_units(board))
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
    assert list(profile(graph, board_with_gpu, seconds=SECONDS).units) == default_units(board_with_gpu)
    assert "gpu" not in default_units(board_with_gpu)
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
        (["tpu"], ArgumentError, "expected big, mid, little, gpu, npu or cpu"),
    ],
)
def test_units_that_are_not_there_are_errors_and_nothing_is_measured(units, error, message, board):
    with pytest.raises(error, match=message):
        profile(small_net(), board, units, progress=lambda *_: pytest.fail("began to measure"))


# ---- rows


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
    found = profile(graph, board, UNITS, seconds=SECONDS)
    check(found, graph, UNITS)
    assert found.units["little"].refused == {3: "no kernel for this"} and found.units["big"].refused == {}
    assert [ms == np.inf for ms in found.units["little"].ms] == [False, False, True, False]
    assert min(found.units["little"].ms) > 0 and max(found.units["big"].ms) < np.inf
    assert found.contention == {} and (found.slowdown("big", "little") == 1).all()  # nobody measured it
    assert set(found.links) == set(permutations(["big", "little"]))
    found.save(tmp_path / "profile.json")
    kept = Profile.load(tmp_path / "profile.json")
    assert profile(graph, board, UNITS, kept=kept, progress=lambda *_: pytest.fail("measured again")) is kept


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
        profile(graph, board, UNITS, seconds=SECONDS, checkpoint=kept.append)
    assert [list(found.units) for found in kept] == [["big"]]


# ---- how long it takes


@pytest.mark.parametrize("extra_s, shortest_s, all_s", [(1.0, None, 20.0), (5.5, 0.75, 64.75), (20.0, 0.0, 203.0)])
def test_parts_are_shortened_to_be_done_in_a_minute(board, monkeypatch, extra_s, shortest_s, all_s):
    """Ten parts, each of which takes so much more than it runs; with a time that is given none is shortened."""
    now, ran = [0.0], []

    def part(known, seconds):
        ran.append(seconds)
        now[0] += seconds + extra_s
        return known

    monkeypatch.setattr(profiler, "missing_parts", lambda *_: [(f"part {number}", part) for number in range(10)])
    monkeypatch.setattr(profiler.time, "monotonic", lambda: now[0])
    found = profile(small_net(), board)
    assert found.about.get("shortest_s") == shortest_s and found.about["seconds"] == max(ran) == 1.0
    assert now[0] == all_s
    ran.clear()
    assert "shortest_s" not in profile(small_net(), board, seconds=2.0).about and ran == [2.0] * 10


# ---- resuming


def test_each_checkpoint_can_be_loaded_and_resumed(board, tmp_path):
    graph, path = small_net(), tmp_path / "profile.json"
    seen, saved = [], []

    def checkpoint(found):
        found.save(path)
        saved.append(Profile.load(path))

    def progress(text, *counts):
        seen.append((text, counts))

    profile(graph, board, UNITS, seconds=SECONDS, checkpoint=checkpoint, progress=progress)
    texts = ["big alone", "little alone", "big beside little", "big to little", "little to big"]
    assert seen == [(text, (done, 5)) for done, text in enumerate(texts)] and len(saved) == 5
    for done, kept in enumerate(saved, 1):
        again = []
        found = profile(
            graph, board, UNITS, seconds=SECONDS, kept=kept, progress=lambda text, *_, to=again: to.append(text)
        )
        assert again == texts[done:]
        check(found, graph, UNITS)
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
