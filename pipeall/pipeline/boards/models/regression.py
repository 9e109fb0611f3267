"""The price of an operation on a component, fitted on measured groups: times of networks that nobody measured there.

A group's time is the sum over its ops, and an op's is linear in what it computes and moves, at prices >= 0:

- convolutions, k x k and 1 x 1, by multiply-adds, and by weight bytes (read, transformed, or packed again: dear where
  the picture is small, as in the last blocks of a ResNet);
- fully connected layers by weight bytes alone: they stream their weights from memory, which all units share, so that
  one price holds for every unit;
- every op by the bytes it writes, and a fixed time for starting it. Depthwise convolutions, pooling, normalization and
  the rest have nothing else: memory bounds them.

A 3 x 3 convolution of stride 1 counts a quarter of its multiply-adds: Winograd's F(4 x 4, 3 x 3) multiplies 36 times
where the definition does 144 times (Lavin and Gray 2016), and Arm's library uses it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ....errors import ArgumentError
from ....graph.ir import Graph, Node
from ....graph.ops import macs
from ....graph.passes.dequantize import dequantized

FEATURES = (
    "ms_per_gmac_kxk",
    "ms_per_gmac_1x1",
    "ms_per_mb_conv_weights",
    "ms_per_mb_fc_weights",
    "ms_per_mb_written",
    "ms_per_op",
)
SHARED, STARTS = FEATURES.index("ms_per_mb_fc_weights"), FEATURES.index("ms_per_op")
POINTWISE = FEATURES.index("ms_per_gmac_1x1")
FLOAT_BYTES = 4  # of a weight
# What a kind costs that no measured network has: as much as its nearest
NEAREST = {0: 1, 1: 0, 2: SHARED, SHARED: 2}
WINOGRAD = 36 / 144
GIGA, MEGA = 1e9, 1e6
NO_FLOORS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Regression:
    """The prices of a unit (``Pricing``).

    prices   price of each of ``FEATURES``
    factors  precision -> how many times as long it takes as the default
    """

    source: ClassVar[str] = "regression"
    prices: tuple[float, ...]
    factors: Mapping[str, float] = field(default_factory=dict)

    @property
    def precisions(self) -> list[str]:
        return list(self.factors)

    def factor(self, precision: str) -> float | None:
        return self.factors.get(precision)

    def default_precision(self, graph: Graph) -> str:
        return ""

    def work_key(self, precision: str) -> str:
        return self.source

    def work(self, graph: Graph, precision: str) -> np.ndarray:
        return features(dequantized(graph) if graph.quantized else graph)

    def group_ms(self, work: np.ndarray, precision: str = "", frames: int = 1) -> np.ndarray:
        """Frames together read the weights of fully connected layers once; further ones take their multiply-adds."""
        prices = np.array(self.prices)
        further = min(prices[SHARED], prices[POINTWISE] * MEGA / FLOAT_BYTES / GIGA)
        prices[SHARED] = (prices[SHARED] + (frames - 1) * further) / frames
        return self.factors.get(precision, 1.0) * (work @ prices)


@dataclass(frozen=True, slots=True)
class Sample:
    """One network as measured: ``features`` (groups, len(FEATURES)); ``ms`` unit -> time of each group, may be inf."""

    features: np.ndarray
    ms: Mapping[str, Sequence[float]]


def features(graph: Graph) -> np.ndarray:
    """What each group computes and moves: (groups, len(FEATURES)), in 1e9 MACs, 1e6 bytes, and ops."""
    return np.array([np.sum([_op(node, graph) for node in group.nodes], axis=0) for group in graph.groups])


def fit(samples: Sequence[Sample], floors: Mapping[str, float] = NO_FLOORS) -> dict[str, np.ndarray]:
    """unit -> prices (len(FEATURES),) >= 0 that make the relative errors of all groups' times least, squared.

    floors  unit -> the least ms that starting an op costs: groups of large networks alone cannot tell it from 0

    Covers the units that all samples have. Raises ArgumentError where there is none, or no group has a time.
    """
    units = [unit for unit in samples[0].ms if all(unit in sample.ms for sample in samples)] if samples else []
    columns = np.arange(len(units) * len(FEATURES)).reshape(len(units), len(FEATURES))
    columns[:, SHARED] = SHARED
    rows, left = [], []  # left: the share of a group's time that its starts at the floor do not explain
    for unit, own in zip(units, columns, strict=True):
        for sample in samples:
            ms = np.asarray(sample.ms[unit], float)
            known = np.isfinite(ms) & (ms > 0)
            rows.append(np.zeros((known.sum(), columns.size)))
            rows[-1][:, own] = sample.features[known] / ms[known, None]
            left.append(1 - floors.get(unit, 0.0) * rows[-1][:, own[STARTS]])
    if not sum(map(len, rows)):
        raise ArgumentError("regression: expected times of at least one group on a unit that all networks have")
    table = np.concatenate(rows)
    prices = nonnegative_least_squares(table, np.concatenate(left))[columns]
    prices[:, STARTS] += [floors.get(unit, 0.0) for unit in units]
    present = np.any([sample.features.any(axis=0) for sample in samples], axis=0)
    for kind, other in NEAREST.items():
        if not present[kind]:
            prices[:, kind] = prices[:, other]
    return dict(zip(units, prices, strict=True))


def leave_one_out(
    samples: Mapping[str, Sample], floors: Mapping[str, float] = NO_FLOORS
) -> dict[str, dict[str, float]]:
    """unit -> network -> (predicted - measured) / measured of its whole time, by prices fitted on the others.

    Empty where there are fewer than two networks. A unit's row lacks the networks that it could not run as a whole.
    """
    errors: dict[str, dict[str, float]] = {}
    for name, sample in samples.items() if len(samples) > 1 else ():
        prices = fit([other for key, other in samples.items() if key != name], floors)
        for unit, ms in sample.ms.items():
            total = float(np.sum(ms))
            if unit in prices and np.isfinite(total):
                errors.setdefault(unit, {})[name] = float((sample.features @ prices[unit]).sum()) / total - 1
    return errors


def _op(node: Node, graph: Graph) -> np.ndarray:
    output = graph.tensors[node.output]
    shape = output.shape
    weights = sum(graph.constants[name].nbytes for name in node.inputs if name in graph.constants)
    row = np.zeros(len(FEATURES))
    row[4:] = output.nbytes / MEGA, 1
    kernel = graph.constants[node.inputs[1]].shape[2:] if node.op == "conv" else ()
    if node.op == "fc" or (kernel == (1, 1) and shape[2:] == (1, 1)):
        row[SHARED] = weights / MEGA
    elif node.op == "conv" and not _is_depthwise(node, graph):
        winograd = kernel == (3, 3) and node.attrs["strides"] == node.attrs["dilations"] == (1, 1)
        row[int(kernel == (1, 1))] = macs(node, graph) / GIGA * (WINOGRAD if winograd else 1)
        row[2] = weights / MEGA
    return row


def _is_depthwise(node: Node, graph: Graph) -> bool:
    return 1 < node.attrs["groups"] == graph.tensors[node.inputs[0]].shape[1]


def nonnegative_least_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The x >= 0 that makes |a x - b| least (Lawson and Hanson 1974, chapter 23); columns of ``a`` may be zero."""
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1
    a = a / scale
    x = np.zeros(a.shape[1])
    free = np.zeros(len(x), bool)
    while True:
        gain = np.where(free, -np.inf, a.T @ (b - a @ x))
        enters = int(np.argmax(gain >= (1 - 1e-9) * gain.max()))  # the first of equal ones, however sums were rounded
        if gain[enters] <= 1e-10 * np.linalg.norm(b):
            return x / scale
        free[enters] = True
        while True:
            best = np.zeros(len(x))
            best[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
            below = free & (best <= 0)
            if not below.any():
                break
            step = np.min(x[below] / (x[below] - best[below]))  # as far as the first bound
            x += step * (best - x)
            free &= x > 1e-14
            x[~free] = 0
        x = best
