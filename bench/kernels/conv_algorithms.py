"""Where the lecture's advice holds: FFT, Winograd and GEMM timed on the layers of a network, beside their counts.

    python -m bench.kernels.conv_algorithms [NETWORK ...] [--rounds 5]

One core. GEMM and Winograd are the package's kernels (each timed alone, weights packed beforehand), FFT is SciPy's with
the kernels' spectra prepared; the transform of those is given apart. Shown is the least of the rounds.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy import fft

from bench.common import Record, in_turns, milliseconds, network, parser
from bench.kernels.single_step import big, convolutions, program
from pipeall._kernels.cpu.algorithms import candidates
from pipeall._kernels.cpu.cluster import Cluster
from pipeall.sizing.conv_algorithms import smooth
from pipeall.steps import Step, is_depthwise

LARGEST = 2**28  # bytes of spectra: beyond it a layer's FFT is left out
COLUMNS = (
    "network", "shape", "GEMM [ms] .2f", "best Winograd", "Winograd [ms] .2f", "FFT [ms] .2f", "FFT by GEMM [x] .2f",
    "prepare FFT [ms] .1f",
)  # fmt: skip


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


def cells(step: Step, cluster: Cluster, rounds: int) -> list[Any]:
    """A layer's row after its shape."""
    programs = {str(found): program(step, cluster, found) for found in candidates(step) if not found.lazy}
    runs = {name: lambda made=made: float(made.time(1)[0]) / 1e6 for name, made in programs.items()}
    by_fft, prepare = Fft(step), None
    if by_fft.nbytes <= LARGEST:
        prepare = milliseconds(by_fft.prepare)
        runs["fft"] = partial(milliseconds, by_fft.run)
    least = {name: min(ms) for name, ms in in_turns(runs, rounds).items()}
    winograd = min((name for name in least if name.startswith("winograd")), key=least.get, default=None)
    ratio = least["fft"] / least["gemm"] if "fft" in least else None
    return [least["gemm"], winograd, least.get(winograd), least.get("fft"), ratio, prepare]


def main() -> None:
    options = parser(__doc__, networks=["alexnet"], rounds=5).parse_args()
    cluster = big()
    with Record(options, *COLUMNS, keys=2) as record:
        for name in options.networks:
            for shape, step in convolutions(network(name)).items():
                if not is_depthwise(step) and step.params["kernel"] != (1, 1) and step.dst.h > 1:
                    record.add(name, shape, *cells(step, cluster, options.rounds))


if __name__ == "__main__":
    main()
