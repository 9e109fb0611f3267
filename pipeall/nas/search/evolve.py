"""The genetic search of paper 003: a population of ten, elitism, proportional parents, unconditional replacement.

``search`` is algorithm 1 as a whole: generations, then layer-wise competition and single flips (``competition.py``). It
is a function of its seed and of the scores: neither the number of workers nor any interruption changes its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite
from typing import Any, Literal

import numpy as np

from ...errors import ArgumentError
from ..spaces.genome import LEVELS, STATES, Candidate, Hyper, Space, hyper_of
from . import markov, pareto
from .archive import Archive, BudgetSpent, Member
from .bayesian import guided_loop
from .local_search import flip_loop, level_sweep
from .operators import allowed, breed, proportional, selection_weights

SCREENED = 4  # times the networks of a first generation: so many are drawn for a proxy to choose from

CHOICES = {"selection": ("fitness", "pareto"), "stop": ("generations", "predicted"), "compete": ("end", "each")}
Phase = Literal["evolution", "guided", "competition", "flips"]


@dataclass(frozen=True)
class Settings:
    """How to search. The defaults are the paper's (table I).

    population      candidates of a generation (N)
    generations     at most, without the first
    elite           the best that are copied unchanged
    crossover_rate, mutation_rate  for all candidates; None: each candidate's genes say it
    selection       "fitness": parents in proportion to 1 / (epsilon + fitness), children replace all but the elite
                    whatever their fitness; "pareto": NSGA-II on error, seconds a frame and bytes
    stop            "generations"; "predicted": also where the Markov chain, started from the first generation, says
                    that in 95 % of all searches selection and drift have fixed every bit
    sever           bits that end as zeros in this share of all searches, or more, by the Markov chain, are zeros in all
                    children of a generation (section I of the paper); None: none
    levels          what the hyperparameter genes stand for
    evolve_hyper    False: children have the hyperparameters of the first parent
    compete         "end": layer-wise competition follows evolution; "each": the best of every generation goes through
                    it too, and takes the place of the worst where it became better
    guided          after evolution a model of the fitness proposes networks (``bayesian``), until so many in a row are
                    no better; 0, as in the paper: none. Not for a Pareto front
    """

    population: int = 10
    generations: int = 10
    elite: int = 1
    crossover_rate: float | None = None
    mutation_rate: float | None = None
    selection: Literal["fitness", "pareto"] = "fitness"
    epsilon: float = 1e-3
    stop: Literal["generations", "predicted"] = "generations"
    sever: float | None = None
    levels: Hyper = LEVELS
    evolve_hyper: bool = True
    compete: Literal["end", "each"] = "end"
    guided: int = 20

    def __post_init__(self) -> None:
        if not 2 <= self.population <= markov.MAX_SIZE or not 0 <= self.elite < self.population or self.generations < 0:
            raise ArgumentError(
                f"search: expected 2 to {markov.MAX_SIZE} candidates, fewer of them elite, and generations; "
                f"got {self.population}, {self.elite} and {self.generations}"
            )
        for name in ("crossover_rate", "mutation_rate", "sever"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate <= 1:
                raise ArgumentError(f"{name}: expected 0 to 1, got {rate}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ArgumentError(f"{name}: expected {' or '.join(choices)}, got {getattr(self, name)!r}")
        if self.guided < 0:
            raise ArgumentError(f"guided: expected 0 or more, got {self.guided}")
        if not self.epsilon > 0:
            raise ArgumentError(f"epsilon: expected a number above 0, got {self.epsilon}")


@dataclass(frozen=True)
class Generation:
    """A population; for a phase other than evolution, the members that came out of it.

    number       from 0; the phases behind evolution count on, and so do later rounds
    evaluations  that the whole search has made by then
    """

    number: int
    members: tuple[Member, ...]
    evaluations: int
    epsilon: float
    phase: Phase = "evolution"

    @property
    def best(self) -> Member:
        return min(self.members, key=lambda member: member.order)

    @property
    def mean(self) -> float:
        """Mean fitness of the members that have one; inf where none has."""
        finite = [member.score.fitness for member in self.members if isfinite(member.score.fitness)]
        return float(np.mean(finite)) if finite else inf

    @property
    def diversity(self) -> float:
        """The expected fraction of bits that differ between two members; 0 where all are equal."""
        ones, size = self._bits.sum(0), len(self._bits)
        return float(np.mean(2 * ones * (size - ones)) / max(1, size * (size - 1)))

    @cached_property
    def predicted(self) -> markov.FixationTime:
        """Generations, counted from the first, by which every bit is fixed if nothing mutates."""
        ones, ratio = _states(self.members, self.epsilon)
        ahead = markov.predict_generations(len(ones), ones, size=len(self.members), ratio=ratio)
        return markov.FixationTime(self.number + ahead.expected, self.number + ahead.by)

    @cached_property
    def _bits(self) -> np.ndarray:
        return np.array([member.candidate.bits for member in self.members])

    def record(self) -> dict[str, Any]:
        """The generation as a line of the history, ready for JSON."""
        best = self.best
        return {
            "phase": self.phase,
            "evaluations": self.evaluations,
            "best": best.candidate.code,
            "fitness": best.score.record()["fitness"],
            "mean": self.mean if isfinite(self.mean) else None,
            "diversity": self.diversity,
            "predicted": self.predicted.by,
            "members": [member.candidate.code for member in self.members],
        }


def _states(members: Sequence[Member], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the Markov chain of each bit: how many members have it, and f1 / f0, the ratio of two mean selection weights,
    of members with the bit and of those without."""
    bits, size = np.array([member.candidate.bits for member in members]), len(members)
    weights = selection_weights([member.score.fitness for member in members], epsilon)
    ones, total = bits.sum(0), weights @ bits
    open_loci = (ones > 0) & (ones < size)
    with_bit = total / np.maximum(ones, 1)
    without = (weights.sum() - total) / np.maximum(size - ones, 1)
    floor = weights.max() * 1e-6  # all members of one side may have weight 0
    return ones, np.where(open_loci, np.maximum(with_bit, floor) / np.maximum(without, floor), 1.0)


