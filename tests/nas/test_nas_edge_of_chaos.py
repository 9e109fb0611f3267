"""Edge of chaos: the paper's constants, textbook values of lambda and of critical networks, the sweep."""

from math import inf, log, nan, pi

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from pipeall import ArgumentError
from pipeall.nas.search import edge_of_chaos as chaos
from pipeall.nas.spaces.genome import state_of


def test_the_paper_constants():
    assert chaos.state_count() == 243 == chaos.state_count(3, 5, printed=True)
    assert chaos.quiescent_count(chaos.LAMBDA_TEXT) == 52 and chaos.quiescent_count(chaos.LAMBDA_IMAGE) == 29
    assert chaos.langton(243, 52) == pytest.approx(chaos.LAMBDA_TEXT, abs=5e-4)
    assert chaos.langton(243, 29) == pytest.approx(chaos.LAMBDA_IMAGE, abs=5e-4)


def test_243_is_the_smallest_power_that_gives_both():
    def gives(total):
        return all(abs(round(lam * total) / total - lam) < 5e-4 for lam in (chaos.LAMBDA_TEXT, chaos.LAMBDA_IMAGE))

    powers = {n**d for n in range(2, 1000) for d in range(2, 10) if n**d < 1000}
    assert min(total for total in powers if gives(total)) == 243


def test_langton_of_known_automata():
    """Game of Life: 140 of its 512 neighbourhoods give a live cell; elementary rules by their bits."""
    live = sum(
        (cells >> 4 & 1 and bin(cells & ~16).count("1") in (2, 3))
        or (not cells >> 4 & 1 and bin(cells).count("1") == 3)
        for cells in range(512)
    )
    assert chaos.langton(512, 512 - live) == 140 / 512 == 0.2734375
    assert chaos.langton(8, 8 - bin(110).count("1")) == 5 / 8 and chaos.langton(8, 8 - bin(30).count("1")) == 4 / 8
    with pytest.raises(ArgumentError, match="0 to 8 quiescent states, got 9"):
        chaos.langton(8, 9)


def test_boolean_networks():
    assert chaos.boolean_critical_bias(2) == 0.5
    for inputs, bias in ((3, 0.7887), (5, 0.8873)):
        found = chaos.boolean_critical_bias(inputs)
        assert found == pytest.approx(bias, abs=5e-5)
        assert 2 * found * (1 - found) * inputs == pytest.approx(1)  # Derrida's: a flipped input flips one output
    with pytest.raises(ArgumentError):
        chaos.boolean_critical_bias(1)


def test_logistic_map():
    found = chaos.lyapunov(lambda x: 4 * x * (1 - x), lambda x: 4 - 8 * x, 0.3)
    # log|f'| has the variance pi^2 / 3 under the invariant law and its successive terms are anticorrelated
    assert found == pytest.approx(log(2), abs=3 * pi / 3**0.5 / 100_000**0.5)
    assert chaos.lyapunov(lambda x: 2.5 * x * (1 - x), lambda x: 2.5 - 5 * x, 0.3, 1000) < 0


@pytest.mark.parametrize(
    ("bias", "weight", "length"),
    [
        (0, 1, 0),
        (0.01, 1.42421, 0.27330),
        (0.05, 1.76095, 0.57005),
        (0.1, 1.98607, 0.80580),
        (0.3, 2.50513, 1.46117),
        (1, 3.44321, 3.03640),
    ],
)
def test_critical_tanh_networks(bias, weight, length):
    """Published values, and chi_1 = 1 at the fixed point by an independent quadrature."""
    found = chaos.critical_weights(bias)
    assert found.bias == bias and found.weight == pytest.approx(weight, abs=6e-6)
    assert found.length == pytest.approx(length, abs=6e-6)

    def mean(function):
        return quad(lambda z: norm.pdf(z) * function(np.tanh(found.length**0.5 * z)), -12, 12, limit=200)[0]

    assert found.weight * mean(lambda after: (1 - after**2) ** 2) == pytest.approx(1, abs=1e-7)
    assert found.weight * mean(lambda after: after**2) + bias == pytest.approx(found.length, abs=1e-7)


