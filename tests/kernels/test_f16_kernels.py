"""The GEMM kernels of halves, called directly by native/kernels_f16.c, against sums in double; native and emulated."""

import shutil
import subprocess

import pytest
from build_trees import REPOSITORY

PROGRAM, KERNELS = REPOSITORY / "tests/native/kernels_f16.c", REPOSITORY / "pipeall/_kernels/cpu/f16"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O3", f"-I{REPOSITORY}/pipeall"]
CROSS = {  # compiler of aarch64 -> its arguments
    "aarch64-linux-gnu-gcc": [],
    "clang": ["--target=aarch64-linux-gnu", "-isystem", "/usr/aarch64-linux-gnu/include"],
}


def build(folder, compiler, *flags):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}: install it to test kernels that it compiles")
    binary = folder / "kernels_f16"
    subprocess.run([compiler, *FLAGS, *flags, PROGRAM, *KERNELS.glob("gemm_*.c"), "-o", binary, "-lm"], check=True)
    return binary


def run(*command):
    """The kernels that it has tested."""
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr[-5000:]
    return ran.stdout.split()


@pytest.mark.parametrize("sanitizers", ["", "address,undefined"])
def test_reference(sanitizers, tmp_path):
    flags = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"] if sanitizers else []
    assert run(build(tmp_path, "gcc", *flags), "ref") == ["gemm_f16_ref_4x8"]


@pytest.mark.parametrize("compiler", CROSS)
def test_armv8_2(compiler, tmp_path):
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64: run tests/arm64/setup as root")
    flags = CROSS[compiler]
    if flags and shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip("no libraries of aarch64 for clang: run tests/arm64/setup as root")
    binary = build(tmp_path, compiler, "-static", *flags)
    names = run("qemu-aarch64", "-cpu", "cortex-a76", binary, "asimdhp", "ref")
    assert names == ["gemm_f16_asimdhp_8x16_in_order", "gemm_f16_asimdhp_8x16", "gemm_f16_ref_4x8"]
