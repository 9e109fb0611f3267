"""The price of a step of pipeall's own CPU kernels: times of a network on cores that are not at hand.

A step's time is linear in what it does (``step_work``), at prices >= 0 that its kernel has on a core: products, other
arithmetic of its algorithm, bytes of weights, of inputs and of outputs, SiLU of its results, a fixed time for starting
it, and the bytes of inputs and outputs that do not fit into half of the last cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...._kernels.cpu import algorithms
from ...._kernels.cpu.algorithms import GEMV_HALVES
from ....errors import ArgumentError
from ....files import JsonReader
from ....graph.ir import Graph
from .regression import nonnegative_least_squares
from .step_work import BFLOATS, FEATURES, GroupWork, Work, works

SILU, STARTING = FEATURES.index("ms_per_g_silu"), FEATURES.index("ms_per_step")
CONV, OTHER = "gemm", "other"  # who prices what no priced network has: convolutions, all else
STORED = "half-gemv"  # one pixel, of weights that are stored in half precision
CONVOLUTIONS = {CONV, "gemv", STORED, str(GEMV_HALVES), "direct", "sparse", "strassen", "winograd", "depthwise"}
SMALL = 0.01  # of its network's time: an error of a step that takes less counts as little
FAR, ROUNDS = 0.05, 6  # a step that is further off than that counts less in the next round of a fit


@dataclass(frozen=True, slots=True)
class Sample:
    """A network as it was priced: what its steps do, and the ms of each."""

    works: Sequence[Work]
    ms: Sequence[float]


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of a core, or of a cluster (``Pricing``).

    cache_mb  size of its last cache
    kernels   kernel -> price of each of ``FEATURES``; those of ``CONV`` and ``OTHER`` are there
    integers  instruction set of its GEMM of integers; None: no prices, it computes quantized tensors as floats
    """

    source: ClassVar[str] = "prices of pipeall's steps"
    cache_mb: float
    kernels: Mapping[str, Sequence[float]]
    integers: str | None = None

    def __post_init__(self) -> None:
        for kernel in (CONV, OTHER):
            if kernel not in self.kernels:
                raise ArgumentError(f"price list: expected prices of {kernel}, which stands for others, got none")

    @property
    def precisions(self) -> list[str]:
        known = {
            "fp32": True,
            "fp16": any(kernel.startswith("f16:") for kernel in self.kernels),
            "bf16": any(kernel.startswith(f"{BFLOATS}:") for kernel in self.kernels),
            "int8": self.integers is not None,
            "mixed": STORED in self.kernels,
        }
        return [precision for precision, there in known.items() if there]

    def factor(self, precision: str) -> None:
        return None

    def default_precision(self, graph: Graph) -> str:
        return "int8" if graph.quantized else ""

    def work_key(self, precision: str) -> tuple[str | None, str]:
        return self.integers, precision

    def work(self, graph: Graph, precision: str) -> GroupWork:
        return GroupWork(works(graph, integers=self.integers, precision=precision), len(graph.groups))

    @classmethod
    def fit(
        cls,
        samples: Iterable[Sample],
        cache_mb: float,
        integers: str | None = None,
        wanted: Iterable[str] | None = None,
    ) -> PriceList:
        """Prices that make the errors of the steps' times least, each by its own time and some of its network's.

        wanted  kernels that will be priced, if not all that samples have

        Small errors count squared, large ones nearly as they are: a step that takes long for another reason bends
        little. A kernel that no sample has with a SiLU takes the price of one from its nearest.
        """
        rows: dict[str, list[tuple[np.ndarray, float]]] = {}
        for sample in samples:
            small = SMALL * sum(sample.ms)
            for step, ms in zip(sample.works, sample.ms, strict=True):
                entry = np.array(_with_far(step, cache_mb)) / (ms + small), ms / (ms + small)
                for kernel in _nearest(step.kernel):
                    rows.setdefault(kernel, []).append(entry)
        if wanted is not None:
            found = (next((name for name in _nearest(kernel) if name in rows), CONV) for kernel in wanted)
            rows = {kernel: rows[kernel] for kernel in rows.keys() & {CONV, OTHER, *found}}
        columns = {kernel: tuple(map(np.array, zip(*entries, strict=True))) for kernel, entries in rows.items()}
        kernels = {kernel: _robust(*pair) for kernel, pair in columns.items()}
        with_silu = {kernel for kernel, (features, _) in columns.items() if features[:, SILU].any()}
        for kernel, row in kernels.items():
            row[SILU] = next((kernels[name][SILU] for name in _nearest(kernel) if name in with_silu), 0.0)
        return cls(cache_mb, {kernel: tuple(row.tolist()) for kernel, row in kernels.items()}, integers)

    def group_ms(self, work: GroupWork, precision: str = "", frames: int = 1) -> np.ndarray:
        return work.by_group(self.step_ms(work, frames))

    def step_ms(self, work: GroupWork, frames: int = 1) -> np.ndarray:
        """The time of each step; of one of so many frames that are computed together."""
        return np.array([self._step_ms(step, frames) for step in work.steps])

    def _step_ms(self, step: Work, frames: int) -> float:
        one = np.dot(_with_far(step, self.cache_mb), self.price_of(step.kernel))
        if frames == 1 or step.further is None:
            return one
        further = min(one, step.features[0] * self.price_of(step.further)[0])
        return (one + (frames - 1) * further) / frames

    def start_ms(self, work: GroupWork) -> np.ndarray:
        """How much of it is the fixed time for starting a step."""
        return np.array([self.price_of(step.kernel)[STARTING] * step.features[STARTING] for step in work.steps])

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        kernels = {
            kernel: dict(zip(FEATURES, (float(f"{price:.6g}") for price in row), strict=True))
            for kernel, row in self.kernels.items()
        }
        integers = {"integers": self.integers} if self.integers else {}
        return {"cache_mb": self.cache_mb, **integers, "kernels": kernels}

    @classmethod
    def from_file(cls, read: JsonReader) -> PriceList:
        """The inverse. Raises ArgumentError naming the entry that is wrong."""
        kernels = read.inside("kernels")
        for name in (CONV, OTHER):
            if name not in kernels.content:
                raise read.fail("kernels", f"prices of {name}, which stands for others")
        prices = {kernel: _row(kernels.inside(kernel)) for kernel in kernels.content}
        integers = read.word("integers") if read.content.get("integers") is not None else None
        if integers not in (None, *algorithms.INTEGERS):
            raise read.fail("integers", f"one of {', '.join(algorithms.INTEGERS)}, or none")
        return cls(read.number("cache_mb"), prices, integers)

    def price_of(self, kernel: str) -> Sequence[float]:
        """A kernel's prices: its own, or those of its nearest that has some."""
        return next(self.kernels[name] for name in _nearest(kernel) if name in self.kernels)


