"""Copies of strided elements against NumPy, bit by bit, on the kernels of every instruction set."""

from itertools import permutations

import numpy as np
import pytest
from pipeall._kernels.cpu.kernels import CpuProgram
from strided_steps import tables

from pipeall.graph.lower.strides import row_major
from pipeall.steps import SLOT_IN, SLOT_OUT, Step, View

CASES = {  # name -> sizes, steps in src, steps in dst
    "one": ((1,), (1,), (1,)),
    "dense": ((70001,), (1,), (1,)),
    "every other": ((1001,), (2,), (1,)),
    "spread": ((3, 501), (501, 1), (1502, 3)),
    "rows": ((40, 24), (25, 1), (24, 1)),
    "long rows": ((5, 300), (301, 1), (310, 1)),
    "planes to pixels, 2": ((1500, 2), (1, 1600), (2, 1)),
    "planes to pixels, 3": ((2, 700, 3), (2100, 1, 700), (2100, 3, 1)),
    "planes to pixels, 4": ((1025, 4), (1, 1025), (4, 1)),
    "planes to gaps": ((70, 3), (1, 70), (5, 1)),
    "pixels to planes, 2": ((2, 1500), (1, 2), (1500, 1)),
    "pixels to planes, 3": ((3, 1100), (1, 3), (1200, 1)),
    "pixels to planes, 4": ((4, 77), (1, 4), (77, 1)),
    "pixels to planes, 21": ((21, 2500), (1, 21), (2500, 1)),
    "pixels of gaps": ((3, 50), (1, 7), (50, 1)),
    "tall": ((1000, 17), (1, 1000), (17, 1)),
    "a power of 2": ((256, 64), (1, 256), (64, 1)),
    "runs of 2": ((33, 2, 9, 2), (36, 2, 4, 1), (36, 18, 2, 1)),
    "runs of 3": ((31, 19, 3), (3, 93, 1), (57, 3, 1)),
    "runs of 5": ((31, 19, 5), (5, 155, 1), (95, 5, 1)),
    "runs of 16": ((31, 19, 16), (16, 496, 1), (304, 16, 1)),
    "unfolded": ((40, 18, 4), (1, 40, 720), (72, 4, 1)),
    "folded": ((4, 18, 40), (1, 4, 72), (720, 40, 1)),
    "focus": ((26, 52, 2, 3), (104, 1, 52, 2704), (312, 6, 3, 1)),
    "repeated": ((3, 10, 2, 20, 2), (200, 20, 0, 1, 0), (800, 80, 40, 2, 1)),
    "repeated channels": ((30, 8, 3), (8, 1, 0), (24, 3, 1)),
    "one number": ((9, 40), (0, 0), (40, 1)),
    "gaps in both": ((20, 30), (3, 70), (100, 2)),
}
SIZES = (3, 18, 2, 35)
for order in permutations(range(4)):
    steps = dict(zip(order, row_major([SIZES[axis] for axis in order]), strict=True))
    CASES["axes " + "".join(map(str, order))] = (SIZES, tuple(steps[axis] for axis in range(4)), row_major(SIZES))


def reach(sizes, steps):
    return 1 + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))


def seen(memory, sizes, steps):
    return np.lib.stride_tricks.as_strided(memory, sizes, [step * memory.itemsize for step in steps])


@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16", "int64"])
@pytest.mark.parametrize("name", CASES)
def test_copy(name, dtype):
    sizes, src_steps, dst_steps = CASES[name]
    src_end, dst_end = 3 + reach(sizes, src_steps), 1 + reach(sizes, dst_steps)
    rng, item = np.random.default_rng(1), np.dtype(dtype).itemsize
    memory = rng.integers(0, 256, src_end * item, np.uint8).view(dtype)
    expected = np.full((dst_end + 20) * item, 255, np.uint8).view(dtype)
    seen(expected[1:], sizes, dst_steps)[...] = seen(memory[3:], sizes, src_steps)
    whole = (SLOT_IN, 3, src_end - 3), (SLOT_OUT, 1, dst_end - 1)
    views = [View(base, offset, 1, 1, size, size, dtype) for base, offset, size in whole]
    params = dict(dims=sizes, src_strides=src_steps, dst_strides=dst_steps)
    for isa, table in tables().items():
        for cores in ((-1,), (-1, -1, -1)):
            program = CpuProgram(table, cores, "test", (0, memory.nbytes, expected.nbytes))
            program.add(Step("copy", name, views[:1], views[1], params))
            got = program.run(memory.view(np.uint8))
            assert (got == expected.view(np.uint8)).all(), f"{isa}, {len(cores)} threads"
