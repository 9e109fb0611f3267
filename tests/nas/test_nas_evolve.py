"""The genetic search: operators, elitism, Pareto ranking, workers, local searches."""

import itertools
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nas_landscapes import UNTIMED, BitSpace, HashEvaluate, Landscape, TableEvaluate, absorption_time

from pipeall import ArgumentError
from pipeall.nas.search import bayesian, markov, pareto
from pipeall.nas.search.archive import Archive, BudgetSpent, Member
from pipeall.nas.search.bayesian import guided_loop
from pipeall.nas.search.evolve import Generation, Settings, evolve, first_candidates, search
from pipeall.nas.search.local_search import flip_loop, level_sweep
from pipeall.nas.search.operators import breed, crossover, invert, proportional, selection_weights
from pipeall.nas.spaces.conv_space import ConvSpace
from pipeall.nas.spaces.genome import Candidate
from pipeall.nas.spaces.tree_space import TreeSpace
from pipeall.nas.training.score import Score

seeds = st.integers(0, 2**32 - 1)
SMALL = Settings(population=6, generations=5)
FIRST = [Candidate(tuple(int(b) for b in f"{n:012b}")) for n in (5, 77, 1029, 2222, 3000, 4000)]


def test_proportional_choice():
    """Weights 1, 2 and 5 of 8: each count within three standard errors."""
    found = np.bincount(proportional(np.array([1.0, 2.0, 0.0, 5.0]), 8000, np.random.default_rng(0)), minlength=4)
    expected = np.array([1, 2, 0, 5]) / 8
    assert (abs(found / 8000 - expected) <= 3 * (expected * (1 - expected) / 8000) ** 0.5).all()


def test_selection_weights():
    np.testing.assert_allclose(selection_weights([0.1, 0.4, inf], 0.1), [5, 2, 0])
    np.testing.assert_array_equal(selection_weights([inf, inf], 0.1), [1, 1])


@UNTIMED
@given(st.integers(2, 40), seeds)
def test_crossover_has_one_cut(length, seed):
    child = crossover((0,) * length, (1,) * length, 1.0, np.random.default_rng(seed))
    assert child == tuple(sorted(child)) and 0 < sum(child) < length
    assert crossover((0,) * length, (1,) * length, 0.0, np.random.default_rng(seed)) == (0,) * length


def test_every_cut_is_as_likely():
    random = np.random.default_rng(0)
    cuts = np.bincount([sum(crossover((0,) * 5, (1,) * 5, 0.5, random)) for _ in range(8000)], minlength=6)
    expected = np.array([1 / 2, 1 / 8, 1 / 8, 1 / 8, 1 / 8, 0])  # none in half of all
    assert (abs(cuts / 8000 - expected) <= 3 * (expected * (1 - expected) / 8000) ** 0.5).all()


def test_inversion_rate():
    flipped = np.array(invert((0, 1) * 5000, 0.03, np.random.default_rng(0))) ^ np.tile([0, 1], 5000)
    assert abs(flipped.mean() - 0.03) < 3 * (0.03 * 0.97 / 10_000) ** 0.5
    assert invert((0, 1), 0.0, np.random.default_rng(0)) == (0, 1)
    assert invert((0, 1), 1.0, np.random.default_rng(0)) == (1, 0)


def test_the_genes_set_the_rates():
    """Levels 0 of both rates: a child is its first parent; level 2 of the crossover rate: never."""
    first, still = Candidate((0,) * 31, (0, 0, 0, 0, 0)), Candidate((1,) * 31, (2, 2, 2, 0, 0))
    random = np.random.default_rng(0)
    children = [breed(first, still, random) for _ in range(200)]
    assert sum(child == first for child in children) >= 198  # the rate is 0.001
    eager = Candidate((0,) * 31, (0, 0, 0, 0, 2))
    assert all(sum(breed(eager, still, random).bits) > 0 for _ in range(50))
    assert breed(first, still, random, 1.0, 0.5, evolve_hyper=False).hyper == first.hyper


