"""The five zoo networks: one core (Peak), both clusters alone (Parallel), a two-stage pipeline (Pipe-All).

    pytest bench/bench_networks.py --benchmark-only --benchmark-group-by=group

One round is FRAMES frames; ``fps`` in extra_info is frames per second of wall-clock time over the median round.
"""

import numpy as np
import pytest

from pipeall import Pipeline, Plan, zoo
from pipeall.pipeline.plan import balanced_cuts

NETWORKS = ("alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet")
FRAMES = 20


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("mode", ["Peak", "Parallel", "Pipe-All"])
def bench_network(name, mode, benchmark, board):
    if "little" not in board.components:
        pytest.skip("one core only: Parallel and Pipe-All need two CPU components")
    graph = getattr(zoo, name)()
    stages = ["big", "little"]
    plans = {
        "Peak": Plan.single("big"),
        "Parallel": Plan.parallel(stages),
        "Pipe-All": Plan.pipeline(stages, balanced_cuts(graph, [1, 1])),
    }
    frame = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
    with Pipeline(graph, plans[mode], board=board) as pipe:

        def frames():
            for _ in pipe.map(frame for _ in range(FRAMES)):
                pass

        benchmark.group = name
        benchmark.pedantic(frames, rounds=5, warmup_rounds=1)
    benchmark.extra_info.update(plan=str(plans[mode]), fps=round(FRAMES / benchmark.stats.stats.median, 2))
