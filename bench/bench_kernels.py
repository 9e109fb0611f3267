"""Every distinct convolution of the five zoo networks on one core: median time natively measured, and GFLOP/s.
And what reads much and computes little: reductions, normalisation, single elements and copies, beside what memory
allows.

    pytest bench/bench_kernels.py --benchmark-only --benchmark-json=kernels.json

The shapes come from the zoo and the steps from the same lowering that the pipelines use. ``extra_info`` holds the
figures; the table's own column also holds the start of the team, some 100 microseconds. The bound of the others is the
time in which the core sums as many bytes as they read and write, in a memory of that size; ``share`` is that by theirs.
"""

from math import inf, prod
from time import perf_counter_ns

import numpy as np
import pytest
from alone import big, convolutions, copy, kernels, program, strided
from common import NETWORKS, network
from pipeall._kernels.cpu.kernels import probe

from pipeall._kernels.cpu.table import ROWS
from pipeall._kernels.memory import aligned

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


CLAMP = dict(p0=0.0, p1=0.0, lo=-inf, hi=inf)
BOUND_BY_MEMORY = {  # name -> kind, params, shapes of the operands and of the result
    "mean over H, W of NHWC": ("reduce", dict(how="mean", axes=(0,), keepdims=False), [(112 * 112, 96)], (96,)),
    "mean over H, W, 7x7": ("reduce", dict(how="mean", axes=(1,), keepdims=False), [(64, 49, 1280)], (64, 1280)),
    "mean over H, W of NCHW": ("reduce", dict(how="mean", axes=(1,), keepdims=False), [(1024, 56 * 56)], (1024,)),
    "sum over rows of 64": ("reduce", dict(how="sum", axes=(1,), keepdims=False), [(65536, 64)], (65536,)),
    "sum of all": ("reduce", dict(how="sum", axes=(0, 1), keepdims=False), [(4096, 4096)], ()),
    "max over channels": ("reduce", dict(how="max", axes=(1,), keepdims=False), [(257 * 257, 21)], (257 * 257,)),
    "l2 over columns": ("reduce", dict(how="l2", axes=(0,), keepdims=False), [(2048, 4096)], (4096,)),
    "place of the maximum, rows": ("arg", dict(how="max", axis=1, keepdims=False, last=False), [(4096, 1000)], (4096,)),
    "place of the maximum, channels": (
        "arg",
        dict(how="max", axis=1, keepdims=False, last=False),
        [(66049, 21)],
        (66049,),
    ),
    "place of the maximum, columns": (
        "arg",
        dict(how="max", axis=0, keepdims=False, last=False),
        [(21, 66049)],
        (66049,),
    ),
    "softmax over channels": ("softmax_nd", dict(axis=1), [(257 * 257, 21)], (257 * 257, 21)),
    "softmax over columns": ("softmax_nd", dict(axis=0), [(80, 8400)], (80, 8400)),
    "instance normalisation of NHWC": (
        "layernorm_nd",
        dict(axes=(0,), epsilon=1e-5, center=True),
        [(128 * 128, 64)],
        (128 * 128, 64),
    ),
    "add of two": ("pointwise", dict(op="add", **CLAMP), [(2048, 1024)] * 2, (2048, 1024)),
    "column by row": ("pointwise", dict(op="mul", **CLAMP), [(2048, 1), (1, 1024)], (2048, 1024)),
    "exp": ("pointwise", dict(op="exp", **CLAMP), [(2048, 1024)], (2048, 1024)),
}


@pytest.mark.parametrize("name", BOUND_BY_MEMORY)
def bench_bound_by_memory(name, benchmark):
    kind, params, shapes, shape = BOUND_BY_MEMORY[name]
    cluster = big()
    made, moved = strided(kind, params, shapes, shape, cluster)
    _beside_memory(made, moved, cluster, benchmark)


COPIES = {  # name -> sizes, steps in src, steps in dst
    "dense": ((1 << 18,), (1,), (1,)),
    "NHWC to NCHW, 21 x 224 x 224": ((21, 50176), (1, 21), (50176, 1)),
    "NHWC to NCHW, 144 x 32 x 32": ((144, 1024), (1, 144), (1024, 1)),
    "NCHW to NHWC, 320 x 14 x 14": ((196, 320), (1, 196), (320, 1)),
    "picture to NHWC": ((50176, 3), (1, 50176), (3, 1)),
    "Focus": ((208, 416, 2, 3), (832, 1, 416, 173056), (2496, 6, 3, 1)),
    "unfold 2 x 2": ((2304, 16, 2, 2), (64, 2, 32, 1), (64, 4, 2, 1)),
    "patches to tokens": ((4, 256, 144), (1, 4, 1024), (36864, 144, 1)),
    "heads apart": ((4, 38416), (1, 4), (38416, 1)),
}


@pytest.mark.parametrize("name", COPIES)
def bench_copy(name, benchmark):
    cluster = big()
    made, moved = copy(*COPIES[name], cluster)
    _beside_memory(made, moved, cluster, benchmark)


def _beside_memory(made, moved, cluster, benchmark):
    """The time of a program beside that of a sum of as many bytes as it moves."""
    row = next(row for row in ROWS if row.name == kernels(cluster)["stream", "f32"])
    rounds = max(1, moved // (4 * row.mr * row.nr))
    memory = aligned(rounds * row.mr * row.nr)
    memory.fill(1)
    benchmark.group = "bound by memory"
    median_ns = float(np.median(benchmark.pedantic(made.time, (ROUNDS,), rounds=1, warmup_rounds=1)))
    bound_ns = float(np.median([_stream_ns(row.name, rounds, memory) for _ in range(ROUNDS)]))
    share = round(bound_ns / median_ns, 2)
    benchmark.extra_info.update(median_us=round(median_ns / 1e3, 1), gb_per_s=round(moved / median_ns, 1), share=share)


def _stream_ns(kernel: str, rounds: int, memory: np.ndarray) -> int:
    begin = perf_counter_ns()
    probe(kernel, rounds, memory)
    return perf_counter_ns() - begin
