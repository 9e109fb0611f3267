"""Prices of a unit, fitted to times: against the prices that made them, and the conditions of an optimum."""

from math import inf

import numpy as np
import pytest
from graphs import Net

from pipeall.errors import ArgumentError
from pipeall.pipeline.boards.models import regression


def test_features_of_a_small_network():
    net = Net((1, 4, 8, 8))
    x = net.conv("x0", 6, 3)  # Winograd: a quarter of its MACs
    x = net.conv(x, 8, 3, strides=(2, 2))
    x = net.op("maxpool", net.conv(x, 16, 1))
    x = net.conv(x, 16, 3, groups=16)  # depthwise
    graph = net.graph(net.fc(x, 10))
    rows = dict(zip(regression.FEATURES, regression.features(graph).T, strict=True))
    assert rows["ms_per_gmac_kxk"] * 1e9 == pytest.approx([6 * 64 * 36 / 4, 8 * 16 * 54, 0, 0, 0])
    assert rows["ms_per_gmac_1x1"] * 1e9 == pytest.approx([0, 0, 16 * 16 * 8, 0, 0])
    assert rows["ms_per_mb_conv_weights"] * 1e6 == pytest.approx([4 * 6 * 37, 4 * 8 * 55, 4 * 16 * 9, 0, 0])
    assert rows["ms_per_mb_fc_weights"] * 1e6 == pytest.approx([0, 0, 0, 0, 4 * (640 // 10 * 10 + 10)])
    assert rows["ms_per_mb_written"] * 1e6 == pytest.approx([4 * 384, 4 * 128, 4 * (256 + 64), 4 * 64, 4 * 10])
    assert rows["ms_per_op"].tolist() == [1, 1, 2, 1, 1]


def samples_of(prices, count=3, rows=20):
    random = np.random.default_rng(1)
    tables = [random.random((rows, len(regression.FEATURES))) for _ in range(count)]
    return [regression.Sample(x, {unit: x @ price for unit, price in prices.items()}) for x in tables]


def test_fit_finds_the_prices_that_made_the_times():
    prices = {"big": np.array([3, 0, 2, 0.5, 0, 1]), "gpu": np.array([1, 4, 0, 0.5, 2, 0])}
    found = regression.fit(samples_of(prices))
    for unit, price in prices.items():
        assert found[unit] == pytest.approx(price, abs=1e-9)  # exact data: rounding of a well-conditioned solve
    errors = regression.leave_one_out(dict(zip("abc", samples_of(prices), strict=True)))
    assert max(abs(error) for row in errors.values() for error in row.values()) < 1e-9


def test_least_squares_meets_the_conditions_of_an_optimum():
    """Karush-Kuhn-Tucker: no negative unknown, no gain by raising a zero one, none at all along a positive one."""
    random = np.random.default_rng(2)
    for _ in range(200):
        a, b = random.standard_normal((12, 6)), random.standard_normal(12)
        x = regression.nonnegative_least_squares(a, b)
        slope = a.T @ (b - a @ x)
        assert (x >= 0).all() and (slope < 1e-8).all() and np.abs(slope[x > 0]).max(initial=0) < 1e-8


def test_fit_leaves_out_groups_that_a_unit_refused_and_prices_what_nobody_measured():
    prices = {"big": np.array([3, 1, 2, 0.5, 1, 1])}
    samples = samples_of(prices)
    for sample in samples:
        sample.features[:, [1, 3]] = 0
        sample.ms["big"] = sample.features @ prices["big"]
        sample.ms["big"][4] = inf
    found = regression.fit(samples)["big"]
    assert found == pytest.approx([3, 3, 2, 2, 1, 1])  # 1 x 1 as k x k, fully connected as convolution weights
    with pytest.raises(ArgumentError, match="times of at least one group"):
        regression.fit([regression.Sample(samples[0].features, {"big": [inf] * 20})])
