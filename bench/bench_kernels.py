"""Every distinct convolution of the five zoo networks on one core: median time natively measured, and GFLOP/s.

    pytest bench/bench_kernels.py --benchmark-only --benchmark-json=kernels.json

The shapes come from the zoo and the steps from the same lowering that the pipelines use. ``extra_info`` holds the
figures; the table's own column also holds the start of the team, some 100 microseconds.
"""

from math import prod

import numpy as np
import pytest
from alone import big, convolutions, program
from common import NETWORKS, network

ROUNDS = 30
LAYERS = [
    pytest.param(name, step, id=f"{name}-{shape.replace(' ', '-')}")
    for name in NETWORKS
    for shape, step in convolutions(network(name)).items()
]


@pytest.mark.parametrize("name, step", LAYERS)
def bench_convolution(name, step, benchmark):
    made = program(step, big())
    benchmark.group = name
    median_ns = float(np.median(benchmark.pedantic(made.time, (ROUNDS,), rounds=1, warmup_rounds=1)))
    flops = 2 * step.dst.h * step.dst.w * prod(step.weight.shape)
    benchmark.extra_info.update(median_us=round(median_ns / 1e3, 1), gflops=round(flops / median_ns, 1))
