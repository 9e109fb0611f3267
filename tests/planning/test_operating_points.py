"""Clocks that plans choose: against every plan at every clock, scaled by hand, and against published pipelines."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from graphs import zoo_net
from plans_reference import THREE, all_choices, chain, possible, random_profile

from pipeall import ArgumentError, Board, Plan, Profile, simulate
from pipeall.pipeline.planning.explain import explain
from pipeall.pipeline.planning.operating_points import OperatingPoint, point_at
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.uncertainty import interval
from tools.board_models import fit_boards, operating_points

POINTS = {
    "big": (OperatingPoint(500, 2.5, 0.15), OperatingPoint(1500, 1.25, 0.55), OperatingPoint(2000, 1.0, 1.0)),
    "gpu": (OperatingPoint(400, 1.7, 0.4), OperatingPoint(800, 1.0, 1.0)),
}
CLOCKS = (("big", 500.0), ("gpu", 400.0))


def scaled(profile, clocks):
    """The profile at clocks, computed here."""
    points = {name: next(p for p in POINTS[name] if p.mhz == mhz) for name, mhz in clocks.items()}
    units = {}
    for unit, times in profile.units.items():
        point = points.get(unit, OperatingPoint(0, 1.0, 1.0))
        ms = np.array(times.ms) * point.slower
        watts = profile.idle_w + point.power * (np.array(times.power_w) - profile.idle_w)
        units[unit] = replace(times, ms=tuple(ms), power_w=tuple(watts))
    return replace(profile, units=units, points={})


def every(profile):
    """(plan, clocks, prediction) of all pipelines at all clocks."""
    for big, gpu in product(POINTS["big"], POINTS["gpu"]):
        clocks = {"big": big.mhz, "gpu": gpu.mhz}
        for choice in all_choices(scaled(profile, clocks)):
            if possible(choice):
                yield choice.plan, clocks, choice.prediction


def powered(seed):
    return replace(random_profile(chain(5), THREE, seed, power=True), points=POINTS)


@pytest.mark.parametrize("seed", range(6))
def test_the_least_energy_of_all_plans_and_clocks_is_found(seed):
    """At a rate, within a latency, and at each plan's own rate; also where power is below the idle board's."""
    profile = powered(seed)
    choices = list(every(profile))
    fastest = max(prediction.fps for *_, prediction in choices)
    rate = 0.6 * fastest
    latency_ms = float(np.median([p.latency_ms for *_, p in choices if p.fps >= rate]))
    for limits in ({}, {"min_fps": rate}, {"min_fps": rate, "max_latency_ms": latency_ms}):
        slowest, longest = limits.get("min_fps", 0.0), limits.get("max_latency_ms", np.inf)
        within = [p for *_, p in choices if p.fps >= slowest and p.latency_ms <= longest]
        result = search(chain(5), profile, "energy", clocks=True, **limits)
        best = result.ranked[0]
        value = best.prediction.energy_at(limits.get("min_fps"))
        assert value == pytest.approx(min(p.energy_at(limits.get("min_fps")) for p in within), rel=1e-9)
        assert best.prediction.fps >= limits.get("min_fps", 0) * (1 - 1e-9)
        again = predict(scaled(profile, dict(best.plan.clocks)), replace(best.plan, clocks=()))
        assert again.energy_mj == pytest.approx(best.prediction.energy_mj)


@pytest.mark.parametrize("seed", range(3))
def test_the_front_is_that_of_all_plans_and_clocks(seed):
    profile = powered(seed)
    values = {tuple(np.round((p.period_ms, p.latency_ms, p.energy_mj), 9)) for *_, p in every(profile)}
    rows = np.array(sorted(values))
    front = {tuple(r) for r in rows if not ((rows <= r).all(axis=1) & (rows < r).any(axis=1)).any()}
    found = search(chain(5), profile, "energy", clocks=True).pareto
    figures = (choice.prediction for choice in found)
    assert {tuple(np.round((p.period_ms, p.latency_ms, p.energy_mj), 9)) for p in figures} == front


def test_prediction_simulation_and_explanation_are_at_the_plans_clocks():
    profile = powered(0)
    plan = replace(Plan.parse("big-gpu-little:2,4"), clocks=CLOCKS)
    by_hand, bare = scaled(profile, dict(CLOCKS)), replace(plan, clocks=())
    assert predict(profile, plan) == predict(by_hand, bare) != predict(profile, bare)
    here, there = simulate(profile, plan, frames=20), simulate(by_hand, bare, frames=20)
    assert here.energy_mj == pytest.approx(there.energy_mj) and here.fps == pytest.approx(there.fps)
    assert explain(profile, plan).ideal_ms == pytest.approx(explain(by_hand, bare).ideal_ms)


def test_errors_of_points_widen_the_interval():
    points = {"big": (OperatingPoint(500, 2.0, 0.2, 0.1, 0.5), OperatingPoint(2000, 1.0, 1.0))}
    profile = replace(powered(0), points=points)
    plan = Plan.parse("big-gpu:2")
    assert interval(profile, plan) is None
    slow = replace(plan, clocks=(("big", 500.0),))
    wide = interval(profile, slow)
    assert wide.energy_mj[0] < predict(profile, slow).energy_mj < wide.energy_mj[1]
    less = replace(points["big"][0], power_error=0.0)
    least, most = interval(replace(profile, points={"big": (less, points["big"][1])}), slow).energy_mj
    assert most - least < wide.energy_mj[1] - wide.energy_mj[0]


def test_files_keep_points_and_clocks(tmp_path):
    profile = powered(0)
    profile.save(tmp_path / "net.json")
    assert Profile.load(tmp_path / "net.json").points == POINTS
    replace(profile, points={}).save(tmp_path / "old.json")
    assert "operating_points" not in (tmp_path / "old.json").read_text()
    assert Profile.load(tmp_path / "old.json").points == {}
    plan = replace(Plan.parse("big-gpu:2"), clocks=CLOCKS)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace("500.0", '"fast"'))
    with pytest.raises(ArgumentError, match="clocks_mhz: big: expected a number"):
        Plan.load(tmp_path / "plan.json")


def test_limits_that_no_plan_keeps_together_are_told():
    """The least latency is that of plans at the rate, at the highest clocks."""
    profile = powered(0)
    tops = [c.prediction for c in all_choices(replace(profile, points={})) if possible(c)]
    rate = 0.9 * max(p.fps for p in tops)
    least = min(p.latency_ms for p in tops if p.fps >= rate)
    assert least > min(p.latency_ms for p in tops)
    with pytest.raises(ArgumentError, match=rf"max_latency_ms: expected at least {least:.3f}, the least .* FPS; got"):
        search(chain(5), profile, "energy", min_fps=rate, max_latency_ms=0.99 * least, clocks=True)
    with pytest.raises(ArgumentError, match="min_fps: expected at most"):
        search(chain(5), profile, "energy", min_fps=2 * rate, max_latency_ms=1e9, clocks=True)


def test_what_cannot_be_chosen_is_refused():
    profile = powered(0)
    with pytest.raises(ArgumentError, match="clocks: expected objective 'energy', got 'throughput'"):
        search(chain(5), profile, clocks=True)
    with pytest.raises(ArgumentError, match="expected a profile with operating points, such as"):
        search(chain(5), replace(profile, points={}), "energy", clocks=True)
    with pytest.raises(ArgumentError, match=r"clock of big: expected one of .*\(500, 1500, 2000 MHz\), got 700 MHz"):
        point_at(POINTS, "big", 700)
    with pytest.raises(ArgumentError, match="clock of little: expected a profile with its operating points"):
        predict(profile, replace(Plan.parse("little"), clocks=(("little", 700.0),)))


# ---- the boards' points ----


def test_measured_pipelines_at_their_clocks(data_dir):
    """GoogLeNet on the RK3399Pro: three measured periods, and one measured power, which the points have not seen."""
    profile = Board.load("rk3399pro").model.profile(zoo_net("googlenet"))
    for text, clocks, measured_ms in fit_boards.RK_PIPELINES:
        plan = replace(Plan.parse(text), clocks=tuple(sorted(clocks.items())))
        assert predict(profile, plan).period_ms == pytest.approx(measured_ms, rel=0.1)
    text, clocks, _ = fit_boards.RK_PIPELINES[0]
    prediction = predict(profile, replace(Plan.parse(text), clocks=tuple(sorted(clocks.items()))))
    assert prediction.energy_mj / prediction.period_ms == pytest.approx(fit_boards.RK_PIPELINE_W, rel=0.05)


def test_networks_left_out_are_within_what_the_points_say(data_dir):
    """At a clock each network's published time and power, by points of the other four, as shares within the error."""
    known = operating_points.published(fit_boards.at_each_clock(data_dir), 3.53)
    inside = []
    for component, row in operating_points.as_published(known).items():
        for point in row[:-1]:
            times, power = (rows[point.mhz] for rows in known[component])
            for index, (slower, more) in enumerate(zip(times, power, strict=True)):
                left = [np.exp(np.log(np.delete(values, index)).mean()) for values in (times, power)]
                inside.append(abs(np.log(left[0] / slower)) <= np.log1p(point.error))
                inside.append(abs(np.log(left[1] / more)) <= np.log1p(point.power_error))
    assert np.mean(inside) >= 0.8


