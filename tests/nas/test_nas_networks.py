"""Networks of the search: training against torch's own, pruning against a mask, export against training."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from nas_nets import SPACES, STAGES, TREE, blobs, random_network

from pipeall import ArgumentError
from pipeall.errors import MissingExtraError
from pipeall.graph.ops import run_graph
from pipeall.nas.placement import Limits, Target, place
from pipeall.nas.spaces.genome import LEVELS, Candidate, Hyper
from pipeall.nas.training import weighted_network as networks
from pipeall.nas.training.augment import TrainingRecipe
from pipeall.nas.training.evaluation import Pruning, Training
from pipeall.nas.training.fitness import Fitness, accuracy, constant, error, slow
from pipeall.nas.training.prune import prune_vectors
from pipeall.nas.training.weighted_network import HEAD, create, to_graph

torch = pytest.importorskip("torch", reason="needs pipeall[nas]")

from pipeall.nas.training.training_loop import predict, train  # noqa: E402

ALL = (1,) * STAGES.loci
HYPER = Hyper(0.1, 0.9, 4, 0.0, 0.0)


def data_for(space, task="classes"):
    return blobs(task, pictures=space is STAGES)


# ---- training ----


def reference(network, x):
    """The forward pass in float64 NumPy, by the definition of a block; dense networks."""
    values = {0: x.reshape(len(x), -1).astype(np.float64)}
    for block in network.architecture.blocks:
        weight, bias = network.weights[block.index]
        values[block.index] = np.maximum(np.concatenate([values[i] for i in block.inputs], axis=1) @ weight.T + bias, 0)
    weight, bias = network.weights[HEAD]
    logits = values[network.architecture.blocks[-1].index] @ weight.T + bias
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True) if network.classifies else logits


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_predictions(task):
    data = data_for(TREE, task)
    network = random_network(TREE, data)
    np.testing.assert_allclose(predict(network, data.test.x), reference(network, data.test.x), atol=2e-5)


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_training_is_that_of_torchs_optimizer(task):
    """A network of one block as torch.nn modules under torch.optim.SGD, in the same order of samples."""
    data = data_for(TREE, task)
    bits = np.zeros(TREE.loci, int)
    bits[[0, 1, 3]] = 1  # a path: blocks 4, 2, 1
    network = create(TREE.decode(tuple(bits)), data, 0)
    trained, losses = train(network, data.train, HYPER, seed=3, recipe=TrainingRecipe(8))

    names = [block.index for block in network.architecture.blocks] + [HEAD]
    layers = []
    for name in names:
        weight, bias = network.weights[name]
        layers.append(torch.nn.Linear(weight.shape[1], len(weight)))
        layers[-1].load_state_dict({"weight": torch.tensor(weight), "bias": torch.tensor(bias)})
    parts = [part for layer in layers for part in (layer, torch.nn.ReLU())][:-1]
    model = torch.nn.Sequential(*parts)
    optimizer = torch.optim.SGD(model.parameters(), lr=HYPER.learning_rate, momentum=HYPER.momentum)
    steps = HYPER.cycles * 3  # 20 samples, 8 at a time
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    random, x, y = np.random.default_rng(3), torch.tensor(data.train.x), torch.tensor(data.train.y)
    loss_of = torch.nn.functional.cross_entropy if task == "classes" else lambda a, b: ((a[:, 0] - b) ** 2).mean() / 2
    for cycle in range(HYPER.cycles):
        order, total = random.permutation(20), 0.0
        for start in range(0, 20, 8):
            chosen = order[start : start + 8]
            optimizer.zero_grad()
            loss = loss_of(model(x[chosen]), y[chosen])
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        assert losses[cycle] == pytest.approx(total / 20, rel=1e-4)
    for name, layer in zip(names, layers, strict=True):
        np.testing.assert_allclose(trained.weights[name][0], layer.weight.detach(), atol=1e-4)


def test_a_rate_that_stays_and_a_loss_that_ends_a_training():
    """A head of biases alone under softmax, each pattern by itself: NumPy's descent in float64 is the reference."""
    data = data_for(TREE)
    network = create(TREE.decode((0,) * TREE.loci), data, 0)
    hyper = HYPER._replace(momentum=0.0)
    trained, losses = train(network, data.train, hyper, seed=3, recipe=TrainingRecipe(1, steady=True))
    random, bias = np.random.default_rng(3), np.zeros(data.outputs)
    for cycle in range(hyper.cycles):
        total = 0.0
        for index in random.permutation(len(data.train)):
            p = np.exp(bias) / np.exp(bias).sum()
            total -= np.log(p[data.train.y[index]])
            bias -= hyper.learning_rate * (p - np.eye(data.outputs)[data.train.y[index]])
        assert losses[cycle] == pytest.approx(total / len(data.train), rel=1e-5)
    np.testing.assert_allclose(trained.weights[HEAD][1], bias, atol=1e-5)
    falling = train(network, data.train, hyper, seed=3, recipe=TrainingRecipe(1))[1]
    assert falling[0] != losses[0]
    bound = np.nextafter(losses[1], np.inf) if losses[1] < losses[0] else np.nextafter(losses[0], np.inf)
    ended = train(network, data.train, hyper, seed=3, recipe=TrainingRecipe(1, steady=True, until=bound))[1]
    assert ended == losses[: next(i for i, loss in enumerate(losses) if loss < bound) + 1]


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_training_learns_and_repeats(space):
    data = data_for(space)
    network = random_network(space, data)
    threads = torch.get_num_threads()
    first, again = (
        train(network, data.train, HYPER._replace(cycles=40, learning_rate=0.03), 1, TrainingRecipe(8))[0]
        for _ in range(2)
    )
    assert torch.get_num_threads() == threads
    for index, layer in first.weights.items():
        assert all((a == b).all() for a, b in zip(layer, again.weights[index], strict=True))
    assert accuracy(data, predict(first, data.test.x), data.test.y) >= 0.9


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"torch.*pipeall\[nas\]"):
        predict(random_network(TREE, blobs()), blobs().test.x)


