"""Strong scaling here: iterations of one of paper 002's networks, each number of ranks in processes of its own.

``python -m pipeall.mlp.scaling`` is what a rank runs; ``turn`` starts the ranks and reads what the first one prints.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from .._kernels.cpu import cluster
from .._kernels.cpu.cores import pinnable
from .._kernels.cpu.peak_cpu import peak
from .._kernels.cpu.table import choose
from ..errors import PipeallError
from .comm import Comm, Traffic
from .network import Perceptron
from .simulator import Counting
from .traffic import PAPER

SECONDS = ("median", "mean", "best", "way_max", "way_mean", "exposed", "silent")  # of a turn
LEAST, MOST = 3, 10_000  # iterations of a turn
TURN_S = 900  # after which a turn has failed
# As root in a container, on fewer cores than ranks, and without binding, which each rank does by itself
OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
}
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}


@dataclass(frozen=True)
class Setup:
    """What is timed: a network of ``PAPER``, ``batch`` samples an iteration, engine "pipeall" or "numpy"."""

    model: str
    mode: str = "full"
    ranks: int = 1
    batch: int = 1
    engine: str = "pipeall"


@dataclass(frozen=True)
class Turn:
    """One run of the ranks; seconds and counts are those of an iteration.

    way_max, way_mean   messages were under way, on the rank where longest and on average
    exposed             of way_mean: the rank only waited
    silent              the fastest without messages, which bounds ``best``
    memory_rate         bytes a second that all ranks together read
    """

    iterations: int
    median: float
    mean: float
    best: float
    messages: float
    bytes: float
    way_max: float
    way_mean: float
    exposed: float
    silent: float
    memory_rate: float


def in_turns(
    setups: Iterable[Setup], rounds: int, seconds: float, on_turn: Callable[[Setup], object] = lambda setup: None
) -> dict[Setup, list[Turn]]:
    """Turns of about ``seconds`` of iterations each; every setup takes part in every round, every second backwards."""
    turns: dict[Setup, list[Turn]] = {setup: [] for setup in setups}
    for number in range(rounds):
        for setup in reversed(turns) if number % 2 else turns:
            turns[setup].append(turn(setup, seconds))
            on_turn(setup)
    return turns


def summary(turns: Iterable[Turn]) -> Turn:
    """Medians over the turns; of ``best`` and ``silent`` the least, as other work only makes them longer."""
    rows = [asdict(each) for each in turns]
    values = {key: median(row[key] for row in rows) for key in rows[0]}
    return Turn(**values | {key: min(row[key] for row in rows) for key in ("best", "silent")})


def overlap(turn: Turn) -> float | None:
    """The share of the time of messages in which a rank computed; None without messages."""
    return 1 - turn.exposed / turn.way_mean if turn.way_mean else None


def planned(models: Sequence[str], ranks: Sequence[int], batches: Sequence[int]) -> list[Setup]:
    """NumPy on one core, full mode on every number of ranks, and the paper's ghosts for one sample on several."""
    setups = []
    for model in models:
        setups.append(Setup(model, engine="numpy"))
        setups += [Setup(model, "full", count, batch) for batch in batches for count in ranks]
        setups += [Setup(model, "ghost", count) for count in ranks if count > 1]
    return setups


def measured_rows(turns: Mapping[Setup, Sequence[Turn]]) -> list[dict[str, Any]]:
    """What was measured, as JSON knows it; ``gain`` is the strong scaling of full mode over one rank."""
    summaries = {setup: summary(of) for setup, of in turns.items()}
    rows = []
    for setup, turn in summaries.items():
        alone = summaries.get(Setup(setup.model, "full", 1, setup.batch))
        compared = alone is not None and setup.mode == "full" and setup.ranks > 1
        rows.append(
            asdict(setup)
            | {f"{key}_seconds" if key in SECONDS else key: value for key, value in asdict(turn).items()}
            | {
                "gain": alone.median / turn.median if alone and compared else None,
                "gain_of_bests": alone.best / turn.best if alone and compared else None,
                "share": turn.way_max / turn.mean,
                "overlap": overlap(turn),
            }
        )
    return rows


