"""Boards that run ncnn: its published tables, and pipeall's prices at its pace for what nobody published."""

import pytest
from graphs import zoo_net

from pipeall import ArgumentError, Board, Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.uncertainty import four_of_five, interval

# ncnn's benchmark/README.md, ms, all cores of a cluster
PUBLISHED = {
    ("a311d", "big"): {"alexnet": 60.7, "googlenet": 82.2, "mobilenet": 43.0},
    ("a311d", "gpu"): {"alexnet": 69.7, "googlenet": 67.3, "mobilenet": 32.4},
    ("rk3399", "big"): {"alexnet": 107.2, "googlenet": 133.2, "mobilenet": 65.1},
    ("rk3588", "big"): {"alexnet": 12.5, "googlenet": 15.1, "mobilenet": 5.5},
    ("rk3588", "little"): {"alexnet": 32.3, "googlenet": 47.6, "mobilenet": 16.1},
    ("rpi4", "big"): {"alexnet": 76.4, "googlenet": 114.4, "mobilenet": 61.2},
    ("rpi5", "big"): {"alexnet": 21.4, "googlenet": 25.4, "mobilenet": 9.0},
    ("uno-q", "big"): {"alexnet": 56.8, "googlenet": 105.4, "mobilenet": 47.8},
    ("rk3566", "big"): {"alexnet": 49.2, "googlenet": 75.5, "mobilenet": 30.7},
    ("rk3566", "gpu"): {"alexnet": 168.2, "googlenet": 147.5, "mobilenet": 74.6},
}


@pytest.mark.parametrize("name, unit", PUBLISHED)
def test_published_networks_take_what_was_published(name, unit):
    board = Board.load(name, library="ncnn")
    for net, ms in PUBLISHED[name, unit].items():
        profile = board.model.profile(zoo_net(net))
        assert sum(profile.units[unit].ms) == pytest.approx(ms, rel=1e-6)
        assert len(profile.groups) == len(zoo_net(net).groups) and min(profile.units[unit].ms) >= 0


def test_other_networks_are_four_of_five_times_within_the_error_of_the_others():
    found = []
    for name in dict.fromkeys(name for name, _ in PUBLISHED):
        model = Board.load(name, library="ncnn").model
        for unit, errors in model.errors.items():
            assert model.error[unit] == pytest.approx(four_of_five(errors.values()), abs=1e-3)
            for net, off in errors.items():
                wide = four_of_five(error for key, error in errors.items() if key != net)
                found.append(1 / (1 + wide) <= 1 + off <= 1 + wide)
    assert len(found) == 60 and sum(found) >= 0.8 * len(found)


def test_a_network_that_nobody_published_has_an_interval():
    profile = Board.load("rk3588", library="ncnn").model.profile(zoo_net("squeezenet"))
    plan = Plan.parse("B-L:9")
    likely = interval(profile, plan)
    assert likely.fps[0] < predict(profile, plan).fps < likely.fps[1]


def test_pipelines_have_the_boards_contention_and_links():
    own, ncnn = (Board.load("a311d", library=library).model for library in ("pipeall", "ncnn"))
    assert ncnn.contention["big"] == {"gpu": own.contention["big"]["gpu"]}
    assert ncnn.links == {ends: link for ends, link in own.links.items() if "npu" not in ends}
    assert list(ncnn.components) == ["big", "gpu"]  # nobody published its LITTLE cluster


def test_a_library_that_nobody_published_is_refused():
    with pytest.raises(ArgumentError, match="board 'rpi4-armcl': expected one of a311d, a311d-armcl, a311d-ncnn, "):
        Board.load("rpi4", library="armcl")
