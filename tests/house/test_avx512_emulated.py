"""The AVX-512 kernels on any x86-64: a copy of the package built with the intrinsics of tests/avx512/immintrin.h."""

import platform
import re
from pathlib import Path

import pytest
from build_trees import copy_tree, run

CPUINFO = "processor: 0\nflags: avx512f avx512bw avx512dq avx512vl avx512_vnni avx512vbmi\n"


HAS_THEM = "avx512_vnni" in Path("/proc/cpuinfo").read_text()  # then the other tests of kernels run them
pytestmark = [pytest.mark.full] if HAS_THEM else []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX-512 kernels are built on x86-64 only")
def test_every_avx512_kernel(tmp_path, thinned):
    copy_tree(tmp_path)
    changed = []
    for path in (tmp_path / "pipeall" / "_kernels").rglob("*.[ch]"):
        # the compiler must not use the instructions of its own accord either
        text, found = re.subn(r'target\("avx512[^"]*"\)', 'target("sse2")', path.read_text())
        if found:
            path.write_text(text)
            changed.append(path.name)
    setup = (tmp_path / "setup.py").read_text()
    assert '"-O3"' in setup  # which takes minutes on what the emulation unrolls
    (tmp_path / "setup.py").write_text(setup.replace('"-O3"', '"-O0"'))
    assert {"avx512.h", "simd_x86.h", "gemm_f32_avx512.c"} <= set(changed)
    run(tmp_path, "setup.py", "-q", "build_ext", "--inplace", CFLAGS=f"-I{tmp_path}/tests/avx512")

    (tmp_path / "root" / "proc").mkdir(parents=True)
    (tmp_path / "root" / "proc" / "cpuinfo").write_text(CPUINFO)
    tests = (
        "tests/kernels/test_kernels.py",
        "tests/kernels/test_gemm_tiles.py",
        "tests/kernels/test_s8_kernels.py",
        "tests/kernels/test_first_layers_s8.py",
        "tests/kernels/test_winograd.py",
        "tests/kernels/test_strassen.py",
        "tests/kernels/test_matmul_kernels.py",
        "tests/kernels/test_resize_kernels.py",
        "tests/kernels/test_strided_kernels.py",
        "tests/kernels/test_picture_kernels.py",
        "tests/kernels/test_copy_kernels.py",
        "tests/kernels/test_s8_vectors.py",
        "tests/kernels/test_pool_s8.py",
    )
    pytest_of = ("-m", "pytest", "-p", "no:cacheprovider", *thinned(3), "-k", "avx512 or s8_vnni or s8_vbmi")
    printed = run(tmp_path, *pytest_of, *tests, PIPEALL_SYSFS=str(tmp_path / "root"))
    assert "skipped" not in printed and "passed" in printed, printed
