"""All cores as one team, where one core is slower: beside the fast core alone, and beside other engines.

    python -m bench.kernels.unequal_cores [NETWORK ...] [--duty 20,30] [--rounds 12] [--models FOLDER]

The second core of this process is slowed by a real-time thread (as root), which keeps it for the first of two
times [us] and leaves it for the second, over and over. The default leaves about a third of the core here. The speed of
each core alone is measured by the same frames; ``share`` is the team's speed by the sum of both.
--models names a folder of .onnx files of the same names: other engines then run on the same two cores (see peers.py).
Under ``chrt -f 1`` no other program takes time from a core.
"""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import pipeall
from bench.common import NETWORKS, Record, frame, in_turns, milliseconds, names, network, parser, two_cores
from bench.engines.peers import ENGINES

FRAMES = 5
REST = 0.02
PEERS = ("onnxruntime", "ncnn", "mnn")
DUTY = """
import ctypes, os, sys, time
core, busy, idle = int(sys.argv[1]), *(float(us) / 1e6 for us in sys.argv[2:])
os.sched_setaffinity(0, [core])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: wake up in time
print(flush=True)
while True:
    end = time.perf_counter() + busy
    while time.perf_counter() < end:
        pass
    time.sleep(idle)
"""


@contextmanager
def slowed(core: int, duty: list[str]):
    """While it lasts, the core is taken for the first of two times [us] and left for the second, in turns."""
    process = subprocess.Popen([sys.executable, "-c", DUTY, str(core), *duty], stdout=subprocess.PIPE)
    try:
        if not process.stdout.readline():
            sys.exit("a real-time thread is refused: run this as root")
        yield
    finally:
        process.kill()
        process.wait()


def turn(run) -> float:
    run()
    return median(milliseconds(run) for _ in range(FRAMES))


def main() -> None:
    options = parser(__doc__, networks=NETWORKS, rounds=12)
    options.add_argument("--duty", type=names, default=["20", "30"], help="us that the core is taken, and left")
    options.add_argument("--models", type=Path, metavar="FOLDER", help="of .onnx files, for the other engines")
    options = options.parse_args()
    board = two_cores()
    cores = board.component("cpu").device.cores
    peers = PEERS if options.models else ()
    columns = ["network", "fast core [ms] .2f", "slow core [ms] .2f", "both [ms] .2f", "share .3f", "of fast alone .3f",
               *(f"{name} [ms] .2f" for name in peers)]  # fmt: skip
    with Record(options, *columns, board=board) as record:
        record.say(f"medians of {options.rounds} rounds; load {os.getloadavg()[0]:.1f} at first")
        for name in options.networks:
            graph = network(name)
            given = frame(graph)
            runs = {unit: partial(pipeall.Engine(graph, unit, board=board), given) for unit in ("big", "little", "cpu")}
            for peer in peers:
                os.sched_setaffinity(0, cores)
                runs[peer] = ENGINES[peer][1](options.models / f"{name}.onnx", given, len(cores))
            for run in runs.values():
                run()
            with slowed(cores[1], options.duty):
                time.sleep(0.1)
                turns = in_turns({unit: partial(turn, run) for unit, run in runs.items()}, options.rounds, REST)
            both = zip(turns["big"], turns["little"], turns["cpu"], strict=True)
            share = median(1 / team / (1 / fast + 1 / slow) for fast, slow, team in both)
            gain = median(fast / team for fast, team in zip(turns["big"], turns["cpu"], strict=True))
            ms = [median(turns[unit]) for unit in runs]
            record.add(name, *ms[:3], share, gain, *ms[3:])


if __name__ == "__main__":
    main()
