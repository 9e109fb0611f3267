"""The package's native code under sanitizers: a copy of the tree, built with one of them, passes the native tests.

    python -m tests.long.sanitize                    # gcc and clang, AddressSanitizer with UBSan, then ThreadSanitizer
    python -m tests.long.sanitize clang-tsan         # one of gcc-asan, clang-asan, gcc-tsan, clang-tsan
    python -m tests.long.sanitize valgrind           # two pipelines, one with OpenCL, under Valgrind

The C programs of tests/native run under the same sanitizers in test_native.py. A finding ends the tests: its report is
printed. What the sanitizers are told not to report, and why:

    detect_leaks=0          Python and its extension modules keep memory until the process ends, by design
    OpenCL off, OpenBLAS on one thread (threads)   they are not instrumented: their own locking looks like races
    pointer-overflow by clang   Cython's code adds 0 to NULL; gcc, whose check lets that pass, looks for the others
    CPython (Valgrind)      only reports whose innermost frames are pipeall's, or an OpenCL kernel's, count
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from build_trees import copy_tree

COMMON = "-g -fno-omit-frame-pointer"
KERNELS = (
    "test_kernels.py",
    "test_gemm_tiles.py",
    "test_winograd.py",
    "test_strassen.py",
    "test_mlp_kernels.py",
    "test_matmul_kernels.py",
    "test_index_kernels.py",
    "test_resize_kernels.py",
    "test_recurrent_kernels.py",
)
PIPELINES = ("test_pipeline_errors.py", "test_pace.py", "test_trace.py", "test_faults.py")
KINDS = {  # flags, the runtime of gcc and of clang, variables, tests
    "asan": (
        "-fsanitize=address,undefined -fno-sanitize-recover=undefined",
        ("libasan.so", "libclang_rt.asan-x86_64.so"),
        {"ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1"},
        (*KERNELS, *PIPELINES, "test_pipeline.py", "test_shapes.py"),
    ),
    "tsan": (
        "-fsanitize=thread",
        ("libtsan.so", "libtsan.so"),  # clang's own, preloaded, crashes before Python starts; both have one interface
        {
            "TSAN_OPTIONS": "halt_on_error=1:report_signal_unsafe=0",
            "PIPEALL_OPENCL": "off",
            "OPENBLAS_NUM_THREADS": "1",
        },
        ("test_kernels.py", *PIPELINES, "test_pipeline.py"),
    ),
}
OWN_FRAMES = 5  # a report by Valgrind is pipeall's if one of so many innermost ones is
OWN = re.compile("pipeall/|kcache/")  # PoCL's compiled kernels lie in files under its kcache
SLOW = "not two_thousand and not every_cut and not exit_with and not memory and not clock and not ctrl_c"
NETWORK = """
import numpy as np
from pipeall import Board, Pipeline, zoo
graph = zoo.squeezenet()
x = np.random.default_rng(0).standard_normal(graph.inputs[0].shape).astype(np.float32)
board = Board.detect()
for plan in ("big-little:9", "gpu-big:9"):
    with Pipeline(graph, plan, board=board) as pipe:
        print(plan, board.component(plan.split("-")[0]).description, [float(y.max()) for y in pipe.map([x, x])])
"""


def build(folder: Path, compiler: str, flags: str) -> None:
    copy_tree(folder)
    setup = (folder / "setup.py").read_text()
    assert '"-O3"' in setup  # which takes many minutes on what the sanitizers add
    (folder / "setup.py").write_text(setup.replace('"-O3"', '"-O1"'))
    shared = " -shared-libasan" if compiler == "clang" and "address" in flags else ""
    variables = {"CC": compiler, "CFLAGS": f"{COMMON} {flags}", "LDFLAGS": flags + shared}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=folder, env=os.environ | variables, check=True, stdout=subprocess.DEVNULL)


def sanitize(compiler: str, kind: str, folder: Path, more: list[str]) -> int:
    flags, runtimes, variables, tests = KINDS[kind]
    if compiler == "clang" and kind == "asan":
        flags += " -fno-sanitize=pointer-overflow"
    build(folder, compiler, flags)
    # libstdc++ beside it: AddressSanitizer looks for __cxa_throw, which OpenCL's library uses, when the process starts
    preload = ":".join(library(compiler, name) for name in (runtimes[compiler == "clang"], "libstdc++.so.6"))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:benchmark", "-s"]
    chosen = [str(next((folder / "tests").rglob(test))) for test in tests]
    env = os.environ | variables | {"LD_PRELOAD": preload, "PYTHONPATH": str(folder), "PYTHONMALLOC": "malloc"}
    return subprocess.run([*command, *chosen, "-k", SLOW, *more], cwd=folder, env=env).returncode


def library(compiler: str, name: str) -> str:
    command = [compiler, f"-print-file-name={name}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return found if "/" in found else library("gcc", name)


def valgrind() -> int:
    with tempfile.TemporaryDirectory() as made:
        log = Path(made) / "log"
        command = ["valgrind", "-q", "--fair-sched=yes", "--fullpath-after=", f"--log-file={log}", sys.executable]
        env = os.environ | {"PYTHONMALLOC": "malloc", "PIPEALL_TUNE": "off", "OPENBLAS_NUM_THREADS": "1"}
        if platform.machine() == "x86_64":
            env["PIPEALL_ISA"] = "avx2"  # the most that Valgrind knows
        code = subprocess.run([*command, "-c", NETWORK], env=env).returncode
        reports = re.split(r"^==\d+== $", log.read_text(), flags=re.MULTILINE)
    ours = [report for report in reports if OWN.search("".join(report.strip().splitlines()[:OWN_FRAMES]))]
    print(*ours, f"{len(reports)} reports, {len(ours)} of them in pipeall", sep="\n")
    return code or len(ours)


def main() -> int:
    every = [f"{compiler}-{kind}" for kind in KINDS for compiler in ("gcc", "clang")]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "which", nargs="*", default=every, help=f"of {', '.join(every)}, valgrind; default all but that"
    )
    parser.add_argument("--folder", type=Path, help="build under it, and anew only what has changed since")
    arguments, more = parser.parse_known_args()
    made = tempfile.TemporaryDirectory()
    folder = arguments.folder or Path(made.name)
    for which in arguments.which:
        tool = which.split("-")[0]
        if shutil.which(tool) is None:
            parser.error(f"no {tool}: apt-get install {tool}")
        print(f"== {which}", flush=True)
        code = valgrind() if which == "valgrind" else sanitize(*which.split("-"), folder / which, more)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
