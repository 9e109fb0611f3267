"""The OpenCL convolution kernel beside CLBlast's SGEMM, on the same device and queue: the 1x1 layers of two networks.

    apt-get install libclblast1
    python bench/clblast.py [--rounds 7] [--networks resnet50,mobilenet]

Both compute C = A B in float32, each REPEATS times behind itself and waited for once; in a round they take turns.
pipeall's weights B were packed before, as they are once for all frames; CLBlast, with the parameters it has for the
device, gets A and B as they are. Shown are the bests in us, and their ratio (above 1: pipeall is faster).
"""

import argparse
import ctypes
from statistics import median
from time import perf_counter

import numpy as np

from pipeall import Board, zoo
from pipeall._kernels.opencl import devices as opencl
from pipeall.graph.lower import lower
from pipeall.pipeline.devices.opencl.tune import REPEATS, alone

ROW_MAJOR, NOT_TRANSPOSED = 101, 111


def layers(names):
    """The 1x1 convolutions of stride 1 over more than one pixel, each shape once."""
    steps = [step for name in names for step in lower(getattr(zoo, name)()).steps if step.kind == "conv"]
    steps = [s for s in steps if s.weight.shape[2:] == (1, 1) and s.params["strides"] == (1, 1) and len(s.src) == 1]
    return {(s.dst.h * s.dst.w, s.src[0].c, s.dst.c): s for s in steps if s.dst.h * s.dst.w > 1}.values()


class Sgemm:
    """CLBlast's product of two matrices of ones."""

    def __init__(self, library, device, m, k, n):
        self.library, self.sizes, self.queue = library, (m, n, k), device.queue()
        self.buffers = [device.upload(np.ones(size, np.float32)) for size in (m * k, k * n, m * n)]

    def run(self):
        m, n, k = map(ctypes.c_size_t, self.sizes)
        a, b, c = (ctypes.c_void_p(buffer.int_ptr) for buffer in self.buffers)
        zero, one, nothing = ctypes.c_size_t(0), ctypes.c_float(1), ctypes.c_float(0)
        queue = ctypes.c_void_p(self.queue.int_ptr)
        operands = (one, a, zero, k, b, zero, n, nothing, c, zero, n, ctypes.byref(queue), None)
        for _ in range(REPEATS):
            status = self.library.CLBlastSgemm(ROW_MAJOR, NOT_TRANSPOSED, NOT_TRANSPOSED, m, n, k, *operands)
            if status:
                raise SystemExit(f"CLBlastSgemm of {self.sizes}: expected status 0, got {status}")
        self.queue.finish()


def timed(run, *arguments):
    begin = perf_counter()
    run(*arguments)
    return (perf_counter() - begin) / REPEATS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--networks", default="resnet50,mobilenet")
    arguments = parser.parse_args()
    try:
        library = ctypes.CDLL("libclblast.so.1")
    except OSError as error:
        raise SystemExit(f"expected CLBlast, Debian's libclblast1; {error}") from None
    component = Board.detect().component("gpu")
    device = opencl.opened(component.device.info)
    print(component.description)
    print(f"{'pixels':>7}{'cin':>6}{'cout':>6}{'pipeall':>10}{'CLBlast':>10}{'ratio':>8}")
    ratios = []
    for step in layers(arguments.networks.split(",")):
        m, k, n = step.dst.h * step.dst.w, step.src[0].c, step.dst.c
        program, other, nothing = alone(step, component), Sgemm(library, device, m, k, n), np.zeros(1, np.float32)
        other.run()
        pairs = [(timed(program.run, nothing), timed(other.run)) for _ in range(arguments.rounds)]
        ours, theirs = map(min, zip(*pairs, strict=True))
        ratios.append(theirs / ours)
        print(f"{m:7}{k:6}{n:6}{ours:10.0f}{theirs:10.0f}{ratios[-1]:8.2f}")
    print(f"median ratio over {len(ratios)} shapes {median(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
