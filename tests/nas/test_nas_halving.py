"""Successive halving: the rule against its definition, trainings that it ends, and that workers change nothing."""

import json
from concurrent.futures import ThreadPoolExecutor
from math import inf

import numpy as np
import pytest
from commands import document
from hypothesis import given
from hypothesis import strategies as st
from nas_landscapes import UNTIMED
from nas_nets import STAGES, TREE, blobs, random_network

from pipeall import ArgumentError
from pipeall.nas.search.archive import Archive
from pipeall.nas.spaces.genome import LEVELS, Candidate, Hyper
from pipeall.nas.spaces.mobile_space import MobileSpace
from pipeall.nas.training.evaluation import Training
from pipeall.nas.training.fitness import error
from pipeall.nas.training.halving import Halving
from pipeall.nas.training.score import Score
from pipeall.nas.training.training_loop import calibrated, predict, train
from pipeall.nas.training.weighted_network import create

torch = pytest.importorskip("torch", reason="needs pipeall[nas]")


def rung(*errors, cycles=9):
    return Score(errors[-1], errors[-1], cycles=cycles, rungs=errors)


@pytest.mark.parametrize(("cycles", "passes"), [(49, (6, 17)), (9, (1, 3)), (3, (1,)), (2, (1,)), (1, ())])
def test_rungs(cycles, passes):
    assert Halving(3).passes(cycles) == passes


@UNTIMED
@given(st.lists(st.integers(0, 20), max_size=30), st.integers(0, 20), st.integers(2, 4), st.integers(1, 6))
def test_the_best_share_goes_on(errors, own, factor, window):
    """Where none went on lately: a training does if fewer than 1 / factor of the last ones, itself included, are before
    it, or if they are too few."""
    halving = Halving(factor, 1, window)
    (bound,) = halving.bounds(9, [rung(error) for error in errors])
    last = errors[max(0, len(errors) - window * factor) :]
    share = (len(last) + 1) // factor
    assert (own <= bound) == (not share or sum(error < own for error in last) < share)


def streamed(halving, errors):
    """Which of these trainings of 9 passes go on behind the only rung, one after the other."""
    scores, passed = [], []
    for found in errors:
        (bound,) = halving.bounds(9, scores)
        passed.append(found <= bound)
        scores.append(Score(found, found, cycles=9, passes=9 if passed[-1] else 1, rungs=(found,)))
    return passed


@UNTIMED
@given(st.lists(st.integers(0, 20), min_size=13, max_size=40), st.integers(2, 4), st.integers(1, 6))
def test_no_more_go_on_than_one_in_factor(errors, factor, window):
    """Whatever their errors: of as many in a row as are compared, after the first ones, which none was before."""
    passed, last = streamed(Halving(factor, 1, window), errors), factor * window
    assert all(passed[: factor - 1])
    for end in range(factor + last, len(errors) + 1):
        assert sum(passed[end - last : end]) <= window


def test_a_search_that_becomes_better_and_better():
    """Each is the best so far, and only one in three goes on; each is the worst so far, and none does."""
    better, worse = (streamed(Halving(3, 1), [1 + sign * number / 100 for number in range(63)]) for sign in (-1, 1))
    assert sum(better[11:]) == 16 and sum(worse[2:]) == 0


def test_only_trainings_as_long_are_compared():
    others = [rung(0.1, cycles=30)] * 9 + [rung(0.5, 0.2), rung(0.6), rung(0.4, 0.3)]
    assert Halving(2).bounds(9, others) == (0.5, 0.2)
    assert Halving(3).bounds(9, others) == (0.4, 0.2)


@pytest.mark.parametrize("wrong", [(1, 2, 4), (3, 0, 4), (3, 2, 0)])
def test_rules_that_are_none(wrong):
    with pytest.raises(ArgumentError, match="halving: expected a factor from 2"):
        Halving(*wrong)


def test_records():
    score = Score(0.2, 0.2, cycles=9, passes=3, rungs=(inf, 0.3))
    assert Score.from_record(json.loads(json.dumps(score.record(), allow_nan=False))) == score
    assert Score.from_record({"fitness": 1.0, "error": None}) == Score(1.0, inf)  # of a history before there were rungs


# ---- training that ends ----


def test_an_ended_training_is_the_beginning_of_the_whole_one():
    data = blobs()
    network, hyper, seen = random_network(TREE, data), Hyper(0.1, 0.9, 6, 0, 0), []
    whole, losses = train(network, data.train, hyper, 1, ends=lambda passes, now: seen.append((passes, now)))
    assert [passes for passes, _ in seen] == [1, 2, 3, 4, 5]
    ended, first = train(network, data.train, hyper, 1, ends=lambda passes, now: passes == 4)
    assert first == losses[:4]
    for index, layer in ended.weights.items():
        assert all((a == b).all() for a, b in zip(layer, seen[3][1].weights[index], strict=True))
    assert any((ended.weights[index][0] != layer[0]).any() for index, layer in whole.weights.items())


