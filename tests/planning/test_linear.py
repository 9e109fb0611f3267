"""Linear programs against SciPy's solver."""

import numpy as np
import pytest
from scipy.optimize import linprog

from pipeall.pipeline.planning.linear import maximize


@pytest.mark.parametrize("seed", range(200))
def test_random_programs_against_scipy(seed):
    """Of all signs, with equal rows and zeros in b (degenerate), rows of very different sizes, some without a limit."""
    random = np.random.default_rng(seed)
    rows, columns = random.integers(1, 9, 2)
    a = random.integers(-2, 6, (rows, columns)) * random.choice([1e-3, 1.0, 1e3], (rows, 1))
    a[random.integers(rows)] = a[0]
    b, c = random.integers(0, 4, rows).astype(float), random.integers(-3, 9, columns)
    expected = linprog(-c, a, b)
    found = maximize(c, a, b)
    if expected.status == 3:
        assert found is None
        return
    x, duals = found
    assert c @ x == pytest.approx(-expected.fun, abs=1e-9)
    assert (x >= 0).all() and (a @ x <= b + 1e-9 * np.abs(a).max(axis=1)).all()
    # by duality they prove that nothing is more, whoever found them
    assert (duals >= 0).all() and duals @ b == pytest.approx(c @ x, abs=1e-9)
    assert (duals @ a >= c - 1e-9).all()


def test_a_program_on_which_the_largest_coefficient_cycles():
    """Beale's example, 1955: the rule of the largest coefficient never ends. The optimum is 1/20."""
    a = [[1 / 4, -60, -1 / 25, 9], [1 / 2, -90, -1 / 50, 3], [0, 0, 1, 0]]
    x, duals = maximize([3 / 4, -150, 1 / 50, -6], a, [0, 0, 1])
    assert x.tolist() == pytest.approx([1 / 25, 0, 1, 0]) and duals[2] == pytest.approx(1 / 20)


def test_no_rows():
    assert maximize([1.0], [], []) is None
    x, duals = maximize([-1.0], [], [])
    assert x.tolist() == [0.0] and duals.shape == (0,)
