"""The five zoo networks: the fastest component (Peak), all independently (Parallel), the best plan found (Pipe-All).

    pytest bench/bench_networks.py --benchmark-only --benchmark-group-by=group
    pytest bench/bench_networks.py --benchmark-only --benchmark-group-by=group --board a311d

Plans come from a profile, measured first, and a search. One round is FRAMES results of a pipeline that stays full; in
extra_info ``fps`` is frames per second of wall-clock time over the median round, of a twin in the board's time, and
``late`` is how many times per frame a stage of a twin took longer to compute here than on the board.
"""

from functools import cache
from itertools import repeat

import pytest
from common import PUBLISHED, frame, network

from pipeall import Graph, Pipeline, profile
from pipeall.pipeline.planning.lineup import Lineup, lineup

FRAMES = 20


@pytest.fixture(scope="session")
def contest(where):
    """network -> its graph and line-up, found once."""
    board, _ = where
    names = [component.name for component in board.components.values() if not component.stand_in]

    @cache
    def found(name: str) -> tuple[Graph, Lineup]:
        graph = network(name)
        return graph, lineup(graph, profile(graph, board, names), names)

    return found


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("mode", ["Peak", "Parallel", "Pipe-All"])
def bench_network(name, mode, benchmark, where, contest):
    board, options = where
    graph, found = contest(name)
    plan = {"Peak": found.alone[0], "Parallel": found.parallel, "Pipe-All": found.pipelines[0].plan}[mode]
    if plan is None:
        pytest.skip("one component only: there is nothing to run in parallel")
    with Pipeline(graph, plan, board=board, **options) as pipe:
        results = pipe.map(repeat(frame(graph)))

        def frames():
            for _ in range(FRAMES):
                next(results)

        benchmark.group = name
        benchmark.pedantic(frames, rounds=5, warmup_rounds=1)
        stats = pipe.stats()
    late = sum(stage.overran for stage in stats.stages) / max(1, stats.frames)
    fps = FRAMES / benchmark.stats.stats.median * options.get("time_scale", 1.0)
    benchmark.extra_info.update(plan=str(plan), fps=round(fps, 2), late=round(late, 4))
