"""Files: written whole or not at all, read with suspicion; JSON ones are readable in a diff."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from math import inf
from pathlib import Path
from typing import IO, Any

from .arguments import path as as_path
from .errors import ArgumentError

MAX_BYTES = 64 << 20  # a profile of a hundred groups on ten units has some 100 KB
MAX_LINKS = 40  # from one to the next, as the kernel has it
READER_S = 5  # that a pipe which is written gets to find a reader
# What a folder or mount says where a file may be written all the same.
IN_PLACE = (errno.EACCES, errno.EBUSY, errno.EPERM, errno.EROFS)
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
NOT_FILES = {
    "a folder": stat.S_ISDIR, "a pipe": stat.S_ISFIFO, "a device": stat.S_ISCHR, "a disk": stat.S_ISBLK,
    "a socket": stat.S_ISSOCK,
}  # fmt: skip
MAX_NUMBER = 1e15  # no time, size or factor comes near it; sums and products of a few stay finite


def write_whole(path: str | Path, write: Callable[[IO[bytes]], object]) -> None:
    """Puts what ``write`` writes in the place of a file: a reader sees the old content or the whole new one.

    The file keeps its mode, and a link leads where it led. What cannot be replaced is written into: a device, a pipe, a
    file of several names, one that is mounted, or whose folder takes no new file; ``write`` may be called again then.
    Raises ArgumentError naming the file where it cannot be written.
    """
    try:
        target = _followed(as_path("path", path))
        if not (_is_replaceable(target) and _replaced(target, write)):
            _write_into(target, write)
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be written: {error.strerror or error}") from None


def _followed(path: Path) -> Path:
    """Where a path's links lead, but for the open files of this process, whose links are no paths."""
    for _ in range(MAX_LINKS):
        path = Path(os.path.realpath(path.parent)) / path.name
        if path.parent == _own_files() or not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _own_files() -> Path:
    return Path(os.path.realpath("/proc/self/fd"))


def _is_replaceable(path: Path) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def _replaced(path: Path, write: Callable[[IO[bytes]], object]) -> bool:
    """Puts a new file in the place of another; False where the system does not let it, though the file may do."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".pipeall-")
    except OSError as error:
        if error.errno in IN_PLACE:
            return False
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        _keep_mode(path, name)
        os.replace(name, path)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError) and error.errno in IN_PLACE and path.exists():
            return False
        raise
    return True


def _keep_mode(path: Path, name: str) -> None:
    """Owner and mode of a file for the one that takes its place; some file systems have none."""
    with suppress(OSError):
        if path.exists():
            before = path.stat()
            with suppress(OSError):
                os.chown(name, before.st_uid, before.st_gid)
            os.chmod(name, stat.S_IMODE(before.st_mode))
        else:
            os.chmod(name, 0o666 & ~_umask())


def _write_into(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    content = BytesIO()  # which a writer may seek in
    write(content)
    with _opened_to_write(path) as file:
        file.write(content.getbuffer())
        file.flush()
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and path.parent != _own_files():
            file.truncate()


def _opened_to_write(path: Path) -> IO[bytes]:
    """A file as it is, not emptied yet. A pipe gets READER_S to find a reader: waiting for one might never end."""
    if path.parent == _own_files():  # with its place in the file, which opening it again would lose
        return os.fdopen(os.dup(int(path.name)), "wb")
    deadline = time.monotonic() + READER_S
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
            break
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo():
                raise
            if time.monotonic() > deadline:
                raise OSError(errno.ENXIO, "nobody reads this pipe") from None
            time.sleep(0.05)
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


def same_file(path: str | Path, others: Iterable[str | Path]) -> str | Path | None:
    """That of the others which is the same file, by whatever name, also where there is none yet; None where none is."""
    for other in others:
        with suppress(OSError, ValueError):
            if os.path.realpath(path) == os.path.realpath(other) or os.path.samefile(path, other):
                return other
    return None


def open_whole(path: str | Path) -> IO[bytes]:
    """A file to read, which ``check_file`` lets through."""
    check_file(path)
    return open(path, "rb")


def check_file(path: str | Path) -> None:
    """Refuses what is no file: a pipe would be waited for, a device may not end, or does something when it is opened.

    Raises OSError where there is nothing, ArgumentError naming it where it is something else.
    """
    if kind := other_kind(path):
        raise ArgumentError(f"{path}: expected a file, got {kind}")


def other_kind(path: str | Path) -> str | None:
    """What it is where it is no file: one of ``NOT_FILES``. Raises OSError where there is nothing."""
    mode = os.stat(path).st_mode
    return next((name for name, is_kind in NOT_FILES.items() if is_kind(mode)), None)


def _umask() -> int:
    """The process's mask; there is no call that only reads it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def write_json(path: str | Path, kind: str, content: Mapping[str, Any]) -> None:
    """Writes ``content`` after its format, such as "pipeall.plan/1"; a reader sees the old file or the whole new one.

    Raises ArgumentError naming the file where it cannot be written, or where JSON has no words for the content.
    """
    try:
        text = dumps({"format": f"pipeall.{kind}/1", **content})
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"{path}: cannot be written as JSON: {error!s:.200}") from None
    write_text(path, text + "\n")


def checkpoint(save: Callable[[], object]) -> None:
    """Keeps what long work has so far. Where that cannot be, a warning says so, and the work goes on."""
    try:
        save()
    except ArgumentError as error:
        warnings.warn(f"{error}; what is found so far is not kept", RuntimeWarning, stacklevel=2)


def is_writable(path: str | Path) -> bool:
    """Whether a file may be written or put there, as far as permissions tell."""
    return os.access(path, os.W_OK) or os.access(Path(path).parent, os.W_OK | os.X_OK)


def write_text(path: str | Path, text: str) -> None:
    """Writes a whole file atomically. Raises ArgumentError naming the file where it cannot be written."""
    write_whole(path, lambda file: file.write(text.encode()))


def read_json(path: str | Path, kind: str) -> dict[str, Any]:
    """The content of a file of this format. Raises ArgumentError naming the file for anything else."""
    path = as_path("path", path)
    try:
        with open_whole(path) as file:
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
        value: Any = self.content
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return JsonReader(value, f"{self.where}: {'.'.join(path)}")

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
