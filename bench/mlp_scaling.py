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
from pathlib import Path
from time import perf_counter

import numpy as np

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
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}


def np_median(values):
    return float(np.median(list(values)))


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
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, env=os.environ | ROOT | ONE_THREAD | {"PYTHONPATH": path}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def measured(options):
    rows = []
    for model in options.models:
        sizes = PAPER[model]
        iterations = options.iterations * (50 if model == "S" else 1)
        runs = [(ranks, mode) for ranks in options.ranks for mode in ("full", "ghost") if ranks > 1 or mode == "full"]
        turns = {run: [] for run in runs}
        numpy_times = []
        for _ in range(options.rounds):
            for run in runs:
                turns[run].append(turn(model, *run, iterations))
            numpy_times.append(np.median(step_times(sizes, None, iterations, engine="numpy")[0]))
        alone = turns.get((1, "full"), [])
        serial = [f(t[key] for t in alone) for f, key in ((np_median, "median"), (min, "best"))] if alone else None
        print(f"\n{model}: {dense_weights(sizes):,} weights, dense step of one sample; {options.rounds} rounds")
        print(f"  NumPy on one core: median {1e3 * np.median(numpy_times):.3f} ms, best {1e3 * min(numpy_times):.3f}")
        for (ranks, mode), found in turns.items():
            of = {key: float(np.median([t[key] for t in found])) for key in found[0]}
            best = min(t["best"] for t in found)
            text = f"  {mode} on {ranks}: median {1e3 * of['median']:.3f} ms, best {1e3 * best:.3f}"
            if serial and ranks > 1:
                text += f", {serial[0] / of['median']:.2f} x of 1 rank, {serial[1] / best:.2f} x of bests"
                overlap = 1 - of["exposed"] / of["mean"] if of["mean"] else 0
                text += f"; {of['bytes']:,.0f} bytes in {of['messages']:.0f} messages, under way"
                text += f" max {1e6 * of['max']:.0f} us, mean {1e6 * of['mean']:.0f}"
                text += f" ({100 * of['max'] / of['median']:.1f} %), overlap {100 * overlap:.0f} %"
                text += f", without messages best {1e3 * min(t['silent'] for t in found):.3f} ms"
            print(f"{text}; memory read at {of['memory'] / 1e9:.1f} GB/s by all", flush=True)
            rows.append({"model": model, "ranks": ranks, "mode": mode, **of, "best": best})
    return rows


def counted(sizes, ranks, **layout):
    comm = Counting(0, ranks)
    net = network(sizes, comm, "none", **layout)
    net.step(np.zeros((1, sizes[0]), np.float32), np.zeros((1, sizes[-1]), np.float32), 0.1)
    return comm.traffic


def modelled():
    """Prints and gives rows of (model, workers, printed seconds, modelled ghost and full seconds, ...)."""
    rows = []
    for model, printed in PRINTED.items():
        sizes = PAPER[model]
        weights = dense_weights(sizes)
        one = full_seconds(sizes, 1, BLUE_GENE_Q)
        print(f"\n{model} on Blue Gene/Q: a dense step on one core takes {one:.4f} s by its memory")
        heads = ("workers", "paper s", "kept %", "work", "ghost s", "bytes", "full s", "speed-up", "bytes", "Megatron")
        print("".join(f"{head:>10}" for head in heads))
        for workers in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
            if workers > min(sizes[1:]):
                continue
            ghost, full = (counted(sizes, workers, mode=mode) for mode in ("ghost", "full"))
            assert full.bytes == 4 * least_values(sizes) * (workers - 1) // workers
            times = ghost_seconds(sizes, workers, BLUE_GENE_Q), full_seconds(sizes, workers, BLUE_GENE_Q)
            cells = [workers, printed.get(workers, "-")]
            cells += [
                f"{100 * ghost_weights(sizes, workers) / weights:.1f}",
                f"{weights / ghost_weights_of(sizes, 0, workers):.1f}",
            ]
            cells += [f"{times[0]:.3g}", ghost.bytes, f"{times[1]:.3g}", f"{one / times[1]:.1f}", full.bytes]
            cells += [4 * megatron_values(sizes) * (workers - 1) // workers]
            print("".join(f"{cell:>10}" for cell in cells))
            rows.append((model, workers, printed.get(workers), *times))
    return rows


def draw(path, rows, here):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), dpi=130, layout="constrained")
    for axes, model in zip(figure.subplots(1, 3), PAPER, strict=True):
        own = [row for row in rows if row[0] == model]
        printed = [(row[1], row[2]) for row in own if row[2]]
        axes.loglog(*zip(*printed, strict=True), "o-", color="#9aa5b1", label="paper (ghost), Blue Gene/Q")
        axes.loglog([row[1] for row in own], [row[3] for row in own], "--", color="#e0a458", label="ghost, modelled")
        axes.loglog([row[1] for row in own], [row[4] for row in own], "--", color="#2f6f9f", label="full, modelled")
        points = [(row["ranks"], row["median"]) for row in here if row["model"] == model and row["mode"] == "full"]
        if points:
            axes.loglog(*zip(*points, strict=True), "s", color="#b23a48", label="full, measured here")
        axes.set_title(model)
        axes.set_xlabel("working ranks")
        axes.set_ylabel("seconds an iteration")
        axes.legend(fontsize=6, frameon=False)
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=PAPER, default=["S", "M"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--plot")
    parser.add_argument("--turn", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--mode", default="full", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not os.environ.items() >= ONE_THREAD.items():  # BLAS reads them when it is loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    if options.turn:
        rank_main(options)
        return
    rows = modelled()
    here = measured(options)
    if options.plot:
        draw(options.plot, rows, here)


if __name__ == "__main__":
    main()
