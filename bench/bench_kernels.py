"""Every distinct convolution of the five zoo networks on one core, and products and attention of transformers.

    pytest bench/bench_kernels.py --benchmark-only --benchmark-json=kernels.json

The shapes come from the zoo and the steps from the same lowering that the pipelines use. ``extra_info`` holds the
median time, natively measured, and GFLOP/s; the table's own column also holds the start of the team, some 100
microseconds. Where there is a bound, it is the time that the multiply-adds take at the core's measured peak, and for
attention that of the softmax kernel on as many scores besides. The share is bound / median.

Resizing has two bounds of memory: what its bytes, read and written, take at the speed of a copy of as many as it writes
(memcpy, which need not read the lines that it writes), and a fill of the output with half a copy of the input (ordinary
stores). What lies in cache may exceed both.
"""

from functools import cache
from math import prod

import numpy as np
import pytest
from alone import big, convolutions, kernels, on_axes, program, strided_program
from common import NETWORKS, network

from pipeall._kernels.cpu import peak
from pipeall.graph.ops import attributes
from pipeall.graph.ops.sampling import taps
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

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
    return peak.flops(kernels(big())["peak", "f32"]) / 1e9


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


RESIZED = {  # (channels, height, width) to (height, width), order of the axes in memory
    "yolo-neck-2x": ((64, 80, 80), (160, 160), (0, 2, 3, 1)),
    "yolo-top-2x": ((128, 20, 20), (40, 40), (0, 2, 3, 1)),
    "classes-4x": ((19, 64, 64), (256, 256), (0, 2, 3, 1)),
    "classes-513": ((21, 65, 65), (513, 513), (0, 2, 3, 1)),
    "mask-4x": ((1, 160, 160), (640, 640), (0, 1, 2, 3)),
}


def one_run(kind: str, elements: int) -> float:
    """Nanoseconds of a copy from slot to slot, or a fill, of so many float32."""
    source, target = (View(base, 0, 1, 1, elements, elements) for base in (SLOT_IN, SLOT_OUT))
    params = {"copy": {"dims": (elements,), "src_strides": (1,), "dst_strides": (1,)}, "fill": {"value": 1.0}}[kind]
    step = Step(kind, kind, (source,) if kind == "copy" else (), target, params)
    return float(np.median(program(step, big()).time(ROUNDS)))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("name", RESIZED)
def bench_resize(name, mode, benchmark):
    (channels, *before), after, order = RESIZED[name]
    benchmark.group = "resize"
    shape, sizes = (1, channels, *before), (1, channels, *after)
    scales = tuple(out / size for out, size in zip(sizes, shape, strict=True))
    attrs = attributes("resize", sizes=sizes, scales=scales, mode=mode)
    given = {
        axis: (i.astype(np.int32), w.astype(np.float32)) for axis in (2, 3) for i, w in [taps(attrs, axis, shape[axis])]
    }
    made = strided_program(on_axes("resize", {"taps": given}, (shape, sizes), (order, order)), big())
    median_ns = float(np.median(benchmark.pedantic(made.time, (ROUNDS,), rounds=1, warmup_rounds=1)))
    read, written = prod(shape), prod(sizes)
    copy_ns = one_run("copy", written) * (read + written) / (2 * written)
    fill_ns = one_run("fill", written) + one_run("copy", read) / 2
    benchmark.extra_info.update(
        median_us=round(median_ns / 1e3, 1),
        copy_share=round(copy_ns / median_ns, 2),
        fill_share=round(fill_ns / median_ns, 2),
    )
