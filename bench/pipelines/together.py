"""Frames together on stages of one core each: AlexNet's weights read once for two frames, against a frame at a time.

    python -m bench.pipelines.together [NETWORK ...] [--frames 2] [--seconds 1.0] [--rounds 9]

Needs two cores. Each network is profiled on one core, a frame at a time and so many together. The best pipelines of two
cores are then run in turn with one core alone: of stages that take a frame at a time, and of any. Shown: FPS, and how
many times the FPS of one core in the same rounds (medians); the latency of a frame, as predicted and as measured; and
the bound: two cores that divide a network evenly whose frames are all computed together, and whose cores do not slow
each other down, by the profile at the speed that one core had in the rounds.
"""

from bench.common import NETWORKS, Record, network, one_cluster, parser, ratios
from pipeall import Graph, Plan, Profile, profile
from pipeall.pipeline.measuring.trial import compare
from pipeall.pipeline.planning.predict import predict

ONE = "bigx1"
BEST = 3  # plans of each kind that are tried
PROFILE_S = 1.5
COLUMNS = (
    "network", "plan", "throughput [FPS] .2f", "of one core [x] .2f", "bound [x] .2f", "of the bound [%] .1f",
    "latency [ms] .1f", "predicted [ms] .1f",
)  # fmt: skip


def pipelines(graph: Graph, known: Profile, units: list[str]) -> list[Plan]:
    """The pipelines of two stages on these units that are predicted to be fastest."""
    plans = [
        Plan.pipeline([first, second], [cut])
        for first in units
        for second in units
        for cut in range(1, len(graph.groups))
    ]
    return sorted(plans, key=lambda plan: predict(known, plan).period_ms)[:BEST]


def main() -> None:
    options = parser(__doc__, networks=NETWORKS[:1], rounds=9, seconds=1.0)
    options.add_argument("--frames", type=int, default=2, choices=(2, 3, 4), help="together; default %(default)s")
    options = options.parse_args()
    board, together = one_cluster(), f"{ONE}*{options.frames}"
    with Record(options, *COLUMNS, board=board) as record:
        for name in options.networks:
            graph = network(name)
            known = profile(graph, board, [ONE, together], seconds=PROFILE_S)
            plans = [pipelines(graph, known, [ONE]), pipelines(graph, known, [ONE, together])]
            tried = list(dict.fromkeys([Plan.single(ONE), *plans[0], *plans[1]]))
            one, *trials = compare(graph, tried, board, turns=options.rounds, seconds=options.seconds)
            one_ms, some_ms = (sum(known.units[unit].ms) for unit in (ONE, together))
            best = [max((t for t in trials if t.plan in kind), key=lambda t: t.median("fps")) for kind in plans]
            for trial in [one, *best]:
                _, gain, _ = ratios([turn.fps for turn in trial.turns], [turn.fps for turn in one.turns])
                bound = 2 * one_ms / some_ms
                measured = trial.median("latency_p50_ms")
                predicted = predict(known, trial.plan).latency_ms
                record.add(
                    name, str(trial.plan), trial.median("fps"), gain, bound, 100 * gain / bound, measured, predicted
                )


if __name__ == "__main__":
    main()
