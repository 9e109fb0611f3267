"""Libraries of native/ that stand between a process and those that it uses."""

import subprocess
from pathlib import Path

NATIVE = Path(__file__).parents[1] / "native"


def built(name: str, folder: Path, *flags: str) -> Path:
    """The library of native/NAME.c, made in ``folder``."""
    library = folder / f"{name}.so"
    command = ["cc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", library, NATIVE / f"{name}.c", *flags]
    subprocess.run(command, check=True)
    return library