def test_a_wide_network_at_the_border_keeps_lengths():
    """Ten random tanh layers of 1,000 neurons: the squared length stays that of the fixed point."""
    random, found, width = np.random.default_rng(0), chaos.critical_weights(0.3), 1000
    x = random.standard_normal(width) * found.length**0.5
    for _ in range(10):
        weights = random.standard_normal((width, width)) * (found.weight / width) ** 0.5
        x = weights @ np.tanh(x) + random.standard_normal(width) * found.bias**0.5
    # one layer deviates by sqrt(2 / width) = 4.5 %; deviations fade, so that their sum stays below three times that
    assert np.mean(x**2) == pytest.approx(found.length, rel=3 * (2 / width) ** 0.5)


def test_relu_is_he():
    assert chaos.critical_weights(activation="relu") == (0, 2, 1)
    for bad in ({"bias": 0.1, "activation": "relu"}, {"bias": -1}, {"bias": nan}, {"activation": "gelu"}):
        with pytest.raises(ArgumentError, match="critical weights"):
            chaos.critical_weights(**bad)


def test_active_states():
    activity = [3.0, nan, 0.0, 5.0, inf, 1.0]
    assert list(chaos.active_states(activity, 0)) == [0, 1, 2, 3, 4, 5]
    assert list(chaos.active_states(activity, 3)) == [0, 3, 5]  # without those that diverge and the 0
    assert list(chaos.active_states(activity, 5)) == [3]


def test_initial_hyper():
    """All drawn from the most active states, and each of them sometimes."""
    activity = np.random.default_rng(0).permutation(243).astype(float)
    drawn = chaos.initial_hyper(activity, 10 / 243, 2000, np.random.default_rng(1))
    assert {state_of(levels) for levels in drawn} == set(np.flatnonzero(activity >= 233))
    for lam in (0, 1.1, nan):
        with pytest.raises(ArgumentError, match="lambda: expected"):
            chaos.initial_hyper(activity, lam, 1, np.random.default_rng(1))


def test_mutual_information():
    assert chaos.mutual_information(np.eye(4) * 7) == pytest.approx(2)
    assert chaos.mutual_information(np.ones((3, 5))) == pytest.approx(0)
    assert chaos.mutual_information(np.array([[3, 1], [1, 3]])) == pytest.approx(1 - 0.811278124)  # binary channel


def test_sweep():
    """Frozen, a population tells nothing; the same seed gives the same sweep."""
    activity = np.arange(243.0)
    size = {"population": 6, "generations": 3, "repeats": 2}
    found = chaos.sweep(activity, np.random.default_rng(0), points=9, **size)
    assert found == chaos.sweep(activity, np.random.default_rng(0), points=9, **size)
    assert found.lam[0] == 1 and found.lam[-1] == pytest.approx(1 / 243) and len(found.lam) == 9
    assert (found.critical, found.error) == chaos.peak(found.lam, found.complexity)
    assert min(found.complexity) >= 0 and found.complexity[-1] < max(found.complexity)


def test_the_greatest_complexity_is_fitted():
    """Exact where there is no noise. With noise, the stated error is the spread of what 300 fits find."""
    lam = np.linspace(1 / 243, 1, 27)
    curve = 1.5 + 0.25 * np.log(lam) - 0.5 * lam
    critical, error = chaos.peak(lam, curve)
    assert critical == pytest.approx(0.5) and error < 1e-9
    random = np.random.default_rng(0)
    fits = np.array([chaos.peak(lam, curve + 0.03 * random.standard_normal(27)) for _ in range(300)])
    # a standard deviation of 300 draws is known to 1 / sqrt(600) = 4 %; 20 % also allows for the curvature
    assert fits[:, 1].mean() == pytest.approx(fits[:, 0].std(), rel=0.2)
    assert chaos.peak(lam, -curve) == chaos.peak(lam, 1 + np.log(lam)) == (1, inf)
