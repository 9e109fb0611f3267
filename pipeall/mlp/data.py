"""Samples and labels from a file, or the built-in digits; files are read with suspicion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..arrays import DIGITS, read_samples
from ..errors import ArgumentError

MAX_CLASSES = 2**20
SPLIT_SEED = 0


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

    def batch(self, index: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Features (samples, features) and one-hot targets (samples, classes)."""
        target = np.zeros((len(index), self.classes), dtype)
        target[np.arange(len(index)), self.labels[index]] = 1
        x = self.x[index].astype(dtype)
        x /= self.scale
        return x, target


def load(name: str, test_share: float = 0.2) -> tuple[LabelledSamples, LabelledSamples]:
    """(training, test) samples of "digits", a .npz or a .csv.

    .npz  x_train, y_train, x_test, y_test, or x and y: samples along the first axis, labels from 0
    .csv  numbers, the label last, a first line of names allowed
    Where a file has no test samples, each sample becomes one with probability ``test_share``, always the same ones.
    Bytes are divided by 255, other features by their largest magnitude in training.

    Raises ArgumentError naming the file.
    """
    if name == "digits":
        arrays = read_samples(DIGITS)
    elif name.endswith((".npz", ".csv")) and Path(name).is_file():
        arrays = read_samples(Path(name))
    else:
        raise ArgumentError(f"data: expected digits, a .npz or a .csv file; got {name!r}")
    if "x_train" in arrays:
        pairs = [(arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])]
    else:
        x, y = _checked(name, arrays["x"], arrays["y"])
        test = np.random.default_rng(SPLIT_SEED).random(len(x)) < test_share
        pairs = [(x[~test], y[~test]), (x[test], y[test])]
    checked = [_checked(name, x, y) for x, y in pairs]
    (x, _), (x_test, _) = checked
    if x.shape[1] != x_test.shape[1]:
        raise ArgumentError(f"{name}: expected test samples of {x.shape[1]} features, got {x_test.shape[1]}")
    classes = 1 + max(int(labels.max()) for _, labels in checked)
    if x.dtype == np.uint8 and name != "digits":
        scale = 255.0
    else:
        scale = float(np.abs(x).max()) or 1.0
    return LabelledSamples(*checked[0], classes, scale), LabelledSamples(*checked[1], classes, scale)


def _checked(name: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if x.ndim < 2 or x.dtype.kind not in "uif" or not len(x) or not np.isfinite(x).all():
        raise ArgumentError(f"{name}: expected samples of finite numbers along the first axis, got {x.dtype} {x.shape}")
    if y.shape != (len(x),) or y.dtype.kind not in "uif" or (y != np.floor(y)).any():
        raise ArgumentError(f"{name}: expected {len(x)} whole labels, got {y.dtype} {y.shape}")
    if y.min() < 0 or y.max() >= MAX_CLASSES:
        raise ArgumentError(f"{name}: expected labels from 0 to {MAX_CLASSES - 1}, got {y.min():g} to {y.max():g}")
    return x.reshape(len(x), -1), y.astype(np.int64)
