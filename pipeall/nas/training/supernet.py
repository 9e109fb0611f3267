"""One set of weights for all networks of the mobile space: trained once, then each network is judged with its part.

As in once-for-all networks (Cai et al. 2020) a narrower layer has the first channels of the widest, a smaller kernel
the centre of the largest, a shallower stage the first blocks of the deepest. Training shrinks progressively: first all
networks of a step are of full size, then kernels, depths and widths join the choice. Each step takes the largest, the
smallest and some random ones (the sandwich rule of Yu and Huang 2019). A part of weights that serve all networks tells
little of what the network would be by itself: it is trained on, a pass or two, before it is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ..datasets import DataSet, Samples
from ..spaces.genome import Architecture, Convolution, Hyper
from ..spaces.mobile_space import MobileSpace
from .augment import TrainingRecipe
from .training_loop import calibrated, train
from .weighted_network import HEAD, WeightedNetwork, create

JOIN = ((0.1, ("kernel",)), (0.2, ("depth",)), (0.3, ("width", "expansion")))  # after this share of the training
SHRINK = tuple(name for _, names in JOIN for name in names)
TUNED_RATE = 0.4  # of a network by itself, as a share of the shared weights' rate


@dataclass(frozen=True)
class Supernet:
    """How the shared weights are trained, and a network that takes its part of them: functions of this, of the space,
    the data and the recipe.

    passes          over the samples
    rate, momentum  as ``Hyper``'s; the rate falls along a half cosine
    networks        of a step: the largest, the smallest, the others random; two or more
    tune            passes of each network by itself, from its part on

    Raises ArgumentError for other values.
    """

    passes: int = 30
    rate: float = 0.05
    momentum: float = 0.9
    networks: int = 4
    tune: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        learns = 0 < self.rate < np.inf and 0 <= self.momentum < 1
        if self.passes < 1 or not learns or self.networks < 2 or self.tune < 0:
            raise ArgumentError(
                f"supernet: expected passes, a rate above 0, momentum from 0 to below 1, 2 networks and tune from 0; "
                f"got {self}"
            )

    def trained(self, space: MobileSpace, data: DataSet, recipe: TrainingRecipe) -> WeightedNetwork:
        """Weights for all networks of the space (``MobileSpace.union``). Raises ArgumentError if training diverges."""
        random = np.random.default_rng([self.seed, 1])
        hyper = Hyper(self.rate, self.momentum, self.passes, 0.0, 0.0)

        def shares(done: float, shared: WeightedNetwork, weights: Mapping[int, Sequence[Any]]) -> list[tuple]:
            networks = [
                replace(shared, architecture=space.decode(bits)) for bits in drawn(space, done, self.networks, random)
            ]
            return [(network, parts(network, weights)) for network in networks]

        shared = create(space.union(), data, self.seed)
        trained, losses = train(shared, data.train, hyper, self.seed, recipe, shares=shares)
        if not np.isfinite(losses[-1]):
            raise ArgumentError(f"supernet: expected a rate at which training does not diverge, got {self.rate}")
        return trained

    def tuned(self, network: WeightedNetwork, fit: Samples, recipe: TrainingRecipe) -> WeightedNetwork:
        """A network that has its part (``taken``), trained on by itself, with its own batch normalization."""
        hyper = Hyper(TUNED_RATE * self.rate, self.momentum, self.tune, 0.0, 0.0)
        return calibrated(train(network, fit, hyper, self.seed, recipe)[0], fit.x)


def drawn(space: MobileSpace, done: float, count: int, random: np.random.Generator) -> list[tuple[int, ...]]:
    """Bits of the networks of a step when this share of the training is done: the largest, the smallest, random ones.

    What is not a size, such as the kind of a block or the side of pictures, is random in all of them.
    """
    joined = [name for share, names in JOIN if done >= share for name in names]
    closed = space.loci_of(*(name for name in SHRINK if name not in joined))
    bits = np.array([space.random(random) for _ in range(count)])
    bits[0, space.loci_of(*SHRINK)] = 1
    bits[1, space.loci_of(*joined)] = 0
    bits[:, closed] = 1
    return [tuple(row) for row in bits.tolist()]


def taken(architecture: Architecture, shared: WeightedNetwork) -> WeightedNetwork:
    """A network with its part of the shared weights, before its own batch normalization (``Supernet.tuned``)."""
    own = replace(shared, architecture=architecture)
    return replace(own, weights=parts(own, shared.weights))


def parts(network: WeightedNetwork, weights: Mapping[int, Sequence[Any]]) -> dict[int, tuple[Any, ...]]:
    """Views of those shared weights, arrays or torch's tensors, that the network's architecture takes."""
    blocks, widths = network.architecture.blocks, network.widths()
    weight, bias = weights[HEAD]
    head = weight[:, : blocks[-1].neurons], bias
    return {block.index: _part(block, widths[block.inputs[0]], weights[block.index]) for block in blocks} | {HEAD: head}


def _part(block: Convolution, channels: int, layer: Sequence[Any]) -> tuple[Any, ...]:
    """The first neurons and channels, the centre of the kernel; a depthwise filter has one channel."""
    weight, *others = layer
    first = (weight.shape[-1] - block.kernel) // 2
    centre = slice(first, first + block.kernel)
    return weight[: block.neurons, :channels, centre, centre], *(array[: block.neurons] for array in others)
