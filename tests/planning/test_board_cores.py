"""Some cores of a modelled board: their times, what they share, and plans of them."""

import json

import numpy as np
import pytest
from graphs import zoo_net

from pipeall._kernels.cpu import algorithms
from pipeall.errors import ArgumentError
from pipeall.pipeline.boards.board import Board
from pipeall.pipeline.boards.models.board_model import FOLDER
from pipeall.pipeline.boards.models.some_cores import Traffic
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.search import search
from pipeall.pipeline.planning.uncertainty import interval
from tools.board_models import fit_prices, price_table
from tools.board_models.priced_cores import steps

BOARDS = tuple(fit_prices.BOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_every_cluster_has_units_of_one_to_all_cores(name):
    graph, model = zoo_net("squeezenet"), Board.load(name).model
    for component, part in model.components.items():
        some = [unit for unit in model.units(graph) if unit.component == component and unit.cores]
        if component == "gpu":
            assert not some
            continue
        words = [
            component,
            *(f"{component}@{precision}" for precision in model.precisions(component) if precision != "int8"),
        ]
        assert some == [f"{word}x{count}" for word in words for count in range(1, part.count + 1)]
        for word in words:
            ms = [
                np.array(times.ms)
                for times in model.profile(graph, [u for u in some if u.whole == word]).units.values()
            ]
            whole = np.array(model.profile(graph, [word]).units[word].ms)
            np.testing.assert_allclose(ms[-1], whole)
            fixed = (len(ms) * whole - ms[0]) / (len(ms) - 1)  # Amdahl's law through both ends
            for count, found in enumerate(ms, 1):
                np.testing.assert_allclose(found, fixed + (ms[0] - fixed) / count, atol=1e-9)


def test_one_core_takes_what_its_steps_were_priced_at(monkeypatch):
    """By the algorithms that there were when the table was priced: without Winograd of 2x2 taps."""
    monkeypatch.delitem(algorithms.TILES, 2)
    rows = price_table.load(fit_prices.PRICES)
    for name, board in fit_prices.BOARDS.items():
        for component, soc in board.socs.items():
            own = list(steps(soc, rows))
            for network in ("googlenet", "mobilenet", "resnet50"):
                told = sum(row.ms for row in own if (row.unit, row.network) == ("big", network))
                unit = f"{component}x1"
                found = Board.load(name).model.profile(zoo_net(network), [unit])
                assert sum(found.units[unit].ms) == pytest.approx(told, rel=0.08)
                assert found.error[unit] < found.error.get(component, 1.0)  # of one core nobody has to know threads


def test_copies_on_single_cores_read_no_more_than_the_memory_gives():
    """AlexNet's weights are more than four cores of a Pi 5 can read in time; GoogLeNet's are not."""
    model = Board.load("rpi5").model
    rate = model.cores["big"].core_gb_s  # more than all are told to read
    for network, bound in (("alexnet", True), ("googlenet", False)):
        graph = zoo_net(network)
        profile = model.profile(graph, ["bigx1"])
        gb_s = predict(profile, Plan.parse("4*Bx1")).fps * sum(array.nbytes for array in graph.constants.values()) / 1e9
        alone = 4000 / sum(profile.units["bigx1"].ms)
        if bound:
            assert 0.8 * rate < gb_s <= rate
        else:
            assert predict(profile, Plan.parse("4*Bx1")).fps == pytest.approx(alone) and gb_s < 0.8 * rate
        one, most = interval(profile, Plan.parse("4*Bx1")).fps
        assert one < predict(profile, Plan.parse("4*Bx1")).fps < most


def test_equal_units_are_slowed_down_to_the_memorys_rate():
    """Drawn groups: with all of them at work the memory is busy all the time, or nobody is slowed down."""
    random = np.random.default_rng(5)
    for _ in range(50):
        ms = random.uniform(0.1, 3, 7)
        moving = ms * random.uniform(0, 1, 7)
        shared = float(moving.sum() * random.uniform(0.2, 1))
        count = int(random.integers(1, 6))
        factors = np.array(Traffic(ms, moving, shared).slowdown(Traffic(ms, moving, shared), count)) ** count
        assert (ms * factors).sum() == pytest.approx(max(ms.sum(), (count + 1) * shared))
        assert (factors >= 1).all()


def test_a_search_finds_plans_of_single_cores():
    graph, board = zoo_net("googlenet"), Board.load("rpi5")
    profile = board.model.profile(graph, ["big", "bigx1", "bigx2"])
    best = search(graph, profile, cores={"big": 4}, top=1).ranked[0]
    assert best.prediction.fps > 1.3 * predict(profile, Plan.parse("big")).fps


@pytest.mark.parametrize(
    "entry, value, message",
    [
        ("core_gb_s", 0, "core_gb_s: expected a number"),
        ("shared_gb_s", "much", "shared_gb_s: expected a number"),
        ("error", -1, "error: expected a number"),
        ("kernels", {}, "kernels: expected prices of"),
    ],
)
def test_a_file_with_a_wrong_entry_is_refused(entry, value, message, tmp_path):
    content = json.loads((FOLDER / "rpi4.json").read_text())
    content["cores"]["big"][entry] = value
    path = tmp_path / "own.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ArgumentError, match=message):
        Board.load(path)


def test_cores_of_what_has_no_step_prices_are_refused(tmp_path):
    content = json.loads((FOLDER / "rpi4.json").read_text())
    content["cores"]["little"] = content["cores"]["big"]
    path = tmp_path / "own.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ArgumentError, match="cores: expected components that have step_prices"):
        Board.load(path)
    with pytest.raises(ArgumentError, match=r"unit 'bigx2': .*whole components alone have times"):
        Board.load("rpi4-ncnn").model.profile(zoo_net("squeezenet"), ["bigx2"])
    with pytest.raises(ArgumentError, match="unit 'bigx5': expected one of the model rpi4"):
        Board.load("rpi4").model.profile(zoo_net("squeezenet"), ["bigx5"])
