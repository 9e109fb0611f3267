"""The genetic operators of paper 003, table I; each is a function of arrays, rates and a random generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..spaces.genome import LEVELS, Candidate, Hyper, hyper_bits, hyper_levels

DRAWS = 50  # of a network that is allowed, at most


def selection_weights(fitness: Sequence[float], epsilon: float) -> np.ndarray:
    """1 / (epsilon + fitness), because fitness is minimized. 0 where it is infinite; equal where all are infinite."""
    weights = 1 / (epsilon + np.asarray(fitness, float))
    return weights if weights.any() else np.ones(len(weights))


def proportional(weights: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Indices drawn with replacement, in proportion to their weights."""
    return random.choice(len(weights), count, p=weights / weights.sum())


def crossover(
    first: tuple[int, ...], second: tuple[int, ...], rate: float, random: np.random.Generator
) -> tuple[int, ...]:
    """The first with the second's bits from a random point on, with probability ``rate``; otherwise the first."""
    if len(first) < 2 or random.random() >= rate:
        return first
    point = int(random.integers(1, len(first)))
    return first[:point] + second[point:]


def invert(bits: tuple[int, ...], rate: float, random: np.random.Generator) -> tuple[int, ...]:
    """Binary inversion: each bit flips with probability ``rate``."""
    return tuple(int(bit) for bit in np.array(bits) ^ (random.random(len(bits)) < rate))


def breed(
    first: Candidate,
    second: Candidate,
    random: np.random.Generator,
    crossover_rate: float | None = None,
    mutation_rate: float | None = None,
    levels: Hyper = LEVELS,
    evolve_hyper: bool = True,
) -> Candidate:
    """A child of two candidates; each chromosome is crossed and mutated by itself.

    Where a rate is not given the genes say it: the first parent's crossover rate, the child's own mutation rate.
    Unless ``evolve_hyper``, the hyperparameters are the first parent's.
    """
    rate = first.hyperparameters(levels).crossover_rate if crossover_rate is None else crossover_rate
    bits = crossover(first.bits, second.bits, rate, random)
    hyper = hyper_bits(first.hyper)
    if evolve_hyper:
        hyper = crossover(hyper, hyper_bits(second.hyper), rate, random)
    genes = Candidate(bits, hyper_levels(hyper)).hyperparameters(levels)
    rate = genes.mutation_rate if mutation_rate is None else mutation_rate
    bits = invert(bits, rate, random)
    if evolve_hyper:
        hyper = invert(hyper, rate, random)
    return Candidate(bits, hyper_levels(hyper))


def allowed(draw: Callable[[], Candidate], allows: Callable[[Candidate], bool]) -> Candidate:
    """The first candidate drawn that is allowed; the last of ``DRAWS`` where none is."""
    for _ in range(DRAWS):
        candidate = draw()
        if allows(candidate):
            break
    return candidate
