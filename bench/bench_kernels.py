"""Every distinct convolution of the five zoo networks on one core: time per call, GFLOP/s in extra_info.

    pytest bench/bench_kernels.py --benchmark-only --benchmark-group-by=group

The shapes come from the zoo and the steps from the same lowering that the pipelines use. A step is run through
``Program.run``, which copies a frame in and out: some microseconds on top of small layers.
"""

from math import prod

import numpy as np
import pytest
from pipeall._kernels.kernels import Program

from pipeall import zoo
from pipeall._kernels.table import choose
from pipeall.graph.lower import lower
from pipeall.graph.steps import SLOT_IN, SLOT_OUT, View

NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")


def layers(name):
    """The distinct convolution steps of a network, each on dense views of its own."""
    seen = {}
    for step in lower(getattr(zoo, name)()).steps:
        if step.kind == "conv":
            x, y = step.src[0], step.dst
            key = (x.h, x.w, x.c, y.c, *step.params["kernel"], *step.params["strides"], step.params["groups"])
            seen.setdefault(key, step)
    return [(name, key, step) for key, step in seen.items()]


def dense(view, base):
    return View(base, 0, view.h, view.w, view.c, view.c)


def label(layer):
    name, (h, w, c_in, c_out, kh, kw, sy, _, groups), _ = layer
    return f"{name}-{h}x{w}x{c_in}-{c_out}-k{kh}x{kw}s{sy}g{groups}"


@pytest.mark.parametrize("layer", [layer for name in NETWORKS for layer in layers(name)], ids=label)
def bench_convolution(layer, benchmark, board):
    name, _, step = layer
    cluster = board.component("big").cluster
    x, y = dense(step.src[0], SLOT_IN), dense(step.dst, SLOT_OUT)
    step = type(step)("conv", step.node, (x,), y, step.params, step.weight, step.bias)
    program = Program(
        choose(cluster.isas, cluster.core_type), cluster.cores[:1], "bench", (0, x.h * x.w * x.c, y.h * y.w * y.c)
    )
    program.add(step)
    frame = np.random.default_rng(0).standard_normal(x.h * x.w * x.c).astype(np.float32)
    benchmark.group = name
    benchmark.pedantic(program.run, (frame,), rounds=20, warmup_rounds=2)
    flops = 2 * y.h * y.w * prod(step.weight.shape)
    benchmark.extra_info["gflops"] = round(flops / benchmark.stats.stats.median / 1e9, 1)
