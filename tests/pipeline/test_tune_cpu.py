"""Algorithms chosen by timing: what is chosen, what is kept on disk, and what becomes of a file that cannot be used."""

import json
from dataclasses import replace

import numpy as np
import pytest
from kernel_runs import nhwc, run_case

from pipeall import ArgumentError, Engine
from pipeall._kernels.cpu.algorithms import candidates, modelled
from pipeall._kernels.cpu.cluster import detect
from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.graph.cases.op_cases import Case, case_graph
from pipeall.graph.lower.lower import lower
from pipeall.graph.ops import attributes
from pipeall.pipeline.devices.cpu import tune_cpu
from pipeall.pipeline.devices.cpu.tune_cpu import choose_algorithms
from pipeall.pipeline.devices.timings import export_times

NET = Case("conv", attributes("conv", pads=(1,) * 4), ((1, 8, 12, 12),), ((16, 8, 3, 3), (16,)))
CLUSTER = detect()[0]
KERNELS = choose(CLUSTER.isas, CLUSTER.core_type)
GEMM = next(row for row in ROWS if row.name == KERNELS["gemm", "f32"])
KEY = f"12x12x8-16 k3x3 p1.1.1.1 g1 team{len(CLUSTER.cores)}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "on")
    monkeypatch.setenv("PIPEALL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "algorithms"


@pytest.fixture
def times(monkeypatch):
    """What the candidates take, in us; ``asked`` counts the shapes that were timed."""

    class Times(dict):
        asked = 0

    found = Times(gemm=400.0, winograd2=300.0, winograd4=200.0, winograd5=450.0, winograd6=500.0)

    def measured(tuner, step, ways):
        found.asked += 1
        return {str(way): found[str(way)] for way in ways}

    monkeypatch.setattr(tune_cpu.Tuner, "measured", measured)
    return found


def steps():
    return lower(case_graph(NET)[0]).steps


def chosen():
    (algorithm,) = filter(None, choose_algorithms(steps(), CLUSTER, KERNELS))
    return str(algorithm)


def default():
    return str(modelled(conv(), GEMM.nr, GEMM.isa))


def conv():
    return next(step for step in steps() if step.kind == "conv")


def test_the_fastest_is_chosen_and_timed_once(folder, times):
    times[default()] = 450.0
    best = min(times, key=times.get)
    assert [chosen(), chosen()] == [best, best] and times.asked == 1
    (file,) = folder.iterdir()
    assert json.loads(file.read_text())["us"] == {KEY: times}


def test_element_types_have_times_of_their_own():
    tuner, step = tune_cpu.Tuner(CLUSTER, KERNELS), conv()
    keys = {tuner.key(replace(step, dst=replace(step.dst, dtype=dtype))) for dtype in ("float32", "float16", "int8")}
    assert len(keys) == 3


def test_the_modelled_one_stays_unless_another_is_clearly_faster(folder, times):
    for name in times:
        times[name] = 100.0 if name == default() else 98.0
    assert chosen() == default()


def test_other_files_are_kept_and_extended(folder, times):
    chosen()
    (file,) = folder.iterdir()
    content = json.loads(file.read_text())
    content["us"] = {"another shape": {"gemm": 1.0}}
    file.write_text(json.dumps(content))
    chosen()
    assert set(json.loads(file.read_text())["us"]) == {"another shape", KEY} and times.asked == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "not JSON",
        lambda text: text.replace("pipeall.algorithms/1", "pipeall.plan/1"),
        lambda text: text.replace("400.0", '"fast"'),
        lambda text: text.replace("400.0", "-1"),
        lambda text: text.replace("gemm", "fft"),
    ],
    ids=["no JSON", "another format", "a word for a time", "a negative time", "a candidate missing"],
)
def test_a_file_that_does_not_serve_is_made_anew(folder, times, damage):
    chosen()
    (file,) = folder.iterdir()
    good = file.read_text()
    file.write_text(damage(good))
    assert chosen() == min(times, key=times.get) and times.asked == 2
    chosen()
    assert times.asked == 2, "the new times were not kept"


def test_a_folder_that_cannot_be_written_is_a_warning(folder, times):
    folder.parent.write_text("a file in its place")
    with pytest.raises(Exception, match="PIPEALL_CACHE"):
        chosen()
    folder.parent.unlink()
    tune_cpu.Tuner(CLUSTER, KERNELS).path.mkdir(parents=True)
    with pytest.warns(UserWarning, match="not kept"):
        assert chosen() == min(times, key=times.get)


def test_times_that_were_shipped_are_not_made_again(folder, times, monkeypatch, tmp_path):
    best = chosen()
    shipped = tmp_path / "tuning.json"
    assert export_times(shipped) == 1
    monkeypatch.setenv("PIPEALL_TUNING", str(shipped))
    for file in folder.iterdir():
        file.unlink()
    assert chosen() == best and times.asked == 1 and not list(folder.iterdir())


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: "not JSON", "JSON"),
        (lambda text: text.replace("pipeall.tuning/1", "pipeall.plan/1"), "pipeall.plan/1"),
        (lambda text: text.replace('"version": "', '"version": "old-'), "old-"),
        (lambda text: text.replace("400.0", '"fast"'), "fast"),
    ],
    ids=["no JSON", "another format", "another version", "a word for a time"],
)
def test_a_shipped_file_that_does_not_serve_is_an_error(damage, words, folder, times, monkeypatch, tmp_path):
    chosen()
    shipped = tmp_path / "tuning.json"
    export_times(shipped)
    shipped.write_text(damage(shipped.read_text()))
    monkeypatch.setenv("PIPEALL_TUNING", str(shipped))
    with pytest.raises(ArgumentError, match=words) as refusal:
        chosen()
    assert str(shipped) in str(refusal.value)


def test_there_must_be_something_to_ship(folder, tmp_path):
    with pytest.raises(ArgumentError, match="found none"):
        export_times(tmp_path / "tuning.json")


def test_candidates_leave_the_race_once_they_are_behind_the_spread():
    quiet = {"gemm": [100.0, 101.0, 102.0], "winograd4": [103.0, 140.0, 104.0]}
    assert tune_cpu.in_the_race(quiet, list(quiet)) == ["gemm"]
    noisy = {"gemm": [100.0, 120.0, 180.0], "winograd4": [103.0, 140.0, 104.0], "winograd6": [150.0, 190.0, 160.0]}
    assert tune_cpu.in_the_race(noisy, list(noisy)) == ["gemm", "winograd4"]


def test_off_times_nothing(folder, times, monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    assert chosen() == default()
    assert times.asked == 0 and not folder.exists()


def test_real_timing_leaves_the_result_and_the_threads_affinity_alone(folder, board):
    import os

    graph, inputs = case_graph(NET)
    before = os.sched_getaffinity(0)
    with Engine(graph, "big", board=board) as engine:
        y = engine(inputs)
    assert os.sched_getaffinity(0) == before
    (file,) = folder.iterdir()
    (row,) = json.loads(file.read_text())["us"].values()
    assert set(row) == {"gemm", "winograd2", "winograd4", "winograd5", "winograd6"} and all(
        us > 0 for us in row.values()
    )
    y = next(iter(y.values())) if isinstance(y, dict) else y
    results = [run_case(NET, KERNELS, (-1,), way)[0] for way in candidates(conv()) if str(way) in row]
    assert any(np.array_equal(nhwc(y), result) for result in results), "no candidate gives these bits"
