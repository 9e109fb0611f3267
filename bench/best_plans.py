"""The best plan of each network on two CPU components: found, run, and compared with what was predicted.

    python bench/best_plans.py [NETWORK ...] [--finer 3] [--floating] [--seconds 1.0] [--turns 9]

Needs two cores. Each network is profiled, searched, and its five best plans are run in turn; the best of them is then
run in turn with each core alone (the better is Peak). Printed: FPS, the ratio to Peak (median over the turns), the
share of the plan's balance bound (its slowest stage in isolated group times), predicted and measured period, and how
long planning took. Bound and prediction are those of the profile at the speed that each core had in the turns: a
stage's time, times what the whole network took on its core in them by what it took in the profile, or a machine whose
neighbours change between the two would pass for a model that errs. The error without that is printed in brackets.
"""

import argparse
import os
import statistics
import time

from pipeall import Board, Graph, Plan, profile, search, zoo
from pipeall.pipeline.measuring.trial import Trial, compare
from pipeall.pipeline.planning.explain import explain

UNITS = ["big", "little"]
BEST = 5
PROFILE_S = 1.5  # each unit, and both together: less leaves the prediction to what the neighbours happened to do


def best_of(graph: Graph, plans: list[Plan], board: Board, turns: int, seconds: float) -> list[Trial]:
    return sorted(compare(graph, plans, board, turns=turns, seconds=seconds), key=lambda trial: trial.period_ms)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["alexnet", "googlenet", "mobilenet", "resnet50", "squeezenet"])
    parser.add_argument("--finer", type=int, help="cut also where so many tensors cross")
    parser.add_argument("--floating", action="store_true", help="also plans whose cuts float")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    board = Board.detect(clusters=[[core] for core in cores], gpu=False)
    print(f"on 2 of {board.component('big').description}; {options.turns} turns of {options.seconds} s")
    errors = []
    for name in options.networks:
        graph = getattr(zoo, name)()
        graph = graph.finer(options.finer) if options.finer else graph
        begin = time.perf_counter()
        known = profile(graph, board, UNITS, seconds=PROFILE_S)
        found = search(graph, known, floating=options.floating)
        best = best_of(graph, [choice.plan for choice in found.ranked[:BEST]], board, 5, 0.3)[0].plan
        took = time.perf_counter() - begin
        trials = compare(graph, [best, *map(Plan.single, UNITS)], board, turns=options.turns, seconds=options.seconds)
        peak = min(trials[1:], key=lambda trial: trial.period_ms)
        ratio = statistics.median(one.fps / other.fps for one, other in zip(trials[0].turns, peak.turns, strict=True))
        why = explain(known, best)
        whole = {unit: explain(known, Plan.single(unit)).ideal_ms for unit in UNITS}
        drift = {unit: trial.stages[0].busy_ms / whole[unit] for unit, trial in zip(UNITS, trials[1:], strict=True)}
        bound_ms = max(stage.alone_ms * drift[stage.unit] for stage in why.stages)
        predicted_ms = max(stage.total_ms * drift[stage.unit] for stage in why.stages)
        measured_ms = trials[0].period_ms
        errors.append(predicted_ms / measured_ms - 1)
        print(
            f"{name:11} {trials[0].median('fps'):7.2f} FPS {ratio:5.2f} x {peak.plan}   "
            f"{bound_ms / measured_ms:6.1%} of balance bound   "
            f"predicted {predicted_ms:6.2f} measured {measured_ms:6.2f} ms: "
            f"{errors[-1]:+.1%} ({why.prediction.period_ms / measured_ms - 1:+.1%} as profiled)   "
            f"{best}   planned in {took:.1f} s",
            flush=True,
        )
    off = list(map(abs, errors))
    print(f"median error of the predicted period {statistics.median(off):.1%}, largest {max(off):.1%}")


if __name__ == "__main__":
    main()
