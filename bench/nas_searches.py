"""What successive halving saves and costs a whole search: a search that trains every network to the end beside ones of
the same seed that end trainings early, and how good the network is that each finds.

    python bench/nas_searches.py digits --folder runs --seeds 3 --finish 9

All may try the same number of networks. Fitness is the error alone. What is found is trained from new weights, on all
samples to train on, equally long and from three seeds; "tested" is their mean, "behind" is how far it is below that of
the search without halving. An interrupted bench goes on with the same command: what the folder has is not done again.
"""

from __future__ import annotations

import json
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import Record, parser

from pipeall.nas.archive import Archive
from pipeall.nas.evaluate import Training
from pipeall.nas.evolve import Settings, search
from pipeall.nas.fitness import Fitness, accuracy
from pipeall.nas.genome import LEVELS, Candidate
from pipeall.nas.halving import Halving
from pipeall.nas.mobile import MobileSpace
from pipeall.nas.network import create
from pipeall.nas.recipe import Recipe
from pipeall.nas.train import calibrated, predict, train

HYPER = (1, 2, 1, 1, 1)  # all candidates are trained alike: 0.05, momentum 0.9
RECIPE = Recipe(32, decay=5e-4)
WIDTHS = (4, 6, 8, 12)
FINISHED = 3  # trainings of what is found, each from its own new weights
WHOLE = "all are trained"
FACTOR = 3  # of halving


def searched(training: Training, seed: int, options: Namespace) -> dict[str, float]:
    """Networks, those ended early, passes and seconds of processor time of a search, and how its winner tests."""
    space, halving = training.space, training.halving
    settings = Settings(
        crossover_rate=0.9, mutation_rate=1 / space.loci, evolve_hyper=False, generations=options.generations
    )
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        evaluate = replace(training, folder=folder)
        archive = Archive(space, evaluate, seed, budget=options.budget, wave=halving and halving.factor)
        for _ in search(archive, settings, [HYPER] * settings.population):
            pass
    seconds = time.process_time() - begin
    scores = [member.score for member in archive.members]
    return {
        "networks": len(scores),
        "ended": sum(score.passes < score.cycles for score in scores),
        "passes": sum(score.passes for score in scores),
        "seconds": seconds,
        "tested": tested(training, archive.best.candidate, options.finish),
    }


def tested(training: Training, candidate: Candidate, passes: int) -> float:
    data = replace(training, samples=None).load()
    hyper = candidate.hyperparameters(training.levels)._replace(cycles=passes)
    found = []
    for seed in range(FINISHED):
        network = create(training.space.decode(candidate.bits), data, seed)
        network = calibrated(train(network, data.fit, hyper, seed, RECIPE)[0], data.fit.x)
        found.append(accuracy(data, predict(network, data.test.x), data.test.y))
    return float(np.mean(found))


def kept(name: str, training: Training, seed: int, options: Namespace) -> dict[str, float]:
    """``searched``, or what the folder has of it."""
    about = {"data": training.data, "cycles": options.cycles, "samples": options.samples, "budget": options.budget}
    about |= {"generations": options.generations, "finish": options.finish, "halving": repr(training.halving)}
    path = options.folder / f"{name}-{seed}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    if found.get("about") != about:
        found = {"about": about, **searched(training, seed, options)}
        path.write_text(json.dumps(found))
    return found


def row(found: dict[str, float], whole: dict[str, float]) -> list[float]:
    """The cells of a search beside the one without halving."""
    shares = (100 * found[name] / whole[name] for name in ("passes", "seconds"))
    behind = 100 * (whole["tested"] - found["tested"])
    return [found["networks"], found["ended"], *shares, 100 * found["tested"], behind]


COLUMNS = ("search", "seed", "networks .0f", "ended early .0f", "passes [%] .0f", "processor time [%] .0f",
           "tested [%] .2f", "behind [points] .2f")  # fmt: skip


def show(record: Record, title: str, rows: Sequence[Sequence[float]]) -> None:
    for seed, cells in enumerate(rows):
        record.add(title, str(seed), *cells)
    record.add(title, "mean", *np.mean(rows, axis=0))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", help="digits, or pictures of pipeall nas --data")
    options.add_argument("--folder", type=Path, required=True, help="for what is found; the bench goes on from it")
    options.add_argument("--seeds", type=int, default=3, help="of each search; %(default)s")
    options.add_argument("--budget", type=int, default=40, help="networks of a search; %(default)s")
    options.add_argument("--generations", type=int, default=2, help="then a model proposes; %(default)s")
    options.add_argument("--samples", type=int, default=320, help="to train candidates on; %(default)s")
    options.add_argument("--cycles", type=int, default=9, help="passes over these; %(default)s")
    options.add_argument("--finish", type=int, default=9, help="passes of what is found; %(default)s")
    options = options.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    levels = LEVELS._replace(learning_rate=(0.02, 0.05, 0.1), cycles=(options.cycles,) * 3)
    training = Training(MobileSpace(), options.data, "", options.samples, levels=levels, recipe=RECIPE,
                        fitness=Fitness(0.0, 0.0))  # fmt: skip
    data = training.load()
    training = replace(training, space=MobileSpace(2, WIDTHS, side=data.shape[1]))
    with Record(options, *COLUMNS) as record:
        whole = [kept("whole", training, seed, options) for seed in range(options.seeds)]
        show(record, WHOLE, [row(one, one) for one in whole])
        title, halved = f"halving={FACTOR}", replace(training, halving=Halving(FACTOR))
        found = [kept(title, halved, seed, options) for seed in range(options.seeds)]
        show(record, title, [row(*pair) for pair in zip(found, whole, strict=True)])
        every = replace(training, samples=None).load()
        record.say(f"candidates: {options.samples} samples, {options.cycles} passes")
        record.say(f"found ones: {len(every.fit)} samples, {options.finish} passes, mean of {FINISHED} trainings")
        record.say(f"tested on {len(every.test)} samples")


if __name__ == "__main__":
    main()
