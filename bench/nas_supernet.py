"""Whether the shared weights of a supernet rank networks as training each by itself does.

    python bench/nas_supernet.py cifar10.npz --halved --folder runs --pool 24

Random networks of the mobile space are judged with their part of the shared weights, after a pass or two of each by
itself from there on, and after as many from new weights. Each is trained by itself from new weights at length. Tau:
Kendall's, between both errors on the samples that judge; p of no relation; the interval holds 95 % of the taus of
10,000 pools that are drawn from this one with replacement. Beside it: tau of what costs nothing, the number of
parameters, and of the same training from other weights, which no ranking can be expected to exceed by much. An
interrupted bench goes on with the same command: what the folder has is not trained again.
"""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from common import Record, parser
from scipy.stats import kendalltau

from pipeall.files import write_whole
from pipeall.nas import network as networks
from pipeall.nas.data import DataSet, Samples, load
from pipeall.nas.fitness import accuracy, error
from pipeall.nas.genome import Architecture, Hyper
from pipeall.nas.mobile import MobileSpace
from pipeall.nas.network import WeightedNetwork, create
from pipeall.nas.recipe import Recipe
from pipeall.nas.supernet import Supernet, taken
from pipeall.nas.train import calibrated, predict, train

RECIPE = Recipe(32, decay=5e-4)
RATE, MOMENTUM = 0.05, 0.9
DRAWS = 10_000  # of the bootstrap


def halved(data: DataSet) -> DataSet:
    """Pictures of half the side: means of 2 x 2 pixels."""

    def small(samples: Samples) -> Samples:
        x = samples.x
        return Samples(x.reshape(*x.shape[:2], x.shape[2] // 2, 2, -1, 2).mean(axis=(3, 5)), samples.y)

    return replace(data, fit=small(data.fit), judge=small(data.judge), test=small(data.test))


def kept(path: Path, find: Callable[[], dict[str, float]]) -> dict[str, float]:
    """What is in the file, or what is found, with its seconds of processor time, and then in the file."""
    if not path.exists():
        begin = time.process_time()
        found = find() | {"seconds": time.process_time() - begin}
        write_whole(path, lambda file: file.write(json.dumps(found).encode()))
    return json.loads(path.read_text())


def judged(network: WeightedNetwork, data: DataSet) -> dict[str, float]:
    output = predict(network, data.judge.x)
    return {"error": error(data, output, data.judge.y), "accuracy": accuracy(data, output, data.judge.y)}


def alone(architecture: Architecture, data: DataSet, cycles: int, seed: int) -> dict[str, float]:
    network = create(architecture, data, seed)
    trained, _ = train(network, data.fit, Hyper(RATE, MOMENTUM, cycles, 0.0, 0.0), seed, RECIPE)
    return judged(calibrated(trained, data.fit.x), data)


def tuned(architecture: Architecture, data: DataSet, shared: WeightedNetwork, passes: int) -> dict[str, float]:
    return judged(Supernet(1, RATE, MOMENTUM, tune=passes).tuned(taken(architecture, shared), data.fit, RECIPE), data)


def shared_weights(space: MobileSpace, data: DataSet, options: Namespace) -> tuple[WeightedNetwork, float]:
    """The supernet, and the seconds that its training took."""
    path = options.folder / "supernet.npz"

    def find() -> dict[str, float]:
        networks.save(path, Supernet(options.passes, RATE, MOMENTUM).trained(space, data, RECIPE))
        return {}

    seconds = kept(options.folder / "supernet.json", find)["seconds"]
    return networks.load(path, data), seconds


def tau(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float, float]:
    """Kendall's tau, its p, and the bootstrap's interval."""
    x, y, random = np.array(first), np.array(second), np.random.default_rng(0)
    found = kendalltau(x, y)
    draws = [kendalltau(x[some], y[some]).statistic for some in random.integers(0, len(x), (DRAWS, len(x)))]
    return found.statistic, found.pvalue, *np.nanpercentile(draws, (2.5, 97.5))


COLUMNS = ("ranking by .2f", "tau .2f", "p .4f", "95 % from .2f", "to .2f", "tau of accuracy .2f", "seconds .0f")


def parsed() -> Namespace:
    options = parser(__doc__)
    options.add_argument("data", help="digits, or pictures of pipeall nas --data")
    options.add_argument("--folder", type=Path, required=True, help="for what is trained")
    options.add_argument("--halved", action="store_true", help="pictures of half the side")
    options.add_argument("--pool", type=int, default=24, help="networks; %(default)s")
    options.add_argument("--samples", type=int, default=2000, help="to train on; %(default)s")
    options.add_argument("--cycles", type=int, default=12, help="passes of a network alone; %(default)s")
    options.add_argument("--passes", type=int, default=20, help="of the shared weights; %(default)s")
    options.add_argument("--tune", type=int, default=2, help="passes from the shared weights on; up to %(default)s")
    options.add_argument("--again", type=int, default=24, help="networks trained from other weights too; %(default)s")
    return options.parse_args()


def main() -> None:
    options = parsed()
    options.folder.mkdir(parents=True, exist_ok=True)
    whole = load(options.data)
    whole = halved(whole) if options.halved else whole
    data = replace(whole.first(options.samples), judge=whole.judge)
    space = MobileSpace(2, (8, 12, 16, 24), side=data.shape[1])
    pool = [space.decode(space.random(np.random.default_rng(seed))) for seed in range(options.pool)]
    with Record(options, *COLUMNS) as record:
        shared, seconds = shared_weights(space, data, options)

        def each(kind: str, find: Callable[[Architecture], dict[str, float]], count: int) -> list[dict[str, float]]:
            some = enumerate(pool[:count])
            return [kept(options.folder / f"{kind}-{place}.json", partial(find, one)) for place, one in some]

        def by_itself(passes: int, seed: int = 0, count: int = options.pool) -> list[dict[str, float]]:
            return each(f"alone-{passes}-{seed}", lambda one: alone(one, data, passes, seed), count)

        first, again = by_itself(options.cycles), by_itself(options.cycles, 1, options.again)
        passes = range(options.tune + 1)
        ranked = [each(f"tuned-{n}", lambda one, n=n: tuned(one, data, shared, n), options.pool) for n in passes]
        short = [by_itself(n) for n in passes[1:]]
        size = [-create(one, data, 0).parameters for one in pool]

        def add(name: str, by: list[dict[str, float]], more: float = 0.0) -> None:
            seconds = more + sum(one["seconds"] for one in by) if "seconds" in by[0] else None
            both = [[[one[what] for one in some] for some in (by, first[: len(by)])] for what in ("error", "accuracy")]
            record.add(name, *tau(*both[0]), tau(*both[1])[0], seconds)

        for n, found in enumerate(ranked):
            add("shared weights" if n == 0 else f"shared weights, then passes of their own: {n}", found, seconds)
        for n, found in enumerate(short, 1):
            add(f"new weights, passes: {n}", found)
        add("parameters, most first", [{"error": n, "accuracy": -n} for n in size])
        if again:
            add("training again, from other weights", again)
        record.say(
            f"{len(pool)} networks, {len(data.fit)} samples of {data.shape} to train on, {len(data.judge)} judge."
        )
        accuracies = [one["accuracy"] for one in first]
        record.say(f"Alone: {options.cycles} passes, {min(accuracies):.3f} to {max(accuracies):.3f} right.")
        record.say(f"Seconds: of processor time. Training each alone took {sum(one['seconds'] for one in first):.0f}.")
        record.say(f"The shared weights had {options.passes} passes of four networks each, in {seconds:.0f} seconds.")


if __name__ == "__main__":
    main()
