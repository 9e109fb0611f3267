"""Which algorithm computes a convolution: GEMM, direct, Strassen or Winograd F(m x m, r x r), by a model of the work.

gemm             indirect GEMM: any convolution
half-gemm        the same of one pixel, with weights kept in half precision: half of the bytes to read; only where asked
gemv-halves      the same with products of halves, in sums of HALF_ROW of them; only where all is computed in halves
bf16-gemm        the GEMM with products of bfloat16 and sums of floats: any convolution of floats; only where asked
direct           a vector of outputs of several groups: for groups too narrow for a panel of the GEMM (depthwise.c)
sparse           a GEMM that leaves out what SPARSE_COLUMNS filters side by side all have as zeros: for 1x1 kernels
strassen         seven products of quarters of the matrices, not eight: for 1x1 kernels
winograd2|4|5|6  F(2x2), F(4x4), F(5x5), F(6x6) for 3x3, F(2x2), F(4x4) for 5x5 taps of stride 1, also with equal gaps
winograd3|5      F(3x3), F(5x5) for 4x4, F(5x5) for 2x2 taps; with a stride above 1 those of its phases: 4x4 of 7x7,
                 2x2 of 3x3 (space_to_depth.py)
winograd*-lazy   the same with the taps transformed in every frame, not kept: (n / r)^2 times fewer weights to read

Convolutions of halves have Strassen, and Winograd of tiles of at most 6 x 6 points, whose taps are always kept.
Convolutions of integers have their GEMM, and Winograd in float32: results of the two differ by a quantum at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf, prod
from typing import Literal

import numpy as np

from ...steps import is_depthwise, item_bytes
from ..buffers import packable
from .pack_pixels import LANES, fold, folded
from .space_to_depth import phased, phases_of
from .sparse_panels import SPARSE_COLUMNS, kept_rows


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to compute a convolution; as text it has its name above.

    m     outputs of a Winograd tile along one side; 0 for the other kinds
    lazy  Winograd's taps are transformed in every frame
    """

    kind: Literal["gemm", "half-gemm", "gemv-halves", "bf16-gemm", "direct", "sparse", "strassen", "winograd"]
    m: int = 0
    lazy: bool = False

    def __str__(self) -> str:
        return f"{self.kind}{self.m or ''}{'-lazy' if self.lazy else ''}"

    @property
    def keeps_transform(self) -> bool:
        """Whether it keeps transformed weights in place of those of the model."""
        return self.kind in ("strassen", "winograd") and not self.lazy

    def products(self, step) -> int:
        """Multiply-adds of a convolution without what its transforms, pads and panels add."""
        if self.kind in ("gemm", "half-gemm", "gemv-halves", "bf16-gemm", "direct"):
            return filters(step, 1) * prod(step.params["kernel"]) * step.dst.h * step.dst.w
        if self.kind == "sparse":
            return kept_weights(step) * step.dst.h * step.dst.w
        if self.kind == "strassen":
            return 7 * pairs(step) * filters(step, 1) // 4
        m, n = tile(step, self)
        return filters(phased(step), 1) * n * n * tiles(step, m)

    def inner_bytes(self, step) -> int:
        """Bytes of a convolution's weights as they are kept."""
        size = kept_weights(step) if self.kind == "sparse" else step.weight.size
        return points_bytes(step, self, 1) if self.keeps_transform else weight_bytes(step, self) * size


