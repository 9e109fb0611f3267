"""Every GEMM and depthwise kernel of 8-bit integers, called directly at every tile size, against exact sums."""

import ctypes
import mmap
from dataclasses import dataclass

import numpy as np
import pytest
from kernel_runs import supported_isas

from pipeall._kernels.cpu import kernels
from pipeall._kernels.cpu.table import ROWS

U = 2.0**-24
PAGE = mmap.PAGESIZE
GUARD, UNTOUCHED = 80, 77  # bytes around what a kernel may write, and what they hold
POINTER, INT32, INT64, FLOAT = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float


def rows_of(op):
    rows = [row for row in ROWS if (row.op, row.type) == (op, "s8")]
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


class Requantize(ctypes.Structure):
    """pa_requantize of kernels_s8.h."""

    _fields_ = [("lo", FLOAT), ("hi", FLOAT), ("zero", INT32)]


class Binary(ctypes.Structure):
    """pa_binary_s8_args of kernels_s8.h."""

    _fields_ = [("a_zero", INT32), ("b_zero", INT32), ("a_factor", FLOAT), ("b_factor", FLOAT), ("to", Requantize)]


class GemmArgs(ctypes.Structure):
    """pa_gemm_s8_args of kernels_s8.h."""

    _fields_ = [
        *((name, INT32) for name in ("n", "taps")),
        *((name, INT64) for name in ("tiles", "least", "larger", "k", "a_step")),
        *((name, POINTER) for name in ("a", "b", "bias", "scale")),
        ("to", Requantize),
        ("c", POINTER),
        ("c_stride", INT64),
        ("reals", INT32),
        ("r", POINTER),
        ("r_stride", INT64),
        ("sum", Binary),
        ("small", INT32),
        *((name, INT64) for name in ("a_offset", "sums_step")),
        ("sums", POINTER),
        *((name, INT32) for name in ("go_on", "open")),
    ]


class DepthwiseArgs(ctypes.Structure):
    """pa_depthwise_s8_args of kernels_s8.h."""

    _fields_ = [
        *((name, INT32) for name in ("n", "taps")),
        *((name, INT64) for name in ("tiles", "least", "larger", "a_step")),
        *((name, POINTER) for name in ("a", "b", "bias", "scale")),
        ("to", Requantize),
        ("c", POINTER),
        ("c_stride", INT64),
    ]


