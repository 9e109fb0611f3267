"""Layer-wise competition, and the last loop of paper 003's algorithm 1: local searches whose fitness never rises.

Both chromosomes compete. The hyperparameters that decide about training come first: while training fails, architectures
cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..spaces.genome import HYPER_LEVELS, TRAINING_GENES, Candidate
from .archive import Archive, Member


def level_sweep(
    archive: Archive, best: Member, instances: int, random: np.random.Generator, hyper: bool = True
) -> Member:
    """The best after a pass over the levels: at each, instances that differ from the best in that level only compete.

    A level is tried in full where it has no more combinations than ``instances``.

    hyper  the hyperparameters are the first level
    """
    if hyper:
        steps = _patterns(TRAINING_GENES, HYPER_LEVELS, instances, random)
        best = _least(archive, best, [_with_hyper(best.candidate, step) for step in steps])
    for level in archive.space.levels:
        flips = _patterns(len(level), 2, instances, random)
        best = _least(archive, best, [_flipped(best.candidate, level, flip) for flip in flips])
    return best


def flip_loop(archive: Archive, best: Member, threshold: float = 0.0, hyper: bool = True) -> Member:
    """The best after toggling one connection after the other, until no toggle lowers the fitness.

    Ends as soon as the fitness is below ``threshold``. A removed connection stays removed until a later round;
    algorithm 1 has only one round.

    hyper  every round begins with the other levels of each hyperparameter
    """
    steps = np.vstack([np.eye(TRAINING_GENES, dtype=int) * step for step in range(1, HYPER_LEVELS)])
    start = None
    while best != start:
        start = best
        for step in steps if hyper else ():
            best = _least(archive, best, [_with_hyper(best.candidate, step)])
        for locus in range(archive.space.loci):
            if best.score.fitness < threshold:
                return best
            best = _least(archive, best, [_flipped(best.candidate, [locus], [1])])
    return best


def _least(archive: Archive, best: Member, variants: Sequence[Candidate]) -> Member:
    variants = [variant for variant in variants if archive.allows(variant)]
    members = archive.score(variants, [best.candidate] * len(variants))
    return min([best, *members], key=lambda member: member.order)


def _flipped(candidate: Candidate, loci: Sequence[int], flips: Iterable[int]) -> Candidate:
    bits = list(candidate.bits)
    for locus, flip in zip(loci, flips, strict=True):
        bits[locus] ^= int(flip)
    return Candidate(tuple(bits), candidate.hyper)


def _with_hyper(candidate: Candidate, steps: Iterable[int]) -> Candidate:
    """The candidate with its training genes moved on by these steps; the first level follows the last."""
    levels = (int(level + step) % HYPER_LEVELS for level, step in zip(candidate.hyper, steps, strict=False))
    return Candidate(candidate.bits, (*levels, *candidate.hyper[TRAINING_GENES:]))


def _patterns(digits: int, base: int, count: int, random: np.random.Generator) -> np.ndarray:
    """(rows, digits): different rows, none all 0. All that there are, or up to ``count`` random ones."""
    if base**digits - 1 <= count:
        return np.arange(1, base**digits)[:, None] // base ** np.arange(digits) % base
    rows = random.integers(0, base, (count, digits))
    rows[np.arange(count), random.integers(0, digits, count)] = random.integers(1, base, count)
    return np.unique(rows, axis=0)
