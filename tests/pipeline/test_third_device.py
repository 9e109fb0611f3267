"""A device that the package does not know: one line names it, its folder (third_device/) has all the rest."""

import json
import subprocess
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from graphs import frames, picture_net, small_net
from third_device.device import LIBRARY, Npu

from pipeall import Board, DeviceError, Engine, Picture, Pipeline, Plan, profile, search
from pipeall.graph.ops import run_graph
from pipeall.pipeline.measuring.footprint import footprint
from pipeall.pipeline.planning import units
from pipeall.pipeline.planning.predict import predict

HERE = Path(__file__).parents[1] / "support"
TOLERANCE = dict(rtol=1e-4, atol=1e-4)  # sums of at most 144 products of order 1, in single precision


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    built = tmp_path_factory.mktemp("npu") / "npu.so"
    sources = [HERE / "third_device" / "npu.c", "-o", built, f"-I{HERE.parents[1] / 'pipeall'}"]
    subprocess.run(["cc", "-std=c11", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", *sources], check=True)
    return built


@pytest.fixture
def board(library, monkeypatch):
    """This machine's clusters and the npu."""
    monkeypatch.setenv(LIBRARY, str(library))
    monkeypatch.setenv("PIPEALL_OPENCL", "off")
    monkeypatch.setitem(units.COMPONENTS, "npu", units.Traits("third_device.device"))  # the one line
    board = Board.detect()
    if "little" not in board.components:
        pytest.skip("one core only: a pipeline of two CPU components needs two")
    return board


def test_it_is_a_component_like_any_other(board):
    assert list(board.components) == ["big", "little", "npu"]
    assert board.component("N").device == board.component("npu").device and isinstance(board.component("n").device, Npu)
    row = board.describe()[-1]
    assert (row["component"], row["letter"], row["kind"], row["description"]) == ("npu", "N", "npu", "a toy NPU")
    assert str(Plan.parse("B-N-L:1,2")) == "big-npu-little:1,2"


@pytest.mark.parametrize("plan", ["B-N-L:1,3", "N-B:2", "B-N:1~2", "npu"])
def test_it_runs_as_a_stage(plan, board):
    graph, (name,) = small_net(), [tensor.name for tensor in small_net().inputs]
    given = frames(graph, 20)
    expected = [next(iter(run_graph(graph, {name: frame}).values())) for frame in given]
    with Pipeline(graph, plan, board, trace=True) as pipe:
        for got, wanted in zip(pipe.map(given), expected, strict=True):
            np.testing.assert_allclose(got, wanted, **TOLERANCE)
    assert [len(stage.frame) for stage in pipe.trace] == [20] * len(pipe.plan.units)


@pytest.mark.parametrize(
    "plan, in_front",
    [("N-B:2", "little"), ("N-B-L:1,2", "littlex1"), ("npu", "little"), ("B-N:1", None), ("B+N", "little"),
     ("L-N:1", None)],
)  # fmt: skip
def test_a_cpu_makes_its_input_of_pictures(plan, in_front, board, tmp_path):
    """In a stage in front, which the plan does not name, and only where the device would have to."""
    graph, picture = picture_net((12, 16)), Picture(fit="letterbox", scale=255.0)
    rng = np.random.default_rng(1)
    pictures = [rng.integers(0, 256, (9 + i, 40, 3), dtype=np.uint8) for i in range(12)]
    with Engine(graph, "big", board, input=picture) as engine:
        expected = [engine(x) for x in pictures]
    with Pipeline(graph, plan, board, input=picture, trace=tmp_path / "trace.json") as pipe:
        for got, wanted in zip(pipe.map(pictures), expected, strict=True):
            np.testing.assert_allclose(got, wanted, **TOLERANCE)
        rows = pipe.stats().stages
    assert str(pipe.plan) == str(Plan.parse(plan)) and pipe.plan.units == tuple(r.unit for r in rows if any(r.groups))
    front = [row for row in rows if not any(row.groups)]
    assert [row.unit for row in front] == ([in_front] if in_front else []) and all(row.busy_ms > 0 for row in front)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event.get("args", {}).get("name") for event in events}
    assert (f"{in_front}: picture" in names) == bool(in_front)


def test_a_picture_of_a_group_of_its_own_is_made_where_it_can_be(board):
    graph, picture = picture_net((8, 8)), Picture(apart=True)
    frame = np.full((8, 8, 3), 90, np.uint8)
    with Engine(graph, "big", board, input=picture) as engine, Pipeline(graph, "N-B:3", board, input=picture) as pipe:
        np.testing.assert_allclose(next(pipe.map([frame])), engine(frame), **TOLERANCE)
        assert [row.groups for row in pipe.stats().stages] == [(0, 0), (0, 3), (3, 4)]
    with pytest.raises(DeviceError, match="the npu has no kernel for picture"):
        Pipeline(graph, "N-B:1", board, input=picture)


def test_it_is_profiled_and_searched_with(board):
    graph = small_net()
    found = profile(graph, board, seconds=0.05)
    assert {"big", "little", "npu"} <= set(found.units) and all(0 < ms < 1e3 for ms in found.units["npu"].ms)
    assert {("big", "npu"), ("npu", "big"), ("npu", "little")} <= set(found.links)
    middle = Plan.parse("B-N-L:1,3")
    assert 0 < predict(found, middle).period_ms < inf
    even = {unit: replace(times, ms=(1.0, 0.5, 0.5, 1.0)) for unit, times in found.units.items()}
    best = search(graph, replace(found, units=even, contention={}, same_pipeline={}, links={})).best
    assert sorted(best.units) == ["big", "little", "npu"]  # where all are as fast, each takes a part
    (frame,) = frames(graph, 1)
    with Pipeline(graph, middle, board) as pipe, Engine(graph, "big", board) as engine:
        (got,) = pipe.map([frame])
        np.testing.assert_allclose(got, engine(frame), **TOLERANCE)
    assert [stage.unit for stage in footprint(graph, middle, board)] == list(middle.units)


def test_what_it_cannot_compute_is_named(board):
    graph = small_net()
    with pytest.raises(DeviceError, match="no component 'gpu' on this board .it has big, little, npu.: OpenCL is"):
        Engine(graph, "gpu", board)
    from graphs import Net

    net = Net((1, 4, 4, 4))
    with pytest.raises(DeviceError, match="step .*: the npu has no kernel for softmax"):
        Engine(net.graph(net.op("softmax", net.conv("x0", 4), axis=1)), "npu", board)


def test_without_it_the_board_says_why(board, monkeypatch):
    monkeypatch.delenv(LIBRARY)
    with pytest.raises(DeviceError, match="no component 'npu' .*expected the path of its library in NPU_LIBRARY"):
        Board.detect().component("npu")


def test_a_package_outside_brings_its_line_by_an_entry_point(library, monkeypatch):
    point = SimpleNamespace(load=lambda: {"npu": units.Traits("third_device.device")})
    monkeypatch.setattr(units, "entry_points", lambda group: [point] if group == "pipeall.devices" else [])
    monkeypatch.setenv(LIBRARY, str(library))
    monkeypatch.setenv("PIPEALL_OPENCL", "off")
    units.plug_ins.cache_clear()
    try:
        assert "npu" in Board.detect().components and units.Unit.parse("N") == "npu"
    finally:
        units.plug_ins.cache_clear()