def leave_one_out(
    samples: Mapping[str, Sample], cache_mb: float, names: Iterable[str], same: Callable[[str], str] = str
) -> dict[str, float]:
    """Sample's name -> (predicted - priced) / priced of its whole time, by prices fitted on all others.

    same: of a name, what the samples of one network have in common: all of them are left out.
    """
    errors = {}
    for name in names:
        works, ms = samples[name].works, sum(samples[name].ms)
        others = (other for key, other in samples.items() if same(key) != same(name))
        prices = PriceList.fit(others, cache_mb, wanted={step.kernel for step in works})
        errors[name] = float(prices.group_ms(GroupWork(works, 1 + max(step.group for step in works))).sum()) / ms - 1
    return errors


def _row(read: JsonReader) -> tuple[float, ...]:
    """A kernel's prices; files of older versions have none of SiLU."""
    return tuple(0.0 if name not in read.content and name == FEATURES[SILU] else read.number(name) for name in FEATURES)


def _with_far(step: Work, cache_mb: float) -> tuple[float, ...]:
    inputs, outputs = step.features[3:5]
    return (*step.features, max(0.0, inputs + outputs - cache_mb / 2))


def _robust(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Iteratively reweighted least squares, by Huber's weights (1964)."""
    weights = np.ones(len(b))
    for _ in range(ROUNDS):
        x = nonnegative_least_squares(a * weights[:, None], b * weights)
        weights = np.sqrt(1 / np.maximum(1, np.abs(a @ x - b) / FAR))
    return x


def _nearest(kernel: str) -> list[str]:
    """A kernel, its family (all before the blank), and who stands for all families like that; each of its type.

    At last who stands for these in float32.
    """
    type_, colon, rest = kernel.rpartition(":")
    family = rest.partition(" ")[0]
    stand_in = CONV if family in CONVOLUTIONS else OTHER
    return list(dict.fromkeys((*(type_ + colon + name for name in (rest, family, stand_in)), stand_in)))