def test_a_training_that_diverges_gives_the_network_back():
    data = data_for(TREE, "numbers")
    network = random_network(TREE, data)
    found, losses = train(network, data.train, HYPER._replace(learning_rate=1e6), 0)
    assert found is network and not np.isfinite(losses[-1])


# ---- weights ----


def test_inherited_weights():
    """A child with one more connection: the block that reads it keeps the columns it had."""
    data = data_for(TREE)
    parent = random_network(TREE, data, seed=1)
    bits = (1, 1, 1, 1, 0, 0, 1)
    architecture = TREE.decode(bits)
    blocks = {block.index: block for block in architecture.blocks}
    parent = create(architecture, data, 1)
    child = create(TREE.decode((1, 1, 0, 1, 0, 0, 0)), data, 2, parent)
    for block in child.architecture.blocks:
        own, theirs = child.columns_of(block), parent.columns_of(blocks[block.index])
        assert set(own) <= set(theirs)
        for index, columns in own.items():
            weight = child.weights[block.index][0][:, columns]
            assert (weight == parent.weights[block.index][0][:, theirs[index]]).all()
    assert (child.weights[HEAD][0] == parent.weights[HEAD][0]).all()
    fresh = create(child.architecture, data, 2)
    assert not (fresh.weights[HEAD][0] == parent.weights[HEAD][0]).any()


def test_new_weights_keep_the_length_of_activations():
    """chi_1 = 1: the mean square of a wide ReLU layer's sums is that of its inputs times 2, of its outputs the same."""
    data = blobs()
    wide = replace(TREE, neurons=500, max_nodes=4000)
    network = create(wide.decode((1, 1, 0, 1, 0, 0, 0)), data, 0)
    x = np.random.default_rng(0).standard_normal((200, 5)).astype(np.float32)
    value, lengths = x, []
    for block in network.architecture.blocks:
        value = np.maximum(value @ network.weights[block.index][0].T, 0)
        lengths.append((value**2).mean() / (x**2).mean())
    assert lengths == pytest.approx([1, 1, 1], abs=0.25)  # five inputs: a spread of sqrt(2 / 5 / 500) and the products


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_saved_and_loaded(tmp_path, space):
    data = data_for(space)
    network = prune_vectors(random_network(space, data), 0.3)
    networks.save(tmp_path / "a.npz", network)
    again = networks.load(tmp_path / "a.npz", data)
    assert again.architecture == network.architecture
    assert (predict(again, data.test.x) == predict(network, data.test.x)).all()
    with pytest.raises(ArgumentError, match="expected float32|expected a network"):
        networks.load(tmp_path / "a.npz", replace(data, outputs=4))
    np.savez(tmp_path / "b.npz", meta=np.array("{}"))
    with pytest.raises(ArgumentError, match="b.npz: expected a network of format"):
        networks.load(tmp_path / "b.npz", data)


# ---- pruning ----


def masked(network, small, norms):
    """The network with the rows that ``small`` lacks set to zero instead of removed."""
    kept = {block.index: block.neurons for block in small.architecture.blocks}
    weights = {HEAD: network.weights[HEAD]}
    for block in network.architecture.blocks:
        keep = np.argsort(norms[block.index], kind="stable")[block.neurons - kept.get(block.index, 0) :]
        mask = np.zeros(block.neurons, np.float32)
        mask[keep] = 1
        weight, bias = network.weights[block.index]
        weights[block.index] = (weight * mask.reshape(-1, *(1,) * (weight.ndim - 1)), bias * mask)
    return replace(network, weights=weights)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("seed", range(4))
