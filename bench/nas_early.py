"""What ends trainings early, or spares them, saves and costs: successive halving and zero-cost proxies, on one pool of
random networks that are all trained to the end.

    python bench/nas_early.py digits --pool 40 --samples 500 --cycles 9

The error after every pass is kept, so halving is replayed on the pool as a search would meet it, in several orders. A
proxy trains the best quarter by it, beside a quarter at random. "Behind": of the network that is chosen, how far its
accuracy is below that of the pool's best by error. Tau: Kendall's, of the proxy or of the error at the first rung with
the error at the end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from common import Record, parser
from scipy.stats import kendalltau

from pipeall.nas.data import DataSet, load
from pipeall.nas.fitness import accuracy, error
from pipeall.nas.genome import Hyper
from pipeall.nas.halving import Halving
from pipeall.nas.mobile import MobileSpace
from pipeall.nas.network import create
from pipeall.nas.proxies import PROXIES, proxy
from pipeall.nas.recipe import Recipe
from pipeall.nas.score import Score
from pipeall.nas.train import calibrated, predict, train

KEPT = 4  # a proxy spares all but one of so many trainings
ORDERS = 100
FACTORS = (2, 3, 4)


@dataclass(frozen=True)
class Trained:
    """A network of the pool. errors: judged after each pass; accuracy: at the end; proxies, and their seconds."""

    errors: tuple[float, ...]
    accuracy: float
    proxies: dict[str, float]
    seconds: dict[str, float]
    training: float


def trained(space: MobileSpace, data: DataSet, hyper: Hyper, seed: int) -> Trained:
    network = create(space.decode(space.random(np.random.default_rng(seed))), data, seed)
    worth, seconds, errors = {}, {}, []
    for name in PROXIES:
        begin = time.process_time()
        worth[name] = proxy(name, network, data.fit)
        seconds[name] = time.process_time() - begin

    def judge(passes: int, now: object) -> bool:
        errors.append(error(data, predict(calibrated(now, data.fit.x), data.judge.x), data.judge.y))
        return False

    begin = time.process_time()
    final, _ = train(network, data.fit, hyper, seed, Recipe(32, decay=5e-4), judge)
    spent = time.process_time() - begin
    output = predict(calibrated(final, data.fit.x), data.judge.x)
    errors.append(error(data, output, data.judge.y))
    return Trained(tuple(errors), accuracy(data, output, data.judge.y), worth, seconds, spent)


def replayed(pool: list[Trained], halving: Halving, cycles: int, random: np.random.Generator) -> tuple[float, float]:
    """The share of all passes that halving makes of the pool in a random order, in waves as the search has them, and
    how far what it chooses is behind."""
    order, at = random.permutation(len(pool)), halving.passes(cycles)
    scores: list[Score] = []
    made = {}
    for start in range(0, len(pool), halving.factor):
        bounds = halving.bounds(cycles, scores)
        for place in order[start : start + halving.factor]:
            rungs, made[place] = [], cycles
            for passes, bound in zip(at, bounds, strict=True):
                rungs.append(pool[place].errors[passes - 1])
                if rungs[-1] > bound:
                    made[place] = passes
                    break
            scores.append(Score(rungs[-1], rungs[-1], cycles=cycles, passes=made[place], rungs=tuple(rungs)))
    best = min((place for place in made if made[place] == cycles), key=lambda place: pool[place].errors[-1])
    return sum(made.values()) / (len(pool) * cycles), behind(pool, best)


def behind(pool: list[Trained], place: int) -> float:
    """Points of accuracy below the pool's best network by error."""
    best = min(pool, key=lambda one: one.errors[-1])
    return 100 * (best.accuracy - pool[place].accuracy)


COLUMNS = ("what", "training [%] .0f", "behind, mean [points] .2f", "worst .2f", "tau .2f", "seconds .2f")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", help="digits, or pictures of pipeall nas --data")
    options.add_argument("--pool", type=int, default=40, help="networks; %(default)s")
    options.add_argument("--samples", type=int, default=500, help="to train on; %(default)s")
    options.add_argument("--cycles", type=int, default=9, help="passes of a training; %(default)s")
    options = options.parse_args()
    whole = load(options.data)
    data = replace(whole.first(options.samples), judge=whole.judge)
    space = MobileSpace(2, (8, 12, 16, 24), side=data.shape[1])
    hyper = Hyper(0.05, 0.9, options.cycles, 0.0, 0.0)
    with Record(options, *COLUMNS) as record:
        pool = [trained(space, data, hyper, seed) for seed in range(options.pool)]
        ends = [one.errors[-1] for one in pool]
        record.add("all are trained", 100, 0, 0, None, np.mean([one.training for one in pool]))
        for factor in FACTORS:
            halving, random = Halving(factor), np.random.default_rng(0)
            runs = np.array([replayed(pool, halving, options.cycles, random) for _ in range(ORDERS)])
            first = halving.passes(options.cycles)[0]
            tau = kendalltau([one.errors[first - 1] for one in pool], ends).statistic
            record.add(f"halving={factor}", 100 * runs[:, 0].mean(), runs[:, 1].mean(), runs[:, 1].max(), tau, None)
        kept, random = -(-len(pool) // KEPT), np.random.default_rng(0)
        drawn = [random.choice(len(pool), kept, replace=False) for _ in range(ORDERS)]
        lost = [behind(pool, min(some, key=lambda place: ends[place])) for some in drawn]
        record.add("a quarter at random", 100 * kept / len(pool), np.mean(lost), max(lost), None, None)
        for name in PROXIES:
            worth = [one.proxies[name] for one in pool]
            chosen = np.argsort(worth)[::-1][:kept]
            best = min(chosen, key=lambda place: ends[place])
            tau = kendalltau(-np.array(worth), ends).statistic
            spent = np.mean([one.seconds[name] for one in pool])
            record.add(f"proxy {name}", 100 * kept / len(pool), behind(pool, best), behind(pool, best), tau, spent)
        weights = f"{options.pool} networks, {len(data.fit)} samples to train on, {len(data.judge)} to judge by"
        record.say(f"{weights}; {ORDERS} orders and draws of the pool. Seconds: of processor time, for one network.")


if __name__ == "__main__":
    main()
