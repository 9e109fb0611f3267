"""Shared weights: what a network takes, how they are trained beside ordinary training, and a search with them."""

from dataclasses import replace

import numpy as np
import pytest
from commands import document
from nas_nets import TREE, blobs

from pipeall import ArgumentError
from pipeall.nas.spaces.genome import Candidate, Hyper
from pipeall.nas.spaces.mobile_space import MobileSpace
from pipeall.nas.training.augment import TrainingRecipe
from pipeall.nas.training.evaluation import Training
from pipeall.nas.training.halving import Halving
from pipeall.nas.training.weighted_network import HEAD, create

torch = pytest.importorskip("torch", reason="needs pipeall[nas]")

from pipeall.nas.training.supernet import SHRINK, Supernet, drawn, parts  # noqa: E402
from pipeall.nas.training.training_loop import NORM_MOMENTUM, TRAINED, calibrated, train  # noqa: E402

SPACE = MobileSpace(2, (4, 6, 8, 10), side=8)
ONE_STEP = Hyper(0.1, 0.0, 1, 0.0, 0.0)


def random_architecture(seed, space=SPACE):
    return space.decode(space.random(np.random.default_rng(seed)))


@pytest.fixture(scope="module")
def shared():
    """Untrained shared weights, each number another one, and their data."""
    data = blobs(pictures=True)
    return create(SPACE.union(), data, 0), data


@pytest.mark.parametrize("blocks", MobileSpace.FIELDS)
def test_every_network_has_its_part(blocks):
    """Shapes are those of a network by itself; values those at the same place from the middle of the kernel."""
    data, space = blobs(pictures=True), MobileSpace(2, (4, 6, 8, 10), side=8, blocks=blocks)
    whole = create(space.union(), data, 0)
    for seed in range(8):
        architecture = random_architecture(seed, space)
        found = parts(replace(whole, architecture=architecture), whole.weights)
        own = create(architecture, data, 1).weights
        assert {index: [array.shape for array in layer] for index, layer in found.items()} == {
            index: [array.shape for array in layer] for index, layer in own.items()
        }
        for index in own.keys() - {HEAD}:
            taken_part, all_of_it = found[index][0], whole.weights[index][0]
            middle, centre = all_of_it.shape[-1] // 2, taken_part.shape[-1] // 2
            for unit, channel, i, j in np.ndindex(taken_part.shape):
                place = middle + i - centre, middle + j - centre
                assert taken_part[unit, channel, i, j] == all_of_it[(unit, channel, *place)]


def test_a_step_is_the_mean_of_the_networks_own_steps(shared):
    """What three networks change by themselves, each in its part, is a third of what they change together."""
    whole, data = shared
    three = [replace(whole, architecture=random_architecture(seed)) for seed in (0, 1, 2)]
    recipe = TrainingRecipe(batch=len(data.train) - 1)  # one is left out, for batch normalization
    together, _ = train(
        whole, data.train, ONE_STEP, 3, recipe, shares=lambda done, _, weights: [(n, parts(n, weights)) for n in three]
    )
    expected = {index: [np.zeros(array.shape) for array in layer[:TRAINED]] for index, layer in whole.weights.items()}
    for network in three:
        alone = replace(network, weights=parts(network, whole.weights))
        after, _ = train(alone, data.train, ONE_STEP, 3, recipe)
        for index, layer in parts(network, expected).items():
            for sums, new, old in zip(layer, after.weights[index], alone.weights[index], strict=False):
                sums += (new - old) / len(three)
    for index, layer in expected.items():
        for change, new, old in zip(layer, together.weights[index], whole.weights[index], strict=False):
            np.testing.assert_allclose(new - old, change, atol=1e-5 * max(1, np.abs(old).max()))


def test_a_training_of_one_part_is_its_own_training(shared):
    """With momentum, over several steps; the rest of the shared weights stays as it was."""
    whole, data = shared
    network = replace(whole, architecture=random_architecture(4))
    hyper, recipe = Hyper(0.05, 0.9, 2, 0.0, 0.0), TrainingRecipe(8)
    found, losses = train(
        whole, data.train, hyper, 1, recipe, shares=lambda done, _, weights: [(network, parts(network, weights))]
    )
    alone, own_losses = train(replace(network, weights=parts(network, whole.weights)), data.train, hyper, 1, recipe)
    assert losses == pytest.approx(own_losses, rel=1e-4)
    changed = 0
    for index, layer in parts(network, found.weights).items():
        for array, own in zip(layer, alone.weights[index], strict=True):
            np.testing.assert_allclose(array, own, atol=1e-4)
    for index, layer in whole.weights.items():
        changed += sum(int((new != old).sum()) for new, old in zip(found.weights[index], layer, strict=True))
    assert 0 < changed <= sum(array.size for layer in alone.weights.values() for array in layer)


def test_statistics_are_those_of_torch(shared):
    """BatchNorm2d without momentum: the mean over the batches; 300 samples are two batches."""
    whole, _ = shared
    x = np.random.default_rng(0).standard_normal((300, 1, 8, 8)).astype(np.float32) + 1
    network = replace(whole, architecture=SPACE.decode((1,) * SPACE.loci))
    network = replace(network, weights=parts(network, whole.weights))
    stem = network.architecture.blocks[0]
    norm = torch.nn.BatchNorm2d(stem.neurons, momentum=None)
    for batch in (x[:150], x[150:]):
        norm(torch.nn.functional.conv2d(torch.tensor(batch), torch.tensor(network.weights[stem.index][0]), padding=1))
    _, _, _, mean, variance = calibrated(network, x).weights[stem.index]
    np.testing.assert_allclose(mean, norm.running_mean, atol=1e-5)
    np.testing.assert_allclose(variance, norm.running_var, rtol=1e-4)
    assert NORM_MOMENTUM not in (1, 1 / 2)  # that of training would give other ones


