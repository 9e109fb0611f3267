"""Times of networks that nobody measured on a board: the regression over the groups of those that somebody did."""

import sys
from math import inf
from pathlib import Path

import numpy as np
import pytest
from graphs import Net, zoo_net

from pipeall.pipeline.boards import regression
from pipeall.pipeline.boards.model import BoardModel
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.search import search

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))
import fit_boards  # noqa: E402

UNITS = ("big", "little", "gpu")


@pytest.mark.parametrize("name, networks", [("a311d-armcl", 4), ("rk3399pro", 5)])
def test_networks_left_out_are_predicted_within_a_fifth(name, networks):
    model = BoardModel.load(name)
    samples = {
        known.profile.network: known.sample(fit_boards.network(known.profile.network))
        for known in model.networks
        if known.fitted
    }
    assert len(samples) == networks
    errors = regression.leave_one_out(samples, fit_boards.FLOORS)
    assert list(errors) == list(UNITS)
    for unit, row in errors.items():
        assert row == pytest.approx(model.errors[unit], abs=1e-3)
        assert len(row) == networks and max(map(abs, row.values())) <= 0.20


@pytest.mark.parametrize("name", ["a311d-armcl", "rk3399pro"])
@pytest.mark.parametrize("network", ["small", "resnet50", "squeezenet"])
def test_any_network_gets_finite_times(name, network):
    net = Net((1, 3, 32, 32))
    x = net.op("maxpool", net.conv("x0", 8, 3))
    x = net.conv(net.conv(x, 8, 3, groups=8), 16)
    small = net.graph(net.op("softmax", net.fc(net.global_pool(x), 10)))
    graph = small if network == "small" else zoo_net(network)
    profile = BoardModel.load(name).profile(graph)
    for times in profile.units.values():
        assert len(times.ms) == len(graph.groups) == len(times.power_w)
        assert all(0 < ms < inf for ms in times.ms)
    assert predict(profile, Plan.parallel(UNITS)).energy_mj > 0
    assert Profile.from_dict(profile.to_dict(), "here").crossing_bytes == profile.crossing_bytes


@pytest.mark.parametrize("name", ["a311d-armcl", "rk3399pro"])
@pytest.mark.parametrize("network", ["tiny", "mobilenet", "resnet50", "googlenet", "squeezenet"])
def test_no_group_takes_less_on_a_gpu_than_starting_its_kernels(name, network):
    net = Net((1, 1, 8, 8))
    x = net.op("maxpool", net.conv("x0", 4, 3))
    tiny = net.graph(net.op("softmax", net.fc(net.global_pool(x), 10)))
    graph = tiny if network == "tiny" else zoo_net(network)
    model = BoardModel.load(name)
    least, profile = fit_boards.FLOORS["gpu"], model.profile(graph)
    assert dict(zip(regression.FEATURES, model.prices["gpu"], strict=True))["ms_per_op"] >= least
    assert min(profile.units["gpu"].ms) >= least
    if network == "tiny":  # five kernels, and what they start from and leave
        assert sum(profile.units["gpu"].ms) >= 5 * least
    if (network, name) == (
        "tiny",
        "a311d-armcl",
    ):  # the other's cores take 0.15 ms an op, by groups of large networks alone
        assert search(graph, profile).best == Plan.single("big")


def test_a_floor_binds_only_what_would_be_below_it():
    truth = np.array([2.0, 3.0, 0.5, 0.1, 4.0, 0.05])
    features = np.random.default_rng(0).uniform(0.1, 1.0, (20, len(truth)))
    samples = [regression.Sample(features, {"big": features @ truth, "gpu": features @ truth})]
    prices = regression.fit(samples, {"gpu": 0.03})
    assert prices["gpu"] == pytest.approx(truth, rel=1e-3) and prices["big"] == pytest.approx(truth, rel=1e-3)
    raised = regression.fit(samples, {"gpu": 0.2})
    assert raised["gpu"][regression.STARTS] == pytest.approx(0.2) and np.all(raised["gpu"] >= 0)
    assert raised["big"][regression.STARTS] < 0.2
