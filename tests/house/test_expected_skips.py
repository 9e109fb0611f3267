"""A run fails on a skip that its list does not expect, and on no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from expected_skips import ExpectedSkips

TESTS = Path(__file__).parents[1]
SKIPPING = """
import pytest

def test_runs():
    pass

@pytest.mark.parametrize("size", [1, 2])
def test_of_a_gpu(size):
    pytest.skip("no GPU: plug one in")

@pytest.mark.xfail
def test_that_fails():
    assert False
"""
MODULE = 'import pytest\npytest.skip("no module", allow_module_level=True)\n'


@pytest.mark.parametrize(
    "listed, code, named",
    [
        ("test_one.py::test_of_a_gpu* : no GPU*\ntest_two.py : *", 0, []),
        ("# all\n\n* : *", 0, []),
        ("test_one.py::test_of_a_gpu[[]1] : no GPU*\ntest_two.py : no module", 1, ["test_of_a_gpu[2] : no GPU"]),
        ("test_one.py::test_of_a_gpu* : no GPU", 1, ["gpu[1]", "gpu[2]", "test_two.py : no module"]),
        ("test_one.py", 4, ["line 1: expected 'test id : reason', got 'test_one.py'"]),
        (None, 4, ["PIPEALL_EXPECTED_SKIPS: expected a file"]),
    ],
)  # fmt: skip
def test_the_exit_status_and_what_is_named(listed, code, named, tmp_path):
    (tmp_path / "test_one.py").write_text(SKIPPING)
    (tmp_path / "test_two.py").write_text(MODULE)
    if listed is not None:
        (tmp_path / "list.txt").write_text(listed)
    variables = {
        "PIPEALL_EXPECTED_SKIPS": str(tmp_path / "list.txt"),
        "PYTHONPATH": f"{TESTS.parent}:{TESTS}:{TESTS / 'support'}",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest", "--full", "."],
        cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert all(name in done.stdout + done.stderr for name in named)
    assert ("does not expect" in done.stdout) == (code == 1)


def test_the_list_of_ci_names_tests_that_there_are():
    for test, _ in ExpectedSkips(TESTS / "expected_skips.txt").patterns:
        if test == "*":  # a reason that any test may have
            continue
        path, _, name = test.partition("::")
        text = (TESTS.parent / path).read_text()
        assert f"def {name.rstrip('*')}(" in text or name == "*"
