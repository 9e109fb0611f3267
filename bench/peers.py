"""One core, side by side with onnxruntime: medians of interleaved runs of the same .onnx files, and their ratio.

    python bench/peers.py FOLDER [--rounds 21]

FOLDER holds the .onnx files to time. Both engines use one thread; each round runs one frame of each in turn, so
that a machine whose speed drifts slows both.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import onnxruntime

import pipeall


def compare(path: Path, rounds: int, board: pipeall.Board) -> tuple[float, float, float]:
    """Median ms of pipeall and of onnxruntime, and the largest difference between their results."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    graph = pipeall.load(path)
    (source,) = graph.inputs
    frame = np.random.default_rng(0).standard_normal(source.shape).astype(np.float32)
    with pipeall.Engine(graph, "big", board=board, threads=1) as engine:
        runs = (lambda: engine(frame), lambda: session.run(None, {source.name: frame})[0])
        difference = float(np.abs(runs[0]() - runs[1]()).max())
        times = ([], [])
        for _ in range(rounds):
            for run, taken in zip(runs, times, strict=True):
                begin = time.perf_counter()
                run()
                taken.append((time.perf_counter() - begin) * 1e3)
    ours, theirs = map(statistics.median, times)
    return ours, theirs, difference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    board = pipeall.Board.detect(gpu=False)
    print(f"on {board.component('big').description}; medians of {options.rounds} interleaved frames")
    print(f"{'network':14} {'pipeall ms':>11} {'onnxruntime ms':>15} {'ratio':>6}  largest difference")
    for path in sorted(options.folder.glob("*.onnx")):
        ours, theirs, difference = compare(path, options.rounds, board)
        print(f"{path.stem:14} {ours:11.2f} {theirs:15.2f} {ours / theirs:6.2f}  {difference:.1e}")


if __name__ == "__main__":
    main()
