"""The best plan of each network on two CPU components: found, run, and compared with what was predicted.

    python -m bench.pipelines.best_plans [NETWORK ...] [--finer 3] [--floating] [--seconds 1.0] [--rounds 9]
    python -m bench.pipelines.best_plans mobilenet yolo11n --boards rpi5,rpi4,uno-q [--precision fp16]

Needs two cores. Each network is profiled, searched, and its five best plans are run in turn; the best of them is then
run in turn with each core alone (the better is Peak). Shown: FPS, the ratio to Peak (median over the rounds), the
share of the plan's balance bound (its slowest stage in isolated group times), predicted and measured period, and how
long planning took. Bound and prediction are those of the profile at the speed that each core had in the turns: a
stage's time, times what the whole network took on its core in them by what it took in the profile, or a machine whose
neighbours change between the two would pass for a model that errs. The error without that is the one "as profiled".

With --boards nothing runs: the best plan by a board's model, of single cores and more, beside the big cores as
threads of one engine. In 8 bits networks are quantized on noise, which makes no difference to times. Copies share their
weights; memory is by the kernels of this machine.
"""

import argparse
import time
from collections.abc import Sequence
from itertools import product
from statistics import median
from typing import Any

from bench.common import NETWORKS, Record, mean_line, names, network, parser, ratios, two_cores
from bench.pipelines.boards import megabytes, on_noise
from pipeall import Board, Graph, Plan, Profile, profile, search
from pipeall.pipeline.boards.default_units import cores_of, units_to_search
from pipeall.pipeline.measuring.trial import Trial, compare
from pipeall.pipeline.planning.explain import explain
from pipeall.pipeline.planning.predict import predict
from pipeall.pipeline.planning.uncertainty import interval

UNITS = ["big", "little"]
BEST = 5
PROFILE_S = 1.5  # each unit, and both together: less leaves the prediction to what the neighbours happened to do
COLUMNS = (
    "network", "best plan", "throughput [FPS] .2f", "of Peak [x] .2f", "Peak", "of balance bound [%] .1f",
    "predicted [ms] .2f", "measured [ms] .2f", "error [%] +.1f", "as profiled [%] +.1f", "planned in [s] .1f",
)  # fmt: skip
CORES = (
    "board", "network", "best plan", "threads [FPS] .1f", "best [FPS] .1f", "by threads [x] .2f", "at least [FPS] .1f",
    "latency [ms] .1f", "delivered, p99 [ms] .1f", "threads [MB] .0f", "best [MB] .0f",
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


def of_cores(options: argparse.Namespace) -> None:
    """The best plan of each network on modelled boards, beside the big cores as threads."""
    threads_by, least_by = [], []
    with Record(options, *CORES, keys=2) as record:
        for name, net in product(options.boards, options.networks):
            board, graph = Board.load(name), network(net)
            graph = on_noise(graph) if options.precision == "int8" else graph
            units = units_to_search(board, "fp16" if options.precision == "fp16" else "")
            known = board.model.profile(graph, units)
            threads = Plan.single(next(unit for unit in units if unit == unit.whole))
            peak, best = predict(known, threads).fps, search(graph, known, cores=cores_of(board), top=1).ranked[0]
            least = interval(known, best.plan).fps[0]
            memory = [megabytes(graph, board, plan) for plan in (threads, best.plan)]
            gain = best.prediction.fps / peak
            figures = peak, best.prediction.fps, gain, least, best.prediction.latency_ms, best.delivered.latency_p99_ms
            record.add(name, net, str(best.plan), *figures, *memory)
            threads_by.append(gain)
            least_by.append(least / peak)
        record.say(mean_line(f"best plan by threads, {options.precision}", threads_by))
        record.say(mean_line("its lower bound by threads", least_by))


def main() -> None:
    options = parser(__doc__, networks=NETWORKS, rounds=9, seconds=1.0)
    options.add_argument("--finer", type=int, help="cut also where so many tensors cross")
    options.add_argument("--floating", action="store_true", help="also plans whose cuts float")
    options.add_argument("--boards", type=names, help="by their models")
    options.add_argument("--precision", choices=("fp32", "fp16", "int8"), default="fp32", help="of the modelled boards")
    options = options.parse_args()
    if options.boards:
        return of_cores(options)
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
