"""Searches whose workers die: four of Dask, killed and started again at random, and the coordinator once.

    python -m tests.long.search_workers --minutes 10 [--seed 0]

The networks that are evaluated, their scores and the journal must be those of one process. Nothing may be evaluated
twice but what a killed process had. Then the same search on three ranks of MPI, where none is killed. Exits with 1
where one of these does not hold.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mpi_run import HERE, mpirun
from nas_workers import evaluated, evaluators

WORKERS = 4
SECONDS = 2.0  # of the longest evaluation; of all, half of it in the mean
A_MINUTE = 30  # networks of a search
CALM_S = 900  # for what is left when nothing is killed any more
PATH = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])


class Cluster:
    """Dask's scheduler, workers and the coordinator of a search, each a process."""

    def __init__(self, folder: Path, budget: int):
        self.folder, self.budget, self.killed = folder, budget, set()
        self.lost: set[str] = set()  # candidates that the first coordinator had not written down
        self.scheduler = start("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard",
                               "--scheduler-file", str(folder / "scheduler.json"))  # fmt: skip
        while not (folder / "scheduler.json").exists():
            time.sleep(0.1)
        self.address = json.loads((folder / "scheduler.json").read_text())["address"]
        self.workers = [self.worker() for _ in range(WORKERS)]
        self.coordinator = self.coordinate()

    def worker(self) -> subprocess.Popen:
        # Without a nanny: the process that is killed is the one that evaluates
        return start("distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                     "--local-directory", str(self.folder))  # fmt: skip

    def coordinate(self) -> subprocess.Popen:
        words = HERE / "nas_workers.py", self.folder, SECONDS, self.budget, self.address
        return subprocess.Popen([sys.executable, *map(str, words)], env=os.environ | {"PYTHONPATH": PATH})

    def kill_worker(self, number: int) -> None:
        self.killed.add(self.workers[number].pid)
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self.worker()

    def kill_coordinator(self) -> None:
        self.coordinator.kill()
        self.coordinator.wait()
        self.lost = set(evaluators(self.folder)) - set(written(self.folder))
        self.coordinator = self.coordinate()

    def close(self) -> None:
        for process in (self.coordinator, *self.workers, self.scheduler):
            process.kill()
            process.wait()


def start(module: str, *arguments: str) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": PATH, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"}
    return subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment, stderr=subprocess.DEVNULL)


def written(folder: Path) -> list[str]:
    """The candidates of the journal; a last line may be cut off."""
    lines = (folder / "history.jsonl").read_text().splitlines()[1:]
    entries = [json.loads(line) for line in lines if line.endswith("}")]
    return [entry["candidate"] for entry in entries if "candidate" in entry]


def killing(cluster: Cluster, minutes: float, chance: random.Random) -> int:
    """Kills at random for so long, the coordinator once in the middle; how many workers it killed."""
    begin, kills, coordinator_lives = time.monotonic(), 0, True
    while (passed := time.monotonic() - begin) < 60 * minutes and cluster.coordinator.poll() is None:
        time.sleep(chance.uniform(2, 12))
        if coordinator_lives and passed > 30 * minutes:
            cluster.kill_coordinator()
            coordinator_lives = False
        else:
            cluster.kill_worker(chance.randrange(WORKERS))
            kills += 1
    return kills


def faults(cluster: Cluster, alone: Path) -> list[str]:
    """What is not as it has to be."""
    found, expected = written(cluster.folder), written(alone)
    processes, wrong = evaluators(cluster.folder), []
    if sorted(found) != sorted(expected):
        wrong.append(f"evaluated {len(found)} networks, of them {len(set(found) & set(expected))} of {len(expected)}")
    for code, before in processes.items():
        alive = [process for process in before[:-1] if process not in cluster.killed]
        if len(alive) > (code in cluster.lost):
            wrong.append(f"{code}: evaluated by {before}, of which {alive} were not killed")
    return wrong


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--seed", type=int, default=0)
    options = options.parse_args()
    budget = max(20, round(A_MINUTE * options.minutes))
    with tempfile.TemporaryDirectory() as root:
        alone, dask, ranks = (Path(root, name) for name in ("alone", "dask", "ranks"))
        for folder in (alone, dask, ranks):
            folder.mkdir()
        expected = evaluated(alone, budget=budget)
        cluster = Cluster(dask, budget)
        try:
            kills = killing(cluster, options.minutes, random.Random(options.seed))
            ended = cluster.coordinator.wait(CALM_S)
        finally:
            cluster.close()
        wrong = [f"the coordinator ended with {ended}"] if ended else []
        wrong += faults(cluster, alone) + ([] if evaluated(dask, budget=budget) == expected else ["other scores"])
        again = sum(len(before) - 1 for before in evaluators(dask).values())
        print(f"Dask: {len(expected)} networks; {kills} workers and the coordinator killed; {again} begun again")
        done = mpirun(3, "-m", "mpi4py.futures", HERE / "nas_workers.py", ranks, 0.01, budget)
        if done.returncode or evaluated(ranks, budget=budget) != expected:
            wrong.append(f"three ranks: {done.stderr or 'other scores'}")
        if any(len(before) > 1 for before in evaluators(ranks).values()):
            wrong.append("three ranks: a network was evaluated twice")
        print(f"MPI: {len(written(ranks))} networks on three ranks")
    print("\n".join(wrong) or "as one process has it")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