def test_a_pruned_network_computes_what_the_masked_one_does(space, fraction, seed):
    data = data_for(space)
    network = random_network(space, data, seed)
    small = prune_vectors(network, fraction)
    norms = {
        block.index: np.linalg.norm(network.weights[block.index][0].reshape(block.neurons, -1), axis=1)
        for block in network.architecture.blocks
    }
    assert small.parameters <= (1 - fraction) * network.parameters
    expected = predict(masked(network, small, norms), data.test.x)
    np.testing.assert_allclose(predict(small, data.test.x), expected, atol=1e-6)
    for block in small.architecture.blocks:  # built smaller: no row or column of zeros is left
        assert small.weights[block.index][0].any(axis=tuple(range(1, small.weights[block.index][0].ndim))).all()
    if fraction == 0:
        assert small.parameters == network.parameters


def test_units_that_go_together():
    data = blobs(pictures=True)
    small = prune_vectors(create(STAGES.decode(ALL), data, 0), 0.5, together=2)
    assert small.architecture.blocks and all(block.neurons % 2 == 0 for block in small.architecture.blocks)


@pytest.mark.parametrize("fraction", [-0.1, 1.0])
def test_fractions_that_are_none(fraction):
    with pytest.raises(ArgumentError, match="expected 0 to below 1"):
        prune_vectors(random_network(TREE, blobs()), fraction)


def test_pruned_networks_need_fewer_operations():
    """MACs of the graph as pipeall runs it, at least half of them gone with half of the weights of a dense network."""
    from pipeall.graph.ops import macs

    data = blobs()
    network = random_network(replace(TREE, neurons=30, max_nodes=1024), data)
    before, after = (to_graph(n, data) for n in (network, prune_vectors(network, 0.5)))
    counted = [sum(macs(node, graph) for node in graph.nodes) for graph in (before, after)]
    assert counted[1] <= 0.55 * counted[0]


# ---- graphs ----


@pytest.mark.parametrize("task", ["classes", "numbers"])
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_the_graph_computes_what_was_trained(space, task):
    """From raw features, and in the target's own unit."""
    data = data_for(space, task)
    network = random_network(space, data)
    graph = to_graph(network, data)
    expected = predict(network, data.test.x[:3])
    if task == "numbers":
        expected = expected * data.target_width + data.target_low
    for x, wanted in zip(data.test.x[:3], expected, strict=True):
        raw = x if data.spread is None else x * data.spread + data.centre
        (found,) = run_graph(graph, {"input": raw[None]}).values()
        np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=2e-5)


def test_a_bias_alone():
    data = blobs()
    network = create(TREE.decode((0,) * TREE.loci), data, 0)
    network.weights[HEAD][1][:] = (0, 1, 2)
    expected = np.exp([0, 1, 2]) / np.exp([0, 1, 2]).sum()
    np.testing.assert_allclose(predict(network, data.test.x), np.tile(expected, (20, 1)), rtol=1e-5)
    (found,) = run_graph(to_graph(network, data), {"input": data.test.x[:1]}).values()
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)


# ---- scores ----


def test_errors_by_their_definition():
    data = blobs()
    random = np.random.default_rng(0)
    output = random.dirichlet(np.ones(3), 20)
    one_hot = np.eye(3)[data.test.y]
    assert error(data, output, data.test.y) == pytest.approx(np.abs(output - one_hot).sum() / (20 * 3))
    assert error(data, np.full((20, 3), np.nan), data.test.y) == np.inf
    shares = np.bincount(data.train.y, minlength=3) / 20
    assert error(data, constant(data, data.test), data.test.y) == pytest.approx(np.abs(shares - one_hot).mean())
    numbers = blobs("numbers")
    assert error(numbers, np.zeros((20, 1)), numbers.test.y) == pytest.approx(np.abs(numbers.test.y).mean())
    assert accuracy(numbers, numbers.test.y[:, None], numbers.test.y) == 1


def test_fitness_as_read_and_as_printed():
    hyper = Hyper(0.5, 0.9, 1, 0, 0)
    assert Fitness()(0.2, 50, 100, 0.7, hyper) == pytest.approx(0.2 + 0.01 * 0.5 + 0.01 * 0.7)
    assert Fitness(prune_sign=-1)(0.2, 50, 100, 0.7, hyper) == pytest.approx(0.2 + 0.01 * 0.5 - 0.01 * 0.7)
    assert Fitness(variant="printed")(0.2, 50, 100, 0.7, hyper) == pytest.approx(0.2 + 0.5 * 0.5 + 0.9 * 0.7)
    assert slow(50, 100, 0.1) == pytest.approx(0.1) and slow(200, 100, 0.1) == 0


