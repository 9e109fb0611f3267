"""Memory of training and inference: the lecture's vectors, torch's saved tensors, the arena, the largest batch."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sizing_networks import REFERENCES, network

import pipeall
from pipeall import ArgumentError
from pipeall.graph.lower.lower import lower
from pipeall.graph.memory import live_bytes, padded, plan_arena
from pipeall.sizing.residence import arena, largest_batch, needs_of
from pipeall.sizing.training import LectureSpace, lecture_bytes, memory_function, saved_bytes, space

MB, GB, GIB = 1e6, 1e9, 2**30


def lecture(batch):
    """Paper 004: a model of 100 MB, samples of 100 MB, 500 MB of activations and gradients for each of them."""
    return lecture_bytes(100 * MB, 100 * MB, 500 * MB, batch)


def test_the_lecture_s_space():
    assert lecture(1) == 700 * MB and lecture(10) == 6.1 * GB and lecture(5) == 3.1 * GB


@pytest.mark.parametrize(
    "memory, batch, needed",
    [
        (8 * GB, 10, 6.1 * GB),
        (4 * GB, 5, 3.1 * GB),
        (2 * GB, 2, 1.3 * GB),
        (11 * GB, 14, 8.5 * GB),
        (8 * GIB, 11, 6.7 * GB),
    ],
)
def test_the_lecture_s_batches(memory, batch, needed):
    fit = largest_batch({"gpu": lecture}, {"gpu": memory})
    assert (fit.batch, fit.binding, fit.used["gpu"]) == (batch, "gpu", needed)
    assert fit.used["gpu"] <= fit.limits["gpu"] == round(0.8 * memory) < lecture(batch + 1)


def test_the_lecture_s_own_numbers_for_11_gb_are_not_what_its_rule_gives():
    """It says "12 or 15": 12 leaves room for two more, and 15 needs 83 %."""
    assert lecture(12) < lecture(14) <= 0.8 * 11 * GB
    assert lecture(15) == 9.1 * GB and round(100 * lecture(15) / (11 * GB)) == 83


def test_the_formula_on_a_network():
    """Caffe's AlexNet by hand: nothing of it shares memory but the flattened tensor."""
    found = space(network("alexnet"))
    assert found.model == 4 * 61_100_840 and found.data == 4 * 3 * 224 * 224
    convs = 2 * 4 * (64 * 55 * 55 + 192 * 27 * 27 + 384 * 13 * 13 + 2 * 256 * 13 * 13)  # with their ReLU
    pools = 4 * (64 * 27 * 27 + 192 * 13 * 13 + 2 * 256 * 6 * 6)
    heads = 4 * (9216 + 5 * 4096 + 1000)  # two dropouts, three layers, two ReLUs
    assert found.activations == convs + pools + heads
    assert LectureSpace(100, 10, 20).bytes_at(3) == 100 + 3 * (10 + 40)


@pytest.mark.parametrize("name", REFERENCES["saved"])
def test_what_autograd_saves(name):
    """To the byte, for each sample and whatever the batch."""
    expected = REFERENCES["saved"][name]
    assert saved_bytes(network(name, 224)) == (expected["per_sample"], expected["fixed"])


def test_alexnet_by_hand():
    """Input; conv and ReLU share; max-pools keep input and indices; adaptive pooling; dropout noise; fc inputs."""
    relus = 64 * 55 * 55 + 192 * 27 * 27 + 384 * 13 * 13 + 256 * 13 * 13 + 256 * 13 * 13
    pooled = 64 * 27 * 27 + 192 * 13 * 13 + 256 * 6 * 6
    heads = 2 * 9216 + 4 * 4096  # two noises, three inputs of layers of which one is a ReLU's result, the other ReLU
    assert 4 * (3 * 224 * 224 + relus + pooled + heads) + 8 * pooled == 3_741_184
    assert saved_bytes(network("alexnet")) == (3_741_184, 0)


@pytest.mark.parametrize("optimizer, states", [("sgd", 0), ("momentum", 1), ("adam", 2)])
def test_training_memory_is_the_sum_of_its_parts(optimizer, states):
    net = network("resnet18")
    at = memory_function(net, optimizer)
    each, fixed = saved_bytes(net)
    weights = 4 * 11_689_512
    for batch in (1, 2, 64):
        found = at(batch)
        assert (found.weights, found.weight_gradients, found.optimizer) == (weights, weights, states * weights)
        assert found.statistics == 4 * net.elements(net.statistics)
        assert batch * each < found.saved + found.transient < batch * (each + 4 * 3 * 64 * 112 * 112) + fixed + 1


