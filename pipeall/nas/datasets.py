"""Data sets that networks are searched for: samples to train on, to judge candidates by, and to test the winner with.

Candidates never see the test samples. The samples that judge them are split off the training samples. Files are read
with suspicion.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ..arrays import DIGITS, read_samples
from ..errors import ArgumentError, missing_extra
from ..files import open_whole
from . import digit_boxes

SPLIT_SEED = 0
TEST_SHARE = 0.2  # of all samples, where a file has no test samples
VALIDATION_SHARE = 0.2  # of the training samples
MAX_CLASSES = 4096
WORDS = 1000  # of a text data set
BOXES, BOX = "digit-boxes", 5  # its name, and numbers of a box
BOX_PICTURES = (2500, 500)  # to train on and judge by, and to test with
IMAGE_SIDE = 2  # an array whose samples have at least two axes holds pictures

Targets = Literal["classes", "numbers", "boxes"]
MAX_TEXT_BYTES = 2**28  # of a file, unpacked
SUFFIXES = (".json", ".json.gz", ".txt", ".txt.gz")

Texts = tuple[list[str], list[str]]  # texts, and the label of each


class Samples(NamedTuple):
    """Samples of one purpose with their targets.

    x  float32 (samples, features) or (samples, channels, height, width)
    y  int64 classes, float32 numbers scaled to 0 .. 1 over the training samples, or boxes (samples, most, 5): class or
       -1, left, top, right, bottom in pixels
    """

    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class DataSet:
    """A data set: ``train`` to train on, ``validation`` for a candidate's error, ``test`` for the winner alone.

    targets      "classes": ``outputs`` classes; "numbers": one number is predicted; "boxes": ``outputs`` are those of
                 each cell, 4 + classes
    scale     pictures: pixels are divided by it
    centre, spread  features: ``centre`` is subtracted, then ``spread`` divides; None for pictures and texts
    target_low, target_width  numbers: ``target_low`` is subtracted from a target, then ``target_width`` divides it
    """

    name: str
    targets: Targets
    outputs: int
    train: Samples
    validation: Samples
    test: Samples
    scale: float = 1.0
    centre: np.ndarray | None = None
    spread: np.ndarray | None = None
    target_low: float = 0.0
    target_width: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.train.x.shape[1:]

    @property
    def pictures(self) -> bool:
        return len(self.shape) == 3

    def first(self, samples: int) -> DataSet:
        """The data set with at most so many samples to train on and half as many to judge by, for quick searches."""
        half = -(-samples // 2)
        return replace(
            self,
            train=Samples(self.train.x[:samples], self.train.y[:samples]),
            validation=Samples(self.validation.x[:half], self.validation.y[:half]),
        )


def load(name: str, targets: Targets | None = None) -> DataSet:
    """The data set of "digits", of "digit-boxes" (``digit_boxes``), or of a file.

    .npz          x_train, y_train, x_test, y_test, or x and y, samples along the first axis: pictures (height, width),
                  (height, width, 1 or 3) or (1 or 3, height, width); or features
    .csv          features, the target last
    .json, .txt   texts, see ``read_texts``
                  With pictures, y may be boxes (``Samples``)
    Targets are classes from 0 where all are whole numbers, unless ``targets`` says otherwise. Where a file has no test
    samples, a fifth of its samples becomes them, always the same ones. Raises ArgumentError naming the file.
    """
    if name == BOXES:
        return _digit_boxes(targets)
    path = DIGITS if name == "digits" else Path(name)
    endings = (".npz", ".csv", *SUFFIXES)
    if not path.name.endswith(endings) or not path.is_file():
        raise ArgumentError(f"data: expected digits, {BOXES} or a file ending in {', '.join(endings)}; got {name!r}")
    if path.name.endswith(SUFFIXES):
        return _texts(path)
    arrays = read_samples(path)
    if "x_train" in arrays:
        x, x_test = arrays["x_train"], arrays["x_test"]
        y, y_test = arrays["y_train"], arrays["y_test"]
        _check(name, x_test, y_test)
    else:
        x, y = arrays["x"], arrays["y"]
        _check(name, x, y)
        rest, test = _split(len(x), TEST_SHARE)
        x, x_test, y, y_test = x[rest], x[test], y[rest], y[test]
    _check(name, x, y)
    if x.shape[1:] != x_test.shape[1:]:
        raise ArgumentError(f"{name}: expected test samples of shape {x.shape[1:]}, got {x_test.shape[1:]}")
    stem = path.name.split(".")[0]
    if x.ndim > IMAGE_SIDE:
        return _pictures(stem, x, y, x_test, y_test, targets)
    return _features(stem, x, y, x_test, y_test, targets)


def _check(name: str, x: np.ndarray, y: np.ndarray) -> None:
    if x.ndim not in (2, 3, 4) or x.dtype.kind not in "uif" or len(x) < 10 or not x.size or not np.isfinite(x).all():
        raise ArgumentError(f"{name}: expected 10 or more samples of finite numbers, got {x.dtype} {x.shape}")
    if y.ndim == 3:
        return _check_boxes(name, x, y)
    if y.shape != (len(x),) or y.dtype.kind not in "uif" or not np.isfinite(y).all():
        raise ArgumentError(f"{name}: expected {len(x)} finite targets, got {y.dtype} {y.shape}")


def _check_boxes(name: str, x: np.ndarray, y: np.ndarray) -> None:
    if x.ndim <= IMAGE_SIDE or y.shape[:1] + y.shape[2:] != (len(x), BOX) or y.dtype.kind not in "uif":
        raise ArgumentError(f"{name}: expected pictures and boxes ({len(x)}, most, {BOX}), got {x.shape} and {y.shape}")
    boxes = y[y[..., 0] != -1]
    label, left, top, right, bottom = boxes.T
    good = (label == np.floor(label)) & (label >= 0) & (label < MAX_CLASSES) & (left < right) & (top < bottom)
    if not good.all() or not np.isfinite(boxes).all() or not len(boxes):
        wrong = boxes[~good][:1].tolist()
        raise ArgumentError(f"{name}: expected boxes of class, left, top, right, bottom, or class -1; got {wrong}")


def _split(count: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the rest and of the split-off share."""
    order = np.random.default_rng(SPLIT_SEED).permutation(count)
    split_off = max(1, round(share * count))
    return order[split_off:], order[:split_off]


