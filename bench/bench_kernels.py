"""Every distinct convolution of the five zoo networks on one core: median time natively measured, and GFLOP/s.

    pytest bench/bench_kernels.py --benchmark-only --benchmark-json=kernels.json

The shapes come from the zoo and the steps from the same lowering that the pipelines use. ``extra_info`` holds the
figures; the table's own column also holds the start of the team, some 100 microseconds.
"""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from pipeall._kernels.cpu.kernels import Program

from pipeall import zoo
from pipeall._kernels.cpu.table import choose
from pipeall.graph.lower import lower
from pipeall.graph.memory import side_by_side
from pipeall.steps import SLOT_IN, SLOT_OUT

ROUNDS = 30
NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")


def layers(name):
    """The distinct convolution steps of a network, each once."""
    seen = {}
    for step in lower(getattr(zoo, name)()).steps:
        if step.kind == "conv":
            x, y = step.src[0], step.dst
            key = (x.h, x.w, x.c, y.c, *step.params["kernel"], *step.params["strides"], step.params["groups"])
            seen.setdefault(key, step)
    return [(name, key, step) for key, step in seen.items()]


def label(layer):
    name, (h, w, c_in, c_out, kh, kw, sy, _, groups), _ = layer
    return f"{name}-{h}x{w}x{c_in}-{c_out}-k{kh}x{kw}s{sy}g{groups}"


@pytest.mark.parametrize("layer", [layer for name in NETWORKS for layer in layers(name)], ids=label)
def bench_convolution(layer, benchmark, board):
    name, _, step = layer
    cluster = board.component("big").device.cluster
    src, in_bytes = side_by_side(step.src[:1], SLOT_IN)
    (y,), out_bytes = side_by_side([step.dst], SLOT_OUT)
    kernels = choose(cluster.isas, cluster.core_type)
    program = Program(kernels, cluster.cores[:1], "bench", (0, in_bytes, out_bytes))
    program.add(replace(step, src=src, dst=y))
    benchmark.group = name
    times = benchmark.pedantic(program.time, (ROUNDS,), rounds=1, warmup_rounds=1)
    median_ns = float(np.median(times))
    flops = 2 * y.h * y.w * prod(step.weight.shape)
    benchmark.extra_info.update(median_us=round(median_ns / 1e3, 1), gflops=round(flops / median_ns, 1))
