"""Every kernel of 8-bit integers along a run or over channels, called directly, against NumPy: equal to the last bit.

Operands end where memory ends that may be read; what lies around a result must stay as it was.
"""

import ctypes
import mmap
from itertools import product

import numpy as np
import pytest

from pipeall._kernels.cpu import cluster, kernels
from pipeall._kernels.cpu.table import ROWS

POINTER, INT, INT32, INT64, FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_int32, ctypes.c_int64, ctypes.c_float
GUARD, FILL = 67, 85  # bytes around a result, an odd number of them; what they hold
LENGTHS = (*range(1, 71), 127, 257, 1000, 4099)
BYTES = np.arange(-128, 128).astype(np.int8)
ZEROS = (-128, -3, 0, 127)
SCALES = (1e-42, 2.0**-126, 1e-3, 0.1, 0.125, 1.0, 7.7, 3e38)  # the first is subnormal
ARGUMENTS = {
    "quantize": (INT64, POINTER, POINTER, FLOAT, INT32),
    "dequantize": (INT64, POINTER, POINTER, FLOAT, INT32),
    "lut": (INT64, INT64, INT64, POINTER, POINTER, POINTER),
    "add": (INT64, POINTER, POINTER, INT, POINTER, POINTER),
    "mul": (INT64, POINTER, POINTER, INT, POINTER, POINTER),
    "pool": (POINTER,),
}


class Requantize(ctypes.Structure):
    """pa_requantize of kernels_s8.h."""

    _fields_ = [("lo", FLOAT), ("hi", FLOAT), ("zero", INT32)]


class BinaryArgs(ctypes.Structure):
    """pa_binary_s8_args of kernels_s8.h."""

    _fields_ = [("a_zero", INT32), ("b_zero", INT32), ("a_factor", FLOAT), ("b_factor", FLOAT), ("to", Requantize)]


class PoolArgs(ctypes.Structure):
    """pa_pool_s8_args of kernels_s8.h."""

    _fields_ = [
        *((name, INT64) for name in ("pixels", "channels", "rows", "columns")),
        ("a", POINTER),
        *((name, INT64) for name in ("pixel_step", "row_step", "column_step")),
        *((name, INT32) for name in ("mean", "a_zero")),
        ("factor", FLOAT),
        ("to", Requantize),
        ("out", POINTER),
        ("out_stride", INT64),
    ]


def rows_of(*ops):
    rows = [row for row in ROWS if row.type == "s8" and row.op in ops]
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.name)


def kernel_of(row):
    if row.isa not in cluster.detect()[0].isas:
        pytest.skip(f"this CPU lacks {row.isa}")
    kernel = getattr(ctypes.CDLL(kernels.__file__), f"pa_{row.name}")
    kernel.argtypes, kernel.restype = ARGUMENTS[row.op], None
    return kernel


def at_the_end(values):
    """A copy behind which nothing can be read."""
    values = np.ascontiguousarray(values)
    size = -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, size + mmap.PAGESIZE), np.uint8)
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.ctypes.data + size), mmap.PAGESIZE, 0) == 0  # PROT_NONE
    copy = memory[size - values.nbytes : size].view(values.dtype).reshape(values.shape)
    copy[:] = values
    return copy


class Guarded:
    """Room for a result of ``shape``, rows ``stride`` elements apart, with bytes around it that must not change."""

    def __init__(self, shape, dtype=np.int8, stride=None):
        rows, columns = shape if isinstance(shape, tuple) else (1, shape)
        stride, item = stride or columns, np.dtype(dtype).itemsize
        self.memory = np.full(2 * GUARD + rows * stride * item, FILL, np.uint8)
        inner = self.memory[GUARD : GUARD + rows * stride * item].view(dtype)
        whole = np.lib.stride_tricks.as_strided(inner, (rows, columns), (stride * item, item))
        self.data, self.result = inner.ctypes.data, whole if isinstance(shape, tuple) else whole[0]

    def check(self, expected, **where):
        """Fills the room again."""
        np.testing.assert_array_equal(self.result, expected, err_msg=str(where))
        self.result.view(np.uint8)[...] = FILL
        assert (self.memory == FILL).all(), f"{where}: wrote outside"


def requantized(real, lo, hi, zero):
    return (np.rint(np.clip(real, np.float32(lo), np.float32(hi))) + zero).astype(np.int8)


def quantized(x, scale, zero):
    with np.errstate(over="ignore"):
        return np.clip(np.rint(x / np.float32(scale)).astype(np.float64) + zero, -128, 127).astype(np.int8)


