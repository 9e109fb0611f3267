"""What the genetic search of pipeall does on spaces that are known in full, and what its Markov chain predicts.

python bench/nas_genetics.py optimum --cache stages.json    # runs that find the best of 2^10 trained networks
python bench/nas_genetics.py landscapes --runs 120          # the same of NK landscapes, nothing is trained
python bench/nas_genetics.py sever --runs 200               # what dropping bits by the Markov chain saves and costs
python bench/nas_genetics.py drift                          # generations until every bit is fixed
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from common import Record, parser
from nas_compare import Cached, run
from nas_landscapes import BitSpace, Landscape, TableEvaluate

from pipeall.nas.archive import Archive
from pipeall.nas.evaluate import Training
from pipeall.nas.evolve import Settings, evolve, first_candidates, search
from pipeall.nas.genome import LEVELS, Candidate
from pipeall.nas.markov import predict_generations
from pipeall.nas.operators import crossover, proportional
from pipeall.nas.stages import StageSpace

MIDDLE = (1,) * 5
FIRST_SEED = 1000  # of the landscapes: the model was chosen on those from 0 and from 3000 on
QUICK = LEVELS._replace(learning_rate=(0.1, 0.3, 1.0), momentum=(0.45, 0.9, 0.9), cycles=(5, 15, 49))


OPTIMUM = "method", "best found [%] .0f", "runs", "evaluations", "by place"
LANDSCAPES = ("genomes", "K", "model", "best found [%] .0f", "runs")
SEVER = (
    "genomes", "K", "dropped at .2f", "left [%] .1f", "standard error .1f", "genomes evaluated .1f", "runs",
)  # fmt: skip
DRIFT = ("fitness", "crossover rate .1f", "generations .1f", "standard error .1f", "95 % within .0f")


def optimum(record: Record, runs: int, cache: Path) -> None:
    """Every genome of two stages on digits is trained; then searches look for the best within a tenth of them."""
    space = StageSpace((2, 3), widths=(2, 4, 6, 8))
    guided = Settings(generations=2, mutation_rate=1 / space.loci, crossover_rate=0.9, evolve_hyper=False)
    with tempfile.TemporaryDirectory() as folder:
        evaluate = Cached(Training(space, "digits", folder, 150, levels=QUICK), cache)
        genomes = [Candidate(bits, MIDDLE) for bits in itertools.product((0, 1), repeat=space.loci)]
        fitness = [evaluate(candidate, 0).fitness for candidate in genomes]
        evaluate.save()
        budget = len(genomes) // 10

        def ours(settings: Settings, archive: Archive) -> None:
            for _ in search(archive, settings, [MIDDLE] * settings.population, instances=4):
                pass

        def at_random(archive: Archive) -> None:
            random = np.random.default_rng(archive.seed)
            while True:
                archive.score(first_candidates(space, 1, random, [MIDDLE]))

        ranks = np.sort(sorted(set(fitness)))
        record.say(f"{len(genomes)} genomes, {len(ranks)} fitnesses, {min(fitness):.5f} to {max(fitness):.5f}")
        methods = {"pipeall": partial(ours, guided), "pipeall, no model": partial(ours, replace(guided, guided=0))}
        for name, method in (methods | {"random search": at_random}).items():
            found = [run(method, evaluate, budget, seed).fitness for seed in range(runs)]
            places = np.searchsorted(ranks, found) + 1
            record.add(name, 100 * np.mean(places == 1), runs, budget, " ".join(map(str, np.bincount(places)[1:])))


def landscapes(record: Record, runs: int) -> None:
    """Searches of as many NK landscapes for their best genome, within a tenth of the evaluations of all."""
    for loci, neighbours in ((10, 0), (10, 1), (10, 2), (12, 1), (12, 2), (15, 2)):
        space, budget = BitSpace(loci), 2**loci // 10
        for guided in (Settings.guided, 0):
            options = Settings(
                generations=2, crossover_rate=0.9, mutation_rate=1 / loci, evolve_hyper=False, guided=guided
            )
            found = 0
            for seed in range(FIRST_SEED, FIRST_SEED + runs):
                table = Landscape(loci, neighbours, seed).table()
                archive = Archive(space, TableEvaluate(table), seed, budget=budget)
                found_it = np.nextafter(table.min(), np.inf)
                for _ in search(archive, options, [MIDDLE] * options.population, instances=4, threshold=found_it):
                    pass
                found += archive.best.score.fitness == table.min()
            record.add(2**loci, neighbours, "yes" if guided else "no", 100 * found / runs, runs)


def sever(record: Record, runs: int) -> None:
    """Ten generations on NK landscapes, and whether bits are dropped that the chain gives up."""
    for loci, neighbours in ((10, 0), (10, 2), (15, 2)):
        for share in (None, 0.95, 0.8):
            options = Settings(crossover_rate=0.9, mutation_rate=1 / loci, evolve_hyper=False, sever=share)
            ends, counts = [], []
            for seed in range(runs):
                table = Landscape(loci, neighbours, seed).table()
                archive, random = Archive(BitSpace(loci), TableEvaluate(table), seed), np.random.default_rng(seed)
                first = first_candidates(archive.space, options.population, random, [MIDDLE] * options.population)
                for _ in evolve(archive, options, random, first):
                    pass
                ends.append((archive.best.score.fitness - table.min()) / (np.median(table) - table.min()))
                counts.append(len(archive.members))
            error = 100 * np.std(ends) / runs**0.5
            record.add(2**loci, neighbours, share, 100 * np.mean(ends), error, np.mean(counts), runs)
    record.say("left: how far the best is from the optimum, in shares of the distance of the median genome")


def drift(record: Record, runs: int) -> None:
    """Ten genomes of 31 bits under proportional selection and crossover, nothing mutates; flat and sloped fitness."""
    loci, size = 31, 10
    for name, ratio in (("all genomes equally fit", 1.0), ("a one is worth 2 %", 1.02)):
        chain = predict_generations(loci, size=size, ratio=ratio)
        record.add(f"{name}: the chain", None, chain.expected, None, chain.by)
        for rate in (0.0, 0.5, 1.0):
            ends = [_fixed(np.random.default_rng(seed), loci, size, ratio, rate) for seed in range(runs)]
            deviation, most = np.std(ends) / runs**0.5, np.quantile(ends, 0.95)
            record.add(name, rate, np.mean(ends), deviation, most)


def _fixed(random: np.random.Generator, loci: int, size: int, ratio: float, rate: float) -> int:
    """The generation in which all genomes are the same."""
    population = [tuple(map(int, random.integers(0, 2, loci))) for _ in range(size)]
    generation = 0
    while len(set(population)) > 1:
        weights = np.array([ratio ** sum(bits) for bits in population])
        pairs = proportional(weights, 2 * size, random).reshape(size, 2)
        population = [crossover(population[i], population[j], rate, random) for i, j in pairs]
        generation += 1
    return generation


def main() -> None:
    options = parser(__doc__)
    options.add_argument("what", choices=("optimum", "landscapes", "sever", "drift"))
    options.add_argument("--cache", type=Path, help="optimum: JSON file of trained networks, made if absent")
    options.add_argument("--runs", type=int, help="40 of optimum, landscapes and sever, 200 of drift")
    given = options.parse_args()
    if given.what == "optimum" and given.cache is None:
        options.error("optimum needs --cache")
    what, columns, keys, runs = {
        "optimum": (partial(optimum, cache=given.cache), OPTIMUM, 1, 40),
        "landscapes": (landscapes, LANDSCAPES, 3, 40),
        "sever": (sever, SEVER, 3, 40),
        "drift": (drift, DRIFT, 2, 200),
    }[given.what]
    with Record(given, *columns, part=given.what, keys=keys) as record:
        what(record, given.runs or runs)


if __name__ == "__main__":
    main()