GEMM, DIRECT, STRASSEN = Algorithm("gemm"), Algorithm("direct"), Algorithm("strassen")
SPARSE = Algorithm("sparse")
HALF_GEMM, GEMV_HALVES = Algorithm("half-gemm"), Algorithm("gemv-halves")
BF16_GEMM = Algorithm("bf16-gemm")
FLOATS = ("float32", "float16")
HALVED = (HALF_GEMM, GEMV_HALVES)  # what keeps weights of float32 tensors as halves
HALF_MAX = 65504  # of a weight in half precision
HALF_SUM = 128  # products of a sum in half precision (kernels_f16.h: PA_F16_BLOCK)
HALF_ROW = 32  # the same of one pixel (PA_F16_GEMV_BLOCK)
STRASSEN_WEIGHTS = 12  # times as large as the largest weight, some sums of weights may be (PA_F16_STRASSEN)
HALF_TILE = 6  # points along a side of Winograd's tiles of halves: more lose too much
TILES = {2: (5,), 3: (2, 4, 5, 6), 4: (3, 5), 5: (2, 4)}  # kernel size, of a phase -> m
FEWEST_ZEROS = 0.2  # a share of the weights: with fewer zeros nobody looks for those in common
DIRECT_ROWS = 256  # of a kernel at most (kernels.h: PA_KERNEL_ROWS_MAX)
# Multiply-adds that take as long as transforming the taps of one filter to n x n points, from timings on Zen 3 (AVX2)
TAPS = {4: 200, 6: 230, 7: 450, 8: 600}
WORTH_REGIONS = 0.9  # of all products: with more the GEMM leaves none out
MANY_WEIGHTS = 2**18  # bytes: fewer stay in a core's caches from one frame of a batch to the next
STRASSEN_COLUMNS = 64  # output channels are a multiple of it: two panels of the widest GEMM kernel
# Multiply-adds of integers, by the instruction set of their GEMM, that take as long as one of floats; kernels' heads.
INTEGERS = {"neon": 1.7, "dotprod": 4, "i8mm": 8, "avx2": 1.4, "avx512": 1.4, "avxvnni": 4, "vnni": 4, "ref": 1}
# Products of bfloat16 that take as long as one of floats, and NR of their GEMM (gemm_f32_bf16w_bf16.c)
BFLOATS, BFLOAT_NR = 2.8, 16
CONVERT = 5  # of an integer to a float, or back


@dataclass(frozen=True, slots=True)
class Costs:
    """What the model knows of an instruction set, in multiply-adds of floats that take as long.

    lanes            of a vector: NR of the depthwise kernel
    inputs, outputs  Winograd's transforms of a channel of a tile of n x n points: n -> what it takes. From timings of
                     layers on Zen 3 (AVX2); on NEON what fits layers on Cortex-A53, A73 and A76 by modelled cycles
    split, join      Strassen's sums, of a pair of rows for a pair of channels of the input, and of the output. Timed
                     on Zen 4 (AVX-512), and on NEON fitted to modelled layers; sums of halves, whose lines in-order
                     cores wait for, count as much (28 x 28 on Cortex-A55: from 256 channels to 256 they win 3 %)
    per_weight_byte  reading a byte of weights. A Cortex-A73 reads 3 a cycle, in which it does 4 multiply-adds
    sparse           a multiply-add of the sparse GEMM, whose tiles are narrow
    by_phases        a convolution by phases counts so many times: its sums are short, and tiles of few channels have as
                     many pointers. By timings of first layers on Zen 3 (AVX2); not on NEON, by modelled cycles
    keep_bytes       transformed weights of a layer that are kept at most. On NEON they are always kept: transforming a
                     filter's taps takes 55 (Cortex-A73) to 150 (Cortex-A53) modelled cycles, reading what F(4x4) has
                     more of them 36
    """

    lanes: int
    inputs: Mapping[int, float] = field(default_factory=lambda: {4: 120, 6: 300, 7: 660, 8: 850})
    outputs: Mapping[int, float] = field(default_factory=lambda: {4: 90, 6: 240, 7: 560, 8: 680})
    split: float = 40
    join: float = 40
    sparse: float = 1.2
    per_weight_byte: float = 2.7
    by_phases: float = 1.35
    keep_bytes: float = 4 << 20


COSTS = {
    "avx512": Costs(16),
    "avx2": Costs(8),
    "neon": Costs(
        4,
        inputs={4: 130, 6: 420, 7: 740, 8: 980},
        outputs={4: 130, 6: 420, 7: 740, 8: 980},
        split=22,
        join=30,
        per_weight_byte=1.3,
        by_phases=1.0,
        keep_bytes=inf,
    ),
    "ref": Costs(1, by_phases=1.0),
}


