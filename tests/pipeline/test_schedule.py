"""Several networks on shared units: results, order, rates, priorities, ageing, faults, swaps, the end."""

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from graphs import frames, small_net, zoo_net
from process import no_longer, statuses
from toy_board import MS, chain_net, toy_board

from pipeall import ArgumentError, Board, Demand, Engine, PipelineError, Plan, Schedule, SchedulePlan, env


@pytest.fixture
def board():
    """Two clusters of the one machine."""
    cores = Board.detect(gpu=False).component("cpu").device.cores
    return Board.detect(clusters=[cores[:1], cores[1:2] or cores[:1]], gpu=False)


def networks(**plans):
    return {"a": (small_net(), {"plan": plans["a"]}), "b": (zoo_net("squeezenet"), {"plan": plans["b"]})}


@pytest.mark.parametrize("plans", [dict(a="B-L-B:1,3", b="L-B:4"), dict(a="B", b="B"), dict(a="B+L", b="B-L:5")])
def test_each_network_gets_its_own_results_in_order(board, plans):
    given = networks(**plans)
    inputs = {name: frames(graph, 6) * 4 for name, (graph, _) in given.items()}
    expected = {}
    for name, (graph, _) in given.items():
        with Engine(graph, "big", board=board) as engine:
            expected[name] = [engine(x) for x in inputs[name]]
    before = set(statuses())
    with Schedule(given, board) as schedule:
        results = {}
        threads = [
            threading.Thread(target=lambda name=name: results.update({name: list(schedule[name].map(inputs[name]))}))
            for name in schedule
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        units = {status["Name"] for status in statuses().values() if status["Name"].startswith("pa-")}
    assert units == {"pa-big", "pa-little"} if "L" in "".join(plans.values()) else units == {"pa-big"}
    assert no_longer(set(statuses()) - before)
    for name in given:
        assert len(results[name]) == 24
        for got, reference in zip(results[name], expected[name], strict=True):
            assert np.array_equal(got, reference)


def test_networks_on_one_unit_have_one_team(board):
    with Schedule(networks(a="B-L:2", b="L-B:4"), board) as schedule:
        stages = [stage for name in schedule for stage in schedule[name].lanes.all[0].stages]
        assert [str(stage.unit.name) for stage in stages] == ["big", "little", "little", "big"]
        assert len([status for status in statuses().values() if status["Name"].startswith("pa-")]) == 2


# ---- rates and priorities, where frames of 4 ms wait for one unit


@contextmanager
def saturated(demands, rates, seconds, quick=()):
    """How many frames each network gets done while frames of all but ``quick`` always wait for one unit."""
    graph = chain_net(4)
    plans = dict.fromkeys(demands, Plan.parse("B"))
    with Schedule(dict.fromkeys(demands, graph), toy_board(graph, MS), SchedulePlan(plans, demands, rates)) as schedule:
        for name in schedule:
            for lane in schedule[name].lanes.all:
                lane.set_paces([4.0])
        stop = threading.Event()

        def keep_full(pipe):
            def source():
                while not stop.is_set():
                    yield x

            for _ in pipe.map(source()):
                pass

        x = frames(graph, 1)[0]
        threads = [threading.Thread(target=keep_full, args=(schedule[name],)) for name in schedule if name not in quick]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        begin = {name: schedule[name].snapshot() for name in schedule}
        yield schedule, x
        time.sleep(seconds)
        counts = {name: schedule[name].stats(begin[name]).frames for name in schedule}
        stop.set()
        for thread in threads:
            thread.join()
        schedule.counts = counts


def test_without_rates_equal_priorities_take_turns():
    with saturated({"a": Demand(), "b": Demand()}, {"a": None, "b": None}, 0.8) as (schedule, _):
        pass
    assert schedule.counts["a"] == pytest.approx(schedule.counts["b"], rel=0.2)


@pytest.mark.parametrize("priority", [0, 2])
def test_networks_that_always_have_frames_get_their_rates(priority):
    """Three and one in five of the frames that the unit can do are planned: what is left over is shared, in whatever
    order of priority. Beside other programs it does fewer than 250 a second, in some windows not even those planned.
    """
    for _ in range(5):
        with saturated({"a": Demand(), "b": Demand()}, {"a": None, "b": None}, 0.6) as (schedule, _):
            pass
        possible = sum(schedule.counts.values()) / 0.6
        rates = {"a": 0.6 * possible, "b": 0.2 * possible}
        demands = {"a": Demand(rates["a"], 1), "b": Demand(rates["b"], priority)}
        seconds = 300 / possible
        with saturated(demands, rates, seconds) as (schedule, _):
            pass
        had = {name: count / seconds for name, count in schedule.counts.items()}
        if sum(had.values()) >= 0.95 * possible:
            break
    assert all(had[name] >= 0.85 * rates[name] for name in had), (possible, had)


def test_the_lowest_priority_waits_for_a_bounded_time():
    """Its frames go ahead of those that come a second later: in 2.2 s two rounds at least are its own."""
    with saturated({"a": Demand(priority=1), "b": Demand(priority=0)}, {"a": None, "b": None}, 2.2) as (schedule, _):
        pass
    assert schedule.counts["a"] > 3 * schedule.counts["b"] > 0


def test_a_frame_of_high_priority_waits_for_the_one_that_is_computed():
    """From when it comes until it is begun no more than one frame of the other network is begun."""
    with saturated({"a": Demand(priority=1), "b": Demand(90, 2)}, {"a": None, "b": 90.0}, 0.0, quick="b") as found:
        schedule, x = found
        for _ in range(12):
            schedule["b"].submit(x)
            schedule["b"].result()
            time.sleep(0.02)
        waited = [(one.submitted_ns, one.begin_ns[0]) for one in schedule["b"].times]
    begun = [one.begin_ns[0] for one in schedule["a"].times]
    assert len(begun) > 12
    assert all(sum(came < at < begin for at in begun) <= 1 for came, begin in waited)


# ---- faults, swaps, the end


@pytest.mark.parametrize("failing", ["a", "b"])
def test_a_fault_in_one_network_touches_no_other(board, monkeypatch, failing):
    faults = iter([(0, 3), None] if failing == "a" else [None, (1, 3)])
    monkeypatch.setattr(env, "fault", lambda: next(faults))
    given = networks(a="B-L:2", b="L-B:4")
    with Schedule(given, board) as schedule:
        other = "b" if failing == "a" else "a"
        results = schedule[other].map(frames(given[other][0], 10))
        next(results)
        with pytest.raises(PipelineError) as failure:
            list(schedule[failing].map(frames(given[failing][0], 10)))
        assert failure.value.frame == 3
        assert len(list(results)) == 9
        with pytest.raises(PipelineError):
            schedule[failing].submit(frames(given[failing][0], 1)[0])
        assert len(list(schedule[other].map(frames(given[other][0], 5)))) == 5


def test_one_network_is_replaced_while_the_other_runs(board):
    given = networks(a="B-L:2", b="L-B:4")
    with Schedule(given, board) as schedule:
        inputs = frames(given["b"][0], 30)
        results = schedule["b"].map(inputs)
        first = next(results)
        for plan in ("L", "B-L:1", "B+L", "B"):
            schedule["a"].replace(plan=plan)
            assert len(list(schedule["a"].map(frames(given["a"][0], 3)))) == 3
        rest = list(results)
        assert len(rest) == 29
    with Engine(given["b"][0], "big", board=board) as engine:
        for x, y in zip(inputs, [first, *rest], strict=True):
            assert np.array_equal(engine(x), y)


@pytest.mark.parametrize(
    "given, told",
    [
        ({}, "networks: expected a dict of models by name"),
        (dict(a=(small_net(), dict(speed=3))), "options of a: expected fps, .* got 'speed'"),
        (dict(a=(small_net(), dict(fps=-3))), "network a: fps"),
        (dict(a=(small_net(), dict(plan="B-"))), "network a: component"),
        (dict(a=(small_net(), dict(plan="B")), b=small_net()), "none for b"),
        (dict(a=(small_net(), dict(plan="B")), b=(small_net(), dict(plan="Bx1"))), "one division"),
        (dict(a=(small_net(), dict(plan="B-L:400"))), "expected cuts between"),
    ],
)
def test_what_cannot_be_is_told_by_name(board, given, told):
    before = set(statuses())
    with pytest.raises(ArgumentError, match=told):
        Schedule(given, board)
    assert no_longer(set(statuses()) - before)


def test_names_are_checked(board):
    with Schedule({"a": (small_net(), {"plan": "B"})}, board) as schedule:
        assert list(schedule) == ["a"] and len(schedule) == 1 and "a" in repr(schedule)
        assert schedule.stats()["a"].frames == 0
        with pytest.raises(ArgumentError, match="expected one of a, got 'b'"):
            schedule["b"]
