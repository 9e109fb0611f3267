"""The OpenCL convolution kernel beside CLBlast's SGEMM, on the same device and queue: the 1x1 layers of two networks.

    apt-get install libclblast1
    python bench/clblast.py [--rounds 7] [--networks resnet50,mobilenet]

Both compute C = A B in float32, each REPEATS times behind itself and waited for once; in a round they take turns.
pipeall's weights B were packed before, as they are once for all frames; CLBlast, with the parameters it has for the
device, gets A and B as they are. Shown are the bests in us, and their ratio (above 1: pipeall is faster).
"""

import ctypes
import sys
from functools import partial
from statistics import median

import numpy as np
from alone import convolutions
from common import Record, in_turns, milliseconds, names, network, parser

from pipeall import Board
from pipeall._kernels.opencl import devices as opencl
from pipeall.pipeline.devices.opencl.tune import REPEATS, Target, alone
from pipeall.steps import Step

ROW_MAJOR, NOT_TRANSPOSED = 101, 111
COLUMNS = ("pixels", "cin", "cout", "pipeall [us] .0f", "CLBlast [us] .0f", "ratio .2f")


def layers(networks: list[str]) -> dict[tuple[int, int, int], Step]:
    """The 1x1 convolutions of stride 1 over more than one pixel, by pixels and channels."""
    steps = [step for name in networks for step in convolutions(network(name)).values()]
    steps = [s for s in steps if s.weight.shape[2:] == (1, 1) and s.params["strides"] == (1, 1) and len(s.src) == 1]
    return {(s.dst.h * s.dst.w, s.src[0].c, s.dst.c): s for s in steps if s.dst.h * s.dst.w > 1}


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
                sys.exit(f"CLBlastSgemm of {self.sizes}: expected status 0, got {status}")
        self.queue.finish()


def main() -> None:
    options = parser(__doc__, rounds=7)
    options.add_argument("--networks", type=names, default=["resnet50", "mobilenet"])
    options = options.parse_args()
    try:
        library = ctypes.CDLL("libclblast.so.1")
    except OSError as error:
        sys.exit(f"expected CLBlast, Debian's libclblast1; {error}")
    board = Board.detect()
    component = board.component("gpu")
    target = Target(component.device.info, component.precision)
    device = opencl.opened(target.info)
    with Record(options, *COLUMNS, board=board, keys=3) as record:
        for (m, k, n), step in layers(options.networks).items():
            program, other = alone(step, target), Sgemm(library, device, m, k, n)
            other.run()
            runs = {
                "pipeall": partial(milliseconds, program.run, np.zeros(1, np.float32)),
                "CLBlast": partial(milliseconds, other.run),
            }
            ours, theirs = (1e3 * min(ms) / REPEATS for ms in in_turns(runs, options.rounds).values())
            record.add(m, k, n, ours, theirs, theirs / ours)
        gains = [row[-1] for row in record.rows]
        record.say(f"median ratio over {len(gains)} shapes {median(gains):.2f}, least {min(gains):.2f}")


if __name__ == "__main__":
    main()