@settings(UNTIMED, max_examples=20)
@given(seeds)
def test_elitism_never_loses_the_best(seed):
    archive = Archive(TreeSpace(), HashEvaluate(), seed)
    random = np.random.default_rng(seed)
    first = first_candidates(archive.space, 6, random)
    best = [generation.best.order for generation in evolve(archive, SMALL, random, first)]
    assert best == sorted(best, reverse=True) and best[-1][0] == archive.best.score.fitness


def test_replacement_is_unconditional():
    """Without mutation and crossover, children are copies, and the worse ones replace better ones by chance."""
    archive = Archive(BitSpace(8), TableEvaluate(np.linspace(0.1, 0.9, 256)))
    options = Settings(population=10, generations=1, mutation_rate=0, crossover_rate=0, elite=2, evolve_hyper=False)
    random = np.random.default_rng(0)
    first, after = evolve(archive, options, random, first_candidates(archive.space, 10, random, [(1,) * 5] * 10))
    assert list(after.members[:2]) == sorted(first.members, key=lambda member: member.order)[:2]
    assert set(after.members) < set(first.members) and max(m.score.fitness for m in after.members) > first.mean


def test_generation_numbers():
    members = [Member(Candidate(bits), Score(f, f)) for bits, f in (((0, 0), 0.5), ((0, 1), 0.25), ((0, 1), inf))]
    generation = Generation(3, tuple(members), 3, 1e-3)
    assert generation.best is members[1] and generation.mean == 0.375
    assert generation.diversity == pytest.approx((0 + 2 / 3) / 2)  # of three pairs two differ, in the second bit
    ratio = (1 / 0.251 / 2) / (1 / 0.501)  # weights: one has it with weight 1 / 0.251, one with 0
    chain = absorption_time(markov.matrix(3, ratio))
    assert generation.predicted.expected == pytest.approx(3 + chain[2], abs=1e-6)


def test_the_best_of_each_generation_competes():
    """It leaves no better variant in the level that it swept last; without competition such variants are left."""
    landscape = TableEvaluate(Landscape(12, 2, 0).table())

    def bests(compete):
        archive = Archive(BitSpace(12), landscape, 1)
        options = Settings(population=6, generations=4, compete=compete, evolve_hyper=False)
        return [generation.best for generation in evolve(archive, options, np.random.default_rng(1), FIRST, 0, 15)]

    def better(member, level):
        bits = np.array(member.candidate.bits)
        for values in itertools.product((0, 1), repeat=len(level)):
            bits[list(level)] = values
            if landscape(Candidate(tuple(bits.tolist()), member.candidate.hyper), 0).fitness < member.score.fitness:
                return True
        return False

    *_, last = BitSpace(12).levels
    swept, plain = bests("each")[1:], bests("end")[1:]
    assert not any(better(member, last) for member in swept)
    assert any(better(member, last) for member in plain)
    assert all(a.order <= b.order for b, a in itertools.pairwise(swept))


@pytest.mark.parametrize("selection", ["fitness", "pareto"])
def test_worker_counts_give_the_same_search(tmp_path, selection):
    """Also what is handed to an evaluation: its seed and its parent."""
    options = Settings(population=8, generations=4, selection=selection)

    def run(executor):
        archive = Archive(TreeSpace(), HashEvaluate(0.01), 5, executor)
        return [generation.record() for generation in search(archive, options)], archive.members

    alone = run(None)
    for workers in (1, 2, 4):
        with ProcessPoolExecutor(workers) as executor:
            assert run(executor) == alone
    with ThreadPoolExecutor(3) as executor:
        assert run(executor) == alone
    assert run(None) == alone and len(alone[1]) > 20


def test_equal_networks_are_trained_once():
    """Mirrored trees, and genes that only say how to breed; the parent is what was trained in the other's place."""
    calls = []

    def evaluate(candidate, seed, parent=None):
        calls.append((candidate, seed, parent))
        return Score(0.5, 0.5)

    archive = Archive(TreeSpace(2), evaluate, 1)
    left, right = Candidate((1, 1, 0)), Candidate((1, 0, 1), (1, 1, 1, 0, 2))
    other = Candidate((1, 1, 1))
    found = archive.score([left, right, left])
    assert [member.candidate for member in found] == [left, right, left] and [c[0] for c in calls] == [left]
    archive.score([other], [right])
    assert calls[1][0] == other and calls[1][2] == left and calls[1][1] != calls[0][1]
    assert [member.candidate for member in archive.members] == [left, other]


