"""A cache folder for OpenCL drivers and pyopencl, some of which do without none: PoCL then lists no device."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from ... import env
from ...errors import ArgumentError

NAME = "XDG_CACHE_HOME"
PARTS = ("pocl/kcache", "pyopencl", "pytools")  # what is made in it


def give_folder() -> None:
    """Names another one, to this process and its children, where the user's cannot be written: without a home folder,
    or with one of somebody else. To be called before a driver is loaded."""
    home = os.environ.get("HOME")
    folder = os.environ.get(NAME) or os.path.expanduser("~/.cache")
    if not _takes_files(folder):
        os.environ[NAME] = _instead()
    elif not home:  # of which drivers do not know where the system says that it is
        os.environ[NAME] = folder


def _takes_files(folder: str) -> bool:
    """Whether all parts of an absolute path can be made, or are there and take files."""
    return os.path.isabs(folder) and all(_takes_file(Path(folder, part)) for part in PARTS)


def _takes_file(folder: Path) -> bool:
    there = next(place for place in (folder, *folder.parents) if os.path.exists(place))
    try:
        with tempfile.TemporaryFile(dir=there):
            return True
    except OSError:
        return False


def _instead() -> str:
    """A folder in pipeall's own cache, or a temporary one."""
    try:
        own = str(env.cache_dir() / "opencl")
    except ArgumentError:  # said where that cache is used
        own = ""
    return own if _takes_files(own) else _temporary().name


@cache
def _temporary() -> tempfile.TemporaryDirectory:
    """Removed when this process ends."""
    return tempfile.TemporaryDirectory(prefix="pipeall-opencl-")
