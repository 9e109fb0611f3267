"""What the genetic search of pipeall does on spaces that are known in full, and what its Markov chain predicts.

python bench/nas_genetics.py optimum --cache stages.json    # runs that find the best of 2^10 trained networks
python bench/nas_genetics.py landscapes --runs 120          # the same of NK landscapes, nothing is trained
python bench/nas_genetics.py drift                          # generations until every bit is fixed
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from nas_compare import Cached, run

from pipeall.nas.archive import Archive
from pipeall.nas.evaluate import Training
from pipeall.nas.evolve import Settings, first_candidates, search
from pipeall.nas.genome import LEVELS, Candidate
from pipeall.nas.markov import predict_generations
from pipeall.nas.operators import crossover, proportional
from pipeall.nas.stages import StageSpace

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from nas_landscapes import BitSpace, Landscape, TableEvaluate  # noqa: E402

MIDDLE = (1,) * 5
FIRST_SEED = 1000  # of the landscapes: the model was chosen on those from 0 and from 3000 on
QUICK = LEVELS._replace(learning_rate=(0.1, 0.3, 1.0), momentum=(0.45, 0.9, 0.9), cycles=(5, 15, 49))


def optimum(cache: Path, runs: int) -> None:
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

        print(f"{len(genomes)} genomes, {len(set(fitness))} fitnesses, {min(fitness):.5f} to {max(fitness):.5f}")
        ranks = np.sort(sorted(set(fitness)))
        methods = {"pipeall": partial(ours, guided), "pipeall, no model": partial(ours, replace(guided, guided=0))}
        for name, method in (methods | {"random search": at_random}).items():
            found = [run(method, evaluate, budget, seed).fitness for seed in range(runs)]
            places = np.searchsorted(ranks, found) + 1
            best, counts = np.mean(places == 1), np.bincount(places)[1:]
            print(f"{name}: the best in {best:.0%} of {runs} runs of {budget} evaluations; runs by place {counts}")


def landscapes(runs: int) -> None:
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
            how = "by default" if guided else "no model"
            print(f"2^{loci} genomes, K = {neighbours}, {how}: the best in {found / runs:.0%} of {runs}", flush=True)


def drift(runs: int) -> None:
    """Ten genomes of 31 bits under proportional selection and crossover, nothing mutates; flat and sloped fitness."""
    loci, size = 31, 10
    for name, ratio in (("all genomes equally fit", 1.0), ("a one is worth 2 %", 1.02)):
        chain = predict_generations(loci, size=size, ratio=ratio)
        print(f"{name}: the chain says {chain.expected:.1f} generations, 95 % within {chain.by}")
        for rate in (0.0, 0.5, 1.0):
            ends = [_fixed(np.random.default_rng(seed), loci, size, ratio, rate) for seed in range(runs)]
            deviation, most = np.std(ends) / runs**0.5, np.quantile(ends, 0.95)
            print(f"  crossover rate {rate}: {np.mean(ends):.1f} +- {deviation:.1f}, 95 % within {most:.0f}")


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("optimum", "landscapes", "drift"))
    parser.add_argument("--cache", type=Path, help="optimum: JSON file of trained networks, made if absent")
    parser.add_argument("--runs", type=int, help="40 of optimum and landscapes, 200 of drift")
    options = parser.parse_args()
    if options.what == "drift":
        drift(options.runs or 200)
    elif options.what == "landscapes":
        landscapes(options.runs or 40)
    elif options.cache is None:
        parser.error("optimum needs --cache")
    else:
        optimum(options.cache, options.runs or 40)


if __name__ == "__main__":
    main()
