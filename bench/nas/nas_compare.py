"""Architecture search on scikit-learn's digits: pipeall's and four others', with equally many trained candidates.

All of them see the same genomes (31 bits of a tree of blocks and five hyperparameters of three levels), start with
the same kind of random networks, and share one cache, in which every network is trained once: a result is the fitness
(eq. 3) of the best of ``--budget`` different candidates. Optuna and pymoo are needed here only.

    python -m bench.nas.nas_compare --cache digits.json          # the first time it trains
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu

from bench.common import Record, parser
from pipeall.files import write_whole
from pipeall.nas.search.archive import Archive, BudgetSpent
from pipeall.nas.search.evolve import Settings, first_candidates, search
from pipeall.nas.spaces import genome
from pipeall.nas.spaces.genome import HYPER_GENES, HYPER_LEVELS, TRAINING_GENES, Candidate, Space, hyper_levels
from pipeall.nas.spaces.tree_space import TreeSpace
from pipeall.nas.training.evaluation import Training
from pipeall.nas.training.score import Score

LEVELS = genome.LEVELS._replace(cycles=(2, 5, 15))  # quick to train
ASKED = 20  # times the budget that a method may propose, known candidates included, before it has to end


class Cached:
    """Trains a network once, with a seed that depends on it alone; keeps scores in a file."""

    def __init__(self, training: Training, path: Path):
        self.training, self.path, self.fresh = training, path, 0
        self.known = json.loads(path.read_text()) if path.exists() else {}
        self.archive = Archive(training.space, training)  # gives networks their seeds

    def __call__(self, candidate: Candidate, seed: int, parent: Candidate | None = None) -> Score:
        key = repr((self.training.space.decode(candidate.bits), candidate.hyper[:TRAINING_GENES]))
        if key not in self.known:
            self.known[key] = self.archive.score([candidate])[0].score.record()
            self.fresh += 1
            if self.fresh % 100 == 0:
                self.save()
        return Score.from_record(self.known[key])

    def save(self) -> None:
        write_whole(self.path, lambda file: file.write(json.dumps(self.known).encode()))


def ours(archive: Archive) -> None:
    for _ in search(archive, Settings(generations=3)):
        pass


def without_model(archive: Archive) -> None:
    for _ in search(archive, Settings(generations=3, guided=0)):
        pass


def random_search(archive: Archive) -> None:
    random = np.random.default_rng(archive.seed)
    for _ in range(ASKED * archive.budget):
        archive.score(first_candidates(archive.space, 1, random))


def regularized_evolution(archive: Archive, population: int = 20, sample: int = 5) -> None:
    """Real et al. 2019: the best of a sample has a child with one change; the oldest dies."""
    random = np.random.default_rng(archive.seed)
    alive = deque(archive.score(first_candidates(archive.space, population, random)))
    for _ in range(ASKED * archive.budget):
        rivals = [alive[i] for i in random.choice(population, sample, replace=False)]
        parent = min(rivals, key=lambda member: member.order).candidate
        genes = list(parent.bits + parent.hyper[:TRAINING_GENES])
        locus = int(random.integers(len(genes)))
        choices = 2 if locus < len(parent.bits) else HYPER_LEVELS
        genes[locus] = (genes[locus] + int(random.integers(1, choices))) % choices
        alive.extend(archive.score([_candidate(genes, archive.space)]))
        alive.popleft()


def optuna_tpe(archive: Archive) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=archive.seed))
    choices = {f"bit{i}": (0, 1) for i in range(archive.space.loci)}
    choices |= {f"gene{i}": tuple(range(HYPER_LEVELS)) for i in range(TRAINING_GENES)}
    for first in first_candidates(archive.space, 10, np.random.default_rng(archive.seed)):
        study.enqueue_trial(dict(zip(choices, first.bits + first.hyper[:TRAINING_GENES], strict=True)))

    def objective(trial: optuna.Trial) -> float:
        genes = [trial.suggest_categorical(name, values) for name, values in choices.items()]
        return min(10.0, archive.score([_candidate(genes, archive.space)])[0].score.fitness)

    study.optimize(objective, n_trials=ASKED * archive.budget)


def pymoo_nsga2(archive: Archive, population: int = 10) -> None:
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.core.problem import Problem
    from pymoo.operators.crossover.pntx import SinglePointCrossover
    from pymoo.operators.mutation.bitflip import BitflipMutation
    from pymoo.optimize import minimize

    loci = archive.space.loci

    class Networks(Problem):
        """Bits of the tree, then two for each gene that training depends on."""

        def __init__(self) -> None:
            super().__init__(n_var=loci + 2 * TRAINING_GENES, n_obj=1, xl=0, xu=1, vtype=bool)

        def _evaluate(self, x: np.ndarray, out: dict, *args: object, **kwargs: object) -> None:
            rows = x.astype(int).tolist()
            genes = [(*row[:loci], *hyper_levels(row[loci:])) for row in rows]
            members = archive.score([_candidate(row, archive.space) for row in genes])
            out["F"] = np.array([[min(10.0, member.score.fitness)] for member in members])

    first = first_candidates(archive.space, population, np.random.default_rng(archive.seed))
    bits = [[*one.bits, *(bit for level in one.hyper[:TRAINING_GENES] for bit in divmod(level, 2))] for one in first]
    algorithm = NSGA2(
        pop_size=population,
        sampling=np.array(bits, bool),
        crossover=SinglePointCrossover(),
        mutation=BitflipMutation(),
        eliminate_duplicates=True,
    )
    minimize(Networks(), algorithm, ("n_gen", ASKED * archive.budget // population), seed=archive.seed)


def _candidate(genes: list[int] | tuple[int, ...], space: Space) -> Candidate:
    """From bits and the genes that training depends on."""
    hyper = tuple(map(int, genes[space.loci :])) + (1,) * (HYPER_GENES - TRAINING_GENES)
    return Candidate(tuple(map(int, genes[: space.loci])), hyper)


METHODS: dict[str, Callable[[Archive], None]] = {
    "pipeall": ours,
    "pipeall, no model": without_model,
    "random search": random_search,
    "Optuna TPE": optuna_tpe,
    "pymoo NSGA-II": pymoo_nsga2,
    "regularized evolution": regularized_evolution,
}


def run(method: Callable[[Archive], None], evaluate: Cached, budget: int, seed: int) -> Score:
    archive = Archive(evaluate.training.space, evaluate, seed, budget=budget)
    try:
        method(archive)
    except BudgetSpent:
        pass
    return archive.best.score


COLUMNS = ("method", "median F .5f", "best .5f", "worst .5f", "median error .5f", "p .2g", "against pipeall")


def add(record: Record, name: str, scores: list[Score], first: list[Score]) -> None:
    """p: of the two-sided Mann-Whitney test against the first."""
    fitness, others = ([score.fitness for score in found] for found in (scores, first))
    p = verdict = None
    if scores is not first:
        p = mannwhitneyu(others, fitness).pvalue
        better = np.mean(np.subtract.outer(others, fitness) < 0) + np.mean(np.equal.outer(others, fitness)) / 2
        verdict = "no difference" if p >= 0.05 else "worse" if better > 0.5 else "better"
    error = np.median([score.error for score in scores])
    record.add(name, np.median(fitness), min(fitness), max(fitness), error, p, verdict)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--cache", type=Path, required=True, help="JSON file of trained networks, made if absent")
    options.add_argument("--budget", type=int, default=80, help="different candidates that each method trains")
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--first-seed", type=int, default=0)
    options.add_argument("--samples", type=int, default=200, help="digits to train on; half as many judge")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, Record(options, *COLUMNS) as record:
        evaluate = Cached(Training(TreeSpace(), "digits", folder, options.samples, levels=LEVELS), options.cache)
        results: dict[str, list[Score]] = {name: [] for name in METHODS}
        begin = time.perf_counter()
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for name, method in METHODS.items():
                results[name].append(run(method, evaluate, options.budget, seed))
            evaluate.save()
            spent = time.perf_counter() - begin
            print(f"seed {seed}: {evaluate.fresh} networks trained, {spent:.0f} s", file=sys.stderr)
        for name, scores in results.items():
            add(record, name, scores, results["pipeall"])
        trained = f"{len(evaluate.known)} networks trained in all"
        record.say(f"{options.seeds} seeds, {options.budget} candidates each, {trained}")


if __name__ == "__main__":
    main()