def turn(setup: Setup, seconds: float) -> Turn:
    """Starts the ranks. Raises PipeallError where they fail or where there is no mpirun."""
    command = [sys.executable, "-m", __name__, json.dumps(asdict(setup) | {"seconds": seconds})]
    if setup.ranks > 1:
        if shutil.which("mpirun") is None:
            raise PipeallError("scaling on several ranks needs mpirun: apt-get install openmpi-bin")
        command = ["mpirun", "-n", str(setup.ranks), *command]
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | OPEN_MPI | ONE_THREAD | {"PYTHONPATH": path}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TURN_S)
    except subprocess.TimeoutExpired:
        raise PipeallError(f"scaling: {setup.model} on {setup.ranks} ranks took more than {TURN_S} s") from None
    if done.returncode:
        message = next((line for line in reversed(done.stderr.splitlines()) if "rror" in line), "no error given")
        raise PipeallError(f"scaling: {setup.model} on {setup.ranks} ranks failed: {message.strip():.300}")
    return Turn(**json.loads(done.stdout.splitlines()[-1]))


def measure(setup: Setup, seconds: float, comm: Comm) -> Turn:
    """What a rank does; every rank returns the same."""
    cores = sorted(os.sched_getaffinity(0))
    (core,) = pinnable([cores[comm.rank % len(cores)]])
    if core >= 0:
        os.sched_setaffinity(0, {core})
    big = cluster.detect()[0]
    comm.allreduce(np.zeros(1))  # all begin at once
    rate = comm.allreduce(np.array([peak(choose(big.isas, big.core_type), (-1,)).bytes]))[0]
    times, traffic = _iterations(setup, seconds, comm)
    comm.allreduce(np.zeros(1))
    quiet = Counting(comm.rank, comm.size) if comm.size > 1 else comm
    silent, _ = _iterations(setup, seconds, quiet, len(times))
    way = np.array([traffic.seconds, traffic.exposed]) / len(times)
    most, mean = comm.allreduce(way, np.maximum), comm.allreduce(way) / comm.size
    return Turn(
        len(times),
        median(times),
        sum(times) / len(times),
        min(times),
        traffic.messages / len(times),
        traffic.bytes / len(times),
        float(most[0]),
        float(mean[0]),
        float(mean[1]),
        min(silent),
        float(rate),
    )


def _iterations(setup: Setup, seconds: float, comm: Comm, count: int | None = None) -> tuple[list[float], Traffic]:
    """Seconds of each iteration after the first, and the rank's traffic in them; equally many on every rank."""
    sizes = PAPER[setup.model]
    net = Perceptron(engine=setup.engine)
    net.add_layers(sizes)
    net.initialize(comm, mode=setup.mode)
    random = np.random.default_rng(0)
    x, t = (random.random((setup.batch, size), np.float32) for size in (sizes[0], sizes[-1]))
    step = partial(net.step, x, t, 0.01)
    step()  # binds arrays
    if count is None:
        begin = perf_counter()
        step()
        longest = float(comm.allreduce(np.array([perf_counter() - begin]), np.maximum)[0])
        count = int(min(max(LEAST, seconds / longest), MOST))
    net.comm.traffic = Traffic()
    times = []
    for _ in range(count):
        begin = perf_counter()
        step()
        times.append(perf_counter() - begin)
    return times, replace(net.comm.traffic)  # which counts what comes later too


def _main(argument: str) -> None:
    given: dict[str, Any] = json.loads(argument)
    seconds = given.pop("seconds")
    setup = Setup(**given)
    comm = Comm()
    if setup.ranks > 1:
        from .comm_mpi import Mpi

        comm = Mpi()
    turn_of_all = measure(setup, seconds, comm)
    if comm.rank == 0:
        print(json.dumps(asdict(turn_of_all)))


if __name__ == "__main__":
    _main(sys.argv[1])
