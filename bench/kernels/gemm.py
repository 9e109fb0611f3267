"""The GEMM kernels beside NumPy's BLAS, one thread each on the same core: 1024 cubed and every GEMM of ResNet-50.

    python -m bench.kernels.gemm [--rounds 15] [--core 0]

Both compute C = A B in float32 and write all of C; the rows of A and C are as far apart as the pixels of an engine's
activations. pipeall runs a 1x1 convolution whose weights B were packed before, as they are once for all frames in an
engine; BLAS packs B in every call, as its interface demands. The two take turns in rounds, caches are warm; what counts
of a turn is its fastest product, as other work on the core makes the rest slower. A third turn measures the core's
peak, multiply-adds from registers. Shown are median and best of the turns in GFLOP/s, the median percent of the round's
peak, and the ratio of pipeall's GFLOP/s to BLAS's: of the bests, and the median over the rounds with its quartiles.
"""

import os
from time import perf_counter_ns
from typing import Any

import numpy as np
from pipeall._kernels.cpu.kernels import CpuProgram

from bench.common import Record, in_turns, mean_line, network, one_blas_thread, parser, ratios
from bench.kernels.single_step import big, convolutions, gemm_kernel, kernels
from pipeall._kernels.cpu.algorithms import candidates, modelled
from pipeall._kernels.cpu.cluster import Cluster
from pipeall._kernels.cpu.peak_cpu import flops
from pipeall.graph.memory import dense
from pipeall.steps import SLOT_IN, SLOT_OUT, Step

TURN_NS = 10_000_000  # about how long one of BLAS lasts
PEAK_RUNS = 3  # of two milliseconds
COLUMNS = (
    "rows x K x columns", "peak [GFLOP/s] .1f", "pipeall [GFLOP/s] .1f", "pipeall best [GFLOP/s] .1f",
    "pipeall of peak [%] .0f", "BLAS [GFLOP/s] .1f", "BLAS best [GFLOP/s] .1f", "BLAS of peak [%] .0f",
    "ratio of bests .2f", "ratio .2f", "lower quartile .2f", "upper quartile .2f",
)  # fmt: skip


def shapes(cluster: Cluster) -> list[tuple[int, int, int]]:
    """(rows, K, columns) of the layers of ResNet-50 that are GEMMs, each once, in the network's order."""
    row = gemm_kernel(cluster)
    steps = [step for step in convolutions(network("resnet50")).values() if candidates(step)]
    steps = [step for step in steps if not modelled(step, row.nr, row.isa).startswith("winograd")]
    return list(dict.fromkeys((s.dst.h * s.dst.w, int(np.prod(s.weight.shape[1:])), s.dst.c) for s in steps))


def product(cluster: Cluster, core: int, rows: int, b: np.ndarray) -> tuple[CpuProgram, Any, Any]:
    """The program of C = A B, a convolution of an image of ``rows`` pixels, and the views of A and C."""
    k, columns = b.shape
    params = dict(kernel=(1, 1), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), groups=1, lo=-np.inf, hi=np.inf)
    x, y = dense((1, k, rows, 1), SLOT_IN, 0), dense((1, columns, rows, 1), SLOT_OUT, 0)
    program = CpuProgram(kernels(cluster), (core,), "bench", (0, 4 * rows * x.stride, 4 * rows * y.stride))
    program.add(Step("conv", "product", (x,), y, params, b.T[:, :, None, None], np.zeros(columns, np.float32)))
    return program, x, y


def blas_times(a: np.ndarray, b: np.ndarray, c: np.ndarray, count: int) -> list[int]:
    """ns of each product."""
    times = []
    for _ in range(count):
        begin = perf_counter_ns()
        np.matmul(a, b, out=c)
        times.append(perf_counter_ns() - begin)
    return times


def compare(shape: tuple[int, int, int], cluster: Cluster, core: int, rounds: int) -> list[Any]:
    """The row of a shape, after its name."""
    rows, k, columns = shape
    random = np.random.default_rng(0)
    b = random.standard_normal((k, columns), np.float32)
    program, x, y = product(cluster, core, rows, b)
    memory = random.standard_normal((rows, x.stride), np.float32)
    result = program.run(memory).reshape(rows, y.stride)[:, :columns]
    a, c = memory[:, :k], np.empty((rows, y.stride), np.float32)[:, :columns]
    count = 2 + TURN_NS // min(blas_times(a, b, c, 3))
    np.testing.assert_allclose(result, c, atol=1e-5 * k)
    flop = 2 * rows * k * columns
    runs = {
        "pipeall": lambda: flop / min(program.time(count)),
        "BLAS": lambda: flop / min(blas_times(a, b, c, count)),
        "peak": lambda: flops(kernels(cluster)["peak", "f32"], PEAK_RUNS) / 1e9,
    }
    ours, theirs, most = map(np.array, in_turns(runs, rounds).values())
    cells = [np.median(most)]
    for turns in (ours, theirs):
        cells += [np.median(turns), turns.max(), 100 * np.median(turns / most)]
    low, ratio, high = ratios(ours, theirs)
    return [*cells, ours.max() / theirs.max(), ratio, low, high]


def main() -> None:
    options = parser(__doc__, rounds=15)
    options.add_argument("--core", type=int, help="default the first of the big cluster")
    options = options.parse_args()
    one_blas_thread()
    cluster = big()
    core = cluster.cores[0] if options.core is None else options.core
    with Record(options, *COLUMNS) as record:
        os.sched_setaffinity(0, {core})
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        record.say(f"core {core}: {gemm_kernel(cluster).name} beside {blas['name']} {blas['version']}")
        for shape in [(1024,) * 3, *shapes(cluster)]:
            record.add(" x ".join(map(str, shape)), *compare(shape, cluster, core, options.rounds))
        for what, place in (("bests", 8), ("medians", 9)):
            record.say(mean_line(f"ratios of {what} on ResNet-50", [row[place] for row in record.rows[1:]]))


if __name__ == "__main__":
    main()
