"""JSON files in the folder ``PIPEALL_CACHE``: results that would take long to compute again, but can be.

A file has a kind, which is its format and its folder, and a name that says everything its content follows from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

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
    text = repr((__version__, name, *depends_on)).encode()
    digest = f"{crc32(text):08x}{crc32(text[::-1]):08x}"  # nobody attacks these; hashlib takes 3.4 MB in each process
    return env.cache_dir() / kind / f"{_readable(name)}-{digest}.json"


def any_cached(kind: str, name: str) -> bool:
    """Whether a result of this name is kept, whatever else it follows from."""
    return next((env.cache_dir() / kind).glob(f"{_readable(name)}-*.json"), None) is not None


def _readable(name: str) -> str:
    return re.sub("[^A-Za-z0-9._-]", "-", name)[:60]


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