def _pictures(
    name: str, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, targets: Targets | None
) -> DataSet:
    scale = 255.0 if x.dtype == np.uint8 and x.max() > 16 else float(np.abs(x).max()) or 1.0
    return _data(name, _planes(name, x, scale), y, _planes(name, x_test, scale), y_test, targets, scale=scale)


def _digit_boxes(targets: Targets | None) -> DataSet:
    """Test pictures have digits of their own."""
    digits = read_samples(DIGITS)
    x, y = digits["x"], digits["y"]
    parts = zip(_split(len(x), TEST_SHARE), BOX_PICTURES, strict=True)
    drawn = [digit_boxes.draw(x[some], y[some], count, seed) for seed, (some, count) in enumerate(parts)]
    return _pictures(BOXES, *drawn[0], *drawn[1], targets)


def _planes(name: str, x: np.ndarray, scale: float) -> np.ndarray:
    """(samples, channels, height, width), float32, divided by the scale."""
    if x.ndim == 3:
        x = x[:, None]
    elif x.shape[3] in (1, 3) and x.shape[1] not in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.shape[1] not in (1, 3):
        raise ArgumentError(f"{name}: expected pictures of 1 or 3 channels, got {x.shape[1:]}")
    return np.ascontiguousarray(x, np.float32) / np.float32(scale)


def _features(
    name: str, x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, targets: Targets | None
) -> DataSet:
    centre, spread = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    spread[spread == 0] = 1
    x, x_test = (((values - centre) / spread).astype(np.float32) for values in (x, x_test))
    return _data(name, x, y, x_test, y_test, targets, centre=centre, spread=spread)


def _texts(path: Path) -> DataSet:
    (texts, labels), test = read_texts(path)
    if test is None:
        rest, split = _split(len(texts), TEST_SHARE)
        test = ([texts[i] for i in split], [labels[i] for i in split])
        texts, labels = [texts[i] for i in rest], [labels[i] for i in rest]
    classes = {label: i for i, label in enumerate(sorted(set(labels)))}
    if unknown := sorted(set(test[1]) - set(classes)):
        raise ArgumentError(f"{path}: expected test labels that the training part has, got {unknown[0]!r}")
    x, x_test = vectorize(texts, [test[0]], WORDS)
    y, y_test = (np.array([classes[label] for label in words]) for words in (labels, test[1]))
    return _data(path.name.split(".")[0], x, y, x_test, y_test, "classes")


