"""What a score is worth: what a constant guess and logistic regression reach on the same samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..datasets import DataSet
from .fitness import accuracy, constant, error
from .training_loop import linear

PENALTIES = (1e-5, 1e-3, 1e-1)  # of logistic regression: the samples that judge choose


@dataclass(frozen=True)
class Baseline:
    """A network's figures, of something that is no network.

    error           on the samples that judge, as ``Score.error``
    judged, tested  accuracy (for numbers R^2) on the samples that judge, and on the test samples
    """

    error: float
    judged: float
    tested: float


def baselines(data: DataSet) -> dict[str, Baseline]:
    """ "constant guess": the most frequent class or the mean number, of which eq. 3 sees the frequencies; and "logistic
    regression" (for numbers "linear regression") on all features or pixels. Both see ``data.train`` only.

    Raises MissingExtraError without torch.
    """
    both = data.validation, data.test
    outputs = [linear(data.train, [samples.x for samples in both], data.outputs, penalty) for penalty in PENALTIES]
    best = min(outputs, key=lambda pair: error(data, pair[0], data.validation.y))
    name = "logistic regression" if data.targets == "classes" else "linear regression"
    guess = [constant(data, samples) for samples in both]
    return {"constant guess": _of(data, guess), name: _of(data, best)}


def _of(data: DataSet, outputs: list[np.ndarray]) -> Baseline:
    judged, tested = outputs
    shares = accuracy(data, judged, data.validation.y), accuracy(data, tested, data.test.y)
    return Baseline(error(data, judged, data.validation.y), *shares)
