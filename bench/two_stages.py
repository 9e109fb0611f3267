"""Two CPU stages against one core, side by side: frames per second of interleaved rounds, and their ratio.

    python bench/two_stages.py [NETWORK ...] [--rounds 7] [--frames 60]

Needs two cores: one is Peak, both are the pipeline, cut where the multiply-adds halve. A round runs ``frames`` frames
through each in turn, filling and draining the pipeline included; the median of the rounds' ratios is printed.
"""

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from pipeall import Board, Graph, Pipeline, zoo
from pipeall.graph.ops import macs


def even_cut(graph: Graph) -> int:
    """The cut that splits the multiply-adds most evenly in two."""
    done = list(accumulate(sum(macs(node, graph) for node in group.nodes) for group in graph.groups))
    return min(range(1, len(done)), key=lambda cut: abs(done[cut - 1] - done[-1] / 2))


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
    board = Board.detect(clusters=[[core] for core in sorted(os.sched_getaffinity(0))[:2]], gpu=False)
    print(f"on {board.component('big').description}; {options.rounds} rounds of {options.frames} frames")
    for name in options.networks:
        graph = getattr(zoo, name)()
        plan = f"big-little:{even_cut(graph)}"
        frame = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
        with Pipeline(graph, "big", board=board) as one, Pipeline(graph, plan, board=board) as two:
            rows = list(rates([one, two], frame, options.rounds, options.frames))[1:]  # the first warms up
        ratio = statistics.median(b / a for a, b in rows)
        one_fps, two_fps = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{name:12} one core {one_fps:7.2f} FPS   {plan:14} {two_fps:7.2f} FPS   ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