def test_trainings_of_a_search_end_as_the_rule_says(tmp_path):
    """Replayed in the order of the archive; in waves of three the first ones know nothing."""
    levels = LEVELS._replace(learning_rate=(1e-3, 1e-2, 1e-1), cycles=(5, 9, 9))
    training = Training(STAGES, "digits", str(tmp_path), samples=80, levels=levels, halving=Halving(3))
    random = np.random.default_rng(0)
    candidates = [Candidate(STAGES.random(random), (int(random.integers(3)), 1, 1, 1, 1)) for _ in range(9)]
    archive = Archive(STAGES, training, wave=3)
    archive.score(candidates)
    scores = [member.score for member in archive.members]
    ended = 0
    for place, score in enumerate(scores):
        bounds = Halving(3).bounds(9, scores[: place // 3 * 3])
        over = [error > bound for error, bound in zip(score.rungs, bounds, strict=False)]
        assert not any(over[:-1])
        assert score.passes == ((1, 3)[len(over) - 1] if over[-1] else 9)
        ended += over[-1]
    assert ended and all(score.passes == 9 for score in scores[:3])


def test_batch_normalization_is_set_anew_before_a_network_is_judged(tmp_path):
    """The first convolution's mean and variance are those of its sums on the samples, at the end and in the file; rungs
    are judged so too, and running means would judge otherwise."""
    space = MobileSpace(1, (4, 4, 4, 4), side=8)
    levels = LEVELS._replace(learning_rate=(0.1,) * 3, cycles=(4, 4, 4))
    training = Training(space, "digits", str(tmp_path), samples=100, levels=levels, halving=Halving(2))
    candidate, data = Candidate((1,) * space.loci), training.load()
    score, found = training(candidate, 1), training.result(candidate)
    weight, _, _, mean, variance = found.weights[found.architecture.blocks[0].index]
    sums = torch.nn.functional.conv2d(torch.tensor(data.train.x).double(), torch.tensor(weight).double(), padding=1)
    np.testing.assert_allclose(mean, sums.mean((0, 2, 3)), atol=1e-5)
    np.testing.assert_allclose(variance, sums.var((0, 2, 3)), rtol=1e-4)
    assert score.error == error(data, predict(found, data.validation.x), data.validation.y)
    seen = []
    network = create(space.decode(candidate.bits), data, 1)
    train(network, data.train, candidate.hyperparameters(levels), 1, ends=lambda passes, now: seen.append(now))
    plain, anew = (
        [error(data, predict(how(now), data.validation.x), data.validation.y) for now in seen[:2]]
        for how in (lambda now: now, lambda now: calibrated(now, data.train.x))
    )
    assert score.rungs == tuple(anew) and not set(anew) & set(plain)


def test_waves_know_what_was_before_them_whoever_works(candidates=10):
    """Scores that count what they were told: one at a time, and by threads in any order."""

    def told(candidate, seed, parent=None, earlier=()):
        return Score(len(earlier) + sum(candidate.bits) / 100, 0.0)

    tried = [Candidate(tuple(map(int, np.binary_repr(code, TREE.loci)))) for code in (127, 126, 125, 124, 96, 64, 80)]
    alone = Archive(TREE, told, wave=3).score(tried)
    with ThreadPoolExecutor(3) as pool:
        assert Archive(TREE, told, executor=pool, wave=3).score(tried) == alone
    unlike = len({TREE.decode(candidate.bits) for candidate in tried})
    assert [int(member.score.fitness) for member in alone[:3]] == [0, 0, 0]
    assert max(int(member.score.fitness) for member in alone) == (unlike - 1) // 3 * 3


def test_the_command_ends_trainings_and_goes_on_to_the_same_end(tmp_path):
    options = "--space tree --depth 2 --neurons 8 --samples 100 --cycles 4,4,4 --lr 0.001,0.01,0.1"
    evolution = "--population 4 --generations 1 --guided 0 --instances 2 --budget 9 --start random --halving 2"
    arguments = ("nas", "--data", "digits", *options.split(), *evolution.split(), "-o", tmp_path)
    found = document(*arguments)
    lines = (tmp_path / "history.jsonl").read_bytes().splitlines(keepends=True)
    scores = [json.loads(line)["score"] for line in lines if b"score" in line]
    assert {score["cycles"] for score in scores} == {4} and {score["passes"] for score in scores} > {4}
    assert found["search"]["training"]["halving"] == {"factor": 2, "rungs": 2, "window": 4}
    (tmp_path / "history.jsonl").write_bytes(b"".join(lines[:5]))
    assert document(*arguments)["winner"] == found["winner"]
