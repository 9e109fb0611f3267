"""What recording a trace costs: the same two-stage pipeline with and without, in turns.

    python bench/trace_overhead.py [NETWORK ...] [--seconds 0.5] [--turns 15]

Needs two cores. Printed: the throughput lost, the median over the turns with its quartiles, in percent.
"""

import argparse
import time

import numpy as np

from pipeall import Board, Pipeline, Plan, zoo
from pipeall.pipeline.planning.plan import balanced_cuts


def fps(pipe: Pipeline, frame: np.ndarray, seconds: float) -> float:
    end = time.monotonic() + seconds
    since = pipe.snapshot()
    for _ in pipe.map(frame for _ in iter(lambda: time.monotonic() < end, False)):
        pass
    return pipe.stats(since).fps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet"])
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    board = Board.detect(gpu=False)
    for name in options.networks:
        graph = getattr(zoo, name)()
        plan = Plan.pipeline(["big", "little"], balanced_cuts(graph, [1, 1]))
        frame = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
        with Pipeline(graph, plan, board) as plain, Pipeline(graph, plan, board, trace=True) as traced:
            turns = [[fps(pipe, frame, options.seconds) for pipe in (plain, traced)] for _ in range(options.turns + 1)]
        lost = [100 * (1 - with_ / without) for without, with_ in turns[1:]]  # the first turn warms up
        low, middle, high = np.percentile(lost, (25, 50, 75))
        print(f"{name:11} {plan}: {middle:+.1f} % ({low:+.1f} to {high:+.1f})", flush=True)


if __name__ == "__main__":
    main()