def test_scores_of_a_board(tmp_path):
    """Against search on the same profile; the penalty, and what does not fit."""
    from pipeall import Board
    from pipeall.pipeline.planning.search import search

    common = dict(samples=60, levels=LEVELS._replace(learning_rate=(0.03,) * 3, cycles=(1, 1, 1)))
    training = Training(STAGES, "digits", str(tmp_path), target=Target("a311d-armcl"), **common)
    candidate = Candidate(ALL)
    score = training(candidate, 1)
    graph = to_graph(training.result(candidate), training.load())
    best = search(graph, Board.load("a311d-armcl").model.profile(graph), plans="pipelines").ranked[0].prediction
    assert (score.fps, score.latency_ms) == (best.fps, best.latency_ms)
    weights = 4 * training.result(candidate).parameters
    assert (
        weights < score.memory_bytes < weights + 400_000
        and score.memory_bytes == place(graph, training.target).memory_bytes
    )
    wanted = replace(training, target=Target("a311d-armcl", fps=2 * score.fps, weight=0.3))
    assert wanted(candidate, 1).fitness == pytest.approx(score.fitness + 0.3)
    small = replace(
        training, target=Target("a311d-armcl", memory_bytes=1.2 * score.memory_bytes)
    )  # 80 % of it are less
    assert small(candidate, 1).fitness == np.inf


def test_limits_are_judged_at_the_bad_end():
    """Just within the interval's bad end and just beyond it; the figure in the middle is not what counts."""
    data = data_for(STAGES)
    graph = to_graph(random_network(STAGES, data), data)
    plain = place(graph, Target("rpi5"))
    fps, latency = plain.interval.fps, plain.interval.latency_ms
    assert plain.worst == (fps[0], latency[1], None) and fps[0] < plain.choice.prediction.fps < fps[1]
    for name, bad, better in (("min_fps", fps[0], 0.999), ("max_latency_ms", latency[1], 1.001)):
        for factor, fits in ((better, True), (1 / better, False)):
            target = Target("rpi5", limits=Limits(**{name: bad * factor}))
            assert place(graph, target).fits(target) == fits, name
    with pytest.raises(ArgumentError, match="max energy: expected a board of known power, 'rpi5' is none"):
        place(graph, Target("rpi5", limits=Limits(max_energy_mj=1.0)))
    with pytest.raises(ArgumentError, match="limits: expected positive numbers"):
        Limits(min_fps=0)


def test_a_slower_plan_that_keeps_the_limits():
    """AlexNet on a board of known power: energy and latency that the fastest plan does not keep."""
    from pipeall import Board, zoo
    from pipeall.pipeline.planning.search import search

    graph, board = zoo.alexnet(), "a311d-armcl"
    fastest = place(graph, Target(board))
    front = search(graph, Board.load(board).model.profile(graph), plans="pipelines").pareto
    for name, place_of in (("max_latency_ms", "latency_ms"), ("max_energy_mj", "energy_mj")):
        least = min(getattr(choice.prediction, place_of) for choice in front)
        assert least < getattr(fastest.choice.prediction, place_of)
        worst = fastest.worst[1 + (place_of == "energy_mj")]
        target = Target(board, limits=Limits(**{name: 0.98 * worst}))
        found = place(graph, target)
        assert found.fits(target) and found.choice.prediction.fps <= fastest.choice.prediction.fps
        assert not fastest.fits(target)


def test_what_does_not_keep_the_limits_is_not_trained(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeall.nas.training.evaluation.train", None)  # a call would fail
    training = Training(STAGES, "digits", str(tmp_path), target=Target("rpi5", limits=Limits(min_fps=1e9)))
    score = training(Candidate(ALL), 1)
    assert score.fitness == score.error == np.inf and 0 < score.fps < 1e9


def test_evaluation_is_a_function_of_its_arguments(tmp_path):
    """Another folder, another order: the same scores; the parent's weights count."""
    common = dict(
        samples=60, levels=LEVELS._replace(learning_rate=(0.1,) * 3, cycles=(2, 2, 2)), pruning=Pruning(0.5, 1.0)
    )
    space = replace(TREE, neurons=8)
    one, other = (Training(space, "digits", str(tmp_path / name), **common) for name in "ab")
    for training in (one, other):
        (tmp_path / training.folder).mkdir()
    parent, child = Candidate((1,) * 7), Candidate((1, 1, 1, 1, 0, 1, 1))
    first, inherited = one(parent, 5), one(child, 6, parent)
    alone = other(child, 6)
    assert (other(parent, 5), other(child, 6, parent)) == (first, inherited) and alone != inherited
    assert 0.5 <= first.pruned < 0.7 and first.weights == one.result(parent).parameters
    bits = (0,) + (1,) * 6
    assert one(Candidate(bits), 1).fitness == np.inf  # a bias alone is the worst
