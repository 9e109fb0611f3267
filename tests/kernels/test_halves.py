"""Conversions of floats to halves and back, to the last bit: all halves, and floats on both sides of every tie."""

import numpy as np
import pytest
from kernel_runs import reference_table
from strided_steps import run_strided

HALVES = np.arange(2**16, dtype=np.uint16)
QUIET_HALF, QUIET_FLOAT = 0x200, 0x400000  # the bit that makes a NaN a quiet one


def cast(x, target, spread):
    """By the native step; between elements side by side, or far from each other."""
    x = x.reshape(-1, 64)
    return run_strided(
        "pointwise", [x], dict(op="cast"), x.shape, target, reference_table(), seed=5 if spread else None
    )


def nan_of(bits):
    return (bits & 0x7C00 == 0x7C00) & (bits & 0x3FF != 0)


@pytest.mark.parametrize("spread", [False, True])
def test_floats_of_halves(spread):
    found = cast(HALVES.view(np.float16), "float32", spread).view(np.uint32).reshape(-1)
    with np.errstate(invalid="ignore"):
        expected = HALVES.view(np.float16).astype(np.float32).view(np.uint32)
    quiet = np.where(nan_of(HALVES), QUIET_FLOAT, 0).astype(np.uint32)
    np.testing.assert_array_equal(found, expected | quiet)


def around_ties():
    """Every half, what lies between it and the next, and the floats beside these."""
    finite = HALVES[(HALVES & 0x7FFF) < 0x7C00]
    last = finite & 0x7FFF == 0x7BFF
    at = finite.view(np.float16).astype(np.float64)
    above = np.where(last, np.copysign(65536, at), (finite + np.uint16(1)).view(np.float16).astype(np.float64))
    exact = np.concatenate([at, (at + above) / 2]).astype(np.float32)
    return np.concatenate([np.nextafter(exact, np.float32(-np.inf)), exact, np.nextafter(exact, np.float32(np.inf))])


@pytest.mark.parametrize("spread", [False, True])
def test_halves_of_floats(spread):
    random = np.random.default_rng(1)
    large = np.float32([65519.99, 65520, 1e30, np.inf, 2.0**-25, 2.0**-26, 1e-40, 0])
    x = np.concatenate([around_ties(), large, -large, random.integers(0, 2**32, 4096, np.uint32).view(np.float32)])
    nans = np.uint32([0x7F800001, 0x7F802000, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC12345])
    x = np.concatenate([x, nans.view(np.float32)])
    x = np.resize(x, -(-x.size // 64) * 64)
    bits = x.view(np.uint32)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(np.float16).view(np.uint16)
    payload = bits >> 16 & 0x8000 | 0x7C00 | QUIET_HALF | bits >> 13 & 0x3FF
    expected = np.where(np.isnan(x), payload, expected).astype(np.uint16)
    found = cast(x, "float16", spread).view(np.uint16).reshape(-1)
    np.testing.assert_array_equal(found, expected)
