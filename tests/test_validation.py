"""Published numbers that no fit has seen, predicted with intervals: four of five are to be inside."""

import sys
from pathlib import Path

import numpy as np
import pytest

from pipeall.pipeline.boards.model import BoardModel
from pipeall.pipeline.planning.uncertain import four_of_five

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))
import fit_boards  # noqa: E402
import fit_prices  # noqa: E402
import price_table  # noqa: E402

SHARE = 0.8
# ncnn's published int8 times, one core, ms, by what the core's model says of ncnn's own counted instructions:
# GoogLeNet, MobileNet, ResNet-18, ResNet-50, SqueezeNet 1.1. The model was fitted to times of float32 alone
INT8 = {
    "rk3399-big": ((183.1, 202.2), (65.6, 81.0), (145.0, 151.8), (355.4, 398.6), (47.2, 60.7)),
    "a311d-big": ((170.2, 173.2), (70.7, 66.7), (130.7, 133.2), (349.8, 333.7), (47.2, 52.0)),
    "rk3399-little": ((441.4, 408.0), (160.4, 175.8), (378.0, 299.3), (909.5, 853.8), (125.1, 124.8)),
    "rpi5": ((41.7, 49.1), (13.1, 14.4), (49.0, 36.4), (93.7, 80.2), (10.7, 11.8)),
}
INT8_INSIDE = 14  # of 20: a limit. Boards have no prices of integers


def inside(predicted: float, published: float, error: float) -> bool:
    """Whether the number is in the interval of the prediction."""
    return predicted / (1 + error) <= published <= predicted * (1 + error)


@pytest.fixture(scope="module")
def clusters():
    return fit_prices.clusters_of(price_table.load(fit_prices.PRICES))


def test_speed_ups_of_threads(clusters):
    """Each by the two numbers that the cluster's other networks give."""
    found = []
    for cluster in clusters.values():
        if cluster.like is None:
            error = np.expm1(fit_prices.FOUR_OF_FIVE * cluster.spread())
            found += [inside(x, cluster.core.speedups[name], error) for name, x in cluster.left_out().items()]
    assert len(found) == 30 and sum(found) >= SHARE * len(found)


def test_cores_on_integers_are_a_limit():
    """Integers are fewer than four of five, which the documentation states."""
    error = np.expm1(fit_prices.FOUR_OF_FIVE * fit_prices.ARMCOST)
    found = [inside(*pair, error) for pairs in INT8.values() for pair in pairs]
    assert (sum(found), len(found)) == (INT8_INSIDE, 20)


def test_networks_of_arms_library_left_out():
    """Each unit's time of a network that the prices have not seen, by the errors of the other networks left out."""
    found = []
    for name in ("a311d-armcl", "rk3399pro"):
        for errors in BoardModel.load(name).errors.values():  # a test of the regression fits them again
            for network, off in errors.items():
                others = [error for other, error in errors.items() if other != network]
                found.append(inside(1 + off, 1.0, four_of_five(others)))
    assert len(found) == 27 and sum(found) >= SHARE * len(found)


def test_measured_pipelines_of_the_rk3399pro_left_out(data_dir):
    """Three stages of GoogLeNet: each by the factor of contention that the two others ask for."""
    model = BoardModel.load("rk3399pro")
    error = fit_prices.contention_error(model, data_dir)
    assert BoardModel.load("a311d").contention_error == pytest.approx(error, abs=1e-3)
    measured = [ms for _, _, ms in fit_boards.RK_PIPELINES]
    predicted = fit_prices.left_out_pipelines(model, data_dir)
    assert all(inside(ours, theirs, error) for ours, theirs in zip(predicted, measured, strict=True))


def test_an_error_of_four_of_five_holds_that_share_of_new_cases():
    """Also where it is told by few errors: Student's distribution, drawn."""
    random = np.random.default_rng(3)
    for count in (1, 3, 5, 10, 14):
        logarithms = random.normal(0, 0.1, (4000, count + 1))
        held = [abs(new) <= np.log1p(four_of_five(np.expm1(known))) for *known, new in logarithms.tolist()]
        assert np.mean(held) == pytest.approx(SHARE, abs=0.025)  # four standard deviations of 4,000 draws
