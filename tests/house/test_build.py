"""The package built with the other compiler: a copy of the tree, compiled with clang, passes the kernel tests."""

import shutil

import pytest
from build_trees import copy_tree, run

MODULES = {"kernels", "queue", "runtime"}
PYTEST = """
import sys
import pytest
from pipeall._kernels.cpu import kernels

print("kernels:", kernels.__file__)
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.full
def test_kernels_built_with_clang(tmp_path):
    if shutil.which("clang") is None:
        pytest.skip("no clang: install it to build the package with it")
    copy_tree(tmp_path)
    run(tmp_path, "setup.py", "-q", "build_ext", "--inplace", CC="clang")
    built = {path.name.split(".")[0]: path for path in (tmp_path / "pipeall").rglob("*.so")}
    assert built.keys() == MODULES
    for name, path in built.items():
        assert b"clang version" in path.read_bytes(), f"{name}: expected clang's mark, another compiler built it"

    tests = (
        "tests/kernels/test_kernels.py",
        "tests/kernels/test_winograd.py",
        "tests/kernels/test_strassen.py",
        "tests/kernels/test_matmul_kernels.py",
    )
    printed = run(tmp_path, "-c", PYTEST, "-p", "no:cacheprovider", *tests, PYTHONPATH=str(tmp_path))
    assert f"kernels: {built['kernels']}\n" in printed and "passed" in printed, printed
