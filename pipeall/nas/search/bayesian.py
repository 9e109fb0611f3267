"""A model of the fitness says which network to train next, where paper 003's flips try one after the other.

The model is a Gaussian process over genomes: two that differ in d bits and e training genes are correlated by
rho^d GENE^e, so that single bits, pairs, triples and so on count less and less (the diffusion kernel of Oh et al.,
"Combinatorial Bayesian optimization using the graph Cartesian product", 2019). It is fitted to the ranks of the
fitness, because training that fails is far off all else. Some ascents of the expected improvement then look for a
network; the most promising one that they meet is trained next.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from operator import attrgetter
from statistics import NormalDist

import numpy as np

from ..spaces.genome import HYPER_LEVELS, TRAINING_GENES, Candidate
from .archive import Archive, Member

GENE = 0.25  # correlation of networks trained with another level of one gene
CORRELATIONS = (0.94, 0.82, 0.54, 0.0)  # rho: the likeliest is used
NOISES = (0.01, 0.1, 0.3)  # variance of training, in variances of the process: the likeliest is used
GROWTH = 1.1  # when there are so many times as many members, both are chosen anew
LARGEST = 500  # members, the best ones, that the model is fitted to: its time grows with their third power
STARTS = 8  # ascents of the expected improvement: half from the best networks, half from anywhere
FLAT = 1e-9  # less is no way up: by rounding alone an ascent could go in a circle

_normal = NormalDist()
_order = attrgetter("order")


def guided_loop(
    archive: Archive,
    best: Member,
    patience: int,
    random: np.random.Generator,
    threshold: float = 0.0,
    hyper: bool = True,
) -> Member:
    """The best member after scoring what the model proposes, one network at a time, until ``patience`` in a row failed.

    Ends as soon as the fitness is below ``threshold``.

    hyper  training genes change as well; False: all have the genes of ``best``
    """
    shape: Kernel | None = None
    failed, shaped = 0, 0
    while failed < patience and best.score.fitness >= threshold:
        usable = sorted((member for member in archive.members if np.isfinite(member.score.fitness)), key=_order)
        if not usable:
            return best
        usable = usable[:LARGEST]
        genomes = np.array([_genome(member.candidate) for member in usable])
        scores = _normal_scores(np.array([member.score.fitness for member in usable]))
        if shape is None or len(usable) > GROWTH * shaped:
            shape, shaped = _likeliest(genomes, scores), len(usable)
        model = GaussianProcess(genomes, scores, shape)
        starts = [*genomes[: STARTS // 2].copy()]
        starts += [_anywhere(archive, random) for _ in range(STARTS - len(starts))]
        if not hyper:
            for start in starts:
                start[archive.space.loci :] = best.candidate.hyper[:TRAINING_GENES]
        candidate = _proposal(archive, model, starts, best.candidate.hyper, hyper)
        if candidate is None:
            return best
        (member,) = archive.score([candidate], [best.candidate])
        failed = 0 if member.order < best.order else failed + 1
        best = min(best, member, key=_order)
    return best


def _proposal(
    archive: Archive, model: GaussianProcess, starts: list[np.ndarray], breeding: tuple[int, ...], hyper: bool
) -> Candidate | None:
    """The most promising network that is allowed and was not scored yet, among those that ascents pass; None: they pass
    none."""
    best: tuple[float, Candidate] | None = None
    for at in starts:
        while True:
            near = _neighbours(at, archive.space.loci, hyper)
            promise = model.improvement(near)
            for i in np.argsort(-promise):
                if best and promise[i] <= best[0]:
                    break
                bits, genes = np.split(near[i], [archive.space.loci])
                candidate = Candidate(tuple(map(int, bits)), (*map(int, genes), *breeding[TRAINING_GENES:]))
                if not archive.knows(candidate) and archive.allows(candidate):
                    best = promise[i], candidate
                    break
            if promise.max() <= promise[0] + FLAT:
                break
            at = near[promise.argmax()]
    return best and best[1]


@dataclass(frozen=True)
class Kernel:
    """What shapes a process: correlation of two genomes that differ in one bit, and variance of the noise."""

    correlation: float
    noise: float

    def covariance(self, genomes: np.ndarray, others: np.ndarray) -> np.ndarray:
        """(genomes, others): covariance without noise."""
        bits, genes = np.split(genomes, [-TRAINING_GENES], 1)
        other_bits, other_genes = np.split(others, [-TRAINING_GENES], 1)
        balance = (2 * bits - 1) @ (2 * other_bits - 1).T  # bits that agree, less those that differ
        bits_apart = (bits.shape[1] - balance) // 2
        genes_apart = sum(genes[:, [i]] != other_genes[:, i] for i in range(TRAINING_GENES))
        return self.correlation**bits_apart * GENE**genes_apart


class GaussianProcess:
    """The process given what was scored: its mean and deviation at other genomes, by a Cholesky factor.

    The prior's mean and variance are the likeliest ones.
    """

    def __init__(self, genomes: np.ndarray, scores: np.ndarray, shape: Kernel):
        self._genomes, self._shape = genomes, shape
        covariance = shape.covariance(genomes, genomes)
        factor = np.linalg.cholesky(covariance + shape.noise * np.eye(len(scores)))
        self._inverse = np.linalg.inv(factor)
        ones, scaled = self._inverse.sum(1), self._inverse @ scores
        self.mean = ones @ scaled / (ones @ ones)
        rest = scaled - self.mean * ones
        self._weights = self._inverse.T @ rest
        self.variance = max(rest @ rest / len(scores), 1e-12)
        self.likelihood = -len(scores) / 2 * log(self.variance) - np.log(np.diag(factor)).sum()
        self._least = (self.mean + covariance @ self._weights).min()

    def improvement(self, genomes: np.ndarray) -> np.ndarray:
        """(genomes,): how far each is expected to come below the least mean among the scored genomes."""
        covariance = self._shape.covariance(genomes, self._genomes)
        left = 1 - ((covariance @ self._inverse.T) ** 2).sum(1)
        deviation = np.sqrt(self.variance * np.maximum(left, 1e-12))
        ahead = (self._least - self.mean - covariance @ self._weights) / deviation
        return deviation * np.array([x * _normal.cdf(x) + _normal.pdf(x) for x in ahead])


def _likeliest(genomes: np.ndarray, scores: np.ndarray) -> Kernel:
    shapes = [Kernel(correlation, noise) for correlation in CORRELATIONS for noise in NOISES]
    return max(shapes, key=lambda shape: GaussianProcess(genomes, scores, shape).likelihood)


def _normal_scores(fitness: np.ndarray) -> np.ndarray:
    """The ranks of the fitness as values of a normal distribution; equal ones stay equal."""
    _, place, counts = np.unique(fitness, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    return np.array([_normal.inv_cdf(x / len(fitness)) for x in middle])[place]


def _genome(candidate: Candidate) -> tuple[int, ...]:
    return candidate.bits + candidate.hyper[:TRAINING_GENES]


def _anywhere(archive: Archive, random: np.random.Generator) -> np.ndarray:
    return np.array([*archive.space.random(random), *random.integers(0, HYPER_LEVELS, TRAINING_GENES)])


def _neighbours(at: np.ndarray, loci: int, hyper: bool) -> np.ndarray:
    """(rows, genes): the genome itself, then every genome that differs from it in one bit or one gene."""
    steps = [(locus, 1, 2) for locus in range(loci)]
    if hyper:
        genes = range(loci, len(at))
        steps += [(gene, step, HYPER_LEVELS) for gene in genes for step in range(1, HYPER_LEVELS)]
    near = np.repeat(at[None], len(steps) + 1, 0)
    for row, (place, step, levels) in enumerate(steps, 1):
        near[row, place] = (at[place] + step) % levels
    return near
