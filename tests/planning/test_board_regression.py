"""Times of networks that nobody measured on a board: the regression over the groups of those that somebody did."""

from math import inf

import numpy as np
import pytest
from graphs import Net, zoo_net

from pipeall.pipeline.boards.models import regression
from pipeall.pipeline.boards.models.board_model import BoardModel
from pipeall.pipeline.boards.models.price_list import PriceList
from pipeall.pipeline.planning.plan import Plan
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.profile import Profile
from pipeall.pipeline.planning.search import search
from tools.board_models import fit_boards

UNITS = ("big", "little", "gpu")
WITH_GPU = ("a311d", "rk3399", "rk3588", "rk3566", "rk3576", "orion-o6", "a311d-armcl", "rk3399pro")


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


def digits_net(width: int, layers: int):
    """What a search for handwritten digits ends at: so many convolutions of 8 x 8 pixels, pooling, logits."""
    net = Net((1, 1, 8, 8))
    x = net.op("maxpool", net.conv("x0", width, 3))
    for _ in range(layers - 1):
        x = net.conv(x, 2 * width, 3)
    return net.graph(net.op("softmax", net.fc(net.global_pool(x), 10)))


@pytest.mark.parametrize("name", WITH_GPU)
@pytest.mark.parametrize("network", ["digits", "mobilenet", "resnet50", "googlenet", "squeezenet"])
def test_no_group_takes_less_on_a_gpu_than_starting_its_kernels(name, network):
    """Pooling and logits among them: a group takes at least a start for each of its ops."""
    graph = digits_net(4, 1) if network == "digits" else zoo_net(network)
    model = BoardModel.load(name)
    least = fit_boards.FLOORS["gpu"]
    assert dict(zip(regression.FEATURES, model.pricing["gpu"].prices, strict=True))["ms_per_op"] >= least
    for group, ms in zip(graph.groups, model.profile(graph).units["gpu"].ms, strict=True):
        measured = network != "digits" and not isinstance(
            model.pricing["big"], PriceList
        )  # as a whole: ARM's library may fuse its ops
        assert ms >= least * (1 if measured else len(group.nodes))


SMALL = ((4, 1), (16, 2), (64, 3))
DIGITS = [(name, width, layers) for name in ("a311d", "rk3399", "rk3588") for width, layers in SMALL]


@pytest.mark.parametrize("name, width, layers", [*DIGITS, ("a311d-armcl", 4, 1)])
def test_a_small_network_is_not_sent_to_the_gpu_for_nothing(name, width, layers):
    """Nor a part of it. With ARM's library, whose ops take 0.15 ms on cores too, a GPU may gain for larger ones."""
    graph = digits_net(width, layers)
    profile = BoardModel.load(name).profile(graph)
    for objective in ("throughput", "latency"):
        assert "gpu" not in search(graph, profile, objective=objective, plans="pipelines").best.components


def test_a_floor_binds_only_what_would_be_below_it():
    truth = np.array([2.0, 3.0, 0.5, 0.1, 4.0, 0.05])
    features = np.random.default_rng(0).uniform(0.1, 1.0, (20, len(truth)))
    samples = [regression.Sample(features, {"big": features @ truth, "gpu": features @ truth})]
    prices = regression.fit(samples, {"gpu": 0.03})
    assert prices["gpu"] == pytest.approx(truth, rel=1e-3) and prices["big"] == pytest.approx(truth, rel=1e-3)
    raised = regression.fit(samples, {"gpu": 0.2})
    assert raised["gpu"][regression.STARTS] == pytest.approx(0.2) and np.all(raised["gpu"] >= 0)
    assert raised["big"][regression.STARTS] < 0.2
