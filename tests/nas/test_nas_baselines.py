"""Figures beside a search's: of a constant guess by definition, of linear models against scikit-learn's."""

import numpy as np
import pytest
from nas_nets import blobs

from pipeall.nas.training.fitness import PENALTIES, baselines

pytest.importorskip("torch", reason="needs pipeall[nas]")
linear_model = pytest.importorskip("sklearn.linear_model", reason="needs pipeall[nas]")

from pipeall.nas.training.training_loop import linear  # noqa: E402


def flat(x):
    return x.reshape(len(x), -1)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_linear_models_are_scikit_learns(penalty):
    """Its penalties are those of a sum over the samples: C = 1 / (penalty samples), alpha = penalty samples."""
    data = blobs(pictures=True)
    (found,) = linear(data.train, [data.test.x], 3, penalty)
    model = linear_model.LogisticRegression(C=1 / (penalty * len(data.train)), tol=1e-8, max_iter=10_000)
    expected = model.fit(flat(data.train.x), data.train.y).predict_proba(flat(data.test.x))
    np.testing.assert_allclose(found, expected, atol=1e-3)  # both stop at a small gradient, not at the minimum
    data = blobs("numbers")
    (found,) = linear(data.train, [data.test.x], 1, penalty)
    model = linear_model.Ridge(alpha=penalty * len(data.train)).fit(data.train.x, data.train.y)
    np.testing.assert_allclose(found[:, 0], model.predict(data.test.x), atol=1e-4)


def test_baselines_of_classes():
    data = blobs()
    found = baselines(data)
    assert list(found) == ["constant guess", "logistic regression"]
    most = np.bincount(data.train.y).argmax()
    assert found["constant guess"].tested == (data.test.y == most).mean()
    shares = np.bincount(data.train.y, minlength=3) / len(data.train)
    assert found["constant guess"].error == pytest.approx(np.abs(shares - np.eye(3)[data.validation.y]).mean())
    assert found["logistic regression"].tested >= 0.9 > found["constant guess"].tested  # the blobs are apart


def test_baselines_of_numbers():
    data = blobs("numbers")
    found = baselines(data)
    mean = data.train.y.mean()
    expected = 1 - ((data.test.y - mean) ** 2).mean() / data.test.y.var()
    assert found["constant guess"].tested == pytest.approx(expected, abs=1e-6)
    assert found["linear regression"].tested > 0.999  # the number is one of the features
