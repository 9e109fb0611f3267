"""Strong scaling of paper 002's networks: here on 1 to n ranks, to 1,024 by counters and a model of Blue Gene/Q.

    python bench/mlp_scaling.py [--models S M L] [--ranks 1 2] [--rounds 7] [--iterations 20] [--plot FILE.png]

Measured, batch 1, a dense step (forward, backward, update): pipeall in full and ghost mode, each number of ranks in
processes of its own under mpirun, in turns with NumPy's dense step on one core and with how fast a core alone and all
ranks together read memory, and with the ranks' work without their messages, which bound them: a step reads the weights
twice (forward, and on the way back) and writes them once. Shown are medians of the rounds and the best round, as other
work on the cores makes the rest slower. L needs 1.5 GB.

Modelled: facts of Blue Gene/Q (2 us a message, 1.8 GB/s, 1.75 GB/s of memory per rank), bytes and messages as the ranks
count them, beside the times that the paper prints. Its 497 x is against another function: its ghost networks have fewer
weights on more ranks, which the column "work" shows.
"""

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from time import perf_counter

import numpy as np
from common import ONE_THREAD, REPOSITORY, Record, in_turns, one_blas_thread, parser

from pipeall._kernels.cpu import cluster
from pipeall._kernels.cpu.peak import peak
from pipeall._kernels.cpu.table import choose
from pipeall.mlp import Perceptron
from pipeall.mlp.simulator import Counting
from pipeall.mlp.traffic import (
    BLUE_GENE_Q,
    PAPER,
    dense_weights,
    full_seconds,
    ghost_seconds,
    ghost_weights,
    ghost_weights_of,
    least_values,
    megatron_values,
)

PRINTED = {  # workers: seconds of an iteration (Tables II and III); a rank more is the master
    "S": {1: 17.452, 4: 0.4905, 8: 0.0928, 16: 0.0651, 32: 0.0354},
    "M": {32: 67.499, 64: 22.276, 128: 7.167, 256: 2.52, 512: 0.802, 1024: 0.255},
    "L": {32: 2107.96, 64: 593.228, 128: 172.071, 256: 55.43, 512: 16.97, 1024: 6.44},
}
MPIRUN = ("mpirun", "--oversubscribe", "--bind-to", "none")
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MEASURED = (
    "model", "mode", "ranks", "median [ms] .3f", "best [ms] .3f", "of 1 rank [x] .2f", "of 1 rank, bests [x] .2f",
    "sent [bytes] .0f", "messages .0f", "under way, max [us] .0f", "under way, mean [us] .0f", "overlap [%] .0f",
    "best, no messages [ms] .3f", "memory [GB/s] .1f",
)  # fmt: skip
MODELLED = (
    "model", "workers", "paper [s] .4g", "kept [%] .1f", "work [x] .1f", "ghost [s] .3g", "ghost sent [bytes]",
    "full [s] .3g", "speed-up [x] .1f", "full sent [bytes]", "Megatron [bytes]",
)  # fmt: skip


def network(sizes, comm=None, engine="pipeall", **layout):
    net = Perceptron(engine=engine)
    net.add_layer("input", sizes[0])
    for neurons in sizes[1:-1]:
        net.add_layer("hidden", neurons)
    net.add_layer("output", sizes[-1])
    net.initialize(comm, **layout)
    return net


def step_times(sizes, comm, iterations, **options):
    """Seconds of each iteration after the first, and the rank's traffic in them."""
    net = network(sizes, comm, **options)
    random = np.random.default_rng(0)
    x, t = (random.random((1, size), np.float32) for size in (sizes[0], sizes[-1]))
    net.step(x, t, 0.01)
    net.comm.traffic = type(net.comm.traffic)()
    times = []
    for _ in range(iterations):
        begin = perf_counter()
        net.step(x, t, 0.01)
        times.append(perf_counter() - begin)
    return times, net.comm.traffic


def rank_main(options):
    """One turn of a rank: rank 0 prints its median, the spread of waiting, and the passes over memory."""
    from pipeall.mlp.comm_mpi import Mpi

    comm = Mpi()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[comm.rank % len(cores)]})
    big = cluster.detect()[0]
    comm.allreduce(np.zeros(1))  # all begin at once
    rate = comm.allreduce(np.array([peak(choose(big.isas, big.core_type), (-1,)).bytes]))
    times, traffic = step_times(PAPER[options.models[0]], comm, options.iterations, mode=options.mode)
    mine = np.array([traffic.seconds, traffic.exposed]) / len(times)
    comm.allreduce(np.zeros(1))
    silent, _ = step_times(
        PAPER[options.models[0]], Counting(comm.rank, comm.size), options.iterations, mode=options.mode
    )
    sent = {"messages": traffic.messages / len(times), "bytes": traffic.bytes / len(times)}
    most, mean = comm.allreduce(mine, np.maximum), comm.allreduce(mine) / comm.size
    if comm.rank == 0:
        found = {"median": np.median(times), "best": min(times), "max": most[0], "mean": mean[0], "exposed": mean[1]}
        found |= {"memory": rate[0], "silent": min(silent), **sent}
        print(json.dumps({key: float(value) for key, value in found.items()}))


