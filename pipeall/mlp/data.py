"""Samples with labels or values from a file, or the built-in digits; files are read with suspicion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..arrays import DIGITS, read_samples, read_texts
from ..errors import ArgumentError

MAX_CLASSES = 2**20
SPLIT_SEED, VALIDATION_SEED = 0, 1
TEST_SHARE = 0.2  # of the samples, where a file has no test samples


@dataclass(frozen=True)
class LabelledSamples:
    """Samples with their classes.

    x        (samples, features) as stored; divided by ``scale`` where it is used
    labels   (samples,), int
    classes  number of classes in the whole file
    """

    x: np.ndarray
    labels: np.ndarray
    classes: int
    scale: float

    def __len__(self) -> int:
        return len(self.x)

    @property
    def outputs(self) -> int:
        """Neurons of the output layer."""
        return self.classes

    def batch(self, index: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Features (samples, features) and one-hot targets (samples, classes)."""
        target = np.zeros((len(index), self.classes), dtype)
        target[np.arange(len(index)), self.labels[index]] = 1
        x = self.x[index].astype(dtype)
        x /= self.scale
        return x, target


@dataclass(frozen=True)
class ValuedSamples:
    """Samples with numbers to tell from them.

    x        (samples, features) as stored
    y        (samples, outputs) as stored, float64
    x_units  (mean, deviation) of each feature in training: what is learned from is (x - mean) / deviation
    y_units  the same of each output; (0, 1) where outputs are bounded
    """

    x: np.ndarray
    y: np.ndarray
    x_units: tuple[np.ndarray, np.ndarray]
    y_units: tuple[np.ndarray, np.ndarray]

    def __len__(self) -> int:
        return len(self.x)

    @property
    def outputs(self) -> int:
        """Neurons of the output layer."""
        return self.y.shape[1]

    def batch(self, index: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Features (samples, features) and targets (samples, outputs), standardized."""
        x, y = ((a[index] - mean) / by for a, (mean, by) in ((self.x, self.x_units), (self.y, self.y_units)))
        return x.astype(dtype), y.astype(dtype)

    def in_units(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs (samples, outputs) of a network as the file has its targets."""
        mean, deviation = self.y_units
        return outputs * deviation + mean


Samples = LabelledSamples | ValuedSamples


class Split(NamedTuple):
    """What is trained with, what says how good the result is, and what may choose between results."""

    train: Samples
    test: Samples
    validation: Samples | None = None


def split(
    name: str,
    output: str = "softmax",
    loss: str = "cross-entropy",
    targets: int = 1,
    validation: float = 0.0,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> Split:
    """Samples of "digits" or of files, for a network with this activation of its outputs and this loss.

    .npz  x_train, y_train, x_test, y_test, or x and y: samples along the first axis; y: labels from 0, or (samples,
          outputs) of numbers
    .csv  numbers, the last ``targets`` columns are y; a first line of names allowed
    .txt  inputs.txt,outputs.txt, or two of training and two of testing: a line for each sample
    ``arrays`` are samples that were read already, with the keys of a .npz; ``name`` is what errors say then.
    Where a file has no test samples, one in five becomes one, at random, always the same ones; of the others the share
    ``validation`` is held out in the same way.

    With labels, bytes are divided by 255, other features by their largest magnitude in training. With numbers, which y
    is where it has two axes or the output is linear, features are standardized, and with a linear output y too.

    Raises ArgumentError naming the file.
    """
    pairs = _pairs(name, _read(name, targets) if arrays is None else arrays, validation)
    if output == "linear" or pairs[0][1].ndim == 2:
        return _valued(name, pairs, output, loss)
    return _labelled(name, pairs)


def _read(name: str, targets: int) -> dict[str, np.ndarray]:
    texts = [Path(path) for path in name.split(",")]
    if name == "digits":
        return read_samples(DIGITS)
    if name.endswith((".npz", ".csv")) and Path(name).is_file():
        return read_samples(Path(name), targets)
    if all(path.suffix == ".txt" and path.is_file() for path in texts):
        return read_texts(texts)
    raise ArgumentError(f"data: expected digits, a .npz or a .csv file, or inputs.txt,outputs.txt; got {name!r}")


def _pairs(name: str, arrays: Mapping[str, np.ndarray], validation: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """(x, y) of training, test and, where asked for, validation, as stored."""
    if "x_train" in arrays:
        pairs = [(arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])]
    else:
        pairs = _drawn(*_checked(name, arrays["x"], arrays["y"]), SPLIT_SEED, TEST_SHARE)
    pairs = [_checked(name, x, y) for x, y in pairs]
    if validation:
        (x, y), test = pairs
        rest, held = _drawn(x, y, VALIDATION_SEED, validation)
        pairs = [_checked(name, *rest), test, _checked(name, *held)]
    (x, y), (x_test, y_test) = pairs[:2]
    if x.shape[1] != x_test.shape[1]:
        raise ArgumentError(f"{name}: expected test samples of {x.shape[1]} features, got {x_test.shape[1]}")
    if y.shape[1:] != y_test.shape[1:]:
        raise ArgumentError(f"{name}: expected test targets of shape {y.shape[1:]}, got {y_test.shape[1:]}")
    return pairs


def _drawn(x: np.ndarray, y: np.ndarray, seed: int, share: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """The rest, and the samples that a draw with this probability takes."""
    taken = np.random.default_rng(seed).random(len(x)) < share
    return [(x[~taken], y[~taken]), (x[taken], y[taken])]


def _labelled(name: str, pairs: list[tuple[np.ndarray, np.ndarray]]) -> Split:
    for _, y in pairs:
        if (y != np.floor(y)).any():
            raise ArgumentError(f"{name}: expected {len(y)} whole labels; --output linear learns other numbers")
        if y.min() < 0 or y.max() >= MAX_CLASSES:
            raise ArgumentError(f"{name}: expected labels from 0 to {MAX_CLASSES - 1}, got {y.min():g} to {y.max():g}")
    classes = 1 + max(int(y.max()) for _, y in pairs)
    x = pairs[0][0]
    scale = 255.0 if x.dtype == np.uint8 and name != "digits" else float(np.abs(x).max()) or 1.0
    made = [LabelledSamples(x, y.astype(np.int64), classes, scale) for x, y in pairs]
    return Split(made[0], made[1], made[2] if len(made) > 2 else None)


def _valued(name: str, pairs: list[tuple[np.ndarray, np.ndarray]], output: str, loss: str) -> Split:
    pairs = [(x, y.reshape(len(y), -1).astype(np.float64)) for x, y in pairs]
    if not 1 <= pairs[0][1].shape[1] <= MAX_CLASSES:
        raise ArgumentError(f"{name}: expected 1 to {MAX_CLASSES} targets, got {pairs[0][1].shape[1]}")
    for _, y in pairs if loss == "cross-entropy" else ():
        if y.min() < 0 or y.max() > 1:
            raise ArgumentError(f"{name}: cross-entropy: expected targets from 0 to 1, got {y.min():g} to {y.max():g}")
        if output == "softmax" and np.abs(y.sum(axis=1) - 1).max() > 1e-3:
            raise ArgumentError(f"{name}: softmax: expected targets of each sample with the sum 1")
    (x, y), units = pairs[0], (np.zeros(pairs[0][1].shape[1]), np.ones(pairs[0][1].shape[1]))
    x_units = _units(x.astype(np.float64))
    y_units = _units(y) if output == "linear" else units
    made = [ValuedSamples(x, y, x_units, y_units) for x, y in pairs]
    return Split(made[0], made[1], made[2] if len(made) > 2 else None)


def _units(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each column; 1 where a column is constant."""
    deviation = values.std(axis=0)
    return values.mean(axis=0), np.where(deviation > 0, deviation, 1.0)


def _checked(name: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if x.ndim < 2 or x.dtype.kind not in "uif" or not len(x) or not np.isfinite(x).all():
        raise ArgumentError(f"{name}: expected samples of finite numbers along the first axis, got {x.dtype} {x.shape}")
    if y.ndim not in (1, 2) or len(y) != len(x) or y.dtype.kind not in "uif" or not np.isfinite(y).all():
        raise ArgumentError(f"{name}: expected {len(x)} finite labels or rows of targets, got {y.dtype} {y.shape}")
    return x.reshape(len(x), -1), y
