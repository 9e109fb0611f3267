"""The folder in which running pipelines say what they hold: each in a file of its own, which it keeps locked.

The lock is one of POSIX: it is the process's, so the kernel frees it however the process ends, and a fork does not have
it. A file that nobody keeps locked is stale, and whoever looks removes it. Closing any descriptor of a file frees this
process's lock of it, so its own files are never opened again: ``_OWN`` has what is in them.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from .. import env
from ..files import dumps

FORMAT = "pipeall.lease/1"
MAX_BYTES = 1 << 16
GUARD_S = 5.0  # that another process may take to look and write

Resource = int | str  # the id of a core, or a device's own name
Claims = Mapping[str, frozenset[Resource]]  # what is held of each component


class Holder(NamedTuple):
    """Who holds something: a process, its program, what runs there, and what it has of each component."""

    pid: int
    program: str
    about: str
    claims: Claims

    def __str__(self) -> str:
        if self.pid == os.getpid():
            return f"another pipeline of this process ({self.about})"
        return f"{self.program}, PID {self.pid} ({self.about})"


_OWN: dict[Path, Holder] = {}  # this process's files
os.register_at_fork(after_in_child=_OWN.clear)


def folder() -> Path:
    """PIPEALL_LEASES, else "pipeall" in the user's runtime folder, else "pipeall-UID" in that of temporary files. Made
    where it is absent; raises OSError where that cannot be, or it is another user's."""
    if given := env.leases():
        given.mkdir(exist_ok=True)
        return given
    user = os.geteuid()
    runtime = [os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{user}"]
    for place in (*(Path(base, "pipeall") for base in runtime if base), _temporary(user)):
        with suppress(OSError):
            place.mkdir(mode=0o700, exist_ok=True)
            status = place.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == user and os.access(place, os.W_OK | os.X_OK):
                return place
    raise PermissionError(f"neither XDG_RUNTIME_DIR, {runtime[-1]} nor {_temporary(user)} can be written")


def _temporary(user: int) -> Path:
    return Path(os.environ.get("TMPDIR") or "/tmp", f"pipeall-{user}")


@contextmanager
def guarded() -> Iterator[Path]:
    """The folder, while no other process, or thread, looks and writes there. Raises OSError where that cannot be."""
    place = folder()
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + GUARD_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{place} was locked for {GUARD_S:g} s") from None
                time.sleep(0.005)
        try:
            yield place
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a fork may have the descriptor too
    finally:
        os.close(handle)


def holders(place: Path) -> dict[Path, Holder]:
    """Everybody who holds something, this process included, by file; with ``guarded``. Removes stale files."""
    known = {path: _OWN.get(path) or _read(path) for path in sorted(place.glob("*.lease"))}
    return {path: holder for path, holder in known.items() if holder}


def _read(path: Path) -> Holder | None:
    """What another process's file says; None where it is stale, or no file of ours."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # it has just been removed, or is another user's own
        return None
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return _parsed(os.read(handle, MAX_BYTES))
        with suppress(OSError):
            path.unlink()
        return None
    finally:
        os.close(handle)


def _parsed(content: bytes) -> Holder | None:
    try:
        entries = json.loads(content)
        if entries["format"] != FORMAT:
            return None
        claims = {str(name): frozenset(resources) for name, resources in entries["components"].items()}
        return Holder(int(entries["pid"]), str(entries["program"]), str(entries["about"]), claims)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


class LeaseFile:
    """A file that says what this process holds, from when it is made, with ``guarded``, until ``close``."""

    def __init__(self, place: Path):
        self._process, self._about = os.getpid(), ""
        for number in count():  # another process may have the same number, in a container of its own
            self.path = place / f"{self._process}-{number}.lease"
            with suppress(FileExistsError):
                self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
                break
        try:
            os.fchmod(self._handle, 0o644)  # in a folder of several users all of them read it
            fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            self.close()
            raise

    def write(self, claims: Claims, about: str | None = None) -> None:
        """What it says from now on; ``about`` None: as before."""
        self._about = self._about if about is None else about
        _OWN[self.path] = holder = Holder(self._process, _program(), self._about, claims)
        components = {name: sorted(resources, key=str) for name, resources in claims.items()}
        entries = {"format": FORMAT, "pid": holder.pid, "program": holder.program, "about": holder.about}
        text = dumps(entries | {"components": components}) + "\n"
        os.truncate(self._handle, os.pwrite(self._handle, text.encode(), 0))

    def close(self) -> None:
        """Removes it. In a fork it stays: it is the parent's."""
        if self._process == os.getpid():
            with suppress(OSError):
                self.path.unlink()
            _OWN.pop(self.path, None)
        os.close(self._handle)


def _program() -> str:
    """What people call this program: "pipeall run", "service.py"."""
    path, *words = [*map(str, getattr(sys, "argv", ())), ""]
    if path.endswith(("/pipeall", "pipeall/__main__.py")):
        return f"pipeall {words[0]}".strip()
    return "python" if path in ("", "-c", "-m") else Path(path).name