def severed(members: Sequence[Member], epsilon: float, share: float) -> np.ndarray:
    """(loci,): whether a bit ends as zeros in at least this share of all searches that begin with these members, by
    the Markov chain without mutation."""
    size = len(members)
    ends = [markov.fixation(markov.matrix(size, ratio))[n] for n, ratio in zip(*_states(members, epsilon), strict=True)]
    return 1 - np.array(ends) >= share


def first_candidates(
    space: Space,
    count: int,
    random: np.random.Generator,
    hyper: Sequence[tuple[int, ...]] = (),
    worth: Callable[[Candidate], float] | None = None,
    known: Sequence[tuple[int, ...]] = (),
    allows: Callable[[Candidate], bool] = lambda candidate: True,
) -> list[Candidate]:
    """Random networks: one for each of the given hyperparameters, or ``count`` of any.

    worth  where given, the networks of the most worth among ``SCREENED`` times as many
    known  bits of networks that come first, as many as there is room for
    allows  networks that it refuses are drawn again, or left out of the known ones (``operators.allowed``)
    """
    hyper = hyper or [hyper_of(int(state)) for state in random.integers(0, STATES, count)]
    known = [bits for bits in known if allows(Candidate(bits, hyper[0]))]
    first = [Candidate(bits, levels) for bits, levels in zip(known, hyper, strict=False)]
    hyper = hyper[len(first) :]

    def drawn(levels: tuple[int, ...]) -> Candidate:
        return allowed(lambda: Candidate(space.random(random), levels), allows)

    if worth is None:
        return first + [drawn(levels) for levels in hyper]
    screened = [drawn(levels) for _ in range(SCREENED) for levels in hyper]
    return first + sorted(screened, key=worth, reverse=True)[: len(hyper)]


def search(
    archive: Archive,
    settings: Settings,
    hyper: Sequence[tuple[int, ...]] = (),
    instances: int = 10,
    threshold: float = 0.0,
    worth: Callable[[Candidate], float] | None = None,
    known: Sequence[tuple[int, ...]] = (),
) -> Iterator[Generation]:
    """Evolution, then what a model of the fitness proposes (``settings.guided``), layer-wise competition and single
    flips of the best; the winner is ``archive.best``.

    With a budget in the archive the search goes on in rounds until that is spent. With the model of the fitness, later
    rounds start from the best of all. Without it every member of the last generation goes through the flips, as in
    algorithm 1, and the next round starts with new networks. A search for a Pareto front (``archive.front``) is
    evolution alone. The search also ends after a round that evaluated nothing new, and where none of the first networks
    is within the archive's limits.

    hyper      levels of the first candidates; none: any
    instances  variants of a level in the competition
    threshold  the search ends as soon as a fitness is below it
    worth, known  see ``first_candidates``
    """
    random = np.random.default_rng(archive.seed)
    number, evaluations, first, ends = 0, -1, [], []
    try:
        while evaluations < len(archive.members):
            evaluations = len(archive.members)
            if ends and settings.guided:
                ends = [archive.best]
            else:
                first = first or first_candidates(
                    archive.space, settings.population, random, hyper, worth, known, archive.allows
                )
                if not any(map(archive.allows, first)):
                    yield _note(archive, number, archive.score(first), settings)
                    return
                for generation in evolve(archive, settings, random, first, number, instances):
                    yield generation
                    number = generation.number + 1
                    if archive.best.score.fitness < threshold:
                        return
                if settings.selection == "pareto":
                    first = [member.candidate for member in generation.members]
                    if archive.budget is None:
                        return
                    continue
                first, ends = [], sorted(set(generation.members), key=lambda member: member.order)
            for generation in _local_search(archive, settings, random, ends, number, instances, threshold):
                yield generation
                number = generation.number + 1
            if archive.budget is None or archive.best.score.fitness < threshold:
                return
    except BudgetSpent:
        return