def test_numbers_of_64_bits():
    """Twice the bytes, but for what maximum pooling keeps: indices have 64 bits in both (AlexNet's, by hand above)."""
    net = network("alexnet")
    wide = replace(net, float_bytes=8)
    pooled = 64 * 27 * 27 + 192 * 13 * 13 + 256 * 6 * 6
    assert saved_bytes(wide) == (2 * 3_741_184 - 8 * pooled, 0)
    one, two = (memory_function(each, "adam")(3) for each in (net, wide))
    for name in ("weights", "weight_gradients", "optimizer", "statistics"):
        assert getattr(two, name) == 2 * getattr(one, name)
    assert space(wide) == LectureSpace(*(2 * getattr(space(net), name) for name in ("model", "data", "activations")))


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ArgumentError, match="expected one of sgd, momentum, adam, got 'lion'"):
        memory_function(network("alexnet"), "lion")


@settings(deadline=None)
@given(
    st.integers(1, 10**12),
    st.integers(0, 10**9),
    st.integers(1, 10**9),
    st.floats(0.05, 1.0),
)
def test_the_largest_batch_is_the_largest(memory, model, each, share):

    def need(batch):
        return model + batch * each

    fit = largest_batch({"cpu": need}, {"cpu": memory}, share)
    assert fit.batch == max(0, (round(share * memory) - model) // each)


def test_which_memory_binds():
    """With a GPU the CPU's memory holds the model and one batch of data."""

    def small(batch):
        return 100 + 50 * batch

    needs = needs_of(small, model=100, data=10, on_gpu=True)
    assert needs["cpu"](4) == 140 and needs["gpu"](4) == 300
    fit = largest_batch(needs, {"cpu": 1000, "gpu": 500})
    assert (fit.batch, fit.binding, dict(fit.limits)) == (6, "gpu", {"cpu": 800, "gpu": 400})
    fit = largest_batch(needs, {"cpu": 200, "gpu": 5000})
    assert (fit.batch, fit.binding, fit.used["cpu"]) == (6, "cpu", 160)
    assert needs_of(small, 100, 10, on_gpu=False).keys() == {"cpu"}


@pytest.mark.parametrize(
    "sizes, share, words",
    [
        ({"cpu": 100.0}, 0.0, "share of the memory"),
        ({"cpu": 100.0}, 1.5, "share of the memory"),
        ({"cpu": -1.0}, 0.8, "memory cpu: expected a positive size"),
        ({"gpu": 1.0}, 0.8, "expected sizes of cpu, got gpu"),
    ],
)
def test_what_is_no_memory(sizes, share, words):
    with pytest.raises(ArgumentError, match=words):
        largest_batch({"cpu": lambda batch: batch}, sizes, share)


def test_a_network_without_activations_has_no_largest_batch():
    with pytest.raises(ArgumentError, match="samples fit"):
        largest_batch({"cpu": lambda batch: 1}, {"cpu": 100.0})


@pytest.mark.parametrize("name", ["alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet"])
def test_the_arena_is_what_runs_and_next_to_the_least(name):
    graph = getattr(pipeall.zoo, name)()
    found = arena(graph)
    assert found.planned == 4 * lower(graph).arena_bytes // 4
    assert found.least <= found.planned <= 1.05 * found.least < found.naive


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 12), st.integers(0, 6)), max_size=20))
def test_no_two_storages_that_live_together_overlap(storages):
    sizes = {number: size for number, (size, _, _) in enumerate(storages)}
    lifetimes = {number: (first, first + length) for number, (_, first, length) in enumerate(storages)}
    offsets, end = plan_arena(sizes, lifetimes)
    least = max(
        (sum(padded(sizes[n]) for n, (a, b) in lifetimes.items() if a <= step <= b) for step in range(20)), default=0
    )
    assert live_bytes(sizes, lifetimes) == least <= end <= sum(map(padded, sizes.values()))
    for a in sizes:
        for b in range(a):
            if lifetimes[a][0] <= lifetimes[b][1] and lifetimes[b][0] <= lifetimes[a][1]:
                assert offsets[a] + padded(sizes[a]) <= offsets[b] or offsets[b] + padded(sizes[b]) <= offsets[a]
