"""Samples and labels from a file, or the built-in digits; files are read with suspicion."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from numpy.lib import format

from ..errors import ArgumentError

MAX_BYTES = 2**32  # of an array, or of a .csv
MAX_CLASSES = 2**20
DIGITS = Path(__file__).with_name(
    "digits.npz"
)  # UCI Optical Recognition of Handwritten Digits, 1,797 of 8 x 8; CC BY 4.0
SPLIT_SEED = 0
HEADERS = {(1, 0): format.read_array_header_1_0, (2, 0): format.read_array_header_2_0}  # of .npy, by version


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
        x, y = _checked(name, arrays["x"], arrays["y"])
        test = np.random.default_rng(SPLIT_SEED).random(len(x)) < test_share
        parts = [(x[~test], y[~test]), (x[test], y[test])]
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
            entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            return {key: _array(archive, entries[key]) for key in keys or entries if key in entries}
    except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ArgumentError(f"{path}: cannot be read as .npz: {error}") from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    """An array whose header agrees with the size of its entry; NumPy would allocate what the header says."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename}: expected it stored or deflated")
    with archive.open(entry) as file:
        read_header = HEADERS.get(format.read_magic(file))
        if read_header is None:
            raise ValueError(f"{entry.filename}: expected version 1.0 or 2.0 of the .npy format")
        try:
            shape, by_columns, dtype = read_header(file)
        except Exception as error:  # it is a Python expression: NumPy lets through what tokenizer and parser raise
            raise ValueError(f"{entry.filename}: expected the header of an array: {error}") from None
        nbytes = entry.file_size - file.tell()
        if dtype.hasobject or prod(shape) * dtype.itemsize != nbytes or nbytes > MAX_BYTES:
            raise ValueError(
                f"{entry.filename}: expected numbers of {nbytes} bytes, at most {MAX_BYTES}, got {dtype} {shape}"
            )
        values = np.frombuffer(file.read(nbytes), dtype)
    return values.reshape(shape, order="F" if by_columns else "C")


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
