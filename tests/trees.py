"""Copies of the source tree to build differently in."""

import shutil
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def copy_tree(folder: Path) -> None:
    """Puts the package, its tests and its build files into ``folder``, without what a build has made."""
    for name in ("pipeall", "tests"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(REPOSITORY / name, folder)
