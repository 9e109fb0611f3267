"""Two builds of pipeall side by side: how long a frame takes in one by how long in the other.

    python -m bench.engines.versions OLD_TREE NEW_TREE [NETWORK ...] [--threads 1] [--rounds 60] [--starts 3]

A tree is a folder with a built pipeall. Each build has a process of its own on the same cores, with a cache of its own
and with algorithms chosen by the model (PIPEALL_TUNE=off), so that both compute alike. In a round each runs frames for
``seconds``, one build after the other, in turns the other way round; its time is the median of them. What counts is the
median of new / old over the rounds, with its quartiles: a neighbour that disturbs a round disturbs both builds. Where a
process happens to lie in memory makes a percent as well, so that there are ``starts`` fresh pairs of processes, among
which the rounds are divided. Given the same tree twice, the ratios are this machine's noise. The last column says
whether the outputs are equal bit for bit.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from bench.common import NETWORKS, ONE_THREAD, Record, in_turns, mean_line, one_cluster, parser, ratios

WORKER = Path(__file__).with_name("versions_worker.py")
BUILDS = ("old", "new")
COLUMNS = (
    "network", "old [ms] .3f", "new [ms] .3f", "new / old .4f", "lower quartile .4f", "upper quartile .4f", "same bits",
)  # fmt: skip


class Worker:
    """A process with one build and one network."""

    def __init__(self, tree: Path, cache: str, network: str, threads: int):
        settings = {"PYTHONPATH": str(tree), "PIPEALL_CACHE": cache, "PIPEALL_TUNE": "off", "PIPEALL_OPENCL": "off"}
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(tree), network, str(threads)], text=True,
            env=os.environ | ONE_THREAD | settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.digest = self._answer()["digest"]

    def turn(self, seconds: float) -> float:
        """The median ms of its frames."""
        print(seconds, file=self.process.stdin, flush=True)
        return self._answer()["ms"]

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self.process.args)}: ended with status {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def compare(trees: dict[str, Path], network: str, threads: int, rounds: int, seconds: float, starts: int) -> list:
    """The cells of a network's row after its name."""
    times, same = {build: [] for build in BUILDS}, True
    for start in range(starts):
        with tempfile.TemporaryDirectory() as cache:
            workers = {build: Worker(tree, f"{cache}/{build}", network, threads) for build, tree in trees.items()}
            share = rounds // starts + (start < rounds % starts)
            found = in_turns({build: partial(worker.turn, seconds) for build, worker in workers.items()}, share)
            for build, worker in workers.items():
                times[build] += found[build]
                worker.close()
        same &= workers["old"].digest == workers["new"].digest
    low, middle, high = ratios(times["new"], times["old"])
    return [*(median(times[build]) for build in BUILDS), middle, low, high, "yes" if same else "NO"]


def main() -> None:
    options = parser(__doc__, "old_tree", "new_tree", networks=NETWORKS, rounds=60, seconds=0.1)
    options.add_argument("--threads", type=int, default=1, help="default %(default)s")
    options.add_argument("--starts", type=int, default=3, help="pairs of processes; default %(default)s")
    options = options.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads :])
    trees = {"old": options.old_tree, "new": options.new_tree}
    with Record(options, *COLUMNS, board=one_cluster()) as record:
        record.say(f"{options.rounds} rounds of {options.seconds} s each, {options.starts} pairs of processes")
        for network in options.networks:
            cells = compare(trees, network, options.threads, options.rounds, options.seconds, options.starts)
            record.add(network, *cells)
        record.say(mean_line("new / old", [row[3] for row in record.rows]))


if __name__ == "__main__":
    main()
