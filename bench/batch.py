"""What a batch costs beside single frames: medians in turns on one core, and whether the results are the same.

    python bench/batch.py MODEL.onnx [--sizes 2,4,8] [--rounds 15]

Where weights dominate (fully connected layers) they are read once for the batch.
"""

from functools import partial
from statistics import median

import numpy as np
from common import Record, in_turns, milliseconds, names, one_cluster, parser

import pipeall


def main() -> None:
    options = parser(__doc__, "model", rounds=15)
    options.add_argument("--sizes", type=names, default=["2", "4", "8"], help="default 2,4,8")
    options = options.parse_args()
    sizes, board = [1, *map(int, options.sizes)], one_cluster()
    shape = pipeall.load(options.model).inputs[0].shape
    frames = np.random.default_rng(0).standard_normal((max(sizes), *shape[1:])).astype(np.float32)
    engines = {
        n: pipeall.Engine(pipeall.load(options.model, input_shape=(n, *shape[1:])), "big", board=board, threads=1)
        for n in sizes
    }
    single = np.concatenate([engines[1](frames[i : i + 1]) for i in range(max(sizes))])
    columns = ("images", "frame [ms] .2f", "of one [x] .2f", "largest difference .1e")
    with Record(options, *columns, board=board) as record:
        runs = {n: partial(milliseconds, partial(engine, frames[:n])) for n, engine in engines.items()}
        taken = {n: median(ms) for n, ms in in_turns(runs, options.rounds).items()}
        for n in sizes:
            difference = float(np.abs(engines[n](frames[:n]) - single[:n]).max())
            record.add(n, taken[n], taken[n] / taken[1], difference)


if __name__ == "__main__":
    main()
