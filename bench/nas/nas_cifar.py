"""Networks for CIFAR-10 on a Raspberry Pi 5, by its model: searches of a space for equally long, and the best networks
of pipeall's beside networks like MobileNet v2 and ResNet-20 of the same predicted FPS.

    python -m bench.nas.nas_cifar cifar10.npz --folder runs --minutes 20 --seeds 3 --finish 30

Every search has ``--minutes`` of processor time. The networks beside the found ones are narrowed or widened until the
model predicts the FPS of the found one, and trained as that one is, from new weights, for ``--finish`` passes over all
training pictures. An interrupted bench goes on with the same command: what the folder has is not trained again.
``--finish 0`` trains none: the searches alone.

Whole trainings, halved, of networks that begin with known ones:

    python -m bench.nas.nas_cifar cifar10.npz --folder long --methods "pipeall, halving" --samples 8000 --cycles 30 \\
        --minutes 65 --seeds 2 --min-fps 800 --presets --inherit 0 --finish 50

Of the modern space, tested on pictures that no search and no training saw:

    python -m bench.nas.nas_cifar cifar10.npz --folder modern --space modern --bfloat16 --held-out 5000 \\
        --methods "pipeall, halving" "random search" "Optuna TPE + ASHA" --samples 4800 --cycles 15 --minutes 60 \\
        --seeds 2 --min-fps 800 --presets --inherit 0 --no-short --finish 30 --trainings 3
"""

from __future__ import annotations

import json
import time
from argparse import BooleanOptionalAction, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from bench.common import Record, parser
from pipeall.nas.datasets import DataSet
from pipeall.nas.placement import Limits, Placed, Target, place
from pipeall.nas.search.archive import Archive, BudgetSpent
from pipeall.nas.search.evolve import Settings, first_candidates, search
from pipeall.nas.spaces.genome import LEVELS as DEFAULTS
from pipeall.nas.spaces.genome import Architecture, Candidate
from pipeall.nas.spaces.mobile_space import MobileSpace, mobilenet_v2, resnet20
from pipeall.nas.spaces.modern_space import ModernSpace
from pipeall.nas.training.augment import TrainingRecipe
from pipeall.nas.training.evaluation import Training
from pipeall.nas.training.fitness import Fitness, accuracy, error
from pipeall.nas.training.halving import Halving
from pipeall.nas.training.score import Score
from pipeall.nas.training.training_loop import calibrated, predict, train
from pipeall.nas.training.weighted_network import create, to_graph

HYPER = (1, 2, 1, 1, 1)  # all candidates are trained alike: 0.05, momentum 0.9
LEVELS = DEFAULTS._replace(learning_rate=(0.02, 0.05, 0.1))
FACTOR = 3  # of successive halving
BISECTIONS = 12
WIDTHS = (0.05, 4.0)  # of the networks beside
SPACES = {"mobile": MobileSpace, "modern": ModernSpace}


@dataclass(frozen=True)
class Known:
    """A candidate that a search evaluated, and the seconds of processor time that it took."""

    candidate: Candidate
    score: Score
    seconds: float


class Clock:
    """An evaluation (``score.Evaluate``) of one search that ends it when its time is over; keeps what it did in a file.

    Where it goes on after an interruption the recorded times count. ``known_bits``: of the networks that searches
    begin with.
    """

    def __init__(self, training: Training, path: Path, seconds: float, presets: bool):
        self.training, self.path, self.left = training, path, seconds
        bits = training.space.presets if presets else ()
        self.known_bits = [each for each in bits if training.allows(Candidate(each, HYPER))]
        lines = path.read_text().splitlines() if path.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("}")]
        self.known = {entry["candidate"]: (Score.from_record(entry["score"]), entry["seconds"]) for entry in entries}
        self.done: list[Known] = []

    def __call__(
        self, candidate: Candidate, seed: int, parent: Candidate | None = None, earlier: Sequence[Score] = ()
    ) -> Score:
        return self.timed(candidate, lambda: self.training(candidate, seed, parent, earlier))

    def timed(self, candidate: Candidate, evaluate: Callable[[], Score]) -> Score:
        if self.left <= 0:
            raise BudgetSpent("the time is over")
        if candidate.code not in self.known:
            begin = time.process_time()
            score = evaluate()
            self.known[candidate.code] = score, time.process_time() - begin
            entry = {"candidate": candidate.code, "score": score.record(), "seconds": self.known[candidate.code][1]}
            with self.path.open("a") as file:
                file.write(json.dumps(entry) + "\n")
        score, seconds = self.known[candidate.code]
        self.left -= seconds
        self.done.append(Known(candidate, score, seconds))
        return score

    @property
    def best(self) -> Known:
        """Of those whose training was not ended early."""
        whole = [known for known in self.done if known.score.passes == known.score.cycles]
        return min(whole, key=lambda known: known.score.fitness)


