"""An evaluation that says in a file who made it, and the search that has it: what tests of workers have in common.

python nas_workers.py FOLDER SECONDS BUDGET ADDRESS              # evaluated by the workers of Dask's scheduler
mpirun -n 3 python -m mpi4py.futures nas_workers.py FOLDER SECONDS BUDGET      # by ranks
"""

import os
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from nas_landscapes import HashEvaluate

from pipeall.nas.executors import dask_executor
from pipeall.nas.search.archive import Archive, History
from pipeall.nas.search.evolve import Settings, search
from pipeall.nas.spaces.tree_space import TreeSpace

ABOUT = {"test": "workers"}


@dataclass(frozen=True)
class Told:
    """``HashEvaluate`` that adds a line to a file when it begins: the process and the candidate."""

    path: str
    seconds: float

    def __call__(self, candidate, seed, parent=None):
        line = f"{os.getpid()} {candidate.code}\n".encode()
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line)  # one call: lines of several processes stay whole
        os.close(file)
        return HashEvaluate(self.seconds)(candidate, seed, parent)


def evaluated(folder, executor=None, seconds=0.0, budget=30):
    """The members of a search whose journal and lines lie in the folder."""
    folder = Path(folder)
    evaluate = Told(str(folder / "evaluations.txt"), seconds)
    archive = Archive(TreeSpace(), evaluate, 3, executor, History(folder / "history.jsonl", ABOUT), budget)
    list(search(archive, Settings(population=8, guided=0)))
    return archive.members


def evaluators(folder):
    """Candidate -> the processes that began to evaluate it, in order."""
    found = defaultdict(list)
    file = Path(folder) / "evaluations.txt"
    for line in file.read_text().splitlines() if file.exists() else ():
        process, code = line.split()
        found[code].append(int(process))
    return found


if __name__ == "__main__":
    folder, seconds, budget, *address = sys.argv[1:]
    if address:
        with dask_executor(*address) as executor:
            evaluated(folder, executor, float(seconds), int(budget))
    else:
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor() as executor:
            evaluated(folder, executor, float(seconds), int(budget))
