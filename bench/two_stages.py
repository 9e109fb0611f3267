"""One core, a cluster of both, and two CPU stages, side by side: FPS of interleaved rounds, and the ratios to one core.

    python bench/two_stages.py [NETWORK ...] [--rounds 7] [--frames 60]

Needs two cores. The pipeline is cut where the multiply-adds halve. A round runs ``frames`` frames through each in turn,
filling and draining included; medians over the rounds are printed.
"""

import argparse
import os
import statistics
import time
from collections.abc import Iterator

import numpy as np

from pipeall import Board, Pipeline, Plan, zoo
from pipeall.pipeline.planning.plan import balanced_cuts


def rates(pipes: list[Pipeline], frame: np.ndarray, rounds: int, frames: int) -> Iterator[list[float]]:
    """FPS of each pipeline, round by round."""
    for _ in range(rounds):
        row = []
        for pipe in pipes:
            begin = time.perf_counter()
            for _ in pipe.map(frame for _ in range(frames)):
                pass
            row.append(frames / (time.perf_counter() - begin))
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--frames", type=int, default=60)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    board = Board.detect(clusters=[[core] for core in cores], gpu=False)
    cluster = Board.detect(clusters=[cores], gpu=False)
    print(f"on {board.component('big').description}; {options.rounds} rounds of {options.frames} frames")
    for name in options.networks:
        graph = getattr(zoo, name)()
        plan = Plan.pipeline(["big", "little"], balanced_cuts(graph, [1, 1]))
        frame = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
        with (
            Pipeline(graph, "big", board=board) as one,
            Pipeline(graph, "big", board=cluster) as both,
            Pipeline(graph, plan, board=board) as stages,
        ):
            rows = list(rates([one, both, stages], frame, options.rounds, options.frames))[1:]  # the first warms up
        fps = [statistics.median(column) for column in zip(*rows, strict=True)]
        ratios = [statistics.median(row[i] / row[0] for row in rows) for i in range(3)]
        print(
            f"{name:11} one core {fps[0]:7.2f}   cluster of two {fps[1]:7.2f} ({ratios[1]:.2f} x)   "
            f"{plan} {fps[2]:7.2f} ({ratios[2]:.2f} x)",
            flush=True,
        )


if __name__ == "__main__":
    main()
