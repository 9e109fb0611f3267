"""Every GEMM micro-kernel at every tile size, called directly: the corners that a driver reaches only now and then."""

import ctypes
from itertools import product

import numpy as np
import pytest
from rounding import bfloats

from pipeall._kernels.cpu import cluster, kernels
from pipeall._kernels.cpu.table import ROWS

U, HALF_U, LEAST = 2.0**-24, 2.0**-11, 2.0**-25  # of floats, of halves, of the smallest halves
GUARD = 80  # floats around what a kernel may touch; more than any tile is wide
POINTER, INT32, INT64, FLOAT = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float


class GemmArgs(ctypes.Structure):
    """pa_gemm_args of kernels.h."""

    _fields_ = [
        *((name, INT32) for name in ("n", "taps", "far")),
        *((name, INT64) for name in ("tiles", "least", "larger", "k", "a_offset", "a_step")),
        *((name, POINTER) for name in ("a", "b", "bias", "next", "c")),
        ("c_stride", INT64),
        ("r", POINTER),
        ("r_stride", INT64),
        *((name, FLOAT) for name in ("lo", "hi")),
    ]


def guarded(rows, columns, stride, values):
    """Flat memory of NaN with a (rows, columns) window of ``values`` in it, and that window."""
    memory = np.full(2 * GUARD + rows * stride, np.nan, np.float32)
    window = np.lib.stride_tricks.as_strided(memory[GUARD:], (rows, columns), (4 * stride, 4))
    window[:] = values
    return memory, window


def aligned(values):
    """A copy on a 64-byte border."""
    memory = np.empty(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + values.nbytes].view(values.dtype)
    copy[:] = values.reshape(-1)
    return copy


def panel(b, row):
    """(taps, k, NR) as the kernel reads it: of KR > 1 as bits of bfloat16, k filled up with zeros."""
    if row.kr == 1:
        return b
    taps, k, nr = b.shape
    filled = np.zeros((taps, -(-k // row.kr), row.kr, nr), np.float32)
    filled.reshape(taps, -1, nr)[:, :k] = b
    return (filled.transpose(0, 1, 3, 2).copy().view(np.uint32) >> 16).astype(np.uint16)


def operands(row, random, *shapes):
    """Random a and b as a kernel multiplies them, weights rounded as the driver packs them."""
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    if row.type == "f32_bf16w":
        b = bfloats(b)
    elif row.type != "f32":
        b = (b * 10.0 ** random.uniform(-7, 3, b.shape)).astype(np.float16)  # subnormal ones, too
    if row.type == "f32_f16w_f16acc":
        a *= np.float32(0.1)  # no sum is infinite
    return a, b


GEMM_OF_FLOATS = (
    ("gemm", "f32"), ("gemm", "f32_bf16w"), ("gemv", "f32"), ("gemv", "f32_f16w"), ("gemv", "f32_f16w_f16acc")
)  # fmt: skip
# "gemm", "f16": native/kernels_f16.c
TILED = [row for row in ROWS if (row.op, row.type) in GEMM_OF_FLOATS]


@pytest.mark.parametrize("row", TILED, ids=lambda row: row.name)
def test_every_tile(row):
    """Against float64, within (terms + 2) u sum|a b|; one or two k blocks, up to three tiles, a residual or none.

    Products of bfloat16: of a and b rounded to it, 2 u, for two products are added with one rounding to odd, then to
    the sum with another. Products of halves: u is that of halves, and a product, and what a rounds to, may be one of
    the smallest of them.
    """
    if row.isa not in cluster.detect()[0].isas:
        pytest.skip(f"this CPU lacks {row.isa}")
    kernel = getattr(ctypes.CDLL(kernels.__file__), f"pa_{row.name}")
    random = np.random.default_rng(0)
    offset = 2
    for m, n in product(range(1, 2 * row.mr + 2 if row.op == "gemm" else 2), range(1, row.nr + 1)):
        tiles = -(-m // row.mr)
        sizes = [m // tiles + (tile < m % tiles) for tile in range(tiles)]
        k = (3, 8, 21)[(m + 2 * n) % 3]  # below, at and above what a kernel takes at a time
        taps, far = (1, 1) if n % 4 == 0 else (3, 0)
        residual, blocks = bool((m + n) % 2), 1 + (m + n) // 2 % 2
        a, b = operands(row, random, (blocks, taps, m, offset + k), (blocks, taps, k, row.nr))
        bias = random.standard_normal(row.nr).astype(np.float32)
        memory, c = guarded(m, n, n + 5, np.nan)
        _, r = guarded(m, n, n + 3, random.standard_normal((m, n)))
        lo, hi = (-1.0, 2.0) if n % 2 else (-np.inf, np.inf)
        for block in range(blocks):
            last = block == blocks - 1
            rows = np.zeros((tiles, taps, row.mr), np.uintp)  # beyond a tile's rows they are null: never read
            for tile, size in enumerate(sizes):
                first = sum(sizes[:tile])
                rows[tile, :, :size] = [[a[block, t, first + i].ctypes.data for i in range(size)] for t in range(taps)]
            packed, start = aligned(panel(b[block], row)), aligned(bias)
            kernel(
                ctypes.byref(
                    GemmArgs(
                        n, taps, far, tiles, m // tiles, m % tiles, k, offset, taps * row.mr,
                        rows.ctypes.data, packed.ctypes.data,
                        None if block else start.ctypes.data, packed.ctypes.data, c.ctypes.data, n + 5,
                        r.ctypes.data if residual and last else None, n + 3,
                        lo if last else -np.inf, hi if last else np.inf,
                    )
                )
            )  # fmt: skip
        x, w = a[..., offset:].astype(np.float64), b[..., :n].astype(np.float64)
        if row.type == "f32_bf16w":
            x = bfloats(a[..., offset:]).astype(np.float64)
        expected = np.einsum("stik,stkj->ij", x, w) + bias[:n] + (r if residual else 0)
        size = np.einsum("stik,stkj->ij", abs(x), abs(w)) + abs(bias[:n]) + (abs(r) if residual else 0)
        error = np.abs(c - np.clip(expected, lo, hi))
        allowed = (blocks * taps * k + 4) * U * size * (2 if row.type == "f32_bf16w" else 1)
        if row.type == "f32_f16w_f16acc":
            allowed += ((1 + HALF_U) ** (k + 2) - 1) * size + LEAST * blocks * taps * k * (2 + abs(w).max())
        assert (error <= allowed).all(), f"m {m}, n {n}: error {error.max()}"
        c[:] = np.nan
        assert np.isnan(memory).all(), f"m {m}, n {n}: wrote outside its tile"
