"""Where the lecture's advice holds: FFT, Winograd and GEMM timed on the layers of a network, beside their counts.

    python bench/conv_algorithms.py [NET ...]

One core. GEMM and Winograd are the package's kernels (each timed alone, weights packed beforehand), FFT is SciPy's with
the kernels' spectra prepared; the transform of those is given apart. Minimum of interleaved runs, and times over GEMM.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
from pipeall._kernels.cpu.kernels import Program
from scipy import fft

from pipeall import Board, zoo
from pipeall._kernels.cpu.algorithms import GEMM, candidates
from pipeall._kernels.cpu.table import choose
from pipeall.cost.algorithms import smooth
from pipeall.graph.lower import lower
from pipeall.steps import SLOT_IN, SLOT_OUT, is_depthwise

RUNS = 5
FFT = "fft"  # beside the package's algorithms
LARGEST = 2**28  # bytes of spectra: beyond it a layer's FFT is left out


def program(step, algorithm, cluster, kernels) -> Program:
    """A step alone, from slot to slot."""
    src = replace(step.src[0], base=SLOT_IN, offset=0, stride=step.src[0].c)
    dst = replace(step.dst, base=SLOT_OUT, offset=0, stride=step.dst.c)
    sizes = (0, src.h * src.w * src.c + 16, dst.h * dst.w * dst.c + 16)
    made = Program(kernels, cluster.cores[:1], "bench", sizes)
    made.add(replace(step, src=(src,), dst=dst), algorithm)
    return made


class Fft:
    """A convolution by FFT with prepared kernels; correct up to the crop, which the timing leaves out."""

    def __init__(self, step):
        top, left, bottom, right = step.params["pads"]
        self.shape = smooth(step.src[0].h + top + bottom), smooth(step.src[0].w + left + right)
        self.groups = step.params["groups"]
        self.x = np.ones((step.src[0].c, step.src[0].h, step.src[0].w), np.float32)
        self.weight = step.weight
        self.nbytes = 8 * self.shape[0] * (self.shape[1] // 2 + 1) * step.weight.shape[0] * step.weight.shape[1]

    def prepare(self) -> None:
        spectra = fft.rfft2(self.weight, self.shape)  # (Cout, Cin / groups, h, w)
        points = spectra.shape[2] * spectra.shape[3]
        spectra = spectra.reshape(self.groups, -1, spectra.shape[1], points)
        self.spectra = np.ascontiguousarray(spectra.transpose(0, 3, 1, 2))  # a small matrix for each point

    def run(self) -> None:
        x = fft.rfft2(self.x, self.shape)
        planes = x.reshape(self.groups, -1, x.shape[1] * x.shape[2]).transpose(0, 2, 1)[..., None]
        y = (self.spectra @ planes)[..., 0].transpose(0, 2, 1)
        fft.irfft2(np.ascontiguousarray(y).reshape(-1, *x.shape[1:]), self.shape)


def seconds(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="*", default=["alexnet"])
    cluster = Board.detect(gpu=False).component("big").device.cluster
    kernels = choose(cluster.isas, cluster.core_type)
    print(f"{'layer':32} {'shape':26} {'GEMM ms':>8} {'Winograd':>16} {'FFT ms':>8} {'x GEMM':>7} {'prepare ms':>10}")
    for name in parser.parse_args().nets:
        seen = set()
        for step in lower(getattr(zoo, name)()).steps:
            if step.kind != "conv" or is_depthwise(step) or step.params["kernel"] == (1, 1) or step.dst.h == 1:
                continue
            x, y, kh = step.src[0], step.dst, step.params["kernel"][0]
            shape = f"{x.h}x{x.w}x{x.c}-{y.c} k{kh} g{step.params['groups']}"
            if shape in seen:
                continue
            seen.add(shape)
            programs = {a: program(step, a, cluster, kernels) for a in candidates(step) if not a.lazy}
            by_fft = Fft(step)
            times = {algorithm: [] for algorithm in (*programs, FFT)}
            fits = by_fft.nbytes <= LARGEST
            prepare = seconds(by_fft.prepare) if fits else float("nan")
            for _ in range(RUNS):
                for algorithm, made in programs.items():
                    times[algorithm].append(float(made.time(1)[0]) / 1e9)
                times[FFT].append(seconds(by_fft.run) if fits else float("nan"))
            best = {algorithm: 1e3 * min(taken) for algorithm, taken in times.items()}
            others = {a: t for a, t in best.items() if a != FFT and a.m}
            fastest = min(others, key=others.get, default=None)
            winograd = f"{fastest.m}: {others[fastest]:.2f}" if fastest else "-"
            ratio = best[FFT] / best[GEMM]
            row = f"{best[GEMM]:8.2f} {winograd:>16} {best[FFT]:8.2f} {ratio:7.2f} {1e3 * prepare:10.1f}"
            print(f"{name + ' ' + step.node:32.32} {shape:26} {row}")


if __name__ == "__main__":
    main()
