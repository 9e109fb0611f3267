"""What recording a trace costs: the same two-stage pipeline with and without, in turns.

    python bench/trace_overhead.py [NETWORK ...] [--seconds 0.5] [--rounds 15]

Needs two cores. Shown is the throughput lost, the median over the rounds with its quartiles.
"""

import time
from functools import partial

import numpy as np
from common import NETWORKS, Record, frame, in_turns, network, parser, ratios, two_cores

from pipeall import Pipeline, Plan

COLUMNS = ("network", "plan", "lost [%] .1f", "lower quartile [%] .1f", "upper quartile [%] .1f")


def full_fps(pipe: Pipeline, frame: np.ndarray, seconds: float) -> float:
    """Frames a second while the pipeline is full."""
    end = time.monotonic() + seconds
    since = pipe.snapshot()
    for _ in pipe.map(frame for _ in iter(lambda: time.monotonic() < end, False)):
        pass
    return pipe.stats(since).fps


def main() -> None:
    options = parser(__doc__, networks=NETWORKS, rounds=15, seconds=0.5).parse_args()
    board = two_cores()
    with Record(options, *COLUMNS, board=board) as record:
        for name in options.networks:
            graph = network(name)
            plan = Plan.balanced(["big", "little"], graph)
            with Pipeline(graph, plan, board) as plain, Pipeline(graph, plan, board, trace=True) as traced:
                runs = {pipe: partial(full_fps, pipe, frame(graph), options.seconds) for pipe in (plain, traced)}
                in_turns(runs, 1)  # warms up
                fps = in_turns(runs, options.rounds)
            high, middle, low = (100 * (1 - kept) for kept in ratios(fps[traced], fps[plain]))
            record.add(name, str(plan), middle, low, high)


if __name__ == "__main__":
    main()
