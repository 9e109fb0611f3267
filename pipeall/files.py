"""JSON files: plans, profiles, boards and measurements, readable in a diff, written atomically, read with suspicion."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import IO, Any

from .errors import ArgumentError

MAX_BYTES = 64 << 20  # a profile of a hundred groups on ten units has some 100 KB
MAX_NUMBER = 1e15  # no time, size or factor comes near it; sums and products of a few stay finite


def write_whole(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Puts what ``write`` writes in the place of a file: a reader sees the old content or the whole new one.

    Raises ArgumentError naming the file where it cannot be written.
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be written: {error.strerror}") from None


def _umask() -> int:
    """The process's mask; there is no call that only reads it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def write_json(path: str | Path, kind: str, content: Mapping[str, Any]) -> None:
    """Writes ``content`` after its format, such as "pipeall.plan/1"; a reader sees the old file or the whole new one.

    Raises ArgumentError naming the file where it cannot be written.
    """
    write_text(path, dumps({"format": f"pipeall.{kind}/1", **content}) + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Writes a whole file atomically. Raises ArgumentError naming the file where it cannot be written."""
    write_whole(path, lambda file: file.write(text.encode()))


def read_json(path: str | Path, kind: str) -> dict[str, Any]:
    """The content of a file of this format. Raises ArgumentError naming the file for anything else."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise ArgumentError(f"{path}: expected at most {MAX_BYTES} bytes, got {len(text)} or more")
        content = json.loads(text, parse_constant=_no_constant)
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{path}: expected JSON; {error}") from None
    expected = f"pipeall.{kind}/1"
    if not isinstance(content, dict) or content.get("format") != expected:
        got = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise ArgumentError(f"{path}: expected format {expected!r}, got {shown(got)}")
    return content


def shown(value: Any) -> str:
    """A value out of a file, as an error shows it: short, whatever it is."""
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Puts the file before an ArgumentError that does not name it: of what its words mean, say, read elsewhere."""
    try:
        yield
    except ArgumentError as error:
        raise error if str(path) in str(error) else ArgumentError(f"{path}: {error!s:.500}") from None


class JsonReader:
    """Takes entries out of a JSON object; every error names the file and the entry."""

    def __init__(self, content: Any, where: str):
        if not isinstance(content, Mapping):
            raise ArgumentError(f"{where}: expected an object, got {type(content).__name__}")
        self.content, self.where = content, where

    def fail(self, key: str, expected: str) -> ArgumentError:
        return ArgumentError(f"{self.where}: {key}: expected {expected}, got {shown(self.content.get(key))}")

    def inside(self, *path: str) -> JsonReader:
        found: Any = self.content
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return JsonReader(found, f"{self.where}: {'.'.join(path)}")

    def keys(self, key: str) -> list[str]:
        return list(self.inside(key).content) if self.content.get(key) is not None else []

    def rows(self, key: str) -> list[JsonReader]:
        rows = self.content.get(key) or []
        if not isinstance(rows, list):
            raise self.fail(key, "a list of objects")
        return [JsonReader(row, f"{self.where}: {key}[{i}]") for i, row in enumerate(rows)]

    def word(self, key: str) -> str:
        if not isinstance(self.content.get(key), str):
            raise self.fail(key, "text")
        return self.content[key]

    def words(self, key: str) -> list[str]:
        words = self.content.get(key)
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise self.fail(key, "a list of names")
        return words

    def number(self, key: str, low: float = 0.0) -> float:
        value = self.content.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= MAX_NUMBER:
            raise self.fail(key, f"a number from {low:g} to {MAX_NUMBER:g}")
        return float(value)

    def numbers(self, key: str, count: int | None = None, low: float = 0.0, null: bool = False) -> list[float]:
        """A list of ``count`` numbers; with ``null``, a null means infinity."""
        values = self.content.get(key)
        if not isinstance(values, list) or count not in (None, len(values)):
            raise self.fail(key, f"a list of {count or 'some'} numbers")
        if not all(null if v is None else type(v) in (int, float) and low <= v <= MAX_NUMBER for v in values):
            raise self.fail(key, f"numbers from {low:g} to {MAX_NUMBER:g}")
        return [inf if value is None else float(value) for value in values]

    def sizes(self, key: str, count: int | None = None, low: int = 0) -> tuple[int, ...]:
        """A list of ``count`` whole numbers."""
        values = self.numbers(key, count, low)
        if any(value != int(value) for value in values):
            raise self.fail(key, "whole numbers")
        return tuple(int(value) for value in values)


def dumps(value: Any, indent: str = "") -> str:
    """JSON with one line per entry, except that what holds only numbers and words stays on one line."""
    inner = indent + " "
    if isinstance(value, Mapping) and (not indent or not _is_flat(value.values())):
        rows = [f"{inner}{json.dumps(str(key))}: {dumps(entry, inner)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}" if rows else "{}"
    if isinstance(value, (list, tuple)) and not _is_flat(value):
        return "[\n" + ",\n".join(inner + dumps(entry, inner) for entry in value) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _is_flat(values: Any) -> bool:
    return not any(isinstance(value, (Mapping, list, tuple)) for value in values)


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")
