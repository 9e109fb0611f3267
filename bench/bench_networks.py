"""The five zoo networks: one core (Peak), both clusters alone (Parallel), a two-stage pipeline (Pipe-All).

    pytest bench/bench_networks.py --benchmark-only --benchmark-group-by=group

One round is FRAMES frames; ``fps`` in extra_info is frames per second of wall-clock time over the median round.
"""

from itertools import accumulate

import numpy as np
import pytest

from pipeall import Pipeline, zoo
from pipeall.graph.ops import macs

NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")
FRAMES = 20


def even_cut(graph):
    """The cut that splits the multiply-adds most evenly in two."""
    done = list(accumulate(sum(macs(node, graph) for node in group.nodes) for group in graph.groups))
    return min(range(1, len(done)), key=lambda cut: abs(done[cut - 1] - done[-1] / 2))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("mode", ["Peak", "Parallel", "Pipe-All"])
def bench_network(name, mode, benchmark, board):
    if "little" not in board.components:
        pytest.skip("one core only: Parallel and Pipe-All need two CPU components")
    graph = getattr(zoo, name)()
    plan = {"Peak": "big", "Parallel": "big+little", "Pipe-All": f"big-little:{even_cut(graph)}"}[mode]
    frame = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
    with Pipeline(graph, plan, board=board) as pipe:

        def frames():
            for _ in pipe.map(frame for _ in range(FRAMES)):
                pass

        benchmark.group = name
        benchmark.pedantic(frames, rounds=5, warmup_rounds=1)
    benchmark.extra_info.update(plan=plan, fps=round(FRAMES / benchmark.stats.stats.median, 2))
