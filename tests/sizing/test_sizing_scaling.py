"""The universal scalability law against SciPy's fit, exact data, and measurements that others published."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeall import ArgumentError
from pipeall.sizing.scalability import Law, fit


@settings(deadline=None)
@given(st.floats(0.1, 1e3), st.floats(0, 0.9), st.floats(0, 0.1))
def test_a_law_is_found_again(rate, serial, crosstalk):
    law = Law(rate, serial, crosstalk)
    found = fit({n: law.throughput(n) for n in (1, 2, 4, 8, 16)})
    assert found.serial == pytest.approx(serial, abs=1e-6) and found.crosstalk == pytest.approx(crosstalk, abs=1e-7)


def test_peak_and_best():
    law = Law(10.0, 0.1, 0.01)
    assert law.peak == pytest.approx(90**0.5) and law.best(64) in (9, 10) and law.best(4) == 4
    assert law.throughput(law.best(64)) == max(law.throughput(n) for n in range(1, 65))
    assert Law(1.0, 0.0, 0.0).peak == inf and Law(1.0, 0.0, 0.0).best(6) == 6
    assert Law(1.0, 1.0, 0.2).peak == 1.0


def test_noisy_measurements_against_scipy():
    optimize = pytest.importorskip("scipy.optimize", reason="the reference: pip install scipy")
    noise = np.random.default_rng(3).normal(1, 0.02, 8)
    numbers = np.arange(1, 9)
    taken = {int(n): Law(5.0, 0.2, 0.004).throughput(n) * e for n, e in zip(numbers, noise, strict=True)}
    found = fit(taken)
    lost = [taken[1] * n / taken[n] - 1 for n in range(2, 9)]
    terms = np.stack([numbers[1:] - 1, numbers[1:] * (numbers[1:] - 1)], 1)
    expected = optimize.nnls(terms, np.array(lost))[0]
    assert (found.serial, found.crosstalk) == pytest.approx(tuple(expected), rel=1e-6, abs=1e-9)


def test_alexnet_on_machines_that_do_not_scale():
    """Images per second on 1, 2, 4, 8 machines with MKL, as in tensorflow/benchmarks #397: 192, 241, 260, 377."""
    found = fit({1: 192.0, 2: 241.0, 4: 260.0, 8: 377.0})
    assert 0.3 < found.serial < 0.8 and all(
        abs(found.throughput(n) / x - 1) < 0.25 for n, x in ((1, 192), (2, 241), (4, 260), (8, 377))
    )


@pytest.mark.parametrize(
    "taken", [{1: 1.0, 2: 2.0}, {2: 1.0, 3: 2.0, 4: 3.0}, {1: 1.0, 2: -1.0, 3: 2.0}, {0: 1, 1: 1, 2: 2}]
)
def test_what_cannot_be_fitted(taken):
    with pytest.raises(ArgumentError, match="expected"):
        fit(taken)


def test_a_limit_of_no_threads():
    with pytest.raises(ArgumentError, match="at least 1"):
        Law(1.0, 0.1, 0.1).best(0)
