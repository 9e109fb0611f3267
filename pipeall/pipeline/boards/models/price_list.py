"""The price of a step of pipeall's own CPU kernels: times of a network on cores that are not at hand.

A step's time is linear in what it does, at prices >= 0 that its kernel has on a core: products, other arithmetic of its
algorithm, bytes of weights, of inputs and of outputs, a fixed time for starting it, and the bytes of inputs and outputs
that do not fit into half of the last cache. Convolutions have the algorithm that the model of their work gives them for
NEON, as on a board that has not timed them yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...._kernels.cpu import algorithms
from ...._kernels.cpu.algorithms import DIRECT, GEMM, GEMV_HALVES, HALF_GEMM, HALVED, SPARSE, STRASSEN, Algorithm
from ...._kernels.cpu.pack_pixels import fold, folded
from ...._kernels.cpu.space_to_depth import phased
from ....errors import ArgumentError
from ....files import JsonReader
from ....graph.ir import Graph
from ....graph.lower.lower import lower
from ....graph.ops.registry import OPS, work
from ....graph.partition import subgraph
from ....steps import TYPES, Step, Strided, item_bytes
from .regression import GIGA, MEGA, nonnegative_least_squares

FEATURES = (
    "ms_per_g_products",
    "ms_per_g_others",
    "ms_per_mb_weights",
    "ms_per_mb_read",
    "ms_per_mb_written",
    "ms_per_step",
    "ms_per_mb_far",
)
STARTING = FEATURES.index("ms_per_step")
NR, ISA = 8, "neon"  # of the GEMM of every Arm core
NR_OF = {"float16": 16}  # of its GEMM of other types, where it differs
LANES = {"float16": 8, "int8": 16}  # of its vectors, likewise
# GEMM of integers (conv_s8.c): the k of a column that lie together; channels of which fewer are gathered in any case
DEPTH, GATHERED = 4, 12
FLOAT = "float32"  # kernels of other types have the type's short name ahead: "f16:gemm 1x1"
CONV, OTHER = "gemm", "other"  # who prices what no priced network has: convolutions, all else
STORED = "half-gemv"  # one pixel, of weights that are stored in half precision
CONVOLUTIONS = {CONV, "gemv", STORED, str(GEMV_HALVES), "direct", "strassen", "winograd", "depthwise"}
# How drivers divide a step (indirection.h, winograd.c, parallel_for.h)
MR, MC = 8, 104  # rows of a GEMM's tile on NEON, and of a chunk at most
SUMS_BYTES, SUMMED = 512 << 10, 4  # of the sums of a chunk of Winograd's, of so many panels
CHUNK, WINDOW = 16384, 4  # elements that a chunk visits at least; products of a window that count as one
SMALL = 0.01  # of its network's time: an error of a step that takes less counts as little
FAR, ROUNDS = 0.05, 6  # a step that is further off than that counts less in the next round of a fit


@dataclass(frozen=True, slots=True)
class Work:
    """What a step does: the kernel that prices it, the group it belongs to (from 0), and ``FEATURES`` of it.

    But for the last, which depends on the core's cache. ``pieces``: how many parts of it several cores may claim apart,
    and up to how many it is divided into where there would be few for each core; of a team of unequal cores. Where
    frames can be computed together, ``further`` is a row of the GEMM: what a further one takes, its weights being in a
    cache.
    """

    node: str
    kernel: str
    group: int
    features: tuple[float, ...]
    pieces: tuple[int, int] = (1, 1)
    further: str | None = None


class GroupWork(NamedTuple):
    """What the steps of a network do, and how many groups it has."""

    steps: Sequence[Work]
    groups: int

    def by_group(self, ms: np.ndarray) -> np.ndarray:
        """The sums over the steps of each group."""
        return np.bincount([step.group for step in self.steps], ms, self.groups)


@dataclass(frozen=True, slots=True)
class Sample:
    """A network as it was priced: what its steps do, and the ms of each."""

    works: Sequence[Work]
    ms: Sequence[float]


def works(
    graph: Graph,
    given: Sequence[str] | None = None,
    *,
    integers: str | None = None,
    precision: str = "",
    uneven: bool = False,
) -> list[Work]:
    """What each step of a network does on a CPU of Arm's.

    given      the algorithms of the steps, "" where none; else those that the model of their work gives them
    integers   instruction set of the core's GEMM of integers; None: it computes quantized tensors in floats
    precision  of the component, "" for its default: "fp16" has layers of halves, "fp32" no integers
    uneven     for a team of unequal cores, which takes no Strassen (tune_cpu.py)
    """
    whole, halves = integers if precision != "fp32" else None, precision == "fp16"
    lowered = lower(subgraph(graph, 0, len(graph.groups)), int8=whole is not None, fp16=halves)
    steps, half = lowered.steps, GEMV_HALVES if halves else HALF_GEMM
    ways = [_modelled(step, whole or ISA) for step in steps]
    if uneven:
        ways = [GEMM if way == STRASSEN else way for way in ways]
    if precision in ("fp16", "mixed"):
        ways = [
            way if halves and step.node in lowered.float32 else algorithms.halved(step, way, half)
            for step, way in zip(steps, ways, strict=True)
        ]
    if given is not None:
        if len(given) != len(steps):
            raise ArgumentError(f"{graph.name}: expected algorithms of {len(steps)} steps, got {len(given)}")
        ways = [_named(step, word) for step, word in zip(steps, given, strict=True)]
    of_node = {node.name: index for index, group in enumerate(graph.groups) for node in group.nodes}
    groups = [of_node.get(step.node) for step in steps]
    for index in range(len(groups) - 1, -1, -1):  # a copy that belongs to no node goes with what it is made for
        if groups[index] is None:
            groups[index] = groups[index + 1] if index + 1 < len(groups) else len(graph.groups) - 1
    return [
        Work(step.node, *_of(step, way, group), _further(step))
        for step, way, group in zip(steps, ways, groups, strict=True)
    ]


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
        little.
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
        columns = {kernel: map(np.array, zip(*entries, strict=True)) for kernel, entries in rows.items()}
        kernels = {kernel: tuple(_robust(*pair).tolist()) for kernel, pair in columns.items()}
        return cls(cache_mb, kernels, integers)

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
        prices = {
            kernel: tuple(kernels.inside(kernel).number(feature) for feature in FEATURES) for kernel in kernels.content
        }
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


def _modelled(step: Step, integers: str) -> Algorithm | None:
    return algorithms.modelled(step, NR, ISA, integers) if algorithms.candidates(step) else None


def _named(step: Step, word: str) -> Algorithm | None:
    return next((way for way in algorithms.possible(step) if str(way) == word), None)


def _nearest(kernel: str) -> list[str]:
    """A kernel, its family (all before the blank), and who stands for all families like that; each of its type.

    At last who stands for these in float32.
    """
    type_, colon, rest = kernel.rpartition(":")
    family = rest.partition(" ")[0]
    stand_in = CONV if family in CONVOLUTIONS else OTHER
    return list(dict.fromkeys((*(type_ + colon + name for name in (rest, family, stand_in)), stand_in)))


def _of(step: Step, way: Algorithm | None, group: int) -> tuple[str, int, tuple[float, ...], tuple[int, int]]:
    """(kernel, group, features, pieces) of a step."""
    weights = sum(array.size for array in (step.weight, step.bias) if array is not None) * item_bytes(step.dst.dtype)
    read, written = sum(operand.nbytes for operand in step.src), step.dst.nbytes
    if step.kind == "conv":
        kernel, products, others = _convolution(step, way)
        weights = way.inner_bytes(step) if way else weights
    else:
        kernel, products, others = f"{step.kind} {_variety(step.params)}".strip(), _products(step), 0
    sizes = products / GIGA, others / GIGA, weights / MEGA, read / MEGA, written / MEGA, 1.0
    dtype = (step.src[0] if step.kind == "conv" else step.dst).dtype  # a layer on integers may make real numbers
    return kernel if dtype == FLOAT else f"{TYPES[dtype]}:{kernel}", group, sizes, _pieces(step, way, products)


def _further(step: Step) -> str | None:
    """The kernel whose products a further frame takes, where its weights are read once for several (together.pxi)."""
    if not algorithms.reads_many_weights(step):
        return None
    dtype = step.src[0].dtype
    return "gemm 1x1" if dtype == FLOAT else f"{TYPES[dtype]}:gemm 1x1"


def _convolution(step: Step, way: Algorithm | None) -> tuple[str, float, float]:
    """(kernel, products, other arithmetic) of a convolution."""
    y, taps = step.dst, prod(step.params["kernel"])
    pixels, lanes = y.h * y.w, LANES.get(step.src[0].dtype, 4)
    if way is None:
        return f"depthwise {_variety(step.params)}", algorithms.padded(y.c, lanes) * taps * pixels, 0
    if way in HALVED or (way == GEMM and pixels == 1):
        return str(way).replace("gemm", "gemv"), step.weight.size, 0
    if way == GEMM and step.src[0].dtype == "int8":
        return _gemm_of_integers(step)
    if way == GEMM:
        step = folded(step, fold(step, NR)) if step.src[0].dtype == FLOAT else step
        taps, pixels = prod(step.params["kernel"]), algorithms.padded(step.dst.h * step.dst.w, NR)
        products = algorithms.filters(step, NR_OF.get(step.src[0].dtype, NR)) * taps * pixels
        each = step.src[0].c // step.params["groups"]  # products of a sum for each of its pointers
        return "gemm 1x1" if taps == 1 else "gemm kxk", products, products / each
    if way == DIRECT:
        return "direct", algorithms.vector_filters(step, lanes) * taps * pixels, 0
    if way == SPARSE:
        return "gemm 1x1", way.products(step), pixels * y.c
    if way == STRASSEN:
        return "strassen", way.products(step), algorithms.pairs(step) * (step.src[0].c + y.c)
    m, n = algorithms.tile(step, way)
    points = algorithms.tiles(step, m) * n * n
    return f"winograd {m}", way.products(step), points * (phased(step).src[0].c + y.c)


def _pieces(step: Step, way: Algorithm | None, products: float) -> tuple[int, int]:
    """``Work.pieces`` of a step that does so many products."""
    if step.kind != "conv" or way in (None, DIRECT):
        count = ceil(products / (WINDOW if step.kind == "conv" else 1) / CHUNK) or 1
        return count, count
    y, nr = step.dst, NR_OF.get(step.dst.dtype, NR)
    panels = step.params["groups"] * ceil(y.c / step.params["groups"] / nr)
    if way.kind == "winograd":
        m, n = algorithms.tile(step, way)
        tiles = algorithms.tiles(step, m)
        most = SUMS_BYTES // (n * n * min(SUMMED, panels) * nr * item_bytes(FLOAT))
        return panels * ceil(tiles / most), panels * ceil(tiles / MR)
    count = panels * ceil(y.h * y.w / MC)
    return count, count


def _gemm_of_integers(step: Step) -> tuple[str, float, float]:
    """The same of a GEMM of integers (conv_s8.c): rows of windows with few channels are gathered, bytes of them."""
    (kh, kw), groups = step.params["kernel"], step.params["groups"]
    k, columns, pixels = step.src[0].c // groups, step.dst.c // groups, step.dst.h * step.dst.w
    few = kw > 1 and k < GATHERED
    each, taps = (k * kw, kh) if few else (k, kh * kw)
    products = groups * algorithms.padded(columns, NR) * taps * algorithms.padded(each, DEPTH) * pixels
    kernel = "gemm few" if few else "gemm 1x1" if taps == 1 else "gemm kxk"
    return kernel, products, groups * taps * each * pixels if few else products / each


def _variety(params: Mapping[str, Any]) -> str:
    """What tells the kernels of a family apart: the operation, or the form of the window."""
    if "kernel" not in params:
        return str(params.get("op") or params.get("how") or params.get("mode") or "")
    size, stride = "x".join(map(str, params["kernel"])), max(params["strides"])
    dilated = " dilated" if max(params.get("dilations", (1, 1))) > 1 else ""
    return size + (f" stride {stride}" if stride > 1 else "") + dilated


def _products(step: Step) -> float:
    """Elements times those that each of them is made of."""
    if isinstance(step.dst, Strided):
        return work(step.kind, step.dst.shape, [operand.shape for operand in step.src]) if step.kind in OPS else 0
    return step.dst.elements * prod(step.params.get("kernel", (1,)))