def test_budget():
    for budget in (0, 1, 17):
        archive = Archive(BitSpace(12), HashEvaluate(), 2, budget=budget)
        list(search(archive, SMALL))
        assert len(archive.members) == budget
        with pytest.raises(BudgetSpent):
            archive.score([Candidate((0, 1) * 6, (0,) * 5)])
    with pytest.raises(ArgumentError, match="at least one evaluation"):
        _ = Archive(BitSpace(12), HashEvaluate()).best
    small = Archive(BitSpace(3), HashEvaluate(), budget=100_000)
    list(search(small, Settings(evolve_hyper=False), [(1,) * 5] * 10))
    assert len(small.members) == 8  # all there are, then it ends


def test_threshold_and_predicted_end():
    table = np.linspace(1, 0.01, 4096)
    archive = Archive(BitSpace(12), TableEvaluate(table), 3, budget=4096)
    list(search(archive, Settings(), threshold=0.3))
    assert archive.best.score.fitness < 0.3 and len(archive.members) < 2000
    options = Settings(generations=1000, stop="predicted", mutation_rate=0.0)
    archive = Archive(BitSpace(12), TableEvaluate(table), 4)
    random = np.random.default_rng(4)
    generations = list(evolve(archive, options, random, first_candidates(archive.space, 10, random)))
    assert generations[-1].number == generations[0].predicted.by < 200
    assert generations[-1].diversity == 0


def test_an_evaluation_that_fails_ends_the_search():
    def evaluate(candidate, seed, parent=None):
        raise ArgumentError("no data")

    with ThreadPoolExecutor(2) as executor, pytest.raises(ArgumentError, match="no data"):
        list(search(Archive(BitSpace(4), evaluate, executor=executor), SMALL))


@pytest.mark.parametrize("space", [TreeSpace(), ConvSpace((2, 3)), BitSpace(9)], ids=repr)
@settings(UNTIMED, max_examples=10)
@given(seed=seeds)
def test_local_searches_never_worsen(space, seed):
    archive, random = Archive(space, HashEvaluate(), seed), np.random.default_rng(seed)
    (start,) = archive.score(first_candidates(space, 1, random))
    swept = level_sweep(archive, start, 5, random)
    assert swept.order <= start.order and swept.candidate.hyper[3:] == start.candidate.hyper[3:]
    fixed = level_sweep(archive, start, 5, random, hyper=False)
    assert fixed.order <= start.order and fixed.candidate.hyper == start.candidate.hyper
    guided = guided_loop(archive, swept, 3, random)
    assert guided.order <= swept.order and guided.candidate.hyper[3:] == swept.candidate.hyper[3:]
    fixed = guided_loop(archive, swept, 3, random, hyper=False)
    assert fixed.order <= swept.order and fixed.candidate.hyper == swept.candidate.hyper
    ended = flip_loop(archive, guided)
    assert ended.order <= guided.order
    for gene, step in itertools.product(range(3), (1, 2)):
        hyper = list(ended.candidate.hyper)
        hyper[gene] = (hyper[gene] + step) % 3
        assert archive.score([Candidate(ended.candidate.bits, tuple(hyper))])[0].order >= ended.order
    for locus in range(space.loci):  # no single flip is better
        bits = list(ended.candidate.bits)
        bits[locus] ^= 1
        assert archive.score([Candidate(tuple(bits), ended.candidate.hyper)])[0].order >= ended.order


def test_a_sweep_goes_through_small_levels_in_full():
    """Levels of four bits that do not touch each other: one sweep with 15 instances finds the best of 2^8."""
    random = np.random.default_rng(0)
    parts = random.random(16), random.random(16)
    table = np.add.outer(parts[0], parts[1]).ravel() / 2
    archive = Archive(BitSpace(8), TableEvaluate(table))
    (start,) = archive.score([Candidate((0,) * 8)])
    assert level_sweep(archive, start, 15, random, hyper=False).score.fitness == table.min()
    assert len(archive.members) == 31


