"""A model of the fitness says which network to train next: what paper 003's flips try one after the other, it expects.

The fitness is taken to be a sum over the bits of a genome, pairs of bits and training genes, the rest to be noise:
Bayesian linear regression on all that was evaluated, of which one function is drawn at a time (Thompson sampling, as
Baptista and Poloczek, "Bayesian optimization of combinatorial structures", 2018).
"""

from __future__ import annotations

import numpy as np

from .archive import Archive, Member
from .genome import HYPER_LEVELS, TRAINING_GENES, Candidate

NOISE = 0.1  # variance of what the model leaves unexplained, in variances of the fitness: prior of single bits is 1
STARTS = 8  # descents of the drawn function: half from the best networks, half from anywhere


def guided_loop(
    archive: Archive, best: Member, patience: int, random: np.random.Generator, threshold: float = 0.0
) -> Member:
    """Scores what the model expects to be best, one network at a time, until ``patience`` in a row were not better.

    All have the hyperparameters of ``best``. Ends as soon as the fitness is below ``threshold``.
    """
    failed = 0
    while failed < patience and best.score.fitness >= threshold:
        candidate = _proposal(archive, best, random)
        if candidate is None:
            return best
        (member,) = archive.score([candidate], [best.candidate])
        failed = 0 if member.order < best.order else failed + 1
        best = min(best, member, key=lambda member: member.order)
    return best


def _proposal(archive: Archive, best: Member, random: np.random.Generator) -> Candidate | None:
    """The network that was not scored yet with the least drawn fitness on some descents; None: they met none."""
    usable = [member for member in archive.members if np.isfinite(member.score.fitness)]
    if not usable:
        return None
    bits = np.array([member.candidate.bits for member in usable])
    genes = np.array([member.candidate.hyper[:TRAINING_GENES] for member in usable])
    weights = _drawn(
        _features(bits, genes), np.array([member.score.fitness for member in usable]), bits.shape[1], random
    )
    own = np.array(best.candidate.hyper[:TRAINING_GENES])
    ranked = sorted(range(len(usable)), key=lambda i: usable[i].order)[: STARTS // 2]
    starts = [*bits[ranked], *(np.array(archive.space.random(random)) for _ in range(STARTS - len(ranked)))]
    found: tuple[float, Candidate] | None = None
    flips = np.vstack([np.zeros(bits.shape[1], int), np.eye(bits.shape[1], dtype=int)])
    for at in starts:
        while True:
            near = at ^ flips
            values = _features(near, np.broadcast_to(own, (len(near), len(own)))) @ weights
            for i in np.argsort(values):
                if found and values[i] >= found[0]:
                    break
                candidate = Candidate(tuple(map(int, near[i])), best.candidate.hyper)
                if not archive.knows(candidate):
                    found = values[i], candidate
                    break
            if values.argmin() == 0:
                break
            at = near[values.argmin()]
    return found and found[1]


def _features(bits: np.ndarray, genes: np.ndarray) -> np.ndarray:
    """(rows, features): a constant, bits as -1 and 1, training genes from -1 to 1, products of two bits."""
    signs = 2.0 * bits - 1
    first, second = np.triu_indices(bits.shape[1], 1)
    return np.hstack(
        [np.ones((len(bits), 1)), signs, 2.0 * genes / (HYPER_LEVELS - 1) - 1, signs[:, first] * signs[:, second]]
    )


def _drawn(features: np.ndarray, fitness: np.ndarray, loci: int, random: np.random.Generator) -> np.ndarray:
    """Weights of a function drawn from the posterior."""
    scaled = (fitness - fitness.mean()) / (fitness.std() or 1.0)
    precision = np.full(features.shape[1], NOISE)
    precision[0] = 1e-6
    matrix = features.T @ features + np.diag(precision)
    lower = np.linalg.cholesky(matrix)
    mean = np.linalg.solve(matrix, features.T @ scaled)
    return mean + NOISE**0.5 * np.linalg.solve(lower.T, random.standard_normal(len(mean)))