def turn(model, ranks, mode, iterations):
    command = [*MPIRUN, "-n", str(ranks), sys.executable, __file__, "--turn", "--models", model, "--mode", mode]
    command += ["--iterations", str(iterations)]
    path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, env=os.environ | ROOT | ONE_THREAD | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def measured(record, model, options):
    """Rows of one model: NumPy's step, then pipeall's by mode and ranks, all in turns."""
    sizes, iterations = PAPER[model], options.iterations * (50 if model == "S" else 1)
    keys = [(mode, ranks) for ranks in options.ranks for mode in ("full", "ghost") if ranks > 1 or mode == "full"]
    runs = {key: partial(turn, model, key[1], key[0], iterations) for key in keys}
    runs["numpy"] = lambda: float(np.median(step_times(sizes, None, iterations, engine="numpy")[0]))
    turns = in_turns(runs, options.rounds)
    numpy_s = turns.pop("numpy")
    record.say(
        f"{model}: {dense_weights(sizes):,} weights, {options.rounds} rounds of {iterations} steps of one sample"
    )
    record.add(model, "NumPy", 1, 1e3 * np.median(numpy_s), 1e3 * min(numpy_s), *[None] * 9)
    alone = turns.get(("full", 1))
    for (mode, ranks), found in turns.items():
        of = {key: float(np.median([turn[key] for turn in found])) for key in found[0]}
        best, cells = min(turn["best"] for turn in found), [None] * 8
        if ranks > 1:
            gains = (None, None)
            if alone:
                one = np.median([turn["median"] for turn in alone]), min(turn["best"] for turn in alone)
                gains = one[0] / of["median"], one[1] / best
            overlap = 100 * (1 - of["exposed"] / of["mean"]) if of["mean"] else 0
            way = 1e6 * of["max"], 1e6 * of["mean"]
            cells = [*gains, of["bytes"], of["messages"], *way, overlap, 1e3 * min(turn["silent"] for turn in found)]
        record.add(model, mode, ranks, 1e3 * of["median"], 1e3 * best, *cells, of["memory"] / 1e9)


def counted(sizes, ranks, **layout):
    comm = Counting(0, ranks)
    net = network(sizes, comm, "none", **layout)
    net.step(np.zeros((1, sizes[0]), np.float32), np.zeros((1, sizes[-1]), np.float32), 0.1)
    return comm.traffic


def modelled(record, model):
    """Rows of one model on Blue Gene/Q."""
    sizes, printed = PAPER[model], PRINTED[model]
    weights, one = dense_weights(sizes), full_seconds(sizes, 1, BLUE_GENE_Q)
    record.say(f"{model}: a dense step on one core takes {one:.4f} s by its memory")
    for workers in (2**i for i in range(11)):
        if workers > min(sizes[1:]):
            break
        ghost, full = (counted(sizes, workers, mode=mode) for mode in ("ghost", "full"))
        assert full.bytes == 4 * least_values(sizes) * (workers - 1) // workers
        seconds = full_seconds(sizes, workers, BLUE_GENE_Q)
        record.add(
            model, workers, printed.get(workers), 100 * ghost_weights(sizes, workers) / weights,
            weights / ghost_weights_of(sizes, 0, workers), ghost_seconds(sizes, workers, BLUE_GENE_Q), ghost.bytes,
            seconds, one / seconds, full.bytes, 4 * megatron_values(sizes) * (workers - 1) // workers,
        )  # fmt: skip


def draw(path, rows, here):
    """``rows`` of MODELLED, ``here`` of MEASURED."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), dpi=130, layout="constrained")
    for axes, model in zip(figure.subplots(1, 3), PAPER, strict=True):
        own = [row for row in rows if row[0] == model]
        printed = [(row[1], row[2]) for row in own if row[2]]
        axes.loglog(*zip(*printed, strict=True), "o-", color="#9aa5b1", label="paper (ghost), Blue Gene/Q")
        for place, color, label in ((5, "#e0a458", "ghost, modelled"), (7, "#2f6f9f", "full, modelled")):
            axes.loglog([row[1] for row in own], [row[place] for row in own], "--", color=color, label=label)
        points = [(row[2], row[3] / 1e3) for row in here if row[:2] == [model, "full"]]
        if points:
            axes.loglog(*zip(*points, strict=True), "s", color="#b23a48", label="full, measured here")
        axes.set_title(model)
        axes.set_xlabel("working ranks")
        axes.set_ylabel("seconds an iteration")
        axes.legend(fontsize=6, frameon=False)
    figure.savefig(path)


def main():
    options = parser(__doc__, rounds=7)
    options.add_argument("--models", nargs="+", choices=PAPER, default=["S", "M"])
    options.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    options.add_argument("--iterations", type=int, default=20)
    options.add_argument("--plot")
    options.add_argument("--turn", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--mode", default="full", help=argparse.SUPPRESS)
    options = options.parse_args()
    one_blas_thread()
    if options.turn:
        rank_main(options)
        return
    with Record(options, *MODELLED, part="modelled", keys=2) as model_rows:
        for model in PRINTED:
            modelled(model_rows, model)
    with Record(options, *MEASURED, part="measured", keys=3) as here:
        for model in options.models:
            measured(here, model, options)
    if options.plot:
        draw(options.plot, model_rows.rows, here.rows)


if __name__ == "__main__":
    main()
