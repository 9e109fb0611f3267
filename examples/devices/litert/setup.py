"""Builds the bridge between stages and Python: a shared library behind pipeall's program.h."""

from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup

HEADER = Path("_kernels", "parts.h")
FOUND = find_spec("pipeall")  # not there where pip builds apart: then this is a folder of its repository
FOLDERS = [*(FOUND.submodule_search_locations if FOUND else ()), Path(__file__).resolve().parent / "../../../pipeall"]
INCLUDE = next((folder for folder in map(str, FOLDERS) if Path(folder, HEADER).exists()), None)
if INCLUDE is None:
    raise SystemExit(f"expected pipeall with its {HEADER}: install it first, then this with --no-build-isolation")

setup(
    ext_modules=[
        Extension(
            "pipeall_litert._native",
            ["pipeall_litert/native.c"],
            include_dirs=[INCLUDE],
            depends=[str(Path(INCLUDE, HEADER))],
            extra_compile_args=["-std=c11", "-O2", "-D_GNU_SOURCE"],
        )
    ]
)
