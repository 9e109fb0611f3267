"""Builds the extension modules: C11 kernels and the runtime, bound by Cython. Everything else is in pyproject.toml.

No instruction-set flags: each kernel names its own target, so one build runs on every core of its architecture.
"""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

HEADERS = [str(path) for pattern in ("*.h", "*.inc") for path in sorted(Path("pipeall").rglob(pattern))]
MODULES = {  # name -> its C files; None: every C file of the folder that no other module has
    "pipeall._kernels.kernels": None,
    "pipeall._kernels.clqueue": ["program_cl.c"],
    "pipeall.pipeline.runtime": ["stage.c"],
}


def rest_of(folder: Path) -> list[str]:
    generated = {path.with_suffix(".c").name for path in folder.glob("*.pyx")}
    taken = {source for sources in MODULES.values() if sources for source in sources}
    return sorted({path.name for path in folder.glob("*.c")} - generated - taken)


def extension(name: str, sources: list[str] | None) -> Extension:
    *folders, stem = name.split(".")
    folder = Path(*folders)
    return Extension(
        name,
        [str(folder / source) for source in (f"{stem}.pyx", *(sources or rest_of(folder)))],
        depends=HEADERS,
        define_macros=[("_GNU_SOURCE", None)],
        extra_compile_args=["-std=c11", "-O3", "-Wall", "-Wextra", "-Wno-unused-parameter"],
        libraries=["m", "pthread", "dl"],  # part of libc since glibc 2.34, except m
    )


setup(
    ext_modules=cythonize(
        [extension(name, sources) for name, sources in MODULES.items()],
        compiler_directives={"language_level": 3},
    )
)