def _data(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    x_test: np.ndarray,
    y_test: np.ndarray,
    targets: Targets | None,
    **rest: object,
) -> DataSet:
    boxes = {y.ndim, y_test.ndim} == {3}
    if y.ndim != y_test.ndim or (boxes and targets not in (None, "boxes")):
        raise ArgumentError(f"{name}: expected targets of one kind, got {y.shape}, {y_test.shape} and {targets}")
    whole = all((values == np.floor(values)).all() for values in (y, y_test))
    targets = targets or ("boxes" if boxes else "classes" if whole else "numbers")
    if boxes:
        outputs = BOX + int(max(y[..., 0].max(), y_test[..., 0].max()))
        y, y_test = y.astype(np.float32), y_test.astype(np.float32)
    elif targets == "classes":
        low, high = min(y.min(), y_test.min()), max(y.max(), y_test.max())
        if not whole or low < 0 or high >= MAX_CLASSES:
            raise ArgumentError(f"{name}: expected classes from 0 to {MAX_CLASSES - 1}, got {low:g} to {high:g}")
        outputs, y, y_test = int(high) + 1, y.astype(np.int64), y_test.astype(np.int64)
    else:
        low, width = float(y.min()), float(np.ptp(y)) or 1.0
        outputs = 1
        y, y_test = (((values - low) / width).astype(np.float32) for values in (y, y_test))
        rest |= {"target_low": low, "target_width": width}
    train, validation = _split(len(x), VALIDATION_SHARE)
    samples = (Samples(x[train], y[train]), Samples(x[validation], y[validation]), Samples(x_test, y_test))
    return DataSet(name, targets, outputs, *samples, **rest)


def read_texts(path: Path) -> tuple[Texts, Texts | None]:
    """(training, test) texts and labels.

    .json  {"train": [{"text": ..., "label": ...}, ...], "test": [...]}
    .txt   a line is LABEL, tab, text; test texts are in the file of the same name with "test" for "train", if any
    Raises ArgumentError naming the file and the entry.
    """
    content = _read(path)
    if ".json" in path.suffixes:
        try:
            lists = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"{path}: expected JSON: {error}") from None
        if not isinstance(lists, dict) or "train" not in lists:
            raise ArgumentError(f"{path}: expected an object with lists 'train' and, if there is one, 'test'")
        return _entries(path, "train", lists), _entries(path, "test", lists) if "test" in lists else None
    other = path.with_name(path.name.replace("train", "test"))
    has_test = other != path and other.is_file()
    return _lines(path, content), _lines(other, _read(other)) if has_test else None


def vectorize(train: Sequence[str], others: Sequence[Sequence[str]], features: int) -> list[np.ndarray]:
    """One array (texts, words) for each list of texts, float32; rows have length 1.

    The words are the ``features`` most frequent ones in ``train``.

    Raises MissingExtraError without scikit-learn, ArgumentError where there is no word in ``train``.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError:
        raise missing_extra("scikit-learn", "nas", "searching a network for texts") from None
    words = TfidfVectorizer(max_features=features, sublinear_tf=True, dtype=np.float32)
    try:
        first = words.fit_transform(train)
    except ValueError as error:
        raise ArgumentError(f"texts: expected words: {error}") from None
    return [first.toarray(), *(words.transform(texts).toarray() for texts in others)]


def _read(path: Path) -> str:
    try:
        with open_whole(path) as packed, gzip.open(packed) if path.suffix == ".gz" else packed as file:
            content = file.read(MAX_TEXT_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ArgumentError(f"{path}: cannot be read: {error}") from None
    if len(content) > MAX_TEXT_BYTES:
        raise ArgumentError(f"{path}: expected at most {MAX_TEXT_BYTES} bytes of text")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path}: expected UTF-8 text: {error}") from None


def _entries(path: Path, key: str, lists: dict) -> Texts:
    rows = lists[key]
    if not isinstance(rows, list) or not rows:
        raise ArgumentError(f"{path}: {key}: expected a list of texts")
    for place, row in enumerate(rows):
        fits = isinstance(row, dict) and isinstance(row.get("text"), str) and isinstance(row.get("label"), int | str)
        if not fits:
            raise ArgumentError(f"{path}: {key}[{place}]: expected a text and a label, got {row!r:.60}")
    return [row["text"] for row in rows], [str(row["label"]) for row in rows]


def _lines(path: Path, content: str) -> Texts:
    pairs = [line.split("\t", 1) for line in content.split("\n") if line.strip()]
    for place, pair in enumerate(pairs, 1):
        if len(pair) != 2:
            raise ArgumentError(f"{path}: line {place}: expected LABEL, a tab and a text, got {pair[0]!r:.60}")
    if not pairs:
        raise ArgumentError(f"{path}: expected lines of LABEL, a tab and a text, got none")
    return [text for _, text in pairs], [label for label, _ in pairs]
