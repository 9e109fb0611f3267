"""One build of pipeall in turns, for versions.py. It uses nothing but what all versions have in public.

    PYTHONPATH=TREE python bench/engines/versions_worker.py TREE NETWORK THREADS

Prints a digest of the network's output, then for each line with a number of seconds the median ms of the frames that
it ran for so long, after one that is not counted.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

import pipeall


def turn(engine: pipeall.Engine, frame: np.ndarray, seconds: float) -> float:
    engine(frame)
    times, end = [], perf_counter() + seconds
    while not times or perf_counter() < end:
        begin = perf_counter()
        engine(frame)
        times.append(1e3 * (perf_counter() - begin))
    return median(times)


def main() -> None:
    tree, network, threads = sys.argv[1:]
    if not Path(pipeall.__file__).is_relative_to(tree):
        sys.exit(f"expected pipeall of {tree}, got {pipeall.__file__}")
    board = pipeall.Board.detect(clusters=[sorted(os.sched_getaffinity(0))], gpu=False)
    graph = pipeall.load(network) if network.endswith(".onnx") else getattr(pipeall.zoo, network)()
    frame = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
    with pipeall.Engine(graph, "big", board=board, threads=int(threads)) as engine:
        print(json.dumps({"digest": hashlib.sha256(engine(frame).tobytes()).hexdigest()}), flush=True)
        for line in sys.stdin:
            print(json.dumps({"ms": turn(engine, frame, float(line))}), flush=True)


if __name__ == "__main__":
    main()
