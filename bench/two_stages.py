"""One core, a cluster of two, and two CPU stages, side by side: FPS, and the ratios to one core.

    python bench/two_stages.py [NETWORK ...] [--plan big@mixed-little@mixed:4~5] [--rounds 7] [--frames 60]

Needs two cores. The pipeline is cut where the multiply-adds halve, or as the plan says, whose first stage one core and
the cluster then are. A round runs ``frames`` frames through each in turn,
filling and draining included. Shown are medians over the rounds.
"""

import os
from functools import partial
from statistics import median

from common import NETWORKS, Record, frame, in_turns, network, one_cluster, parser, ratios, two_cores, wall_fps

from pipeall import Pipeline, Plan

COLUMNS = (
    "network", "one core [FPS] .2f", "cluster of two [FPS] .2f", "cluster's gain [x] .2f", "plan",
    "two stages [FPS] .2f", "stages' gain [x] .2f",
)  # fmt: skip


def main() -> None:
    options = parser(__doc__, networks=NETWORKS, rounds=7)
    options.add_argument("--frames", type=int, default=60)
    options.add_argument("--plan", help="of two stages, for all networks")
    options = options.parse_args()
    board, cluster = two_cores(), one_cluster(sorted(os.sched_getaffinity(0))[:2])
    with Record(options, *COLUMNS, board=board) as record:
        for name in options.networks:
            graph = network(name)
            plan = Plan.parse(options.plan) if options.plan else Plan.balanced(["big", "little"], graph)
            unit = plan.lanes[0][0].unit
            with (
                Pipeline(graph, unit, board=board) as one,
                Pipeline(graph, unit, board=cluster) as both,
                Pipeline(graph, plan, board=board) as stages,
            ):
                runs = {pipe: partial(wall_fps, pipe, frame(graph), options.frames) for pipe in (one, both, stages)}
                in_turns(runs, 1)  # warms up
                fps = in_turns(runs, options.rounds)
            rates = [median(turns) for turns in fps.values()]
            gains = [ratios(fps[pipe], fps[one])[1] for pipe in (both, stages)]
            record.add(name, rates[0], rates[1], gains[0], str(plan), rates[2], gains[1])


if __name__ == "__main__":
    main()
