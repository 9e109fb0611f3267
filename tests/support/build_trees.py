"""Copies of the source tree to build differently in, and Python run in them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
WITH_TESTS = {
    "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests/support'}"
}  # for a process that imports the helpers of tests
IGNORED = shutil.ignore_patterns("*.so", "__pycache__")


def copy_tree(folder: Path) -> None:
    """Puts all sources into ``folder``, without what a build has made."""
    for name in ("pipeall", "tests", "bench", "tools", "docs", "examples", ".github"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=IGNORED, dirs_exist_ok=True)
    for path in REPOSITORY.iterdir():
        if path.is_file():
            shutil.copy2(path, folder)


def run(folder: Path, *arguments: str, **variables: str) -> str:
    """What this Python prints in ``folder``, where it must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=os.environ | variables, text=True, timeout=1800,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def ending(script: str, *arguments: str) -> tuple[int, str]:
    """Exit status and stderr of a Python script, which may import what tests do."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=os.environ | WITH_TESTS, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr
