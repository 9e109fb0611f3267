"""Pruning by the Markov chain: which bits it gives up, and that children lack them."""

import itertools

import numpy as np
import pytest
from nas_landscapes import BitSpace, Landscape, TableEvaluate

from pipeall import ArgumentError
from pipeall.nas.search.archive import Archive, Member
from pipeall.nas.search.evolve import Settings, evolve, first_candidates, severed
from pipeall.nas.spaces.genome import Candidate
from pipeall.nas.training.score import Score


def members_of(columns, fitness):
    """Members with these bits, a row for each bit."""
    bits = np.array(columns).T
    return [Member(Candidate(tuple(map(int, row))), Score(f, f)) for row, f in zip(bits, fitness, strict=True)]


def test_bits_that_the_chain_gives_up():
    """All are as fit: a bit of n members ends in none of ten with probability 1 - n / 10."""
    columns = [np.arange(10) < n for n in range(11)]
    for share in (0.05, 0.35, 0.65, 0.95):
        expected = [1 - n / 10 >= share for n in range(11)]
        assert severed(members_of(columns, [0.5] * 10), 1e-3, share).tolist() == expected


def test_bits_that_selection_keeps_or_drops():
    """Published: 15 of 31 that are worth 1.1 of the others take over with probability 0.945780."""
    have = np.arange(31) < 15
    members = members_of([have, ~have], np.where(have, 1 / 1.1, 1) - 1e-3)
    assert severed(members, 1e-3, 0.9457).tolist() == [False, True]
    assert severed(members, 1e-3, 0.9458).tolist() == [False, False]
    assert severed(members, 1e-3, 0.0542).tolist() == [True, True]


def test_severed_bits_are_zeros_in_the_children():
    space, table = BitSpace(10), Landscape(10, 1, 3).table()
    for share, expected in ((0.8, True), (None, False)):
        options = Settings(generations=6, mutation_rate=0.3, evolve_hyper=False, sever=share)
        archive = Archive(space, TableEvaluate(table), 1)
        first = first_candidates(space, 10, np.random.default_rng(1), [(1,) * 5] * 10)
        found = list(evolve(archive, options, np.random.default_rng(1), first))
        zeros = []
        for before, after in itertools.pairwise(found):
            gone = severed(before.members, options.epsilon, 0.8)
            zeros += [not any(np.array(child.candidate.bits)[gone]) for child in after.members[options.elite :]]
        assert all(zeros) == expected
    with pytest.raises(ArgumentError, match="sever: expected 0 to 1, got 1.5"):
        Settings(sever=1.5)
