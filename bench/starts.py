"""What starting costs: of a step in a program, and of a call of an engine.

    python bench/starts.py [--rounds 5]

A step on 16 numbers does next to nothing: what each one more adds to a program's time is its start. An engine of one
such step, called again and again, is all call. Frames of a program are timed without the engine around them.
"""

import os
from functools import partial
from statistics import median
from time import perf_counter_ns

import numpy as np
from common import Record, in_turns, one_cluster, parser
from graphs import Net
from pipeall._kernels.cpu.kernels import CpuProgram

from pipeall import Board, Engine
from pipeall._kernels.cpu.table import choose
from pipeall.steps import ARENA, Step, View

FEW, MANY, FRAMES = 10, 210, 100


def program_ns(steps: int, board: Board, threads: int) -> int:
    """The least time of a program of so many steps, each on what the one before made."""
    cluster = board.component("big").device.cluster
    kernels = choose(cluster.isas, cluster.core_type)
    program = CpuProgram(kernels, cluster.cores[:threads], "starts", (4096, 64, 64))
    places = [View(ARENA, 512 * i, 1, 1, 16, 16) for i in range(2)]
    for i in range(steps):
        program.add(Step("unary", "abs", (places[i % 2],), places[1 - i % 2], {"op": "abs", "p0": 0.0, "p1": 0.0}))
    allowed = os.sched_getaffinity(0)
    try:
        return int(program.time(FRAMES).min())  # which pins this thread
    finally:
        os.sched_setaffinity(0, allowed)


def step_us(board: Board, threads: int) -> float:
    return (program_ns(MANY, board, threads) - program_ns(FEW, board, threads)) / (MANY - FEW) / 1e3


def call_us(board: Board, threads: int) -> float:
    """The median call of an engine of one step."""
    net = Net((1, 4, 1, 1))
    x = np.zeros((1, 4, 1, 1), np.float32)
    with Engine(net.graph(net.op("abs", "x0")), "big", board=board, threads=threads) as engine:
        begins = []
        for _ in range(1001):
            begins.append(perf_counter_ns())
            engine(x)
    return float(np.median(np.diff(begins))) / 1e3


def main() -> None:
    options = parser(__doc__, rounds=5).parse_args()
    board = one_cluster()
    runs = {}
    for threads in sorted({1, board.component("big").device.width}):
        runs["a step", threads] = partial(step_us, board, threads)
        runs["a call of an engine", threads] = partial(call_us, board, threads)
    with Record(options, "start of", "threads", "median [µs] .3f", board=board) as record:
        for (what, threads), found in in_turns(runs, options.rounds).items():
            record.add(what, threads, median(found))


if __name__ == "__main__":
    main()
