"""Edge of chaos: the paper's constants, textbook values of lambda, the sweep."""

from math import inf, nan

import numpy as np
import pytest

from pipeall import ArgumentError
from pipeall.nas.search import edge_of_chaos as chaos
from pipeall.nas.spaces.genome import STATES, hyper_of


def test_the_paper_constants():
    assert STATES == 243
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


def test_active_states():
    activity = [3.0, nan, 0.0, 5.0, inf, 1.0]
    assert list(chaos.active_states(activity, 0)) == [0, 1, 2, 3, 4, 5]
    assert list(chaos.active_states(activity, 3)) == [0, 3, 5]  # without those that diverge and the 0
    assert list(chaos.active_states(activity, 5)) == [3]


def test_initial_hyper():
    """All drawn from the most active states, and each of them sometimes."""
    activity = np.random.default_rng(0).permutation(243).astype(float)
    drawn = chaos.initial_hyper(activity, 10 / 243, 2000, np.random.default_rng(1))
    assert set(drawn) == {hyper_of(state) for state in np.flatnonzero(activity >= 233)}
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
