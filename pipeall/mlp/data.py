"""Samples and labels from a file, or the built-in digits; files are read with suspicion."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import ArgumentError

MAX_BYTES = 2**32  # of an array, or of a .csv
MAX_CLASSES = 2**20
DIGITS = Path(__file__).with_name(
    "digits.npz"
)  # UCI Optical Recognition of Handwritten Digits, 1,797 of 8 x 8; CC BY 4.0
SPLIT_SEED = 0


@dataclass(frozen=True)
class Data:
    """``x`` (samples, features) as stored; ``labels`` int (samples); ``classes`` of the whole file; x is divided by
    ``scale`` where it is used."""

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


def load(name: str, test_share: float = 0.2) -> tuple[Data, Data]:
    """(training, test) samples of "digits", a .npz or a .csv.

    .npz  x_train, y_train, x_test, y_test, or x and y: samples along the first axis, labels from 0
    .csv  numbers, the label last, a first line of names allowed
    Where there is no test part, each sample is of it with probability ``test_share``, always the same ones. Bytes are
    divided by 255, other features by their largest magnitude in training. Raises ArgumentError naming the file.
    """
    if name == "digits":
        arrays = _npz(DIGITS)
    elif not Path(name).is_file():
        raise ArgumentError(f"data: expected digits, a .npz or a .csv file; got {name!r}")
    elif name.endswith(".npz"):
        arrays = _npz(Path(name))
    elif name.endswith(".csv"):
        arrays = _csv(Path(name))
    else:
        raise ArgumentError(f"data: expected digits, a .npz or a .csv file; got {name!r}")
    if "x_train" in arrays:
        parts = [(arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])]
    else:
        test = np.random.default_rng(SPLIT_SEED).random(len(arrays["x"])) < test_share
        parts = [(arrays["x"][~test], arrays["y"][~test]), (arrays["x"][test], arrays["y"][test])]
    checked = [_checked(name, *part) for part in parts]
    (x, _), (x_test, _) = checked
    if x.shape[1] != x_test.shape[1]:
        raise ArgumentError(f"{name}: expected test samples of {x.shape[1]} features, got {x_test.shape[1]}")
    classes = 1 + max(int(labels.max()) for _, labels in checked)
    if x.dtype == np.uint8 and name != "digits":
        scale = 255.0
    else:
        scale = float(np.abs(x).max()) or 1.0
    return Data(*checked[0], classes, scale), Data(*checked[1], classes, scale)


def _checked(name: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if x.ndim < 2 or x.dtype.kind not in "uif" or not len(x) or not np.isfinite(x).all():
        raise ArgumentError(f"{name}: expected samples of finite numbers along the first axis, got {x.dtype} {x.shape}")
    if y.shape != (len(x),) or y.dtype.kind not in "uif" or (y != np.floor(y)).any():
        raise ArgumentError(f"{name}: expected {len(x)} whole labels, got {y.dtype} {y.shape}")
    if y.min() < 0 or y.max() >= MAX_CLASSES:
        raise ArgumentError(f"{name}: expected labels from 0 to {MAX_CLASSES - 1}, got {y.min():g} to {y.max():g}")
    return x.reshape(len(x), -1), y.astype(np.int64)


def read_npz(path: Path, keys: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """The arrays of a .npz, of ``keys`` where given; sizes are checked before any is read. Raises ArgumentError."""
    try:
        with zipfile.ZipFile(path) as archive:
            large = [entry for entry in archive.infolist() if entry.file_size > MAX_BYTES]
        if large:
            raise ArgumentError(
                f"{path}: {large[0].filename} has {large[0].file_size} bytes, expected at most {MAX_BYTES}"
            )
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in keys or stored.files if key in stored.files}
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise ArgumentError(f"{path}: cannot be read as .npz: {error}") from None
    except ValueError as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{path}: cannot be read as .npz: {error}") from None


def _npz(path: Path) -> dict[str, np.ndarray]:
    for keys in (("x_train", "y_train", "x_test", "y_test"), ("x", "y")):
        arrays = read_npz(path, keys)
        if len(arrays) == len(keys):
            return arrays
    raise ArgumentError(f"{path}: expected arrays x_train, y_train, x_test, y_test, or x and y")


def _csv(path: Path) -> dict[str, np.ndarray]:
    if path.stat().st_size > MAX_BYTES:
        raise ArgumentError(f"{path}: expected at most {MAX_BYTES} bytes, got {path.stat().st_size}")
    try:
        with path.open() as file:
            first = file.readline().split(",")[0].strip()
        table = np.loadtxt(path, delimiter=",", skiprows=0 if _is_number(first) else 1, ndmin=2)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{path}: expected numbers separated by commas: {error}") from None
    if table.shape[1] < 2:
        raise ArgumentError(f"{path}: expected features and a label in each line, got {table.shape[1]} columns")
    return {"x": table[:, :-1].astype(np.float32), "y": table[:, -1]}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
