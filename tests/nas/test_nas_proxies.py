"""Zero-cost proxies against their definitions in closed form, and the first networks that they choose."""

from dataclasses import replace
from math import inf, log

import numpy as np
import pytest
from commands import document, invoke
from nas_nets import TREE, blobs

from pipeall import ArgumentError
from pipeall.nas.architecture_search import Search
from pipeall.nas.datasets import Samples
from pipeall.nas.placement import Limits, Target
from pipeall.nas.search.evolve import SCREENED, Settings, first_candidates
from pipeall.nas.spaces.mobile_space import MobileSpace
from pipeall.nas.training.evaluation import Training
from pipeall.nas.training.weighted_network import HEAD, create

torch = pytest.importorskip("torch", reason="needs pipeall[nas]")

from pipeall.nas.training.proxies import PROXIES, gradient_norm, proxy, relu_patterns, synaptic_flow  # noqa: E402

SPACE = MobileSpace(2, (4, 6, 8, 10), side=8)


def chain():
    """Blocks 4, 2, 1 behind each other, without biases: matrices in their order, the head's last."""
    data = blobs()
    network = create(TREE.decode((1, 1, 0, 1, 0, 0, 0)), data, 0)
    names = [block.index for block in network.architecture.blocks] + [HEAD]
    return network, data, [network.weights[name][0].astype(np.float64) for name in names]


def test_the_gradient_is_that_of_torchs_modules():
    network, data, matrices = chain()
    layers = []
    for matrix in matrices:
        layers += [torch.nn.Linear(matrix.shape[1], len(matrix), bias=False, dtype=torch.float64), torch.nn.ReLU()]
        layers[-2].weight = torch.nn.Parameter(torch.tensor(matrix))
    model = torch.nn.Sequential(*layers[:-1])
    torch.nn.functional.cross_entropy(model(torch.tensor(data.train.x).double()), torch.tensor(data.train.y)).backward()
    squares = sum(float((weight.grad**2).sum()) for weight in model.parameters())
    assert gradient_norm(network, data.train) == pytest.approx(log(squares), rel=1e-5)


def test_flow_in_closed_form():
    """R is linear in each matrix, so each contributes R itself: the product of all matrices, summed."""
    network, data, matrices = chain()
    product = np.ones(matrices[0].shape[1])
    for matrix in matrices:
        product = np.abs(matrix) @ product
    assert synaptic_flow(network, data.train) == pytest.approx(log(len(matrices) * product.sum()), rel=1e-6)
    other = Samples(data.train.x + 5, data.train.y)
    assert synaptic_flow(network, other) == synaptic_flow(network, data.train)


def test_patterns_by_counting():
    network, data, matrices = chain()
    samples = Samples(data.train.x[:6], data.train.y[:6])
    value, on = samples.x.astype(np.float64), []
    for matrix in matrices[:-1]:
        value = np.maximum(value @ matrix.T, 0)
        on.append(value > 0)
    codes = np.concatenate(on, axis=1)
    kernel = np.array([[np.sum(a == b) for b in codes] for a in codes], float)
    assert relu_patterns(network, samples) == pytest.approx(log(np.linalg.det(kernel)))
    same = Samples(np.repeat(samples.x[:1], 6, axis=0), samples.y)
    assert relu_patterns(network, same) == -inf


@pytest.mark.parametrize("name", PROXIES)
def test_proxies_of_normed_networks_are_numbers(name):
    data = blobs(pictures=True)
    random = np.random.default_rng(1)
    found = [proxy(name, create(SPACE.decode(SPACE.random(random)), data, 0), data.train) for _ in range(3)]
    assert np.isfinite(found).all() and len(set(found)) == 3


def test_a_proxy_that_is_no_number():
    network, data, _ = chain()
    network.weights[HEAD][0][:] = np.nan
    assert proxy("gradient", network, data.train) == -inf


def test_the_first_networks_are_those_of_most_worth():
    hyper = [(1, 1, 1, 1, 1), (2, 0, 1, 1, 1)]
    drawn = first_candidates(TREE, 2, np.random.default_rng(3), hyper * SCREENED)
    chosen = first_candidates(TREE, 2, np.random.default_rng(3), hyper, lambda candidate: sum(candidate.bits))
    ones = sorted((sum(candidate.bits) for candidate in drawn), reverse=True)
    assert [sum(candidate.bits) for candidate in chosen] == ones[:2]


def test_what_is_beyond_a_limit_is_worth_nothing(tmp_path):
    training = Training(SPACE, "digits", str(tmp_path), samples=80, target=Target("rpi5", limits=Limits(min_fps=1e9)))
    search = Search(training, Settings(population=2), proxy="synflow")
    candidate = first_candidates(SPACE, 1, np.random.default_rng(0))[0]
    assert search.worth(candidate) == -inf
    assert replace(search, training=replace(training, target=None)).worth(candidate) > -inf
    with pytest.raises(ArgumentError, match="proxy: expected gradient, synflow, patterns, got 'size'"):
        replace(search, proxy="size")


def test_the_command(tmp_path):
    arguments = (
        "nas --data digits --space tree --depth 2 --neurons 8 --samples 50 --cycles 1,1,2 --lr 0.01,0.03,0.1 "
        "--population 2 --generations 1 --guided 0 --budget 2 --start random --proxy "
    )
    found = document(*f"{arguments}patterns".split(), "-o", tmp_path / "a")
    assert found["search"]["proxy"] == "patterns"
    assert invoke(*f"{arguments}size".split(), "-o", tmp_path / "b").exit_code == 2
