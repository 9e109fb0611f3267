"""Spaces small enough to know the best of, evaluations that need no training, and how long a locus lives."""

import hashlib
import time
from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from pipeall.nas.search.archive import Archive
from pipeall.nas.search.evolve import Settings, search
from pipeall.nas.spaces.genome import Architecture, Block
from pipeall.nas.spaces.tree_space import TreeSpace
from pipeall.nas.training.score import Score

UNTIMED = hypothesis_settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class BitSpace:
    """Every genome is a network of its own; levels of up to four bits."""

    loci: int

    @property
    def levels(self):
        return tuple(tuple(range(i, min(i + 4, self.loci))) for i in range(0, self.loci, 4))

    def decode(self, bits):
        return Architecture("dense", tuple(Block(i, (0,), 1 + bit) for i, bit in enumerate(bits, 1)))

    def random(self, random):
        return tuple(int(bit) for bit in random.integers(0, 2, self.loci))


@dataclass(frozen=True)
class Landscape:
    """Kauffman's NK landscape: a bit's contribution depends on itself and ``neighbours`` others, drawn at random."""

    loci: int
    neighbours: int
    seed: int

    def table(self):
        """The fitness of every genome, by its number."""
        random = np.random.default_rng(self.seed)
        bits = (np.arange(2**self.loci)[:, None] >> np.arange(self.loci)[::-1]) & 1
        total = np.zeros(2**self.loci)
        for i in range(self.loci):
            others = random.choice([j for j in range(self.loci) if j != i], self.neighbours, replace=False)
            state = sum(bits[:, j] << place for place, j in enumerate([i, *others]))
            total += random.random(2 ** (self.neighbours + 1))[state]
        return 1 - total / self.loci


class TableEvaluate:
    """Looks a genome's fitness up."""

    def __init__(self, table):
        self.table = table

    def __call__(self, candidate, seed, parent=None):
        value = float(self.table[int("".join(map(str, candidate.bits)), 2)])
        return Score(value, value)


@dataclass(frozen=True)
class HashEvaluate:
    """A number that depends on everything an evaluation is given; it takes longer the greater it is."""

    seconds: float = 0.0

    def __call__(self, candidate, seed, parent=None):
        digest = hashlib.sha256(repr((candidate, seed, parent)).encode()).digest()
        value = int.from_bytes(digest[:4], "little") / 2**32
        time.sleep(self.seconds * value)
        return Score(value, value, weights=digest[4], max_weights=255)


def members_of_a_search(executor):
    """What a short search evaluates."""
    archive = Archive(TreeSpace(), HashEvaluate(0.01), 5, executor)
    assert len(list(search(archive, Settings(population=8, generations=3)))) == 7
    return archive.members


def absorption_time(chain: np.ndarray) -> np.ndarray:
    """Expected generations from each state until the locus is all zeros or all ones; of a chain without mutation."""
    inner = chain[1:-1, 1:-1]
    return np.pad(np.linalg.solve(np.eye(len(inner)) - inner, np.ones(len(inner))), 1)
