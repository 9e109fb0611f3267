"""The machine that is looked at: this one, or files of sysfs, procfs, /dev and /etc that were recorded on another."""

from __future__ import annotations

import os
from pathlib import Path

from .. import env
from .._kernels.cpu.cores import Tree


class Machine(Tree):
    """Files below a root, which is PIPEALL_SYSFS or "/"; paths have no slash in front."""

    def __init__(self, root: Path | None = None):
        super().__init__(env.sysfs() if root is None else root)

    @property
    def live(self) -> bool:
        """Whether it is this machine, so that things can be tried on it."""
        return self.root == Path("/")

    def found(self, *patterns: str) -> list[Path]:
        return sorted(path for pattern in patterns for path in self.root.glob(pattern))

    def shown(self, path: Path) -> str:
        """The path as it is on that machine."""
        return f"/{path.relative_to(self.root)}"

    def strings(self, path: Path) -> list[str]:
        """A property of the device tree: texts that end in zeros."""
        try:
            return [text for text in path.read_bytes().decode(errors="replace").split("\0") if text]
        except OSError:
            return []

    def usable(self, path: Path) -> bool:
        """Whether this user may read and write a device node."""
        return os.access(path, os.R_OK | os.W_OK)
