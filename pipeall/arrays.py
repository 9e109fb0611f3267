"""Arrays from .npz, .csv and .txt files that are not trusted, and the built-in digits."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from itertools import chain
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format

from .errors import ArgumentError
from .files import open_whole

MAX_BYTES = 2**32  # of an array, or of a file of text
# UCI Optical Recognition of Handwritten Digits, 1,797 of 8 x 8; CC BY 4.0
DIGITS = Path(__file__).parent / "mlp" / "digits.npz"
HEADERS = {(1, 0): format.read_array_header_1_0, (2, 0): format.read_array_header_2_0}  # of .npy, by version
SAMPLES = (("x_train", "y_train", "x_test", "y_test"), ("x", "y"))


def read_npz(path: Path, keys: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """The arrays of a .npz; where ``keys`` are given, those of them that it has. Raises ArgumentError.

    The size of an array is checked before it is read.
    """
    try:
        with open_whole(path) as file, zipfile.ZipFile(file) as archive:
            entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            return {key: _array(archive, entries[key]) for key in keys or entries if key in entries}
    except ArgumentError:
        raise
    except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ArgumentError(f"{path}: cannot be read as .npz: {error}") from None


def read_npy(path: Path) -> np.ndarray:
    """The array of a .npy. Raises ArgumentError."""
    try:
        with open_whole(path) as file:
            return _values(file, path.name, path.stat().st_size)
    except ArgumentError:
        raise
    except (OSError, EOFError, ValueError) as error:
        raise ArgumentError(f"{path}: cannot be read as .npy: {error}") from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename}: expected it stored or deflated")
    with archive.open(entry) as file:
        return _values(file, entry.filename, entry.file_size)


def _values(file: IO[bytes], name: str, size: int) -> np.ndarray:
    """An array of ``size`` bytes with its header, which must agree: NumPy allocates what the header says."""
    read_header = HEADERS.get(format.read_magic(file))
    if read_header is None:
        raise ValueError(f"{name}: expected version 1.0 or 2.0 of the .npy format")
    try:
        shape, by_columns, dtype = read_header(file)
    # a header is a Python expression: NumPy lets through what tokenizer and parser raise
    except Exception as error:
        raise ValueError(f"{name}: expected the header of an array: {error}") from None
    nbytes = size - file.tell()
    if dtype.hasobject or prod(shape) * dtype.itemsize != nbytes or nbytes > MAX_BYTES:
        raise ValueError(f"{name}: expected numbers of {nbytes} bytes, at most {MAX_BYTES}, got {dtype} {shape}")
    return np.frombuffer(file.read(nbytes), dtype).reshape(shape, order="F" if by_columns else "C")


def read_samples(path: Path, targets: int = 1) -> dict[str, np.ndarray]:
    """The arrays of a data set. Raises ArgumentError.

    .npz  x_train, y_train, x_test, y_test, or x and y
    .csv  x and y, which is the last column, or the last ``targets`` columns
    """
    if path.suffix == ".csv":
        return _csv(path, targets)
    for keys in SAMPLES:
        arrays = read_npz(path, keys)
        if len(arrays) == len(keys):
            return arrays
    raise ArgumentError(f"{path}: expected arrays x_train, y_train, x_test, y_test, or x and y")


def read_texts(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """The arrays of a data set in files of text: inputs and outputs, or those of training and of testing.

    A line of a file is a sample, its numbers separated by blanks or commas. Raises ArgumentError.
    """
    keys = next((keys for keys in SAMPLES if len(keys) == len(paths)), None)
    if keys is None:
        raise ArgumentError(f"expected inputs.txt,outputs.txt, or two of training and two of testing; got {len(paths)}")
    arrays = {}
    for key, path in zip(keys, paths, strict=True):
        table = _table(path, "as many numbers in each line", None)
        arrays[key] = table.astype(np.float32) if key[0] == "x" else table[:, 0] if table.shape[1] == 1 else table
    return arrays


def _csv(path: Path, targets: int) -> dict[str, np.ndarray]:
    """x and y of a .csv: numbers separated by commas; a first line of names is allowed."""
    table = _table(path, "numbers separated by commas", ",")
    if table.shape[1] <= targets:
        wanted = "a label" if targets == 1 else f"{targets} targets"
        raise ArgumentError(f"{path}: expected features and {wanted} in each line, got {table.shape[1]} columns")
    y = table[:, -1] if targets == 1 else table[:, -targets:]
    return {"x": table[:, :-targets].astype(np.float32), "y": y}


def _table(path: Path, expected: str, delimiter: str | None) -> np.ndarray:
    """The numbers of a file of text, (lines, columns). Without a delimiter, blanks and commas separate them."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ArgumentError(f"{path}: expected at most {MAX_BYTES} bytes, got {size}")
        with open_whole(path) as file:
            lines = (line.decode() if delimiter else line.decode().replace(",", " ") for line in file)
            first = next(lines, "")
            named = delimiter is not None and not _is_number(first.split(delimiter)[0].strip())
            return np.loadtxt(lines if named else chain([first], lines), delimiter=delimiter, ndmin=2)
    except ArgumentError:
        raise
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{path}: expected {expected}: {error}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