def _local_search(
    archive: Archive,
    settings: Settings,
    random: np.random.Generator,
    ends: Sequence[Member],
    number: int,
    instances: int,
    threshold: float,
) -> Iterator[Generation]:
    """What follows evolution, from the members ``ends`` on, best first: the phases guided, competition and flips."""
    best, *others = ends
    if settings.guided:
        best, others = guided_loop(archive, best, settings.guided, random, threshold, settings.evolve_hyper), []
        yield _note(archive, number, [best], settings, "guided")
        number += 1
    best = level_sweep(archive, best, instances, random, settings.evolve_hyper)
    yield _note(archive, number, [best], settings, "competition")
    starts = [best, *others] if archive.budget else [best]
    members = [flip_loop(archive, start, threshold, settings.evolve_hyper) for start in starts]
    yield _note(archive, number + 1, members, settings, "flips")


def evolve(
    archive: Archive,
    settings: Settings,
    random: np.random.Generator,
    first: Sequence[Candidate],
    start: int = 0,
    instances: int = 10,
) -> Iterator[Generation]:
    """Generations of evolution, numbered from ``start`` on. Raises BudgetSpent where the budget ends first."""
    step = next_pareto if settings.selection == "pareto" else next_generation
    members = archive.score(first)
    number, end = start, start + settings.generations
    while True:
        generation = _note(archive, number, members, settings)
        yield generation
        if number == start and settings.stop == "predicted":
            end = min(end, generation.predicted.by)
        if number >= end:
            return
        members = step(archive, members, settings, random)
        if settings.compete == "each":
            members = _competed(archive, members, settings, random, instances)
        number += 1


def _competed(
    archive: Archive, members: Sequence[Member], settings: Settings, random: np.random.Generator, instances: int
) -> list[Member]:
    """The members with what layer-wise competition makes of the best in place of the worst, if it is better."""
    ranked = sorted(members, key=lambda member: member.order)
    best = level_sweep(archive, ranked[0], instances, random, settings.evolve_hyper)
    return [*ranked[:-1], best] if best != ranked[0] else list(members)


def _note(
    archive: Archive, number: int, members: Sequence[Member], settings: Settings, phase: Phase = "evolution"
) -> Generation:
    generation = Generation(number, tuple(members), len(archive.members), settings.epsilon, phase)
    if archive.history:
        archive.history.add_generation(number, generation.record())
    return generation


def next_generation(
    archive: Archive, members: Sequence[Member], settings: Settings, random: np.random.Generator
) -> list[Member]:
    """The elite, then children, whatever the fitness of these."""
    weights = selection_weights([member.score.fitness for member in members], settings.epsilon)
    pairs = proportional(weights, 2 * (len(members) - settings.elite), random).reshape(-1, 2)
    elite = sorted(members, key=lambda member: member.order)[: settings.elite]
    return elite + _children(archive, members, pairs, settings, random)


def next_pareto(
    archive: Archive, members: Sequence[Member], settings: Settings, random: np.random.Generator
) -> list[Member]:
    """NSGA-II: parents by tournaments of two and as many children; the best of both by front and crowding stay."""
    place = np.argsort(pareto.order(pareto.objectives([member.score for member in members])))
    rivals = random.integers(0, len(members), (2 * len(members), 2))
    winners = np.where(place[rivals[:, 0]] <= place[rivals[:, 1]], rivals[:, 0], rivals[:, 1]).reshape(-1, 2)
    both = [*members, *_children(archive, members, winners, settings, random)]
    unlike = list({member.candidate: member for member in both}.values())
    chosen = pareto.order(pareto.objectives([member.score for member in unlike]))
    return [unlike[i] for i in np.resize(chosen, len(members))]


def _children(
    archive: Archive, members: Sequence[Member], pairs: np.ndarray, settings: Settings, random: np.random.Generator
) -> list[Member]:
    gone = None if settings.sever is None else severed(members, settings.epsilon, settings.sever)

    def child(first: Candidate, second: Candidate) -> Candidate:
        rates = settings.crossover_rate, settings.mutation_rate
        bred = breed(first, second, random, *rates, settings.levels, settings.evolve_hyper)
        return bred if gone is None else replace(bred, bits=tuple(np.where(gone, 0, bred.bits).tolist()))

    parents = [(members[i].candidate, members[j].candidate) for i, j in pairs]
    children = [allowed(lambda pair=pair: child(*pair), archive.allows) for pair in parents]
    return archive.score(children, [first for first, _ in parents])
