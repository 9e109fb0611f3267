"""Profiles of networks that share a board."""

import numpy as np
import pytest
from graphs import small_net, zoo_net
from toy_board import chain_net

from pipeall import ArgumentError, Board, profile_together, schedule_search
from pipeall.pipeline.measuring import joint_profile, links

SECONDS = 0.01  # each part: no test here looks at how long something took


@pytest.fixture(autouse=True)
def short_links(monkeypatch):
    monkeypatch.setattr(links, "SIZES", (4096, 16384))
    monkeypatch.setattr(links, "FRAMES", 4)


@pytest.mark.parametrize("unit, other", [("big", "little"), ("little", "big")])
def test_a_group_takes_no_less_beside_another_network(board, unit, other):
    found = joint_profile.slowdown_beside(small_net(), unit, chain_net(3), other, board, SECONDS)
    assert found.shape == (len(small_net().groups),) and np.isfinite(found).all() and (found >= 1).all()


def test_contention_is_the_mean_over_the_other_networks(board, monkeypatch):
    """Of factors that say which network was on which unit; those of a network beside itself are gone."""
    graphs = {"a": small_net(), "b": chain_net(3), "c": chain_net(5)}
    factor = {len(graph.groups): 2.0 + number for number, graph in enumerate(graphs.values())}
    asked = []

    def slowdown(graph, unit, beside, other, board, seconds):
        asked.append((len(graph.groups), unit, len(beside.groups), other))
        return np.full(len(graph.groups), factor[len(beside.groups)] * (2.0 if unit == "big" else 1.0))

    monkeypatch.setattr(joint_profile, "slowdown_beside", slowdown)
    found = profile_together(graphs, board, ["big", "little"], seconds=SECONDS)
    assert len(asked) == len(set(asked)) == 3 * 2 * 2
    for name, graph in graphs.items():
        others = [factor[len(one.groups)] for other, one in graphs.items() if other != name]
        mean = np.prod(others) ** 0.5
        assert found[name].contention["big"]["little"] == pytest.approx([2 * mean] * len(graph.groups))
        assert found[name].contention["little"]["big"] == pytest.approx([mean] * len(graph.groups))
    plans = schedule_search(graphs, found)
    assert set(plans.plan.plans) == set(graphs)


def test_an_error_of_the_other_network_is_raised(board, monkeypatch):
    """Not swallowed in its thread."""
    monkeypatch.setenv("PIPEALL_FAULT", "0:9")
    with pytest.raises(Exception, match="injected fault"):
        joint_profile.slowdown_beside(small_net(), "big", chain_net(3), "little", board, SECONDS)


def test_a_modelled_board_has_its_own():
    graphs = {"a": zoo_net("squeezenet"), "b": zoo_net("mobilenet")}
    model = Board.load("rk3588").model
    assert profile_together(graphs, "rk3588") == {name: model.profile(graph) for name, graph in graphs.items()}
    with pytest.raises(ArgumentError, match="graphs"):
        profile_together([graphs["a"]], "rk3588")
