"""What the steps of a network do on a CPU of Arm's, in the units that a price list has prices for.

A step is lowered as the CPU device lowers it. Convolutions have the algorithm that the model of their work gives them
for NEON, as on a board that has not timed them yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from ...._kernels.cpu import algorithms
from ...._kernels.cpu.algorithms import (
    BF16_GEMM,
    BFLOAT_NR,
    DIRECT,
    GEMM,
    GEMV_HALVES,
    HALF_GEMM,
    HALVED,
    SPARSE,
    STRASSEN,
    Algorithm,
)
from ...._kernels.cpu.pack_pixels import fold, folded
from ...._kernels.cpu.space_to_depth import phased
from ....errors import ArgumentError
from ....graph.ir import Graph
from ....graph.lower.lower import lower
from ....graph.ops.registry import OPS, work
from ....graph.partition import subgraph
from ....steps import TYPES, Step, Strided, item_bytes
from .regression import GIGA, MEGA

FEATURES = (
    "ms_per_g_products",
    "ms_per_g_others",
    "ms_per_mb_weights",
    "ms_per_mb_read",
    "ms_per_mb_written",
    "ms_per_g_silu",
    "ms_per_step",
    "ms_per_mb_far",
)
NR, ISA = 8, "neon"  # of the GEMM of every Arm core
NR_OF = {"float16": 16}  # of its GEMM of other types, where it differs
LANES = {"float16": 8, "int8": 16}  # of its vectors, likewise
# GEMM of integers (conv_s8.c): the k of a column that lie together; channels of which fewer are gathered in any case
DEPTH, GATHERED = 4, 12
FLOAT = "float32"  # kernels of other types have the type's short name ahead: "f16:gemm 1x1"
BFLOATS = "bf16"  # ahead of the GEMM of floats that multiplies in bfloat16
# How drivers divide a step (indirection.h, winograd.c, parallel_for.h)
MR, MC = 8, 104  # rows of a GEMM's tile on NEON, and of a chunk at most
SUMS_BYTES, SUMMED = 512 << 10, 4  # of the sums of a chunk of Winograd's, of so many panels
CHUNK, WINDOW = 16384, 4  # elements that a chunk visits at least; products of a window that count as one


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
    precision  of the component, "" for its default: "fp16" has layers of halves, "bf16" products of bfloat16, "fp32" no
               integers
    uneven     for a team of unequal cores, which takes no Strassen (tune_cpu.py)
    """
    whole, halves = integers if precision != "fp32" else None, precision == "fp16"
    lowered = lower(subgraph(graph, 0, len(graph.groups)), int8=whole is not None, fp16=halves, silu=True)
    steps, half = lowered.steps, GEMV_HALVES if halves else HALF_GEMM
    ways = [_modelled(step, whole or ISA) for step in steps]
    if uneven:
        ways = [GEMM if way == STRASSEN else way for way in ways]
    if precision in ("fp16", "bf16", "mixed"):
        kept = () if precision == "mixed" else lowered.float32
        ways = [
            way if step.node in kept else _narrowed(step, way, half, precision)
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


def _modelled(step: Step, integers: str) -> Algorithm | None:
    return algorithms.modelled(step, NR, ISA, integers) if algorithms.candidates(step) else None


def _narrowed(step: Step, way: Algorithm | None, half: Algorithm, precision: str) -> Algorithm | None:
    """What computes a layer whose weights may be halves, and its products of bfloat16 where that is the precision."""
    way = algorithms.halved(step, way, half)
    if precision != "bf16" or way in HALVED:
        return way
    return algorithms.bfloated(step, way, NR, ISA)


def _named(step: Step, word: str) -> Algorithm | None:
    return next((way for way in algorithms.possible(step) if str(way) == word), None)


def _of(step: Step, way: Algorithm | None, group: int) -> tuple[str, int, tuple[float, ...], tuple[int, int]]:
    """(kernel, group, features, pieces) of a step."""
    weights = sum(array.size for array in (step.weight, step.bias) if array is not None) * item_bytes(step.dst.dtype)
    read, written = sum(operand.nbytes for operand in step.src), step.dst.nbytes
    if step.kind == "conv":
        kernel, products, others = _convolution(step, way)
        weights = way.inner_bytes(step) if way else weights
    else:
        kernel, products, others = f"{step.kind} {_variety(step.params)}".strip(), _products(step), 0
    silu = step.dst.elements if step.params.get("silu") else 0
    sizes = products / GIGA, others / GIGA, weights / MEGA, read / MEGA, written / MEGA, silu / GIGA, 1.0
    dtype = (step.src[0] if step.kind == "conv" else step.dst).dtype  # a layer on integers may make real numbers
    type_ = BFLOATS if way == BF16_GEMM else TYPES[dtype]
    return kernel if type_ == TYPES[FLOAT] else f"{type_}:{kernel}", group, sizes, _pieces(step, way, products)


def _further(step: Step) -> str | None:
    """The kernel whose products a further frame takes, where its weights are read once for several (together.pxi)."""
    if not algorithms.reads_many_weights(step):
        return None
    dtype = step.src[0].dtype
    return "gemm 1x1" if dtype == FLOAT else f"{TYPES[dtype]}:gemm 1x1"


def _convolution(step: Step, way: Algorithm | None) -> tuple[str, float, float]:
    """(kernel, products, other arithmetic) of a convolution."""
    y, taps = step.dst, prod(step.params["kernel"])
    pixels = y.h * y.w
    if way is None:
        lanes = LANES.get(step.src[0].dtype, 4)
        return f"depthwise {_variety(step.params)}", algorithms.padded(y.c, lanes) * taps * pixels, 0
    if way in HALVED or (way == GEMM and pixels == 1):
        return str(way).replace("gemm", "gemv"), step.weight.size, 0
    if way == GEMM and step.src[0].dtype == "int8":
        return _gemm_of_integers(step)
    if way in (GEMM, BF16_GEMM):
        nr = _columns(step, way)
        step = folded(step, fold(step, nr)) if step.src[0].dtype == FLOAT else step
        taps, pixels = prod(step.params["kernel"]), algorithms.padded(step.dst.h * step.dst.w, MR)
        products = algorithms.filters(step, nr) * taps * pixels
        each = step.src[0].c // step.params["groups"]  # products of a sum for each of its pointers
        return "gemm 1x1" if taps == 1 else "gemm kxk", products, products / each
    if way == DIRECT:
        return "direct", algorithms.vector_filters(step, LANES.get(y.dtype, 4)) * taps * pixels, 0
    if way == SPARSE:
        return "sparse", way.products(step), pixels * y.c
    if way == STRASSEN:
        return "strassen", way.products(step), algorithms.pairs(step) * (step.src[0].c + y.c)
    m, n = algorithms.tile(step, way)
    points = algorithms.tiles(step, m) * n * n
    kernel = "winograd 7 points" if n == 7 else f"winograd {m}"  # F(5x5) has 6 points or 7
    return kernel, way.products(step), points * (phased(step).src[0].c + y.c)


def _pieces(step: Step, way: Algorithm | None, products: float) -> tuple[int, int]:
    """``Work.pieces`` of a step that does so many products."""
    if step.kind != "conv" or way in (None, DIRECT):
        count = ceil(products / (WINDOW if step.kind == "conv" else 1) / CHUNK) or 1
        return count, count
    y, nr = step.dst, _columns(step, way)
    panels = step.params["groups"] * ceil(y.c / step.params["groups"] / nr)
    if way.kind == "winograd":
        m, n = algorithms.tile(step, way)
        tiles = algorithms.tiles(step, m)
        most = SUMS_BYTES // (n * n * min(SUMMED, panels) * nr * item_bytes(FLOAT))
        return panels * ceil(tiles / most), panels * ceil(tiles / MR)
    count = panels * ceil(y.h * y.w / MC)
    return count, count


def _columns(step: Step, way: Algorithm) -> int:
    """Output channels of a panel of a convolution."""
    return BFLOAT_NR if way == BF16_GEMM else NR_OF.get(step.src[0].dtype, NR)


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
