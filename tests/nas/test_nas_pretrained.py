"""A warm start: what the first convolutions compute is what the classifier computes, in training too."""

from dataclasses import replace

import numpy as np
import pytest
from commands import document, invoke
from nas_nets import blobs

from pipeall import load
from pipeall.graph.onnx.write.write import onnx_bytes
from pipeall.nas.spaces.genome import SOURCE, Architecture, Hyper
from pipeall.nas.spaces.network_blocks import Builder
from pipeall.nas.training.augment import TrainingRecipe
from pipeall.nas.training.weighted_network import create, to_graph

pytest.importorskip("torch", reason="needs pipeall[nas]")
pytest.importorskip("onnx", reason="needs pipeall[onnx]")

from pipeall.nas.training.pretrained import with_pretrained  # noqa: E402
from pipeall.nas.training.training_loop import outputs_of_blocks, train  # noqa: E402


def architecture(kernel=3, neurons=6):
    """An inverted residual with a gate, then a residual block whose first kernel is given."""
    build = Builder()
    x = build.conv((0, 0), SOURCE, 4, 3, stride=2)
    x = build.inverted((1, 0), x, 4, 4, 3, 1, 2, True)
    build.residual((2, 0), x, 4, neurons, kernel, 2)
    return Architecture("mobile", tuple(build.blocks))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A trained network, its data and its file."""
    data = blobs(pictures=True)
    network = train(create(architecture(), data, 1), data.train, Hyper(0.05, 0.9, 3, 0, 0), 1, TrainingRecipe(8))[0]
    path = tmp_path_factory.mktemp("warm") / "classifier.onnx"
    path.write_bytes(onnx_bytes(to_graph(network, data)))
    return network, data, path


@pytest.mark.parametrize("training", [False, True])
def test_the_same_network_computes_the_same(classifier, training):
    """On the pictures that normalization was set on: their own mean and variance are the stored ones."""
    network, data, path = classifier
    warm = with_pretrained(create(network.architecture, data, 7), load(path), data.train.x)
    expected = outputs_of_blocks(network, data.train.x, training=False)
    for found, wanted in zip(outputs_of_blocks(warm, data.train.x, training), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-4 * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize(("other", "kept"), [(architecture(5), 6), (architecture(3, 8), 6)])
def test_only_what_is_alike_is_taken(classifier, other, kept):
    """The stem, and the five convolutions of the inverted residual; what follows is new."""
    network, data, path = classifier
    fresh = create(other, data, 7)
    warm = with_pretrained(fresh, load(path), data.train.x)
    taken = [
        block.index for block in other.blocks if (warm.weights[block.index][0] != fresh.weights[block.index][0]).any()
    ]
    assert taken == [block.index for block in other.blocks[:kept]]
    expected = outputs_of_blocks(network, data.train.x, training=False)[kept - 1]
    np.testing.assert_allclose(outputs_of_blocks(warm, data.train.x, training=False)[kept - 1], expected, atol=1e-4)


def test_strides_and_groups_count(classifier):
    _, data, path = classifier
    for changes in ({"stride": 1}, {"kernel": 5}):
        blocks = architecture().blocks
        fresh = create(Architecture("mobile", (replace(blocks[0], **changes), *blocks[1:])), data, 7)
        assert with_pretrained(fresh, load(path), data.train.x) is fresh


def test_the_command(classifier, tmp_path):
    """With a classifier of its own digits: the winner's first generation begins with it."""
    space = "--space mobile --widths 4,4,8,8 --stages 1 --kernels 3 --samples 40 --cycles 1,1,1"
    few = "--population 2 --generations 0 --guided 0 --budget 2 --start random --instances 1"
    arguments = ("nas", "--data", "digits", *few.split(), "-o", tmp_path)
    found = document(*arguments, *f"{space} --pretrained {classifier[2]}".split())
    assert found["search"]["training"]["pretrained"] == str(classifier[2])
    for wrong, message in (
        (f"{space} --pretrained nowhere.onnx", "nowhere.onnx"),
        ("--space conv --pretrained a", "expected --space mobile"),
    ):
        result = invoke(*arguments[:-1], tmp_path / "b", *wrong.split())
        assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1, result.stderr
