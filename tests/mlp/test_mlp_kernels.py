"""Products of a fully connected layer in training, on every instruction set, against float64 NumPy.

A sum of n products, each rounded to 2^-24, is within (n + 4) 2^-24 sum |a b| of the exact one (bounds.py).
"""

import numpy as np
import pytest
from bounds import U
from kernel_runs import FLOAT_ISAS, supported_isas
from pipeall._kernels.cpu.kernels import Crew, Dense

from pipeall import ArgumentError
from pipeall._kernels.cpu.table import choose

SHAPES = [  # rows, inputs, samples: every remainder of tiles and vectors, blocks of k, of columns, of rows, none at all
    *((m, k, 1) for m in (1, 4, 7, 300) for k in (1, 3, 16, 33, 100, 517)),
    *((m, k, b) for m in (1, 13, 97) for k in (1, 31, 645) for b in (2, 17, 130)),
    (500, 40, 3),
    (0, 5, 1),
    (5, 0, 1),
    (0, 5, 3),
    (5, 0, 3),
]


def arrays(shape):
    m, k, b = shape
    random = np.random.default_rng(0)
    return [random.standard_normal(s).astype(np.float32) for s in ((m, k), (m,), (k, b), (m, b), (m, b), (k, b))]


def crew(isa, threads=1):
    if isa not in supported_isas():
        pytest.skip(f"this CPU lacks {isa}: run the tests on one that has it")
    return Crew(choose((isa, "ref"), "any core"), threads)


def close(got, exact, magnitudes, terms):
    return (np.abs(got - exact) <= (terms + 4) * U * magnitudes).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("isa", FLOAT_ISAS)
def test_a_layer_and_its_way_back(isa, threads):
    team = crew(isa, threads)
    for shape in SHAPES:
        m, k, b = shape
        weight, bias, x, z, dz, dx = arrays(shape)
        w, exact = weight.astype(np.float64), [a.astype(np.float64) for a in (bias, x, dz)]
        layer = Dense(team, weight, bias, x, z, dz, dx)
        layer.forward()
        start, inputs, gradient = exact[0][:, None], exact[1], exact[2]
        assert close(z, w @ inputs + start, np.abs(w) @ np.abs(inputs) + np.abs(start), k), shape
        layer.input_gradient()
        once = dx.copy()
        assert close(dx, w.T @ gradient, np.abs(w).T @ np.abs(gradient), m), shape
        target = np.ones_like(weight)
        layer.accumulate(target, 0.5, m // 3, m)
        change = 0.5 * gradient @ inputs.T
        change[: m // 3] = 0
        assert close(target, 1 + change, 1 + 0.5 * np.abs(gradient) @ np.abs(inputs).T, b + 1), shape
        layer.backward(-0.25)
        assert (dx == once).all(), "the gradient of the weights as they were"
        size = np.abs(w) + 0.25 * np.abs(gradient) @ np.abs(inputs).T
        assert close(weight, w - 0.25 * gradient @ inputs.T, size, b + 1), shape


@pytest.mark.parametrize("isa", FLOAT_ISAS)
@pytest.mark.parametrize("samples", [1, 5])
def test_no_bit_depends_on_the_slice(isa, samples):
    """Forward by rows, back by columns, as ranks hold them."""
    team, (weight, bias, x, z, dz, dx) = crew(isa), arrays((37, 83, samples))
    whole = Dense(team, weight, bias, x, z, dz, dx)
    whole.forward()
    whole.input_gradient()
    for begin, end in ((0, 1), (1, 20), (20, 37)):
        part = np.zeros((end - begin, samples), np.float32)
        rows = slice(begin, end)
        Dense(team, weight[rows], bias[rows], x, part, dz[rows], dx).forward()
        assert (part == z[begin:end]).all()
    for begin, end in ((0, 7), (7, 64), (64, 83)):
        part = np.zeros((end - begin, samples), np.float32)
        Dense(team, weight[:, begin:end].copy(), None, x[begin:end].copy(), z.copy(), dz, part).input_gradient()
        assert (part == dx[begin:end]).all()


@pytest.mark.parametrize("place", range(6))
def test_arrays_of_another_shape_or_type_are_refused(place):
    good = arrays((4, 3, 2))
    for bad in (good[place].astype(np.float64), np.asfortranarray(np.zeros((7, 9), np.float32))):
        with pytest.raises((ArgumentError, ValueError), match="expected contiguous float32|unpack"):
            Dense(crew("ref"), *(bad if i == place else array for i, array in enumerate(good)))


def test_rows_outside_are_refused():
    weight, bias, x, z, dz, dx = arrays((4, 3, 2))
    layer = Dense(crew("ref"), weight, bias, x, z, dz, dx)
    for begin, end in ((-1, 2), (0, 5), (3, 2)):
        with pytest.raises(ArgumentError, match="rows: expected a range in 0 to 4"):
            layer.accumulate(weight, 1.0, begin, end)