@dataclass
class Ledge:
    """Rows of at most ``width`` bytes that end where memory ends: who reads on is killed."""

    rows: int
    width: int

    def __post_init__(self):
        self.step = -(-self.width // PAGE) * PAGE + PAGE
        self.memory = mmap.mmap(-1, self.rows * self.step)
        self.bytes = np.frombuffer(self.memory, np.int8).reshape(self.rows, self.step)
        libc = ctypes.CDLL(None, use_errno=True)
        for row in self.bytes:
            assert libc.mprotect(ctypes.c_void_p(row[-PAGE:].ctypes.data), ctypes.c_size_t(PAGE), 0) == 0

    def put(self, a):
        """The addresses of the rows of (taps, m, k) ``a``."""
        taps, m, k = a.shape
        for row, values in zip(self.bytes, a.reshape(-1, k), strict=False):
            row[self.step - PAGE - k : self.step - PAGE] = values
        first = self.bytes.ctypes.data + self.step - PAGE - k
        return first + self.step * np.arange(taps * m).reshape(taps, m)


def kernel_of(row):
    if row.isa not in supported_isas():
        pytest.skip(f"this CPU lacks {row.isa}")
    return getattr(ctypes.CDLL(kernels.__file__), f"pa_{row.name}")


def aligned(values):
    """A copy on a 64-byte border."""
    memory = np.zeros(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + values.nbytes].view(values.dtype)
    copy[:] = values.reshape(-1)
    return copy


def tile_pointers(row, addresses):
    """pa_tiling of the rows at (taps, m) ``addresses``, and taps * MR pointers for each tile, null beyond its rows."""
    taps, m = addresses.shape
    tiles = -(-m // row.mr)
    pointers = np.zeros((tiles, taps, row.mr), np.uintp)
    for tile, part in enumerate(np.array_split(addresses, tiles, axis=1)):  # the larger parts come first
        pointers[tile, :, : part.shape[1]] = part
    return tiles, m // tiles, m % tiles, pointers


def run_into(m, n, call, dtype=np.int8):
    """What ``call(c, stride)`` writes into m x n elements; nothing around them may change."""
    stride, item = n + 5, np.dtype(dtype).itemsize
    memory = np.full(2 * GUARD + m * stride, UNTOUCHED, dtype)
    c = np.lib.stride_tricks.as_strided(memory[GUARD:], (m, n), (stride * item, item))
    call(c.ctypes.data, stride)
    out = c.copy()
    c[:] = UNTOUCHED
    assert (memory == UNTOUCHED).all(), f"m {m}, n {n}: wrote outside its tile"
    return out


def packed(w, depth):
    """[tap][k / depth][NR][depth], and behind these what k has beyond a multiple of the depth."""
    taps, k, nr = w.shape
    whole = k // depth * depth
    parts = w[:, :whole].reshape(taps, -1, depth, nr), w[:, whole:].reshape(taps, 1, k - whole, nr)
    return aligned(np.concatenate([part.transpose(0, 1, 3, 2).reshape(taps, -1) for part in parts], axis=1))


def run_gemm(row, ledge, a, w, bias, scale, to, n, reals=False):
    """(m, n) integers, or floats, of (taps, m, k) inputs and (taps, k, NR) weights."""
    taps, m, k = a.shape
    if row.unsigned_activations:  # 128 more, which the bias takes back
        a, bias = a ^ np.int8(-128), (bias - 128 * w.sum((0, 1), dtype=np.int64)).astype(np.int32)
    tiles, least, larger, pointers = tile_pointers(row, ledge.put(a))
    b = packed(w, row.kr)
    rest = [aligned(x) for x in (bias, scale)]
    data = (x.ctypes.data for x in (pointers, b, *rest))
    kernel = kernel_of(row)
    args = (n, taps, tiles, least, larger, k, taps * row.mr, *data, to)
    made = np.float32 if reals else np.int8
    return run_into(m, n, lambda c, stride: kernel(ctypes.byref(GemmArgs(*args, c, stride, reals))), made)


def packed_by_channels(w, row):
    """(taps, n) weights as a kernel reads them: in 16 bits, or in 8 with four taps of a channel side by side."""
    if row.kr == 1:
        return w.astype(np.int16).reshape(len(w), -1, row.nr).transpose(1, 0, 2)
    fours = np.pad(w, ((0, -len(w) % 4), (0, 0))).reshape(-1, 4, w.shape[1] // row.nr, row.nr // 16, 4, 4)
    return fours.transpose(2, 0, 4, 3, 5, 1)  # panel, four taps, quarter of sixteen, sixteen, channel, tap


def run_depthwise(row, ledge, a, w, bias, scale, to):
    """(m, n) integers of (taps, m, n) inputs and (taps, n) weights."""
    taps, m, n = a.shape
    tiles, least, larger, pointers = tile_pointers(row, ledge.put(a))
    missing = -n % row.nr
    if row.unsigned_activations:  # 128 more, which the bias takes back
        bias = (bias - 128 * w.sum(0, dtype=np.int64)).astype(np.int32)
    blocks = packed_by_channels(np.pad(w, ((0, 0), (0, missing))), row)
    rest = [aligned(np.pad(x, (0, missing), constant_values=1)) for x in (bias, scale)]
    b = aligned(blocks)
    data = (x.ctypes.data for x in (pointers, b, *rest))
    kernel = kernel_of(row)
    args = (n, taps, tiles, least, larger, taps * row.mr, *data, to)
    return run_into(m, n, lambda c, stride: kernel(ctypes.byref(DepthwiseArgs(*args, c, stride))))


def check(out, sums, bias, scale, to, exact=False):
    """Against (sum + bias) * scale, which float32 rounds twice unless it is ``exact``."""
    real = (sums + bias.astype(np.int64)) * scale.astype(np.float64)
    error = 0 if exact else 2 * (1 + U) * U * abs(real)
    least, most = (np.rint(np.clip(real + side * error, to.lo, to.hi)) + to.zero for side in (-1, 1))
    assert (least <= out).all() and (out <= most).all(), f"at {np.argwhere((out < least) | (out > most))[:5].tolist()}"
    assert (least == most).mean() > 0.9  # or it would say little


def requantized(zero, relu):
    return Requantize(0 if relu else -128 - zero, 127 - zero, zero)


def gemm_sums(a, w):
    return np.einsum("tik,tkj->ij", a.astype(np.int64), w.astype(np.int64), optimize=True)


def depthwise_sums(a, w):
    return np.einsum("tic,tc->ic", a.astype(np.int64), w.astype(np.int64))


def parameters(random, count, terms):
    """Bias and scale of so many columns, for results of all sizes from sums of so many products."""
    size = 64 * 64 * terms**0.5
    bias = random.integers(-size, size, count).astype(np.int32)
    return bias, (random.uniform(20, 200, count) / size).astype(np.float32)


def drawn_tile(random, row, m, n, depths):
    """Inputs (taps, m, k), weights (taps, k, NR), taps and k, which differ from tile to tile by ``depths``."""
    taps, k = (1, 3)[(m + n) % 2], min(row.kr, 8) * depths[(m + 2 * n) % len(depths)]
    a = random.integers(-128, 128, (taps, m, k), np.int8)
    return a, random.integers(-128 + row.narrow_weights, 128, (taps, k, row.nr), np.int8), taps, k


@rows_of("gemm")
def test_every_gemm_tile(row):
    random = np.random.default_rng(0)
    step = min(row.kr, 8)
    ledge = Ledge(3 * (2 * row.mr + 1), 13 * step)
    for m in range(1, 2 * row.mr + 2):
        for n in range(1, row.nr + 1):
            a, w, taps, k = drawn_tile(random, row, m, n, (1, 2, 5, 13))
            w[:, k - n % step :] = 0  # as packed where k is no multiple of it
            bias, scale = parameters(random, row.nr, taps * k)
            to = requantized(int(random.integers(-128, 128)), relu=n % 3 == 0)
            out = run_gemm(row, ledge, a, w, bias, scale, to, n)
            check(out, gemm_sums(a, w[..., :n]), bias[:n], scale[:n], to)


@rows_of("gemm")
@pytest.mark.parametrize("words", [31, 32, 33, 39, 64, 65, 71, 161])
def test_gemm_of_long_rows(row, words):
    """Rows of some blocks of k, and of a part of one: k is in words of 4 bytes, rounded up to its step."""
    random = np.random.default_rng(words)
    step, n = min(row.kr, 8), row.nr
    k = -(-4 * words // step) * step
    ledge, to = Ledge(2 * (row.mr + 1), k), requantized(3, relu=False)
    for m in (1, row.mr, row.mr + 1):
        a = random.integers(-128, 128, (2, m, k), np.int8)
        w = random.integers(-128 + row.narrow_weights, 128, (2, k, n), np.int8)
        bias, scale = parameters(random, n, 2 * k)
        check(run_gemm(row, ledge, a, w, bias, scale, to, n), gemm_sums(a, w), bias, scale, to)


@rows_of("gemm")
@pytest.mark.parametrize("taps", [1, 16])
def test_gemm_of_the_largest_products(row, taps):
    """65536 of them: all alike, and of both signs by turns; the bias makes the sum small again."""
    m, n, k = row.mr, row.nr, 65536 // taps
    ledge = Ledge(taps * m, k)
    scale, to = np.full(n, 0.25, np.float32), requantized(0, relu=False)
    for weight in (127, -127, -128 + row.narrow_weights):
        for a_value in (-128, 127):
            for turns in (1, 2, 3):
                a = np.full((taps, m, k), a_value, np.int8)
                w = np.full((taps, k, n), weight, np.int8)
                a[..., turns - 1 :: turns] = -128
                sums = gemm_sums(a[:, :1], w[..., :1])  # rows and columns are alike
                bias = (np.arange(n) * 8 - n * 4 - sums[0]).astype(np.int32)
                check(run_gemm(row, ledge, a, w, bias, scale, to, n), sums, bias, scale, to, exact=True)


def corner_scales(n):
    return np.resize(np.array([1e-38, 1e-9, 0.5, 3e38], np.float32), n)


@rows_of("gemm")
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("zero", [-128, 0, 5, 127])
def test_gemm_at_its_bounds(row, zero, relu):
    """Ties, and sums of every size against scales of every size, infinite products among them."""
    n, step, to = row.nr, min(row.kr, 8), requantized(zero, relu)
    ledge = Ledge(1, step)
    nothing, w = np.zeros((1, 1, step), np.int8), np.ones((1, step, n), np.int8)
    for first in range(-300, 300, n):
        bias = np.arange(first, first + n, dtype=np.int32)
        halves = np.full(n, 0.5, np.float32)
        check(run_gemm(row, ledge, nothing, w, bias, halves, to, n), np.zeros(n), bias, halves, to, exact=True)
    for size in (0, 1, 2**15, 2**30):
        for bias in (np.full(n, size, np.int32), np.full(n, -size, np.int32)):
            scale = corner_scales(n)
            check(run_gemm(row, ledge, nothing, w, bias, scale, to, n), np.zeros(n), bias, scale, to, exact=True)


@rows_of("gemm")
def test_every_gemm_tile_of_real_numbers(row):
    """Equal to the last bit: a sum becomes a float, and is multiplied, each with one rounding; any bounds."""
    random = np.random.default_rng(1)
    step = min(row.kr, 8)
    ledge = Ledge(3 * (2 * row.mr + 1), 5 * step)
    for m in range(1, 2 * row.mr + 2):
        for n in range(1, row.nr + 1):
            a, w, *_ = drawn_tile(random, row, m, n, (1, 2, 5))
            bias = random.integers(-(2**26), 2**26, row.nr).astype(np.int32)  # of more digits than a float
            scale = random.uniform(1e-9, 3, row.nr).astype(np.float32)
            lo, hi = ((-np.inf, np.inf), (0, np.inf), (-1e3, 6))[n % 3]
            out = run_gemm(row, ledge, a, w, bias, scale, Requantize(lo, hi, 77), n, reals=True)
            sums = (gemm_sums(a, w) + bias).astype(np.float32) * scale
            assert np.array_equal(out, sums.clip(np.float32(lo), np.float32(hi))[:, :n])


@rows_of("depthwise")
def test_every_depthwise_tile(row):
    random = np.random.default_rng(0)
    most = 2 * row.nr + 3
    ledge = Ledge(9 * (2 * row.mr + 1), most)
    for m in range(1, 2 * row.mr + 2):
        for n in range(1, most + 1):
            taps = (1, 2, 3, 9)[(m + 2 * n) % 4]
            a = random.integers(-128, 128, (taps, m, n), np.int8)
            w = random.integers(-128 + row.narrow_weights, 128, (taps, n), np.int8)
            bias, scale = parameters(random, n, taps)
            to = requantized(int(random.integers(-128, 128)), relu=n % 3 == 0)
            check(run_depthwise(row, ledge, a, w, bias, scale, to), depthwise_sums(a, w), bias, scale, to)


@rows_of("depthwise")
@pytest.mark.parametrize("zero, relu", [(-128, True), (0, False), (127, False)])
def test_depthwise_at_its_bounds(row, zero, relu):
    """The largest products, ties, and scales of every size."""
    m, n, taps, to = row.mr, row.nr + 1, 255, requantized(zero, relu)
    ledge = Ledge(taps * m, n)
    for a_value in (-128, 127):
        for weight in (-128 + row.narrow_weights, 127):
            a, w = np.full((taps, m, n), a_value, np.int8), np.full((taps, n), weight, np.int8)
            sums = depthwise_sums(a, w)
            small = (np.arange(n) * 2 - n - sums[0]).astype(np.int32)
            for bias, scale in ((small, np.full(n, 0.5, np.float32)), (np.zeros(n, np.int32), corner_scales(n))):
                check(run_depthwise(row, ledge, a, w, bias, scale, to), sums, bias, scale, to, exact=True)