# ---- searches ----


def genetic(clock: Clock, seed: int) -> None:
    """pipeall's, with halving where the training has it."""
    settings = Settings(
        crossover_rate=0.9, mutation_rate=1 / clock.training.space.loci, evolve_hyper=False, generations=2
    )
    halving = clock.training.halving
    wave, limits = halving and halving.factor, clock.training.allows
    archive = Archive(clock.training.space, clock, seed, budget=10**6, wave=wave, limits=limits)
    for _ in search(archive, settings, [HYPER] * settings.population, known=clock.known_bits):
        pass


def random_search(clock: Clock, seed: int) -> None:
    archive, random = Archive(clock.training.space, clock, seed), np.random.default_rng(seed)
    archive.score([Candidate(bits, HYPER) for bits in clock.known_bits])
    while True:
        archive.score(first_candidates(archive.space, 1, random, [HYPER]))


def optuna_asha(clock: Clock, seed: int) -> None:
    """TPE proposes, successive halving ends; pass by pass, as users of Optuna have it."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=FACTOR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed), pruner=pruner)
    for bits in clock.known_bits:
        study.enqueue_trial({f"bit{i}": bit for i, bit in enumerate(bits)})

    def objective(trial: optuna.Trial) -> float:
        bits = tuple(trial.suggest_categorical(f"bit{i}", (0, 1)) for i in range(clock.training.space.loci))
        candidate = Candidate(bits, HYPER)
        known = candidate.code in clock.known
        score = clock.timed(candidate, lambda: pass_by_pass(clock.training, candidate, seed, trial))
        if known:  # what it said of the passes when it was trained
            for passes, value in enumerate(score.rungs, 1):
                trial.report(value, passes)
                trial.should_prune()
        if score.passes < score.cycles:
            raise optuna.TrialPruned
        return min(10.0, score.fitness)

    study.optimize(objective, n_trials=10**6)


def pass_by_pass(training: Training, candidate: Candidate, seed: int, trial: object) -> Score:
    """As ``Training`` does it, but the trial says after each pass whether to go on."""
    data, hyper, errors = training.load(), candidate.hyperparameters(training.levels), []
    network = create(training.space.decode(candidate.bits), data, seed)
    placed = place(to_graph(network, data), training.target)
    if not placed.fits(training.target):
        return Score(np.inf, np.inf, network.parameters, cycles=0)

    def ends(passes: int, now: object) -> bool:
        errors.append(error(data, predict(calibrated(now, data.train.x), data.validation.x), data.validation.y))
        trial.report(errors[-1], passes)
        return trial.should_prune()

    final, losses = train(network, data.train, hyper, seed, training.recipe, ends)
    found = error(data, predict(calibrated(final, data.train.x), data.validation.x), data.validation.y)
    about = {"cycles": hyper.cycles, "passes": len(losses), "rungs": tuple(errors)}
    return Score(found, found, network.parameters, fps=placed.choice.prediction.fps, **about)


OURS = ("pipeall", "pipeall, halving")
METHODS: dict[str, tuple[Callable[[Clock, int], None], bool]] = {  # and whether the training halves by itself
    "pipeall": (genetic, False),
    "pipeall, halving": (genetic, True),
    "random search": (random_search, False),
    "Optuna TPE + ASHA": (optuna_asha, False),
}


def run(name: str, training: Training, options: Namespace, seed: int) -> Clock:
    method, halves = METHODS[name]
    folder = options.folder / f"{name.replace(' ', '-').replace(',', '')}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    own = replace(training, folder=str(folder), halving=Halving(FACTOR) if halves else None)
    clock = Clock(own, folder / "evaluations.jsonl", 60 * options.minutes, options.presets)
    try:
        method(clock, seed)
    except BudgetSpent:
        pass
    return clock


# ---- what was found, and what stands beside it ----


@dataclass(frozen=True)
class Finished:
    """Accuracies on the test samples of a network trained from new weights, once or more often.

    short   as candidates are trained
    tested  on all training pictures, for as many passes as was asked for
    """

    placed: Placed
    parameters: int
    short: list[float]
    tested: list[float]

    @property
    def cells(self) -> tuple[float, int, float | None, float | None]:
        """FPS as predicted, weights, means of the accuracies in percent, None where nothing was trained."""
        percent = (100 * mean(shares) if shares else None for shares in (self.short, self.tested))
        return self.placed.choice.prediction.fps, self.parameters, *percent


def finish(name: str, architecture: Architecture, training: Training, options: Namespace) -> Finished:
    few, data = training.load(), replace(training, samples=None).load()
    network = create(architecture, data, 0)
    seeds = range(options.trainings if options.finish else 0)
    shortly = seeds if options.short else ()
    short = [after(f"{name}, short", architecture, few, options.cycles, options, seed) for seed in shortly]
    tested = [after(name, architecture, data, options.finish, options, seed) for seed in seeds]
    return Finished(place(to_graph(network, data), training.target), network.parameters, short, tested)


def after(name: str, architecture: Architecture, data: DataSet, passes: int, options: Namespace, seed: int) -> float:
    """The accuracy after so many passes over the data; it is kept in the folder."""
    name = f"{name}, training {seed}" if seed else name
    path = options.folder / f"finished-{name.replace(' ', '-').replace(',', '')}.json"
    about = repr((architecture, passes))
    found = json.loads(path.read_text()) if path.exists() else {}
    if found.get("about") != about:
        hyper = Candidate((0,), HYPER).hyperparameters(LEVELS)._replace(cycles=passes)
        recipe = replace(RECIPE, bfloat16=options.bfloat16)
        trained = train(create(architecture, data, seed), data.train, hyper, seed, recipe)[0]
        trained = calibrated(trained, data.train.x)
        found = {"about": about, "tested": accuracy(data, predict(trained, data.test.x), data.test.y)}
        path.write_text(json.dumps(found))
    return found["tested"]


def each(name: str, tested: Sequence[float]) -> str:
    """Each accuracy, and the 95 % interval of their mean by Student's t."""
    percent = [100 * share for share in tested]
    shown = f"{name}, tested [%] after each training: {', '.join(f'{value:.1f}' for value in percent) or 'none'}"
    if len(percent) < 2:
        return shown
    half = STUDENT[min(len(percent), max(STUDENT))] * stdev(percent) / len(percent) ** 0.5
    return f"{shown}; mean {mean(percent):.1f} +- {half:.1f}"


