"""Small spaces, data and networks for the tests of the search."""

import numpy as np

from pipeall.nas.datasets import DataSet, Samples
from pipeall.nas.spaces.conv_space import ConvSpace
from pipeall.nas.spaces.genome import Candidate
from pipeall.nas.spaces.tree_space import TreeSpace
from pipeall.nas.training.weighted_network import create

TREE, STAGES = TreeSpace(3, 6), ConvSpace((3, 2), (4, 6, 8, 10))
SPACES = {"tree": TREE, "stages": STAGES}


def blobs(task="classes", pictures=False, samples=60):
    """Three classes that a small network tells apart, or a number that is linear in the features."""
    random = np.random.default_rng(0)
    y = random.integers(0, 3, samples)
    shape = (1, 8, 8) if pictures else (5,)
    x = random.standard_normal((3, *shape))[y] + 0.3 * random.standard_normal((samples, *shape))
    scaling = {} if pictures else {"centre": np.arange(5.0), "spread": np.arange(1.0, 6.0)}
    if task == "numbers":
        y = x.reshape(samples, -1)[:, 0].astype(np.float32)
        scaling |= {"target_low": -3.0, "target_width": 7.0}
    third = samples // 3
    parts = (Samples(x[i : i + third].astype(np.float32), y[i : i + third]) for i in (0, third, 2 * third))
    return DataSet("blobs", task, 3 if task == "classes" else 1, *parts, **scaling)


def random_network(space, data, seed=0):
    """With biases, so that a unit without inputs still matters."""
    random = np.random.default_rng(seed)
    network = create(space.decode(Candidate(space.random(random)).bits), data, seed)
    for _, bias in network.weights.values():
        bias[:] = random.standard_normal(len(bias))
    return network
