"""All cores as one team, where one core is slower: beside the fast core alone, and beside other engines.

    pip install onnxruntime ncnn pnnx MNN
    python -m bench.kernels.unequal_cores [NETWORK ...] [--models FOLDER] [--duty 1,20] [--rounds 12]

The second core of this process is slowed by a real-time thread (as root), which keeps it for the first of two
times [us] and leaves it for the second, over and over. The default leaves about a third of the core here, and is the
shortest: a timer and two switches take 20 us themselves, of every 33. So the slow core stands still for 20 us and runs
at full speed for 11. A small core is slow all the time, and delays a step by less.
The speed of each core alone is measured by the same frames; ``share`` is the team's speed by the sum of both, and
``equal cores`` the same before the core is slowed: what is lost there is not for the slow core.
--models names a folder of .onnx files of the same names: other engines then run on the same two cores (see peers.py).
Under ``chrt -f 1`` no other program takes time from a core.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import pipeall
from bench.common import NETWORKS, Record, frame, in_turns, milliseconds, names, network, parser, two_cores
from bench.engines.peers import ENGINES, Run

UNITS = ("big", "little", "cpu")
FRAMES = 5
WARM = 25
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


def turn(run: Run) -> float:
    run()
    return median(milliseconds(run) for _ in range(FRAMES))


def timed(runs: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    """ms of each in each round, once all are warm: a team learns by some frames which steps a slow core delays."""
    for run in runs.values():
        for _ in range(WARM):
            run()
    return in_turns({unit: partial(turn, run) for unit, run in runs.items()}, rounds, REST)


def share_of(turns: Mapping[str, Sequence[float]]) -> float:
    """The team's speed by the sum of both cores' speeds."""
    both = zip(*(turns[unit] for unit in UNITS), strict=True)
    return median(1 / team / (1 / fast + 1 / slow) for fast, slow, team in both)


def main() -> None:
    options = parser(__doc__, networks=NETWORKS, rounds=12)
    options.add_argument("--duty", type=names, default=["1", "20"], help="us that the core is taken, and left")
    options.add_argument("--models", type=Path, metavar="FOLDER", help="of .onnx files, for the other engines")
    options = options.parse_args()
    board = two_cores()
    cores = board.component("cpu").device.cores
    absent = [name for name in PEERS if not all(map(importlib.util.find_spec, ENGINES[name][0]))]
    peers = [name for name in PEERS if options.models and name not in absent]
    columns = ["network", "fast core [ms] .2f", "slow core [ms] .2f", "sum of speeds [ms] .2f", "both [ms] .2f",
               "share .3f", "equal cores .3f", "of fast alone [x] .3f", *(f"{name} [ms] .2f" for name in peers),
               "of the best peer [x] .3f"]  # fmt: skip
    with Record(options, *columns, board=board) as record:
        record.say(f"medians of {options.rounds} rounds; load {os.getloadavg()[0]:.1f} at first")
        if options.models and absent:
            record.say(f"not installed: {', '.join(absent)}")
        for name in options.networks:
            graph = network(name)
            given = frame(graph)
            runs = {unit: partial(pipeall.Engine(graph, unit, board=board), given) for unit in UNITS}
            for peer in peers:
                os.sched_setaffinity(0, cores)
                runs[peer] = ENGINES[peer][1](options.models / f"{name}.onnx", given, len(cores))
            equal = share_of(timed({unit: runs[unit] for unit in UNITS}, options.rounds))
            with slowed(cores[1], options.duty):
                turns = timed(runs, options.rounds)
            ms = {unit: median(found) for unit, found in turns.items()}
            both = 1 / (1 / ms["big"] + 1 / ms["little"])
            gain = median(fast / team for fast, team in zip(turns["big"], turns["cpu"], strict=True))
            best = ms["cpu"] / min(ms[peer] for peer in peers) if peers else None
            record.add(name, ms["big"], ms["little"], both, ms["cpu"], share_of(turns), equal, gain,
                       *(ms[peer] for peer in peers), best)  # fmt: skip


if __name__ == "__main__":
    main()