@pytest.mark.parametrize(
    ("done", "joined"), [(0.0, []), (0.15, ["kernel"]), (0.25, ["kernel", "depth"]), (0.9, SHRINK)]
)
def test_sizes_join_one_after_the_other(done, joined):
    random = np.random.default_rng(0)
    bits = np.array([drawn(SPACE, done, 4, random) for _ in range(50)])  # steps, networks, loci
    chosen, sizes = SPACE.loci_of(*joined), SPACE.loci_of(*SHRINK)
    closed = sorted(set(sizes) - set(chosen))
    free = sorted(set(range(SPACE.loci)) - set(sizes))
    assert len(sizes) == 2 * 8 and len(free) == SPACE.loci - 16
    assert bits[:, :, closed].all() and bits[:, 0][:, sizes].all() and not bits[:, 1][:, chosen].any()
    for rows in (bits[:, 2:][:, :, chosen], bits[:, :1][:, :, free]):
        assert ((0.2 < rows.mean((0, 1))) & (rows.mean((0, 1)) < 0.8)).all()


def test_training_is_a_function_of_the_seed():
    data = blobs(pictures=True)
    first, again, other = (Supernet(2, seed=seed).trained(SPACE, data, TrainingRecipe(8)) for seed in (1, 1, 2))
    same = [
        [(a == b).all() for a, b in zip(layer, another.weights[index], strict=True)]
        for another in (again, other)
        for index, layer in first.weights.items()
    ]
    half = len(same) // 2
    assert all(map(all, same[:half])) and not all(map(all, same[half:]))


def test_training_that_diverges_is_told():
    with pytest.raises(ArgumentError, match="supernet: expected a rate at which training does not diverge, got 1e"):
        Supernet(2, rate=1e30).trained(SPACE, blobs(pictures=True), TrainingRecipe(8))


@pytest.mark.parametrize("wrong", [{"passes": 0}, {"rate": 0.0}, {"momentum": 1.0}, {"networks": 1}, {"tune": -1}])
def test_supernets_that_are_none(wrong):
    with pytest.raises(ArgumentError, match="supernet: expected passes"):
        Supernet(**wrong)


def test_what_a_supernet_does_not_go_with():
    with pytest.raises(ArgumentError, match="supernet: expected a mobile space, got TreeSpace"):
        Training(TREE, "digits", "folder", supernet=Supernet())
    with pytest.raises(ArgumentError, match="supernet: expected no halving"):
        Training(SPACE, "digits", "folder", supernet=Supernet(), halving=Halving())


@pytest.mark.parametrize("tune", [0, 2])
def test_scores_are_those_of_the_tuned_networks(tmp_path, tune):
    """Trained by hand from the part it takes; whatever seed and parent. The shared weights lie in the folder once."""
    training = Training(SPACE, "digits", str(tmp_path), samples=60, supernet=Supernet(3, tune=tune, seed=5))
    random = np.random.default_rng(0)
    one, other = (Candidate(SPACE.random(random)) for _ in range(2))
    score = training(one, 1)
    assert training(one, 2, other) == score != training(other, 1)
    shared, fit = training.shared(), training.load().train
    network = replace(shared, architecture=SPACE.decode(one.bits))
    network = replace(network, weights=parts(network, shared.weights))
    network, losses = train(network, fit, Hyper(0.02, 0.9, tune, 0.0, 0.0), 5)
    network = calibrated(network, fit.x)
    found = training.result(one)
    assert len(losses) == tune and all(
        (a == b).all()
        for index, layer in network.weights.items()
        for a, b in zip(layer, found.weights[index], strict=True)
    )
    assert score.weights == network.parameters
    assert len(list(tmp_path.glob("*-shared.npz"))) == 1


def test_shared_weights_do_not_depend_on_what_is_tuned(tmp_path):
    for tune in (0, 1):
        Training(SPACE, "digits", str(tmp_path), samples=60, supernet=Supernet(1, tune=tune)).shared()
    assert len(list(tmp_path.glob("*-shared.npz"))) == 1


SEARCH = (
    "--space mobile --widths 4,4,8,8 --stages 1 --kernels 3,5 --samples 200 --supernet 6 --batch 16 "
    "--population 3 --generations 1 --guided 2 --instances 2 --budget 6"
)


def test_a_search(tmp_path):
    """It learns something, ends the same with two workers, and goes on without training the shared weights again."""
    arguments = ("nas", "--data", "digits", *SEARCH.split())
    found = document(*arguments, "-o", tmp_path / "a")
    assert found["search"]["training"]["supernet"]["passes"] == 6
    assert found["accuracy"]["judged"] > 0.3  # a constant guess has 0.1
    assert found["winner"]["error"] < found["baselines"]["constant guess"]["error"]
    assert document(*arguments, "-o", tmp_path / "b", "--workers", 2)["winner"] == found["winner"]
    (shared,) = (tmp_path / "a" / "networks").glob("*-shared.npz")
    before, lines = shared.stat().st_mtime_ns, (tmp_path / "a" / "history.jsonl").read_bytes().splitlines(True)
    (tmp_path / "a" / "history.jsonl").write_bytes(b"".join(lines[:3]))
    assert document(*arguments, "-o", tmp_path / "a")["winner"] == found["winner"]
    assert shared.stat().st_mtime_ns == before