@rows_of("quantize")
def test_quantize(row):
    kernel, random = kernel_of(row), np.random.default_rng(0)
    for scale, zero in product(SCALES, ZEROS):
        with np.errstate(over="ignore"):
            near = np.arange(-300, 300).astype(np.float32) / 2 * np.float32(scale)  # every other a tie
            some = (random.uniform(-300, 300, 10000) * scale).astype(np.float32)
        limits = np.float32([0, -0.0, 3.4e38, -3.4e38, 1e-45, -1e-45, np.inf, -np.inf])
        x = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf), some, limits])
        x, out = at_the_end(x.astype(np.float32)), Guarded(x.size)
        kernel(x.size, x.ctypes.data, out.data, scale, zero)
        out.check(quantized(x, scale, zero), scale=scale, zero=zero)


@rows_of("quantize")
def test_quantize_lengths_and_nan(row):
    kernel, random = kernel_of(row), np.random.default_rng(1)
    for n in LENGTHS:
        x, out = at_the_end(random.uniform(-140, 140, n).astype(np.float32)), Guarded(n)
        kernel(n, x.ctypes.data, out.data, 0.9, n % 7 - 3)
        out.check(quantized(x, 0.9, n % 7 - 3), n=n)
        x[n // 2] = np.nan
        kernel(n, x.ctypes.data, out.data, 0.9, 0)
        any_byte = out.result[n // 2]
        x[n // 2] = 0
        expected = quantized(x, 0.9, 0)
        expected[n // 2] = any_byte
        out.check(expected, n=n)


@rows_of("dequantize")
def test_dequantize(row):
    kernel, random = kernel_of(row), np.random.default_rng(2)
    runs = [(BYTES, scale, zero) for scale, zero in product(SCALES, ZEROS)]
    runs += [(random.integers(-128, 128, n).astype(np.int8), 0.3, n % 9 - 4) for n in LENGTHS]
    for values, scale, zero in runs:
        x, out = at_the_end(values), Guarded(values.size, np.float32)
        kernel(x.size, x.ctypes.data, out.data, scale, zero)
        with np.errstate(over="ignore"):
            expected = (x.astype(np.float32) - np.float32(zero)) * np.float32(scale)
        out.check(expected, n=x.size, scale=scale, zero=zero)


@rows_of("lut")
def test_table(row):
    kernel, random = kernel_of(row), np.random.default_rng(3)
    runs = [BYTES, *(random.integers(-128, 128, n).astype(np.int8) for n in LENGTHS)]
    for values in runs:
        table = at_the_end(random.integers(-128, 128, 256).astype(np.int8))
        x, out, in_place = at_the_end(values), Guarded(values.size), Guarded(values.size)
        expected = table[x.astype(int) + 128]
        kernel(1, x.size, 0, x.ctypes.data, out.data, table.ctypes.data)
        out.check(expected, n=x.size)
        in_place.result[:] = x
        kernel(1, x.size, 0, in_place.data, in_place.data, table.ctypes.data)
        in_place.check(expected, n=x.size)


@rows_of("lut")
def test_table_of_rows(row):
    kernel, random = kernel_of(row), np.random.default_rng(3)
    table = random.integers(-128, 128, 256).astype(np.int8)
    for n, stride in product((1, 15, 16, 33, 64, 70), (0, 5)):
        rows = Guarded((7, n), stride=n + stride)
        given = random.integers(-128, 128, (7, n)).astype(np.int8)
        rows.result[:] = given
        kernel(7, n, n + stride, rows.data, rows.data, table.ctypes.data)
        rows.check(table[given.astype(int) + 128], n=n, stride=stride)


def binary_expected(op, a, b, args):
    """In float32, operation by operation."""
    x, y = a.astype(np.float32) - np.float32(args.a_zero), b.astype(np.float32) - np.float32(args.b_zero)
    with np.errstate(over="ignore"):
        if op == "add":
            real = x * np.float32(args.a_factor) + y * np.float32(args.b_factor)
        else:
            real = x * y * np.float32(args.a_factor)
    return requantized(real, args.to.lo, args.to.hi, args.to.zero)


# a_zero, b_zero, a_factor, b_factor, to: the bounds of all integers and of a ReLU; factors with ties, and extreme ones
BINARY = [
    (0, 0, 0.5, 0.5, (-128, 127, 0)),
    (-128, 127, 0.013, 0.71, (0, 255, -128)),
    (127, -128, 0.25, 0.125, (-255, 0, 127)),
    (5, -7, 1 / 3, 1 / 7, (0, 124, 3)),
    (-3, 2, 1e30, -1e30, (-131, 124, 3)),
    (1, 1, 1e-30, 1e-41, (0, 30, -20)),
    (-128, -128, 0.001, 0.001, (0, 255, -128)),
]


@rows_of("add", "mul")
def test_binary(row):
    """Every pair of integers; one integer against all; every length, in place of either operand too."""
    kernel, random = kernel_of(row), np.random.default_rng(4)
    first, second = (at_the_end(x.reshape(-1)) for x in np.meshgrid(BYTES, BYTES))
    for *numbers, to in BINARY:
        args = BinaryArgs(*numbers, Requantize(*to))
        out = Guarded(first.size)
        kernel(first.size, first.ctypes.data, second.ctypes.data, 1, out.data, ctypes.byref(args))
        out.check(binary_expected(row.op, first, second, args), args=numbers)
        for value in BYTES[::15]:
            b, out = at_the_end(value.reshape(1)), Guarded(256)
            kernel(256, BYTES.ctypes.data, b.ctypes.data, 0, out.data, ctypes.byref(args))
            out.check(binary_expected(row.op, BYTES, b, args), args=numbers, b=value)
    for n, step in product(LENGTHS, (0, 1)):
        a, b = (at_the_end(random.integers(-128, 128, size).astype(np.int8)) for size in (n, n if step else 1))
        expected = binary_expected(row.op, a, b, args)
        out, as_a, as_b = Guarded(n), Guarded(n), Guarded(b.size)
        kernel(n, a.ctypes.data, b.ctypes.data, step, out.data, ctypes.byref(args))
        out.check(expected, n=n, step=step)
        as_a.result[:], as_b.result[:] = a, b
        kernel(n, as_a.data, b.ctypes.data, step, as_a.data, ctypes.byref(args))
        as_a.check(expected, n=n, step=step, out="a")
        if step or n == 1:
            kernel(n, a.ctypes.data, as_b.data, step, as_b.data, ctypes.byref(args))
            as_b.check(expected, n=n, step=step, out="b")


def pool(kernel, image, window, apart, pixels, zero, to, mean):
    """One call on (h, w, channels) that ends with its last tap, against int64; ``apart``: pixels, rows, columns."""
    (rows, columns), (step, down, across) = window, apart
    channels, out = image.shape[2], Guarded((pixels, image.shape[2]), stride=image.shape[2] + 5)
    taps = image[: rows * down : down]
    taps = np.stack([taps[:, p * step : p * step + columns * across : across] for p in range(pixels)])
    taps = taps.reshape(pixels, rows * columns, channels)
    factor = np.float32(1.3 / max(1, rows * columns))
    kernel(
        ctypes.byref(
            PoolArgs(
                pixels, channels, rows, columns, image.ctypes.data, step * channels, down * image.shape[1] * channels,
                across * channels, mean, zero, factor, Requantize(*to), out.data, channels + 5,
            )
        )
    )  # fmt: skip
    if mean:
        expected = requantized((taps.astype(np.int64) - zero).sum(1).astype(np.float32) * factor, *to)
    else:
        expected = taps.max(1, initial=-128)
    out.check(expected, pixels=pixels, window=window, apart=apart, channels=channels, mean=mean)


@rows_of("pool")
@pytest.mark.parametrize("mean", [False, True])
def test_pool(row, mean):
    """Windows of one tap, of none, and of up to more than 16 bits hold the sum of; of one pixel and of several."""
    kernel, random = kernel_of(row), np.random.default_rng(5)
    windows = [((1, 1), (1, 1, 1)), ((3, 3), (2, 1, 1)), ((2, 3), (1, 2, 3)), ((7, 7), (3, 1, 1)), ((0, 2), (1, 1, 1)),
               ((2, 0), (1, 1, 1)), ((16, 16), (1, 1, 1)), ((1, 257), (1, 1, 1)), ((35, 20), (1, 1, 1))]  # fmt: skip
    for channels in (*range(1, 71), 96, 127, 128, 130, 192, 255, 256, 257, 300, 513):
        for (rows, columns), (step, down, across) in windows[: 9 if channels % 16 < 2 else 4]:
            for pixels in (1, 2, 3, 4, 5, 11) if channels < 131 else (1, 3):
                shape = (
                    max(1, (rows - 1) * down + 1),
                    max(1, (pixels - 1) * step + (columns - 1) * across + 1),
                    channels,
                )
                image = random.integers(-128, 128, shape).astype(np.int8)
                image[:, : columns * across] = random.choice([-128, 127, *image[0, 0, :1]])  # sums at their limits
                zero, to = random.choice(ZEROS), ((-128, 127, 0), (0, 255, -128), (0, 124, 3))[columns % 3]
                window, apart = (rows, columns), (step, down, across)
                pool(kernel, at_the_end(image), window, apart, pixels, int(zero), to, mean)


@rows_of("pool")
@pytest.mark.parametrize("value, zero, to", [(-128, 127, (-255, 0, 127)), (127, -128, (0, 255, -128))])
def test_mean_of_as_many_taps_as_32_bits_hold(row, value, zero, to):
    kernel, channels = kernel_of(row), 3
    pixel, out = np.full(channels, value, np.int8), Guarded(channels)
    args = PoolArgs(
        1, channels, 2**12, 2**11, pixel.ctypes.data, 0, 0, 0, 1, zero, 2.0**-23, Requantize(*to), out.data, channels
    )
    kernel(ctypes.byref(args))
    out.check(np.full(channels, value), window=(2**12, 2**11))
