"""Journals: the results of long work so far. Work that was interrupted goes on from its journal.

A journal is a file of JSON lines. The first holds its format and what the journal belongs to, each other is an entry.
A last line that was cut off is dropped. The file is not trusted: its entries are objects of any content.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .arguments import path as as_path
from .arguments import shown
from .errors import ArgumentError
from .files import FULL_DISK, open_whole

MAX_BYTES = 256 << 20  # the histograms of a thousand tensors take some 20 MB


class Journal:
    """An open journal, which is begun where the file is absent.

    Parameters
    ----------
    path
        The file.
    kind
        Of the format: ``pipeall.KIND/1``.
    about
        Everything that the entries follow from, ready for JSON.

    Attributes
    ----------
    entries : list of dict
        In the order they were added, those of before first.

    Raises
    ------
    ArgumentError
        Naming the file, where it is another kind of file, belongs to something else, is damaged, or cannot be opened.
        The file stays as it was. A full disk is no error: one warning says so, and the work goes on.
    """

    def __init__(self, path: str | Path, kind: str, about: Mapping[str, Any]):
        self.path = as_path("path", path)
        self.entries: list[dict[str, Any]] = []
        self._failure: ArgumentError | None = None
        header = {"format": f"pipeall.{kind}/1", **about}
        content = self._content()
        if _line(header).startswith(content):  # it is absent, empty, cut off, or has no entry
            self._begin(_line(header))
            return
        first, *lines = content[: content.rfind(b"\n")].split(b"\n")
        self._check(first, json.loads(_line(header)))
        self.entries = [self._entry(number, line) for number, line in enumerate(lines, 2)]
        try:
            os.truncate(self.path, content.rfind(b"\n") + 1)
        except OSError as error:
            raise ArgumentError(f"{self.path}: cannot be written: {error.strerror}") from None

    def add(self, entry: Mapping[str, Any]) -> None:
        """Adds an entry, ready for JSON. Where it cannot be written, one warning says so, and the work goes on."""
        self.entries.append(dict(entry))
        line = _line(entry)
        if self._failure is not None:
            return  # behind a line that was cut off none can be read
        try:
            with self.path.open("ab") as file:
                file.write(line)
        except OSError as error:
            self._fail(error)

    def _begin(self, header: bytes) -> None:
        try:
            with self.path.open("wb") as file:
                file.write(header)
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise ArgumentError(f"{self.path}: cannot be written: {error.strerror}") from None
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._failure = ArgumentError(f"{self.path}: cannot be written: {error.strerror}")
        warnings.warn(f"{self._failure}; results from here on are not kept", RuntimeWarning, stacklevel=4)

    def check(self) -> None:
        """Raises the ArgumentError of the first entry that could not be written."""
        if self._failure is not None:
            raise self._failure

    def remove(self) -> None:
        """Removes the file. Raises ArgumentError where that cannot be."""
        remove(self.path)

    def damaged(self, number: int, expected: str) -> ArgumentError:
        """The error of an entry, by its index, that does not hold what it should."""
        return ArgumentError(f"{self.path}: line {number + 2}: expected {expected}")

    def _content(self) -> bytes:
        try:
            with open_whole(self.path) as file:
                content = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ArgumentError(f"{self.path}: cannot be read: {error.strerror}") from None
        if len(content) > MAX_BYTES:
            raise ArgumentError(f"{self.path}: expected at most {MAX_BYTES} bytes, got more")
        return content

    def _check(self, line: bytes, header: Mapping[str, Any]) -> None:
        try:
            first = json.loads(line)
        except (ValueError, RecursionError):
            first = None
        if not isinstance(first, dict) or first.get("format") != header["format"]:
            raise ArgumentError(f"{self.path}: expected format {header['format']!r} in its first line")
        for key in {**header, **first}:
            if header.get(key) != first.get(key):
                there, here = shown(first.get(key)), shown(header.get(key))
                raise ArgumentError(f"{self.path}: belongs to another {key}: {there} there, {here} here")

    def _entry(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            raise ArgumentError(f"{self.path}: line {number}: expected an entry, a JSON object")
        return entry


def remove(path: Path) -> None:
    """Removes a journal, if there is one. Raises ArgumentError where that cannot be."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be removed: {error.strerror}") from None


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, allow_nan=False).encode() + b"\n"