def candidates(step) -> tuple[Algorithm, ...]:
    """The algorithms that can compute a step; the first is the plainest. Nothing to choose: empty."""
    if step.kind != "conv" or is_depthwise(step):
        return ()
    if makes_reals(step):
        return (GEMM,)
    kh, kw = step.params["kernel"]
    if fits_sparse(step):
        return (GEMM, SPARSE, STRASSEN) if fits_strassen(step) else (GEMM, SPARSE)
    if fits_strassen(step):
        return (GEMM, STRASSEN)
    halves, depth = step.dst.dtype == "float16", step.src[0].c // step.params["groups"]
    short = step.dst.dtype == "float32" or (halves and kh * kw * depth <= HALF_SUM)
    narrow = step.params["groups"] > 1 and kh <= DIRECT_ROWS and short
    plain = (GEMM, DIRECT) if narrow else (GEMM,)
    if (step.dst.h, step.dst.w, step.dst.dtype) == (1, 1, "float32"):
        plain = (*plain, *HALVED)
    params = phased(step).params
    taps = params["kernel"][0]
    down, right = params["dilations"]
    if kh != kw or taps not in TILES or params["strides"] != (1, 1) or down != right:
        return plain
    if halves:
        return (*plain, *(Algorithm("winograd", m) for m in TILES[taps] if m + taps - 1 <= HALF_TILE))
    anew = (False, True) if phases_of(step) == 1 else (False,)
    return (*plain, *(Algorithm("winograd", m, lazy) for lazy in anew for m in TILES[taps]))


def makes_reals(step) -> bool:
    """Whether a convolution on integers gives real numbers: its GEMM alone does."""
    return step.src[0].dtype == "int8" and step.dst.dtype == "float32"


def is_pointwise(step) -> bool:
    """Whether every output pixel of a convolution of floats depends on one input pixel alone, and there are several."""
    x, y, p = step.src[0], step.dst, step.params
    if y.dtype not in FLOATS or makes_reals(step):
        return False
    pointwise = (*p["kernel"], p["groups"]) == (1, 1, 1) and not any(p["pads"])
    down, right = p["strides"]
    return pointwise and (ceil(x.h / down), ceil(x.w / right)) == (y.h, y.w) != (1, 1)


def fits_strassen(step) -> bool:
    """Whether a convolution of 1x1 is a product of matrices that have halves, whose weights no sum makes infinite."""
    if not is_pointwise(step) or step.src[0].c % 2 or step.dst.c % STRASSEN_COLUMNS:
        return False
    return step.dst.dtype == "float32" or np.abs(step.weight).max() <= HALF_MAX / STRASSEN_WEIGHTS


def fits_sparse(step) -> bool:
    """Whether a convolution of 1x1 has zeros that filters side by side have in common."""
    if step.dst.dtype != "float32" or not is_pointwise(step):
        return False
    if np.count_nonzero(step.weight) > (1 - FEWEST_ZEROS) * step.weight.size:
        return False
    return 0 < kept_weights(step) < filters(step, SPARSE_COLUMNS)


def kept_weights(step) -> int:
    """Weights of a convolution of 1x1 without the zeros that SPARSE_COLUMNS filters side by side have in common."""
    shape = (step.dst.c, step.src[0].c)
    starts, _, _ = kept_rows(packable(step.weight, (*shape, 1, 1), "weight").reshape(shape))
    return int(starts[-1]) * SPARSE_COLUMNS


def reads_many_weights(step) -> bool:
    """Whether what a step takes is to read its weights, so that it computes the frames of a batch together: a
    convolution of one pixel, whose window is the whole input."""
    if step.kind != "conv" or step.weight.nbytes < MANY_WEIGHTS:
        return False
    p, x, y = step.params, step.src[0], step.dst
    return (y.h, y.w, p["groups"]) == (1, 1, 1) and (x.h, x.w) == tuple(p["kernel"]) and not any(p["pads"])


