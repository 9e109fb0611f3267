"""Kernels in C and OpenCL C. Here it is said where nothing was built: in a clone, which hides what is installed."""

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

_HERE = Path(__file__).parent

if not any((_HERE / "cpu" / f"kernels{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
    raise ImportError(
        f"{_HERE.parent} is pipeall's source and not built: "
        "start Python in another folder, where an installed pipeall is found, or build it here: pip install -e ."
    )