def test_the_model_finds_the_best_of_pairs():
    """A fitness of single bits and pairs, 1 + 12 + 66 unknowns: the best of 4,096, far from the start, within 120."""
    random = np.random.default_rng(0)
    signs = 2 * np.array(list(itertools.product((0, 1), repeat=12))) - 1
    pairs = np.triu(random.standard_normal((12, 12)), 1)
    table = signs @ random.standard_normal(12) + np.einsum("ni,ij,nj->n", signs, pairs, signs)
    archive = Archive(BitSpace(12), TableEvaluate(table - table.min()), budget=120)
    first = archive.score(first_candidates(archive.space, 10, random, [(1,) * 5] * 10))
    start = max(first, key=lambda member: member.order)
    with pytest.raises(BudgetSpent):
        guided_loop(archive, start, 1000, random, hyper=False)
    assert archive.best.score.fitness == 0 and archive.best not in first
    assert guided_loop(archive, archive.best, 1000, random, threshold=0.1) == archive.best


def test_the_model_against_scikit_learn():
    """Expected improvement by scikit-learn, whose RBF kernel is rho^d on bits; a level of a gene is a coordinate."""
    gaussian = pytest.importorskip("sklearn.gaussian_process", reason="the reference: pip install scikit-learn")
    norm = pytest.importorskip("scipy.stats", reason="the reference: pip install scipy").norm
    random, shape = np.random.default_rng(0), bayesian.Kernel(0.82, 0.1)
    genomes = np.hstack([random.integers(0, 2, (50, 9)), random.integers(0, 3, (50, 3))])
    known, asked = genomes[:30], genomes[30:]
    model = bayesian.GaussianProcess(known, scores := random.standard_normal(30), shape)

    def places(genomes):  # where a gene differs, two of its coordinates do
        side = np.sqrt(np.log(bayesian.GENE) / np.log(shape.correlation) / 2)
        return np.hstack([genomes[:, :9], *(side * (genomes[:, 9:] == level) for level in range(3))])

    length = np.sqrt(-1 / (2 * np.log(shape.correlation)))
    kernel = gaussian.kernels.ConstantKernel(model.variance) * gaussian.kernels.RBF(length)
    process = gaussian.GaussianProcessRegressor(kernel, alpha=shape.noise * model.variance, optimizer=None)
    process.fit(places(known), scores - model.mean)
    mean, deviation = process.predict(places(asked), return_std=True)
    ahead = process.predict(places(known)).min() - mean
    expected = ahead * norm.cdf(ahead / deviation) + deviation * norm.pdf(ahead / deviation)
    np.testing.assert_allclose(model.improvement(asked), expected, rtol=1e-9, atol=1e-12)


def test_the_model_has_nothing_to_propose():
    """Where all is known, and where no network could be scored."""
    random = np.random.default_rng(0)
    archive = Archive(BitSpace(2), TableEvaluate([3.0, 2.0, 4.0, 1.0]))
    members = archive.score([Candidate(bits) for bits in itertools.product((0, 1), repeat=2)])
    assert guided_loop(archive, members[1], 5, random, hyper=False) == members[1]
    refused = Archive(BitSpace(2), TableEvaluate([inf] * 4))
    (start,) = refused.score([Candidate((0, 1))])
    assert guided_loop(refused, start, 5, random) == start and len(refused.members) == 1


def test_flips_stop_at_the_threshold():
    archive = Archive(BitSpace(8), TableEvaluate(np.linspace(1, 0, 256)))
    (start,) = archive.score([Candidate((0,) * 8)])
    assert flip_loop(archive, start, 0.6, hyper=False).candidate.bits == (1, 0, 0, 0, 0, 0, 0, 0)
    assert flip_loop(archive, start).score.fitness == 0


def _fronts_by_definition(values):
    left, rank, number = set(range(len(values))), [0] * len(values), 0
    while left:
        front = {
            i for i in left if not any((values[j] <= values[i]).all() and (values[j] < values[i]).any() for j in left)
        }
        for i in front:
            rank[i] = number
        left, number = left - front, number + 1
    return rank


@UNTIMED
@given(st.lists(st.tuples(*3 * [st.integers(0, 4) | st.just(inf)]), min_size=1, max_size=12))
def test_fronts(rows):
    values = np.array(rows, float)
    assert list(pareto.fronts(values)) == _fronts_by_definition(values)


