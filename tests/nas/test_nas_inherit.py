"""Children that try the weights of several trained networks: the best set is kept, and what an archive offers."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from commands import document, invoke
from nas_nets import TREE

from pipeall import ArgumentError
from pipeall.nas.search.archive import Archive
from pipeall.nas.spaces.genome import LEVELS, Candidate
from pipeall.nas.training.evaluation import Training
from pipeall.nas.training.fitness import error
from pipeall.nas.training.score import Score
from pipeall.nas.training.training_loop import predict
from pipeall.nas.training.weighted_network import create

pytest.importorskip("torch", reason="needs pipeall[nas]")

CHILD = Candidate((1, 1, 1, 1, 0, 1, 1))
PARENTS = [Candidate((1,) * 7, (rate, 2, 1, 1, 1)) for rate in range(3)]  # of other rates, so trained to other errors


@pytest.fixture
def training(tmp_path):
    levels = LEVELS._replace(learning_rate=(1e-6, 1e-3, 3e-2), cycles=(3, 3, 3))
    training = Training(replace(TREE, neurons=8), "digits", str(tmp_path), samples=100, levels=levels, inherit=3)
    for parent in PARENTS:
        training(parent, 5)
    return training


def test_a_child_is_trained_from_the_set_that_judges_best(training):
    """By hand: a network of each set, judged before any training."""
    data, found = training.load(), []
    for parent in PARENTS:
        network = create(training.space.decode(CHILD.bits), data, 6, training.result(parent))
        found.append(error(data, predict(network, data.validation.x), data.validation.y))
    best = int(np.argmin(found))
    assert best == 2 and len(set(found)) == 3
    alone = replace(training, inherit=1)
    wanted = alone(CHILD, 6, PARENTS[2])
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        parent, *others = (PARENTS[place] for place in order)
        assert training(CHILD, 6, parent, others=others) == wanted
    assert wanted not in (alone(CHILD, 6, PARENTS[0]), alone(CHILD, 6, PARENTS[1]))


def test_so_many_sets_are_tried_and_no_more(training):
    parent, *others = PARENTS
    scores = [replace(training, inherit=sets)(CHILD, 6, parent, others=others) for sets in range(4)]
    assert scores[0] == training(CHILD, 6)  # new weights, as without a parent
    assert scores[1] == training(CHILD, 6, parent)
    assert scores[2] == training(CHILD, 6, parent, others=others[:1])
    assert scores[3] == training(CHILD, 6, parent, others=others)
    assert len(set(scores)) == 4


def told(candidate, seed, parent=None, earlier=(), others=()):
    """Fitness: the number of the bits; that of 3 diverged. ``error`` tells what it was told, as digits."""
    number = int("".join(map(str, candidate.bits)), 2)
    numbers = [int("".join(map(str, other.bits)), 2) for other in others]
    return Score(inf if number == 3 else number, float(sum(100**place * n for place, n in enumerate(numbers, 1))))


class Bits:
    """A space in which every genome is another network."""

    loci, levels = 7, ()

    def decode(self, bits):
        return bits


def candidates(*numbers):
    return [Candidate(tuple(map(int, f"{number:07b}"))) for number in numbers]


@pytest.mark.parametrize("wave", [None, 2])
def test_an_archive_offers_the_best_beside_the_parent(wave):
    """Never the parent twice, nothing that diverged; nobody whose evaluation is not complete; any workers."""
    with ThreadPoolExecutor(3) as pool:
        for executor in (None, pool):
            archive = Archive(Bits(), told, executor=executor, wave=wave, others=2)
            first = archive.score(candidates(9, 3, 5, 7))
            assert all(member.score.error == 0 for member in first)  # no parent, no others
            five, nine = candidates(5, 9)
            children = archive.score(candidates(20, 21, 1), [five, nine, five])
            assert [member.score.error for member in children] == [90700, 70500, 90700]  # 7 and 9, 5 and 7
            assert archive.score(candidates(30), [five])[0].score.error == 70100  # 1 and 7


def test_the_command(tmp_path):
    space = "--space tree --depth 2 --neurons 8 --samples 60 --cycles 1,1,1 --lr 0.01,0.03,0.1"
    evolution = "--population 4 --generations 1 --guided 0 --instances 2 --budget 8 --start random"
    arguments = ("nas", "--data", "digits", *evolution.split(), "-o")
    found = [document(*arguments, tmp_path / f"{sets}", *f"{space} --inherit {sets}".split()) for sets in (0, 1, 3)]
    assert [one["search"]["training"]["inherit"] for one in found] == [0, 1, 3]
    assert len({one["generations"][-1]["mean"] for one in found}) == 3
    mobile = "--space mobile --supernet 1 --inherit 2"
    result = invoke(*arguments, tmp_path / "other", *mobile.split())
    assert result.exit_code == 2 and "expected no inherit" in result.stderr and result.stderr.count("\n") == 1
    with pytest.raises(ArgumentError, match="inherit: expected 0 or more"):
        Training(TREE, "digits", str(tmp_path), inherit=-1)