def divided(path: Path, held_out: int, folder: Path) -> Path:
    """The data with so many pictures to test on: the last ones of those to train on join the others."""
    with np.load(path) as arrays:
        data = {name: arrays[name] for name in ("x_train", "y_train", "x_test", "y_test")}
    left = len(data["x_train"]) - max(0, held_out - len(data["x_test"]))
    for kind in "xy":
        whole = data[f"{kind}_train"]
        data[f"{kind}_train"], data[f"{kind}_test"] = whole[:left], np.concatenate([whole[left:], data[f"{kind}_test"]])
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(found := folder / f"{path.stem}-held-out-{held_out}.npz", **data)
    return found


STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}  # 97.5 % of Student's t, by how many there are
RECIPE = TrainingRecipe(batch=64, decay=5e-4, crop=4, flip=True)
LIKE = {"like MobileNet v2": mobilenet_v2, "like ResNet-20": resnet20}


def as_fast_as(fps: float, make: Callable[[float], Architecture], data: DataSet, target: Target) -> float:
    """The greatest width, by bisection, at which the model predicts at least so many FPS; else the least one."""
    low, high = WIDTHS
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        placed = place(to_graph(create(make(middle), data, 0), data), target)
        low, high = (middle, high) if placed.choice.prediction.fps >= fps else (low, middle)
    return low


COLUMNS = ("network", "networks tried", "of them ended early", "passes made [%] .0f", "judged error .4f",
           "rpi5, predicted [FPS] .0f", "weights", "after a short training [%] .1f", "tested [%] .1f")  # fmt: skip