@pytest.mark.parametrize("name", ["rk3399pro", "rk3399", "a311d", "a311d-armcl"])
def test_slower_clocks_are_slower_and_thriftier(name):
    for component, row in Board.load(name).model.points.items():
        mhz, slower, power = ([getattr(point, key) for point in row] for key in ("mhz", "slower", "power"))
        assert mhz == sorted(mhz) and slower == sorted(slower, reverse=True) and power == sorted(power)
        assert (slower[-1], power[-1]) == (1.0, 1.0) and component in ("big", "little", "gpu")
        assert all(s <= mhz[-1] / m for s, m in zip(slower, mhz, strict=True))  # at most as the clock falls


@pytest.mark.parametrize("name", ["rk3399pro", "a311d"])
def test_clocks_save_energy_at_a_rate_and_the_simulation_agrees(name):
    graph = zoo_net("resnet50")
    profile = Board.load(name).model.profile(graph)
    rate = 0.5 * search(graph, profile, plans="pipelines").ranked[0].prediction.fps
    before = search(graph, profile, "energy", min_fps=rate).ranked[0]
    after = search(graph, profile, "energy", min_fps=rate, clocks=True).ranked[0]
    assert after.energy_mj < 0.95 * before.energy_mj
    ran = simulate(profile, after.plan, frames=100, period_ms=1000 / rate)
    assert ran.fps == pytest.approx(rate, rel=0.02) and ran.energy_mj == pytest.approx(after.energy_mj, rel=0.05)
