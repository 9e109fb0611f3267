"""Eq. 3 of paper 003: error, complexity and pruning of a network as one number, and what a board's speed adds to it;
and the figures of a constant guess and of logistic regression, which say what such a number is worth.

The paper minimizes F and prints (Yhat - Y) / sum O_i + alpha C / Cmax + mu P. It is read as follows: the first term is
the mean absolute error per output, C are trained weights, Cmax those of the network of all ones, P is the pruned
fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...errors import ArgumentError
from ..datasets import DataSet, Samples
from ..spaces.genome import Hyper
from .detection import average_precision
from .training_loop import linear

PENALTIES = (1e-5, 1e-3, 1e-1)  # of logistic regression: the samples that judge choose


@dataclass(frozen=True)
class Fitness:
    """F = E + a C / Cmax + s m P; lower is better.

    variant     "corrected": a and m are ``complexity`` and ``pruning``. "printed": they are the candidate's own genes
                learning rate and momentum, as the paper prints it; evolution then lowers F by learning less
    prune_sign  s: +1 as printed, which penalizes pruning; -1 rewards it
    """

    complexity: float = 0.01
    pruning: float = 0.01
    variant: Literal["corrected", "printed"] = "corrected"
    prune_sign: int = 1

    def __post_init__(self) -> None:
        if self.variant not in ("corrected", "printed") or self.prune_sign not in (1, -1):
            raise ArgumentError(f"fitness: expected corrected or printed and 1 or -1, got {self}")

    def __call__(self, error: float, weights: int, max_weights: int, pruned: float, hyper: Hyper) -> float:
        printed = self.variant == "printed"
        a, m = (hyper.learning_rate, hyper.momentum) if printed else (self.complexity, self.pruning)
        return error + a * weights / max_weights + self.prune_sign * m * pruned


def slow(fps: float, target_fps: float, weight: float) -> float:
    """What a network slower than the target adds to F: weight max(0, target / fps - 1)."""
    return weight * max(0.0, target_fps / fps - 1)


def printed_score(fitness: float) -> float:
    """The "fitness" of the paper's table II, where higher is better: 100 (1 - F)."""
    return 100 * (1 - fitness)


def deviations(data: DataSet, output: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The mean absolute error per output of each sample, float64.

    For classes: of the probabilities (samples, classes) against a one-hot target. For numbers: as a share of the range
    of the targets. For boxes: 1 - mean average precision of each picture that has boxes.
    """
    if data.targets == "boxes":
        pairs = ((output[i : i + 1], y[i : i + 1]) for i in np.flatnonzero((y[..., 0] >= 0).any(1)))
        return np.array([1 - average_precision(*pair) for pair in pairs])
    if data.targets == "numbers":
        return np.abs(output[:, 0] - y).astype(np.float64)
    right = output[np.arange(len(y)), y]
    return (1 - right + output.sum(axis=1, dtype=np.float64) - right) / data.outputs


def error(data: DataSet, output: np.ndarray, y: np.ndarray) -> float:
    """The mean of the deviations, of boxes 1 - mean average precision; ``inf`` where an output is not finite."""
    if not np.isfinite(output).all():
        return np.inf
    return 1 - accuracy(data, output, y) if data.targets == "boxes" else float(deviations(data, output, y).mean())


def constant(data: DataSet, samples: Samples) -> np.ndarray:
    """The outputs of the best constant guess: the shares of the classes, or the mean, of the training samples."""
    if data.targets == "numbers":
        return np.full((len(samples), 1), data.train.y.mean())
    shares = np.bincount(data.train.y, minlength=data.outputs) / len(data.train)
    return np.tile(shares, (len(samples), 1))


def accuracy(data: DataSet, output: np.ndarray, y: np.ndarray) -> float:
    """The share of right classes; for numbers R^2, the share of the variance that is explained; for boxes mean average
    precision at half an overlap."""
    if data.targets == "boxes":
        return average_precision(output, y)
    if data.targets == "numbers":
        return float(1 - ((output[:, 0] - y) ** 2).mean() / y.var())
    return float((output.argmax(axis=1) == y).mean())


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
    regression" (for numbers "linear regression") on all features or pixels. Both see ``data.train`` only. Of boxes: "no
    boxes" alone.

    Raises MissingExtraError without torch.
    """
    if data.targets == "boxes":
        return {"no boxes": Baseline(error=1.0, judged=0.0, tested=0.0)}
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