def test_crowding():
    """By hand: spans 4 and 8; the middle rows' neighbours are 3 and 6, 3 and 6 apart."""
    values = np.array([[0, 8], [1, 5], [3, 2], [4, 0]], float)
    np.testing.assert_allclose(pareto.crowding(values), [inf, 3 / 4 + 6 / 8, 3 / 4 + 5 / 8, inf])
    assert list(pareto.order(np.vstack([values, [[5, 9]]])))[-1] == 4


def test_a_pareto_search_finds_the_front():
    """Error against bytes of ten bits, each of which trades them at its own rate."""

    def evaluate(candidate, seed, parent=None):
        ones = np.array(candidate.bits)
        error, size = 1 - ones @ np.arange(1, 11) / 55, int(10 + ones.sum())
        return Score(error, error, fps=100.0, memory_bytes=size)

    archive = Archive(BitSpace(10), evaluate, 1, budget=400)
    options = Settings(population=16, generations=20, selection="pareto", mutation_rate=0.1, evolve_hyper=False)
    list(search(archive, options, [(1,) * 5] * 16))
    found = {(round(member.score.error, 6), member.score.memory_bytes) for member in archive.front}
    best = {(round(1 - sum(range(11 - k, 11)) / 55, 6), 10 + k) for k in range(11)}
    assert len(found & best) >= 10


def test_refused_networks_are_never_on_the_front():
    scores = [Score(inf, 0.1, fps=1000.0, memory_bytes=1), Score(0.5, 0.5, fps=10.0, memory_bytes=5)]
    assert list(pareto.order(pareto.objectives(scores))) == [1, 0]
    archive = Archive(BitSpace(1), lambda candidate, seed, parent=None: scores[candidate.bits[0]])
    archive.score([Candidate((0,)), Candidate((1,))])
    assert [member.score for member in archive.front] == scores[1:]


@pytest.mark.parametrize(
    "arguments",
    [
        {"population": 1},
        {"elite": 10},
        {"generations": -1},
        {"mutation_rate": 2},
        {"crossover_rate": -0.1},
        {"epsilon": 0},
        {"selection": "roulette"},
        {"stop": "never"},
        {"guided": -1},
    ],
)
def test_bad_settings(arguments):
    with pytest.raises(ArgumentError):
        Settings(**arguments)


def test_scores_are_numbers():
    with pytest.raises(ArgumentError, match="score: expected numbers"):
        Score(float("nan"), 0.0)
    score = Score(inf, 0.25, 7, 9, 0.5, 10.0, 3.0, 100)
    assert Score.from_record(score.record()) == score and score.record()["fitness"] is None


def optimum_rate(table_of, space, runs, budget, guided=0):
    """Share of the runs in which the search found a genome of the least fitness."""
    options = Settings(
        generations=2, mutation_rate=1 / space.loci, crossover_rate=0.9, evolve_hyper=False, guided=guided
    )
    found = 0
    for seed in range(runs):
        table = table_of(seed)
        archive = Archive(space, TableEvaluate(table), seed, budget=budget)
        list(search(archive, options, [(1,) * 5] * options.population, instances=4))
        found += archive.best.score.fitness == table.min()
        assert len(archive.members) <= budget
    return found / runs


@pytest.mark.parametrize(
    ("loci", "neighbours", "guided", "runs", "least"),
    [
        (10, 0, 0, 40, 0.95),
        (10, 1, 0, 40, 0.8),  # of 120 landscapes 0.92, as of every other share of generations, competition and flips
        (12, 1, 0, 40, 0.95),
        (10, 1, 20, 15, 0.95),
        (10, 2, 20, 15, 0.9),  # 0.95; rounding decides between proposals that are equally good
    ],
)
def test_the_optimum_of_a_whole_space(loci, neighbours, guided, runs, least):
    """Within a tenth of the evaluations of all genomes, in so many runs of as many landscapes."""
    landscapes = partial(Landscape, loci, neighbours)
    rate = optimum_rate(lambda seed: landscapes(seed).table(), BitSpace(loci), runs, 2**loci // 10, guided)
    assert rate >= least
