"""The C runtime without Python: each program of tests/native, by two compilers, also under sanitizers."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE, NATIVE = REPOSITORY / "pipeall", REPOSITORY / "tests" / "native"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2", "-g", f"-I{PACKAGE}"]
SANITIZERS = {
    "plain": [],
    "tsan": ["-fsanitize=thread"],
    "asan": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"],
}
LANE = [f"pipeline/{name}.c" for name in ("stage", "unit", "lane")]
PROGRAMS = {  # name -> the sources under test, and the rounds with --full: plain, with a sanitizer
    "ring": ([], 1_000_000, 50_000),
    "eventcount": ([], 20_000, 5_000),
    "team": (["_kernels/cpu/team.c"], 20_000, 4_000),
    "tiling": (["_kernels/cpu/tiling.c", "_kernels/cpu/team.c"], 20_000, 2_000),
    "lane": (LANE, 700, 150),
    "forks": (LANE, 100, 20),
    "run_inline": (LANE, 5_000, 1_000),
}
FEWER = 10  # times, without it


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program, compiler, sanitizer, tmp_path, pytestconfig):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}: install it to run the native tests with it")
    sources, plain_rounds, sanitized_rounds = PROGRAMS[program]
    binary = tmp_path / program
    files = [NATIVE / f"{program}.c", *(PACKAGE / source for source in sources)]
    build = [compiler, *FLAGS, *SANITIZERS[sanitizer], *files, "-o", binary, "-lpthread", "-lm"]
    built = subprocess.run(build, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    rounds = plain_rounds if sanitizer == "plain" else sanitized_rounds
    rounds //= 1 if pytestconfig.getoption("--full") else FEWER
    environment = os.environ | {"TSAN_OPTIONS": "halt_on_error=1"}
    ran = subprocess.run([binary, str(rounds)], capture_output=True, text=True, timeout=120, env=environment)
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert ran.stderr == ""