def arguments() -> Namespace:
    options = parser(__doc__, "data")
    options.add_argument("--folder", type=Path, required=True, help="for what is trained; the bench goes on from it")
    options.add_argument("--minutes", type=float, default=20.0, help="of processor time for each search; %(default)s")
    options.add_argument("--seeds", type=int, default=3, help="of each search; %(default)s")
    options.add_argument("--samples", type=int, default=2000, help="to train candidates on; %(default)s")
    options.add_argument("--cycles", type=int, default=9, help="passes over these; %(default)s")
    options.add_argument(
        "--finish", type=int, default=30, help="passes of what is found, 0: none is trained; %(default)s"
    )
    options.add_argument(
        "--trainings", type=int, default=1, help="of what is found, each from other weights; %(default)s"
    )
    options.add_argument(
        "--inherit", type=int, default=1, help="networks whose weights a child of pipeall's tries; %(default)s"
    )
    options.add_argument("--min-fps", type=float, default=200.0, help="of every candidate; %(default)s")
    options.add_argument("--presets", action="store_true", help="searches begin with known networks of the space")
    options.add_argument(
        "--short", action=BooleanOptionalAction, default=True, help="train what is found as candidates"
    )
    options.add_argument("--space", choices=SPACES, default="mobile")
    options.add_argument("--bfloat16", action="store_true", help="trainings compute in bfloat16")
    options.add_argument("--held-out", type=int, default=0, help="pictures to test on; the data's own, or more")
    options.add_argument(
        "--beside", action=BooleanOptionalAction, default=True, help="train networks as fast as pipeall's"
    )
    options.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="all")
    options.add_argument("--widths", type=lambda text: tuple(map(int, text.split("/"))), default=(16, 24, 32, 48))
    return options.parse_args()


def main() -> None:
    options = arguments()
    target = Target("rpi5", limits=Limits(min_fps=options.min_fps))
    levels = LEVELS._replace(cycles=(options.cycles,) * 3)
    path = divided(options.data, options.held_out, options.folder) if options.held_out else options.data
    space, recipe = SPACES[options.space](widths=options.widths), replace(RECIPE, bfloat16=options.bfloat16)
    training = Training(space, str(path), "", options.samples, levels=levels, recipe=recipe,
                        fitness=Fitness(0.0, 0.0), target=target, inherit=options.inherit)  # fmt: skip
    data = replace(training, samples=None).load()
    with Record(options, *COLUMNS) as record:
        fps = {}
        for name in options.methods:
            clocks = [run(name, training, options, seed) for seed in range(options.seeds)]
            best = min((clock.best for clock in clocks), key=lambda known: known.score.fitness)
            done = [known.score for clock in clocks for known in clock.done if isfinite(known.score.error)]
            end = finish(name, training.space.decode(best.candidate.bits), training, options)
            ended = sum(score.passes < score.cycles for score in done)
            made = 100 * sum(score.passes for score in done) / max(1, sum(score.cycles for score in done))
            record.add(name, len(done), ended, made, best.score.error, *end.cells)
            of_seeds = ", ".join(f"{clock.best.score.error:.4f} ({clock.best.score.fps:.0f})" for clock in clocks)
            if options.trainings > 1:
                record.say(each(name, end.tested))
            record.say(f"{name}, judged error (FPS) of each seed's best: {of_seeds}; the best is {best.candidate.code}")
            fps[name] = end.placed.choice.prediction.fps
        ours = [name for name in options.methods if name in OURS and options.beside]
        for name, (like, make) in product(ours, LIKE.items()):
            width = as_fast_as(fps[name], make, data, target)
            end = finish(f"{like}, {name}", make(width), training, options)
            if options.trainings > 1:
                record.say(each(f"{like}, {name}", end.tested))
            record.add(f"{like}, width {width:.2f}, as fast as {name}", None, None, None, None, *end.cells)
        searched = f"{options.seeds} seeds, {options.minutes:g} minutes of processor time for each search"
        record.say(f"{searched}; candidates: {options.samples} pictures, {options.cycles} passes")
        record.say(
            f"finished: {len(data.train)} pictures, {options.finish} passes" if options.finish else "not finished"
        )
        record.say(f"limit: {options.min_fps:g} FPS at the bad end of the model's interval")
        error_of_share = 100 * 0.5 / len(data.test) ** 0.5
        record.say(f"Tested on {len(data.test):,} pictures: a standard error of at most {error_of_share:.1f} points.")


if __name__ == "__main__":
    main()
