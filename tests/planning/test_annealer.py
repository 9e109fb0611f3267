"""The search beside an annealer that knows nothing of it, on models of boards."""

import pytest
from annealer import best_fps
from graphs import zoo_net

import pipeall
from pipeall.pipeline.planning.simulate import simulate

BOARDS = ("rk3588", "a311d", "a311d-armcl", "rk3399")
NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")
SHORT = [(board, "squeezenet", 1.5) for board in BOARDS]
MINUTES = [pytest.param(board, net, 60.0, marks=pytest.mark.full) for board in BOARDS for net in NETWORKS]


@pytest.mark.parametrize("board, net, seconds", SHORT + MINUTES)
def test_the_best_plan_is_not_behind_the_best_of_an_annealer(board, net, seconds):
    graph = zoo_net(net)
    profile = pipeall.Board.load(board).model.profile(graph)
    fps, plan = best_fps(profile, seconds)
    best = pipeall.search(graph, profile).best
    assert simulate(profile, best, 400, paced=True).fps >= 0.98 * fps, plan
