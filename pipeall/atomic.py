"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from .errors import ArgumentError


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
