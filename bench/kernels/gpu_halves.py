"""How long a Mali takes in half precision, as a share of what a regression says of floats, by published times."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pipeall.graph.ir import Graph
from pipeall.pipeline.boards.models import regression
from pipeall.pipeline.boards.models.regression import Sample

# Mali-T860, ARM Compute Library in half precision, ms (Ehsan-aghapour, ARMCL-RockPi-Local/Res)
ARMCL = {"alexnet": 51.8, "googlenet": 87.3, "mobilenet": 41.7, "resnet50-v1": 198.6, "squeezenet": 43.8}


class Halves(NamedTuple):
    """factor: how many times as long as in floats; errors: network -> (predicted - published) / published."""

    factor: float
    errors: Mapping[str, float]


def halves(
    samples: Mapping[str, Sample],
    floors: Mapping[str, float],
    graphs: Mapping[str, Graph],
    published: Mapping[str, float],
    speed: float = 1.0,
) -> Halves:
    """The geometric mean of published times of halves by what the samples of floats make of these networks.

    A network is left out of both, the factor and the regression, in all its variants.

    speed  as in ``faster``
    """
    rows = {name: regression.features(graphs[name]).sum(axis=0) for name in published}

    def ratios(known: Sequence[Sample]) -> dict[str, float]:
        prices = np.array(faster(regression.fit(known, floors)["gpu"], speed))
        return {name: float(np.log(ms / (rows[name] @ prices))) for name, ms in published.items()}

    errors = {}
    for name in published:
        logarithms = ratios([sample for other, sample in samples.items() if _base(other) != _base(name)])
        own = logarithms.pop(name)
        errors[name] = float(np.expm1(np.mean(list(logarithms.values())) - own))
    return Halves(float(np.exp(np.mean(list(ratios(list(samples.values())).values())))), errors)


def faster(prices: Sequence[float], speed: float) -> tuple[float, ...]:
    """Prices of a GPU that takes ``speed`` of the time for all but the start of an op."""
    *per_work, start = prices
    return (*(speed * price for price in per_work), start)


def _base(name: str) -> str:
    """ "resnet50" of "resnet50-slim", "squeezenet" of "squeezenet1.1"."""
    return name.partition("-")[0].removesuffix("1.1")
