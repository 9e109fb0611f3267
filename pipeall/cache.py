"""JSON files in the folder ``PIPEALL_CACHE``: results that would take long to compute again, but can be.

A file has a kind, which is its format and its folder, and a name that says everything its content follows from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from . import __version__, env
from .errors import ArgumentError
from .files import read_json, write_json


def cached_path(kind: str, name: str, *depends_on: object) -> Path:
    """Where a result lies.

    Parameters
    ----------
    kind
        Its format and folder.
    name
        For people; any text.
    depends_on
        Everything that the result follows from beside the name and the version of this package; its ``repr`` is the
        same in every process.

    Raises
    ------
    ArgumentError
        Where ``PIPEALL_CACHE`` cannot be a folder.
    """
    readable = re.sub("[^A-Za-z0-9._-]", "-", name)[:60]
    digest = sha256(repr((__version__, name, *depends_on)).encode()).hexdigest()[:16]
    return env.cache_dir() / kind / f"{readable}-{digest}.json"


def all_cached(kind: str) -> list[Path]:
    return sorted((env.cache_dir() / kind).glob("*.json"))


def read_cached(path: Path, kind: str) -> dict[str, Any] | None:
    """A result, which is not trusted; None where it is absent or damaged."""
    try:
        return read_json(path, kind)
    except ArgumentError:
        return None


def write_cached(path: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Keeps a result. Raises ArgumentError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"{path}: cannot be written: {error.strerror}") from None
    write_json(path, kind, content)
