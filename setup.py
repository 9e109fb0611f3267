"""Builds the extension modules: C11 kernels and the runtime, bound by Cython. Everything else is in pyproject.toml.

No instruction-set flags: each kernel names its own target, so one build runs on every core of its architecture.
"""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

OPENCL = ["program_cl.c"]  # the sources of clqueue; every other C file of _kernels belongs to kernels


def extension(name: str, sources: list[str]) -> Extension:
    folder = Path(*name.split(".")[:-1])
    headers = [str(path) for pattern in ("*.h", "*.inc") for path in sorted(Path("pipeall").rglob(pattern))]
    return Extension(
        name,
        [str(folder / source) for source in (name.split(".")[-1] + ".pyx", *sources)],
        depends=headers,
        define_macros=[("_GNU_SOURCE", None)],
        extra_compile_args=["-std=c11", "-O3", "-Wall", "-Wextra", "-Wno-unused-parameter"],
    )


generated = {path.with_suffix(".c").name for path in Path("pipeall/_kernels").glob("*.pyx")}
sources = sorted(path.name for path in Path("pipeall/_kernels").glob("*.c"))

setup(
    ext_modules=cythonize(
        [
            extension("pipeall._kernels.kernels", [name for name in sources if name not in generated and name not in OPENCL]),
            extension("pipeall._kernels.clqueue", OPENCL),
            extension("pipeall.pipeline.runtime", ["stage.c"]),
        ],
        compiler_directives={"language_level": 3},
    )
)
