"""How far the model of a core is from what was published of it, on floats and on integers."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pipeall.pipeline.planning.uncertainty import DEVIATIONS, four_of_five

# How far armcost's own times are from published ones, standard deviation of the logarithm: of a network that it was not
# fitted to nine of ten are within 16 % (its ANCHORS.md), which are 1.645 of them
ARMCOST = np.log(1.16) / 1.645
# ncnn's published times in 8 bits, one core, ms, behind what armcost says of ncnn's own counted instructions (its
# ANCHORS.md): GoogLeNet, MobileNet, ResNet-18, ResNet-50, SqueezeNet 1.1. It was fitted to floats alone
INT8 = {
    "rk3399-big": ((183.1, 202.2), (65.6, 81.0), (145.0, 151.8), (355.4, 398.6), (47.2, 60.7)),
    "a311d-big": ((170.2, 173.2), (70.7, 66.7), (130.7, 133.2), (349.8, 333.7), (47.2, 52.0)),
    "rk3399-little": ((441.4, 408.0), (160.4, 175.8), (378.0, 299.3), (909.5, 853.8), (125.1, 124.8)),
    "rpi5": ((41.7, 49.1), (13.1, 14.4), (49.0, 36.4), (93.7, 80.2), (10.7, 11.8)),
}


def deviation(errors: Iterable[float], effective: float | None = None) -> float:
    """Of a normal distribution of logarithms, that holds four of five cases where these errors do."""
    return float(np.log1p(four_of_five(errors, effective)) / DEVIATIONS)


def interval_of(*deviations: float) -> float:
    """The error that holds four of five cases, of several that do not depend on each other, as standard deviations."""
    return float(np.expm1(DEVIATIONS * np.sqrt(sum(value**2 for value in deviations))))


def effective_number(table: np.ndarray) -> float:
    """As how many independent ones errors count, (cores, networks): those of a row or column have a part in common.

    Kish's effective sample size (1965), n^2 by the sum of all correlations: one of two errors of a core, one of two of
    a network, both estimated from the table, and none of others.
    """
    size = np.mean(table**2)
    of_a_network, of_a_core = (_products(rows) / size for rows in (table, table.T))
    cores, networks = table.shape
    return table.size / (1 + (cores - 1) * max(0.0, of_a_network) + (networks - 1) * max(0.0, of_a_core))


def _products(table: np.ndarray) -> float:
    """Mean product of two different entries of a column."""
    count, columns = table.shape
    return (np.sum(table.sum(axis=0) ** 2) - np.sum(table**2)) / (columns * count * (count - 1))


def int8_error(published: Mapping[str, Sequence[tuple[float, float]]] = INT8) -> float:
    """The error that holds four of five times of integers of a core that is none of these."""
    errors = np.array([[ours / theirs - 1 for ours, theirs in pairs] for pairs in published.values()])
    return four_of_five(errors.ravel(), effective_number(np.log1p(errors)))


ARMCOST_INT8 = float(np.log1p(int8_error()) / DEVIATIONS)
