"""The Markov chain of a locus: published numbers, closed forms, and a simulation with the search's own operators."""

from math import log, prod

import numpy as np
import pytest
from nas_landscapes import absorption_time

from pipeall import ArgumentError
from pipeall.nas.search import markov
from pipeall.nas.search.operators import invert, proportional


@pytest.mark.parametrize("size", [1, 2, 10, 31, 200])
@pytest.mark.parametrize(("ratio", "mutation"), [(1, 0), (1.1, 0), (0.3, 0.01), (7, 0.5), (1, 1)])
def test_rows_sum_to_one(size, ratio, mutation):
    chain = markov.matrix(size, ratio, mutation)
    assert chain.shape == (size + 1, size + 1) and (chain >= 0).all()
    # a row is a sum of size + 1 products of three factors, each within a few ulp
    np.testing.assert_allclose(chain.sum(1), 1, atol=2e-15 if size <= 31 else 1e-13)


def test_entries():
    assert markov.matrix(31)[16, 16] == pytest.approx(0.142225891052271, abs=1e-15)
    assert markov.matrix(10)[5, 5] == 0.24609375
    assert markov.matrix(31, 1.1)[16, 17] == pytest.approx(0.142164865680385, abs=1e-15)


def test_neutral_chain_is_wright_fisher():
    """Its spectrum and its fixation probability have closed forms."""
    for size in (10, 31):
        chain = markov.matrix(size)
        expected = [1.0] + [prod(1 - m / size for m in range(1, k)) for k in range(1, size + 1)]
        values = np.sort(np.linalg.eigvals(chain).real)[::-1]
        np.testing.assert_allclose(values, expected, atol=1e-9)  # a double eigenvalue: sqrt of rounding
        np.testing.assert_allclose(markov.fixation(chain), np.arange(size + 1) / size, atol=1e-14)


@pytest.mark.parametrize(
    ("size", "start", "ratio", "fixes", "generations"),
    [
        (10, 5, 1, 0.5, 12.5905),
        (31, 15, 1, 15 / 31, 41.3034),
        (31, 15, 1.05, 0.808092, 35.9949),
        (31, 15, 1.1, 0.945780, 27.2753),
        (31, 15, 1.5, 0.999996, 9.0609),
    ],
)
def test_absorption(size, start, ratio, fixes, generations):
    chain = markov.matrix(size, ratio)
    assert absorption_time(chain)[start] == pytest.approx(generations, abs=5e-5)
    assert markov.fixation(chain)[start] == pytest.approx(fixes, abs=1e-6)
    if ratio in (1.05, 1.1):  # Kimura's diffusion
        s = log(ratio)
        kimura = (1 - np.exp(-2 * s * start)) / (1 - np.exp(-2 * s * size))
        assert markov.fixation(chain)[start] == pytest.approx(kimura, abs=6e-4)


def test_predicted_generations():
    """31 loci, ten members, random bits."""
    expected, by = markov.predict_generations(31)
    assert expected == pytest.approx(40.47, abs=5e-3) and by == 63
    one = markov.predict_generations(1, 5)
    assert one.expected == pytest.approx(absorption_time(markov.matrix(10))[5], abs=1e-6)
    assert markov.predict_generations(5, [0, 10, 0, 10, 10]) == (0, 0)
    assert markov.predict_generations(31, 5, ratio=1.5).expected < expected
    mixed = markov.predict_generations(2, [5, 10], ratio=[1.2, 1.0])
    assert mixed.expected == pytest.approx(absorption_time(markov.matrix(10, 1.2))[5], abs=1e-6)


def _one_locus(ratio, mutation, size, start, random, generations):
    """Ones in each generation of a population under the search's own selection and mutation."""
    bits = np.array([1] * start + [0] * (size - start))
    for _ in range(generations):
        bits = bits[proportional(np.where(bits, ratio, 1.0), size, random)]
        bits = np.array(invert(tuple(bits), mutation, random))
        yield int(bits.sum())
        if mutation == 0 and bits.sum() in (0, size):
            return


@pytest.mark.parametrize(("size", "start", "ratio"), [(10, 5, 1.0), (10, 3, 1.3)])
def test_simulated_absorption(size, start, ratio):
    """Mean time and fixation of 1,000 populations lie within three standard errors of the chain's."""
    random, runs = np.random.default_rng(7), 1000
    histories = [list(_one_locus(ratio, 0.0, size, start, random, 10_000)) for _ in range(runs)]
    times = np.array([len(history) for history in histories])
    ends = np.array([history[-1] == size for history in histories])
    chain = markov.matrix(size, ratio)
    fixed = markov.fixation(chain)[start]
    assert abs(times.mean() - absorption_time(chain)[start]) < 3 * times.std() / runs**0.5
    assert abs(ends.mean() - fixed) < 3 * (fixed * (1 - fixed) / runs) ** 0.5


def test_simulated_mutation():
    """The tenth generation's number of ones, with selection and mutation, follows the tenth power of the matrix."""
    random, runs = np.random.default_rng(3), 1000
    ends = np.array([list(_one_locus(1.2, 0.05, 10, 2, random, 10))[-1] for _ in range(runs)])
    law = np.linalg.matrix_power(markov.matrix(10, 1.2, 0.05), 10)[2]
    mean = law @ np.arange(11)
    deviation = (law @ (np.arange(11) - mean) ** 2) ** 0.5
    assert abs(ends.mean() - mean) < 3 * deviation / runs**0.5
    share = law[10]
    assert abs((ends == 10).mean() - share) < 3 * (share * (1 - share) / runs) ** 0.5


def test_simulated_search_of_independent_loci():
    """31 loci that are drawn from each other's parents: the last is fixed when ``predict_generations`` says."""
    random, runs, loci, size = np.random.default_rng(1), 200, 31, 10
    lasts = []
    for _ in range(runs):
        bits, generation = random.integers(0, 2, (size, loci)), 0
        while not np.isin(bits.sum(0), (0, size)).all():
            parents = proportional(np.ones(size), size * loci, random).reshape(size, loci)
            bits, generation = np.take_along_axis(bits, parents, 0), generation + 1
        lasts.append(generation)
    expected, by = markov.predict_generations(loci)
    assert abs(np.mean(lasts) - expected) < 3 * np.std(lasts) / runs**0.5
    assert abs(np.mean(np.array(lasts) <= by) - 0.95) < 3 * (0.95 * 0.05 / runs) ** 0.5 + 0.01  # by: a whole number


@pytest.mark.parametrize("bad", [(0, 1, 0), (5000, 1, 0), (10, 0, 0), (10, float("nan"), 0), (10, 1, 1.5)])
def test_bad_numbers(bad):
    with pytest.raises(ArgumentError, match="chain: expected"):
        markov.matrix(*bad)


def test_bad_prediction():
    with pytest.raises(ArgumentError, match="expected 0 to 10 ones, got 11 to 11"):
        markov.predict_generations(3, 11)
    with pytest.raises(ArgumentError, match="level between 0 and 1"):
        markov.predict_generations(3, level=1.0)
