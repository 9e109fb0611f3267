"""The best plan of each network on two CPU components: found, run, and compared with what was predicted.

    python -m bench.pipelines.best_plans [NETWORK ...] [--finer 3] [--floating] [--seconds 1.0] [--rounds 9]

Needs two cores. Each network is profiled, searched, and its five best plans are run in turn; the best of them is then
run in turn with each core alone (the better is Peak). Shown: FPS, the ratio to Peak (median over the rounds), the
share of the plan's balance bound (its slowest stage in isolated group times), predicted and measured period, and how
long planning took. Bound and prediction are those of the profile at the speed that each core had in the turns: a
stage's time, times what the whole network took on its core in them by what it took in the profile, or a machine whose
neighbours change between the two would pass for a model that errs. The error without that is the one "as profiled".
"""

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.common import NETWORKS, Record, network, parser, ratios, two_cores
from pipeall import Board, Graph, Plan, Profile, profile, search
from pipeall.pipeline.measuring.trial import Trial, compare
from pipeall.pipeline.planning.explain import explain

UNITS = ["big", "little"]
BEST = 5
PROFILE_S = 1.5  # each unit, and both together: less leaves the prediction to what the neighbours happened to do
COLUMNS = (
    "network", "best plan", "throughput [FPS] .2f", "of Peak [x] .2f", "Peak", "of balance bound [%] .1f",
    "predicted [ms] .2f", "measured [ms] .2f", "error [%] +.1f", "as profiled [%] +.1f", "planned in [s] .1f",
)  # fmt: skip


def planned(graph: Graph, board: Board, floating: bool) -> tuple[Profile, Plan]:
    """A profile, and the best of the plans that a search ranks first, after a short run of each."""
    known = profile(graph, board, UNITS, seconds=PROFILE_S)
    plans = [choice.plan for choice in search(graph, known, plans="pipelines", floating=floating).ranked[:BEST]]
    return known, min(compare(graph, plans, board, turns=5, seconds=0.3), key=lambda trial: trial.period_ms).plan


def figures(known: Profile, trial: Trial, alone: Sequence[Trial]) -> list[Any]:
    """The cells from FPS to the error as profiled."""
    peak = min(alone, key=lambda trial: trial.period_ms)
    why = explain(known, trial.plan)
    whole = {unit: explain(known, Plan.single(unit)).ideal_ms for unit in UNITS}
    drift = {unit: one.stages[0].busy_ms / whole[unit] for unit, one in zip(UNITS, alone, strict=True)}
    bound_ms = max(stage.alone_ms * drift[stage.unit] for stage in why.stages)
    predicted_ms = max(stage.total_ms * drift[stage.unit] for stage in why.stages)
    _, gain, _ = ratios([turn.fps for turn in trial.turns], [turn.fps for turn in peak.turns])
    cells = [trial.median("fps"), gain, str(peak.plan), 100 * bound_ms / trial.period_ms, predicted_ms, trial.period_ms]
    return cells + [100 * (ms / trial.period_ms - 1) for ms in (predicted_ms, why.prediction.period_ms)]


def main() -> None:
    options = parser(__doc__, networks=NETWORKS, rounds=9, seconds=1.0)
    options.add_argument("--finer", type=int, help="cut also where so many tensors cross")
    options.add_argument("--floating", action="store_true", help="also plans whose cuts float")
    options = options.parse_args()
    board, errors = two_cores(), []
    with Record(options, *COLUMNS, board=board) as record:
        for name in options.networks:
            graph = network(name)
            graph = graph.finer(options.finer) if options.finer else graph
            begin = time.perf_counter()
            known, best = planned(graph, board, options.floating)
            took = time.perf_counter() - begin
            plans = [best, *map(Plan.single, UNITS)]
            trial, *alone = compare(graph, plans, board, turns=options.rounds, seconds=options.seconds)
            cells = figures(known, trial, alone)
            errors.append(abs(cells[-2]))
            record.add(name, str(best), *cells, took)
        record.say(f"error of the predicted period: median {median(errors):.1f} %, largest {max(errors):.1f} %")


if __name__ == "__main__":
    main()