def sensible(step, nr: int, isa: str, integers: str = "ref") -> tuple[Algorithm, ...]:
    """The candidates worth comparing, for GEMM panels of ``nr``: of each Winograd one, direct for groups below a panel.

    Transformed weights of ``keep_bytes`` or more would not stay in a cache until the next frame: they are made anew.
    Of integers Winograd is compared where the model, by the instruction set ``integers`` of their GEMM, sees it ahead.
    """
    if is_pointwise(step):
        dense = work(step, GEMM, nr, isa)
        return tuple(way for way in candidates(step) if way == GEMM or work(step, way, nr, isa) < dense)
    keep = inf if step.dst.dtype == "float16" else COSTS[isa].keep_bytes
    able = candidates(step)  # with phases, Winograd's weights are always kept
    ways = tuple(
        replace(way, lazy=way.keeps_transform and points_bytes(step, way, nr) >= keep)
        for way in able
        if not way.lazy and way not in HALVED and (way != DIRECT or step.dst.c // step.params["groups"] < nr)
    )
    ways = tuple(way for way in ways if way in able)
    if step.dst.dtype in FLOATS:
        return ways
    most = work(step, GEMM, nr, isa, integers)
    return tuple(way for way in ways if way == GEMM or work(step, way, nr, isa, integers) < most)


def possible(step) -> tuple[Algorithm, ...]:
    """The candidates, and what rounds all operands of a convolution of floats: the precision bf16 alone takes it."""
    ways = candidates(step)
    return (*ways, BF16_GEMM) if ways and step.src[0].dtype == step.dst.dtype == "float32" else ways


def bfloated(step, algorithm: Algorithm | None, nr: int, isa: str, integers: str = "ref") -> Algorithm | None:
    """The GEMM of bfloat16 in an algorithm's place where the model, as of ``sensible``, sees it ahead."""
    if algorithm is None or BF16_GEMM not in possible(step):
        return algorithm
    return min(algorithm, BF16_GEMM, key=lambda way: work(step, way, nr, isa, integers))


def halved(step, algorithm: Algorithm | None, way: Algorithm) -> Algorithm | None:
    """One of HALVED in the place of the GEMM of one pixel; ``algorithm`` where weights are beyond half precision."""
    if algorithm != GEMM or way not in candidates(step):
        return algorithm
    return way if -HALF_MAX <= step.weight.min() and step.weight.max() <= HALF_MAX else algorithm


def modelled(step, nr: int, isa: str, integers: str = "ref") -> Algorithm:
    """The algorithm of least modelled work for GEMM panels of ``nr``; it depends on nothing but the arguments."""
    return min(sensible(step, nr, isa, integers), key=lambda way: work(step, way, nr, isa, integers))


def work(step, algorithm: Algorithm, nr: int, isa: str, integers: str = "ref") -> float:
    """What a step costs, in multiply-adds of floats."""
    costs = COSTS[isa]
    per_weight = weight_bytes(step, algorithm) * costs.per_weight_byte
    whole, products = step.src[0].dtype == "int8", 2 if step.dst.dtype == "float16" else 1
    if algorithm == BF16_GEMM:
        nr, products = BFLOAT_NR, BFLOATS
    if algorithm in (GEMM, BF16_GEMM) and step.src[0].dtype == "float32" and (together := fold(step, nr)) > 1:
        step = folded(step, together)
    taps = step.params["kernel"][0] * step.params["kernel"][1]
    pixels = step.dst.h * step.dst.w
    if algorithm == GEMM and whole:
        return filters(step, 1) * taps * (pixels / INTEGERS[integers] + per_weight)
    if algorithm in (GEMM, BF16_GEMM):
        return filters(step, min(nr, LANES)) * taps * (pixels * live_share(step) / products + per_weight)
    if algorithm == DIRECT:
        vectors = vector_filters(step, costs.lanes)
        return vectors * taps * (pixels / products + per_weight)
    if algorithm == SPARSE:
        return kept_weights(step) * (pixels * costs.sparse + per_weight)
    if algorithm == STRASSEN:
        sums = pairs(step) * (step.src[0].c / 2 * costs.split + step.dst.c / 2 * costs.join)
        return algorithm.products(step) / products + sums + per_weight * 7 / 4 * filters(step, nr)
    m, n = tile(step, algorithm)
    count = tiles(step, m)
    lazy, times = algorithm.lazy, costs.by_phases if phases_of(step) > 1 else 1
    step = phased(step)
    per_filter = n * n * count / products + per_weight * (taps if lazy else n * n) + (TAPS[n] if lazy else 0)
    convert = CONVERT if whole else 0
    into, out = costs.inputs[n] / products, costs.outputs[n] / products
    ends = step.src[0].c * (into + convert * n * n) + step.dst.c * (out + convert * m * m)
    return times * (filters(step, nr) * per_filter + count * ends)


def pairs(step) -> int:
    """Rows of half of Strassen's matrices: output pixels, one of zeros with them where they are odd."""
    return ceil(step.dst.h * step.dst.w / 2)


def points_bytes(step, algorithm: Algorithm, nr: int) -> int:
    """Size of the transformed weights."""
    each = weight_bytes(step, algorithm)
    if algorithm == STRASSEN:
        return 7 * each * filters(step, nr) // 4
    return each * filters(phased(step), nr) * tile(step, algorithm)[1] ** 2


def weight_bytes(step, algorithm: Algorithm) -> int:
    """Of one as it is kept."""
    stored = {GEMM: step.src[0].dtype} | dict.fromkeys((*HALVED, BF16_GEMM), "float16")
    rest = "float16" if step.dst.dtype == "float16" else "float32"
    return item_bytes(stored.get(algorithm, rest))


def tile(step, algorithm: Algorithm) -> tuple[int, int]:
    """m and n of a Winograd algorithm: tiles of n x n points give m x m pixels."""
    return algorithm.m, algorithm.m + phased(step).params["kernel"][0] - 1


def tiles(step, m: int) -> int:
    """Tiles of m x m pixels. Where taps have gaps, its pixels have them, and remainders are apart."""
    apart = step.params["dilations"][0]
    return prod(apart * ceil(ceil(size / apart) / m) for size in (step.dst.h, step.dst.w))


def live_share(step) -> float:
    """The share of products that the GEMM computes: without taps that see padding alone (drivers/regions.h)."""
    p, x, y = step.params, step.src[0], step.dst
    if max(p["dilations"]) == 1 or len(step.src) > 1:
        return 1.0
    sides = zip((y.h, y.w), p["kernel"], p["strides"], p["dilations"], p["pads"], (x.h, x.w), strict=False)
    (top, bottom), (left, right) = (_live_taps(*side) for side in sides)
    kh, kw = p["kernel"]
    spans = (bottom - top)[:, None] * kw + right - left + 1
    share = float(spans.mean()) / (kh * kw)
    return share if share < WORTH_REGIONS else 1.0


def _live_taps(n: int, taps: int, stride: int, dilation: int, pad: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last tap that sees one of ``size`` inputs, at each of n outputs."""
    at = np.arange(n)[:, None] * stride - pad + np.arange(taps) * dilation
    inside = (at >= 0) & (at < size)
    last = taps - 1 - inside[:, ::-1].argmax(1)
    return inside.argmax(1), np.where(inside.any(1), last, 0)


def filters(step, nr: int) -> int:
    """Pairs of input and output channel that meet, as packed in panels of ``nr``."""
    groups = step.params["groups"]
    return step.src[0].c * padded(step.dst.c // groups, nr)


def vector_filters(step, lanes: int) -> int:
    """Pairs of input and output channel that meet, as packed in vectors of so many lanes (kernels.h: pa_grouping)."""
    groups = step.params["groups"]
    each_in, each_out = step.src[0].c // groups, step.dst.c // groups
    together = max(1, lanes // max(each_in, each_out))
    return ceil(groups / together) * padded(each_out, lanes) * each_in


def padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
