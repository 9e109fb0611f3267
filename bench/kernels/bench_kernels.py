"""Every distinct convolution of the five zoo networks on one core: median time natively measured, and GFLOP/s.
And what reads much and computes little: reductions, normalization, single elements and copies, beside what memory
allows.

    pytest bench/kernels/bench_kernels.py --benchmark-only --benchmark-json=kernels.json

The shapes come from the zoo and the steps from the same lowering that the pipelines use. ``extra_info`` holds the
figures; the table's own column also holds the start of the team, some 100 microseconds. What bounds the others is in
``attainable.py``.
"""

from math import inf, prod

import numpy as np
import pytest

from bench.common import NETWORKS, network
from bench.kernels.attainable import judge
from bench.kernels.single_step import big, convolutions, copy, program, strided

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
    "sum over rows of 8, in cache": ("reduce", dict(how="sum", axes=(1,), keepdims=False), [(8192, 8)], (8192,)),
    "sum over rows of 64, in cache": ("reduce", dict(how="sum", axes=(1,), keepdims=False), [(1024, 64)], (1024,)),
    "max over channels, in cache": ("reduce", dict(how="max", axes=(1,), keepdims=False), [(3072, 21)], (3072,)),
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
    "softmax over channels, in cache": ("softmax_nd", dict(axis=1), [(1536, 21)], (1536, 21)),
    "softmax over columns": ("softmax_nd", dict(axis=0), [(80, 8400)], (80, 8400)),
    "instance normalization of NHWC": (
        "layernorm_nd",
        dict(axes=(0,), epsilon=1e-5, center=True),
        [(128 * 128, 64)],
        (128 * 128, 64),
    ),
    "add of two": ("pointwise", dict(op="add", **CLAMP), [(2048, 1024)] * 2, (2048, 1024)),
    "column by row": ("pointwise", dict(op="mul", **CLAMP), [(2048, 1), (1, 1024)], (2048, 1024)),
    "exp": ("pointwise", dict(op="exp", **CLAMP), [(2048, 1024)], (2048, 1024)),
}


EXP = 10  # products of e^x: 3 to reduce x, 6 of the polynomial, 1 by a power of 2
PRODUCTS = {  # of an element of the first operand; none elsewhere
    "l2 over columns": 1,
    "softmax over channels": EXP + 1,
    "softmax over channels, in cache": EXP + 1,
    "softmax over columns": EXP + 1,
    "instance normalization of NHWC": 2,
    "column by row": 1024,
    "exp": EXP,
}
READ_TWICE = ("instance normalization of NHWC",)  # a column is 16384 rows long: no strip of a cache line's width fits


@pytest.mark.parametrize("name", BOUND_BY_MEMORY)
def bench_bound_by_memory(name, benchmark):
    kind, params, shapes, shape = BOUND_BY_MEMORY[name]
    cluster = big()
    made, _ = strided(kind, params, shapes, shape, cluster)
    read = 4 * sum(map(prod, shapes))
    written = prod(shape) * (8 if kind == "arg" else 4)
    _record(
        benchmark,
        made,
        cluster,
        read=read,
        written=written,
        again=read if name in READ_TWICE else 0,
        products=PRODUCTS.get(name, 0) * prod(shapes[0]),
    )


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
    _record(benchmark, made, cluster, read=moved // 2, written=moved // 2)


def _record(benchmark, made, cluster, **bytes_and_products):
    benchmark.group = "bound by memory"
    found = benchmark.pedantic(judge, (made, cluster), bytes_and_products, rounds=1)
    benchmark.extra_info.update(found)
