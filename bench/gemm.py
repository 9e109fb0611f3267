"""The GEMM kernels beside NumPy's BLAS, one thread each on the same core: 1024 cubed and every GEMM of ResNet-50.

    python bench/gemm.py [--rounds 15] [--core 0]

Both compute C = A B in float32 and write all of C; the rows of A and C are as far apart as the pixels of an engine's
activations. pipeall runs a 1x1 convolution whose weights B were packed before, as they are once for all frames in an
engine; BLAS packs B in every call, as its interface demands. The two take turns in rounds, caches are warm; what counts
of a turn is its fastest product, as other work on the core makes the rest slower. A third turn measures the core's
peak, multiply-adds from registers. Shown are median and best of the turns in GFLOP/s, the median percent of the round's
peak, and the ratio of pipeall's GFLOP/s to BLAS's: of the bests, and the median over the rounds with its quartiles.
"""

import argparse
import os
import sys
from time import perf_counter_ns

import numpy as np
from pipeall._kernels.cpu.kernels import Program

from pipeall import Board, zoo
from pipeall._kernels.cpu.algorithms import candidates, modelled
from pipeall._kernels.cpu.peak import flops
from pipeall._kernels.cpu.table import ROWS, choose
from pipeall.graph.lower import lower
from pipeall.graph.memory import dense
from pipeall.graph.ops import attributes
from pipeall.steps import SLOT_IN, SLOT_OUT, Step

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}
TURN_NS = 10_000_000  # about how long one of BLAS lasts
PEAK_RUNS = 3  # of two milliseconds


def shapes(kernels):
    """(rows, K, columns) of the layers of ResNet-50 that are GEMMs, each once, in the network's order."""
    row = next(row for row in ROWS if row.name == kernels["gemm", "f32"])
    steps = [step for step in lower(zoo.resnet50()).steps if candidates(step)]
    steps = [step for step in steps if not modelled(step, row.nr, row.isa).m]
    return list(dict.fromkeys((s.dst.h * s.dst.w, int(np.prod(s.weight.shape[1:])), s.dst.c) for s in steps))


def product(kernels, core, rows, b):
    """The program of C = A B, a convolution of an image of ``rows`` pixels, and the views of A and C."""
    k, columns = b.shape
    params = {"kernel": (1, 1), **attributes("conv")}
    x, y = dense((1, k, rows, 1), SLOT_IN, 0), dense((1, columns, rows, 1), SLOT_OUT, 0)
    program = Program(kernels, (core,), "bench", (0, 4 * rows * x.stride, 4 * rows * y.stride))
    program.add(Step("conv", "product", (x,), y, params, b.T[:, :, None, None], np.zeros(columns, np.float32)))
    return program, x, y


def blas_times(a, b, c, count):
    times = []
    for _ in range(count):
        begin = perf_counter_ns()
        np.matmul(a, b, out=c)
        times.append(perf_counter_ns() - begin)
    return times


def compare(shape, kernels, core, rounds):
    """GFLOP/s of each turn: pipeall's, BLAS's, the peak."""
    rows, k, columns = shape
    random = np.random.default_rng(0)
    b = random.standard_normal((k, columns), np.float32)
    program, x, y = product(kernels, core, rows, b)
    memory = random.standard_normal((rows, x.stride), np.float32)
    ours = program.run(memory).reshape(rows, y.stride)[:, :columns]
    a, c = memory[:, :k], np.empty((rows, y.stride), np.float32)[:, :columns]
    count = 2 + TURN_NS // min(blas_times(a, b, c, 3))
    np.testing.assert_allclose(ours, c, atol=1e-5 * k)
    turns = []
    for _ in range(rounds):
        ns = min(program.time(count)), min(blas_times(a, b, c, count))
        turns.append([*(2 * rows * k * columns / turn for turn in ns), flops(kernels["peak", "f32"], PEAK_RUNS) / 1e9])
    return np.array(turns).T


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--core", type=int, help="default the first of the big cluster")
    options = parser.parse_args()
    if not os.environ.items() >= ONE_THREAD.items():  # BLAS reads them when it is loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    component = Board.detect(gpu=False).component("big")
    kernels = choose(component.device.cluster.isas, component.device.cluster.core_type)
    core = component.device.cluster.cores[0] if options.core is None else options.core
    os.sched_setaffinity(0, {core})
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    print(f"core {core}: {kernels['gemm', 'f32']} beside {blas['name']} {blas['version']}, {options.rounds} rounds")
    heads = (
        "rows x K x columns",
        "peak",
        "pipeall",
        "best",
        "% peak",
        "BLAS",
        "best",
        "% peak",
        "of bests",
        "ratio",
        "quartiles",
    )
    widths = (20, 8, 10, 8, 8, 10, 8, 8, 10, 8, 14)
    print("".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)))
    ratios = []
    for shape in [(1024,) * 3, *shapes(kernels)]:
        ours, theirs, most = compare(shape, kernels, core, options.rounds)
        cells = [" x ".join(map(str, shape)), f"{np.median(most):.1f}"]
        for turns in (ours, theirs):
            cells += [f"{np.median(turns):.1f}", f"{turns.max():.1f}", f"{100 * np.median(turns / most):.0f}"]
        low, ratio, high = np.percentile(ours / theirs, (25, 50, 75))
        ratios.append((ours.max() / theirs.max(), ratio))
        cells += [*(f"{value:.2f}" for value in ratios[-1]), f"{low:.2f} to {high:.2f}"]
        print("".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)), flush=True)
    bests, medians = np.exp(np.mean(np.log(ratios[1:]), axis=0))
    print(f"geometric means over ResNet-50's {len(ratios) - 1}: {bests:.2f} of bests, {medians:.2f}")


if __name__ == "__main__":
    main()
