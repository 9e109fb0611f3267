"""Products and attention of transformers on one core: median time natively measured, GFLOP/s, and the share of the
bound.

    pytest bench/kernels/bench_products.py --benchmark-only --benchmark-json=products.json

The bound is the time that the multiply-adds take at the core's measured peak, and for attention that of the softmax
kernel on as many scores besides; the share is bound / median.
"""

from functools import cache

import numpy as np
import pytest

from bench.kernels.single_step import big, kernels, on_axes, program, strided_program
from pipeall._kernels.cpu import peak_cpu
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

ROUNDS = 30
PRODUCTS = {  # (batch, m, k, n), orders of the axes of a, b and the result in memory
    "square-512": ((1, 512, 512, 512), (0, 1, 2), (0, 1, 2), (0, 1, 2)),
    "square-512-all-transposed": ((1, 512, 512, 512), (0, 2, 1), (0, 2, 1), (0, 2, 1)),
    "vit-scores": ((3, 197, 64, 197), (1, 0, 2), (2, 0, 1), (0, 1, 2)),
    "vit-values": ((3, 197, 197, 64), (0, 1, 2), (1, 0, 2), (1, 0, 2)),
    "window-scores": ((64, 49, 32, 49), (0, 1, 2), (0, 2, 1), (0, 1, 2)),
    "vector-1024": ((1, 1, 1024, 1024), (0, 1, 2), (0, 1, 2), (0, 1, 2)),
}
ATTENTION = {  # heads, length, width
    "vit-tiny": (3, 197, 64),
    "mobilevit": (4, 256, 36),
    "window": (192, 49, 32),
    "long": (8, 1024, 64),
}


@cache
def peak_flops() -> float:
    """Of one core, each nanosecond."""
    return peak_cpu.flops(kernels(big())["peak", "f32"]) / 1e9


def measure(made, benchmark, flops, other_ns=0.0):
    median_ns = float(np.median(benchmark.pedantic(made.time, (ROUNDS,), rounds=1, warmup_rounds=1)))
    bound_ns = flops / peak_flops() + other_ns
    benchmark.extra_info.update(
        median_us=round(median_ns / 1e3, 1),
        gflops=round(flops / median_ns, 1),
        bound_us=round(bound_ns / 1e3, 1),
        share=round(bound_ns / median_ns, 2),
    )


@pytest.mark.parametrize("name", PRODUCTS)
def bench_product(name, benchmark):
    (batch, m, k, n), *orders = PRODUCTS[name]
    benchmark.group = "matmul"
    step = on_axes("matmul", {"alpha": 1.0}, ((batch, m, k), (batch, k, n), (batch, m, n)), orders)
    measure(strided_program(step, big()), benchmark, 2 * batch * m * k * n)


@pytest.mark.parametrize("name", ATTENTION)
def bench_attention(name, benchmark):
    """Heads as they lie in the rows of a token."""
    heads, length, width = ATTENTION[name]
    benchmark.group = "attention"
    params = {"scale": width**-0.5, "causal": False}
    step = on_axes("attention", params, [(heads, length, width)] * 4, [(1, 0, 2)] * 4)
    rows = 64  # whose scores are in the cache, as attention's own are
    scores = View(SLOT_IN, 0, 1, rows, length, length)
    softmax = program(Step("softmax", "softmax", (scores,), View(SLOT_OUT, 0, 1, rows, length, length)), big())
    softmax_ns = float(np.median(softmax.time(ROUNDS))) * heads * length / rows
    measure(strided_program(step, big()), benchmark, 4 * heads * length**2 * width, softmax_ns)
