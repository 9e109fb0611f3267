"""Texts as vectors: reviews (.json), labelled stories (.txt), gzipped or not; the one file that imports scikit-learn.

A text is the TF-IDF of the most frequent words. The paper names no words: its data sets come with lists of their own.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import ArgumentError, missing_extra
from ..files import open_whole

MAX_TEXT_BYTES = 2**28  # of a file, unpacked
SUFFIXES = (".json", ".json.gz", ".txt", ".txt.gz")

Texts = tuple[list[str], list[str]]  # texts, and the label of each


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
