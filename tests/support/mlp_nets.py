"""Networks and data for the tests of training, and torch's float64 network of the same weights."""

import numpy as np

from pipeall.mlp import Perceptron

SIZES = ((3, 64, 128, 256, 64), (8, 9, 9, 9, 4), (5, 13, 7, 11, 3))  # the paper's S, its figures, primes
RANKS = (1, 2, 3, 4, 5, 7, 8, 32)
HEADS = (("sigmoid", "sigmoid", "squared"), ("tanh", "softmax", "squared"), ("relu", "softmax", "cross-entropy"),
         ("relu", "sigmoid", "cross-entropy"))  # fmt: skip
LAYOUT = ("mode", "ghost_width", "ghost_gradient", "master", "bit_equal")


def network(sizes, head=HEADS[0], comm=None, **options):
    """A network that is initialized; ``options`` of Perceptron and of initialize."""
    hidden, output, loss = head
    net = Perceptron(loss=loss, **{key: value for key, value in options.items() if key not in LAYOUT})
    net.add_layers(sizes, hidden, output)
    net.initialize(comm, **{key: value for key, value in options.items() if key in LAYOUT})
    return net


def samples(sizes, count=4, dtype=np.float64, seed=1):
    random = np.random.default_rng(seed)
    x = random.standard_normal((count, sizes[0])).astype(dtype)
    return x, np.eye(sizes[-1], dtype=dtype)[random.integers(0, sizes[-1], count)]


def gradients(net):
    """[(rows, [(columns, values)], bias rows, bias gradient)] of this rank, a layer each."""
    found = []
    for layer in net.layers:
        weight, bias = layer.gradients()
        at, blocks = 0, []
        for begin, end in layer.share.columns:
            blocks.append(((begin, end), weight[:, at : at + end - begin]))
            at += end - begin
        found.append((layer.share.rows, blocks, layer.share.outputs, bias))
    return found


def assembled(sizes, per_rank):
    """Whole weight gradients (NaN where no rank holds the weight) and bias gradients, from those of every rank."""
    weights = [np.full((b, a), np.nan) for a, b in zip(sizes, sizes[1:], strict=False)]
    biases = [np.full(b, np.nan) for b in sizes[1:]]
    for found in per_rank:
        for index, (rows, blocks, outputs, bias) in enumerate(found):
            biases[index][slice(*outputs)] = bias
            for columns, values in blocks:
                weights[index][slice(*rows), slice(*columns)] = values
    return weights, biases
