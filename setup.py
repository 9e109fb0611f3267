"""Builds the extension modules: C11 kernels and the runtime, bound by Cython. Everything else is in pyproject.toml.

No instruction-set flags: each kernel names its own target, so one build runs on every core of its architecture.
"""

import os
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent))
from tools.distributions import BdistWheel, Sdist, epoch

HEADERS = [str(path) for pattern in ("*.h", "*.inc") for path in sorted(Path("pipeall").rglob(pattern))]
MODULES = {  # name -> its C files, as patterns in its folder
    "pipeall._kernels.cpu.kernels": ["**/*.c"],
    "pipeall._kernels.opencl.queue": ["*.c"],
    "pipeall.pipeline.runtime": ["stage.c", "unit.c", "lane.c"],
}
# Python without a global lock: docs/decisions/wheels.md. Cython before 3.1 does not know the word, nor such a Python.
NO_LOCK = {"freethreading_compatible": True} if sysconfig.get_config_var("Py_GIL_DISABLED") else {}
NO_PATHS = [] if epoch() is None else [f"-ffile-prefix-map={Path.cwd()}=."]
GLUE = ["-O1"]  # of what Cython generates, a third of a build: it starts C code and computes nothing itself


def extension(name: str, patterns: list[str]) -> Extension:
    *folders, stem = name.split(".")
    folder = Path(*folders)
    found = {path for pattern in patterns for path in folder.glob(pattern)}
    sources = sorted(path for path in found if not path.with_suffix(".pyx").exists())  # those Cython has generated
    return Extension(
        name,
        [str(folder / f"{stem}.pyx"), *map(str, sources)],
        depends=HEADERS,
        include_dirs=["pipeall"],  # for .pxd files, which modules of several folders use
        define_macros=[("_GNU_SOURCE", None)],
        # -g1: lines and names. With the -g of Python's own flags a build takes nearly twice as long.
        extra_compile_args=["-std=c11", "-O3", "-g1", "-Wall", "-Wextra", "-Wno-unused-parameter", *NO_PATHS],
        libraries=["m", "pthread", "dl"],  # part of libc since glibc 2.34, except m
    )


class BuildOnAllCores(build_ext):
    """Compiles the files of a module side by side, and counts them; setuptools would take one after the other."""

    def build_extensions(self) -> None:
        one_by_one = self.compiler.compile
        number, all_files = count(1), sum(len(extension.sources) for extension in self.extensions)

        def compile(sources: list[str], extra_postargs: Sequence[str] = (), **options) -> list[str]:
            def one(source: str) -> list[str]:
                generated = Path(source).with_suffix(".pyx").exists()
                self.announce(f"[{next(number)}/{all_files}] {source}", 2)  # of INFO; the spinner of pip turns by lines
                return one_by_one([source], extra_postargs=[*extra_postargs, *(GLUE if generated else ())], **options)

            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                return list(chain(*pool.map(one, sources)))

        self.compiler.compile = compile
        super().build_extensions()


setup(
    cmdclass={"build_ext": BuildOnAllCores, "bdist_wheel": BdistWheel, "sdist": Sdist},
    ext_modules=cythonize(
        [extension(name, patterns) for name, patterns in MODULES.items()],
        compiler_directives={"language_level": 3, **NO_LOCK},
    ),
)
